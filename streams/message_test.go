package streams

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell/internal/envelope"
)

func TestIDsAreThoseOfTheEnvelopeHoweverTheyAreMade(t *testing.T) {
	for _, topic := range []string{"orders.v1", strings.Repeat("t", 178), strings.Repeat("t", 190), strings.Repeat("t", 249)} {
		s := newSlab("orders", topicPartition{topic, 12})
		for _, first := range []int64{0, 1, 8, 95, 998, 12345, 1 << 40, 1<<63 - 20} {
			var records []*kgo.Record
			for i := range int64(15) {
				records = append(records, &kgo.Record{Topic: topic, Partition: 12, Offset: first + i})
			}
			records = append(records[:4], records[6:]...) // a gap
			for _, m := range s.messages(records) {
				if want := envelope.ID(topic, 12, m.Origin.Offset); m.ID != want {
					t.Fatalf("%s, want %s", m.ID, want)
				}
			}
		}
	}
}
