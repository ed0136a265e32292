package streams

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestAFetchHasNoMoreRecordsThanAWindowOrTenThousandAndHalfItsBytes(t *testing.T) {
	const windowBytes = 64 << 20
	for _, test := range []struct {
		name                      string
		brokers, clients, window  int
		records, packed, unpacked int // of a batch
		atLeast, atMost           int32
	}{
		{"small records: as many as a window takes", 1, 1, 10_000, 1000, 110_000, 110_000, 1_090_000, 1_100_000},
		{"small records that are compressed tenfold", 1, 1, 10_000, 1000, 11_000, 110_000, 109_000, 110_000},
		{"small records that are compressed twentyfold", 1, 1, 10_000, 1000, 5_500, 110_000, 65_000, 66_000}, // the least there is
		{"large records: half the bytes", 1, 1, 10_000, 10, 1 << 20, 1 << 20, 31 << 20, 32 << 20},
		{"large records that are compressed a hundredfold", 1, 1, 10_000, 10, 10 << 10, 1 << 20, 300 << 10, 330 << 10},
		{"two brokers share", 2, 1, 10_000, 1000, 110_000, 110_000, 540_000, 550_000},
		{"small records: a window for each of two clients, shared by two brokers", 2, 2, 10_000, 1000, 110_000, 110_000, 540_000, 550_000},
		{"small records: as many as a small window takes", 1, 1, 2000, 1000, 110_000, 110_000, 218_000, 220_000},
		{"small records: ten thousand of a large window", 1, 1, 40_000, 1000, 110_000, 110_000, 1_090_000, 1_100_000},
		{"large records: half the bytes for both clients", 1, 2, 10_000, 10, 1 << 20, 1 << 20, 15 << 20, 16 << 20},
	} {
		t.Run(test.name, func(t *testing.T) {
			var whole, partition int32
			size := newFetchSize(windowBytes, test.window, func(w, p int32) { whole, partition = w, p })
			for i := range 200 {
				fetchMeter{size, i / 2 % test.clients}.OnFetchBatchRead(kgo.BrokerMetadata{NodeID: int32(i % test.brokers)}, "orders.v1", 0,
					kgo.FetchBatchMetrics{NumRecords: test.records, CompressedBytes: test.packed, UncompressedBytes: test.unpacked})
			}
			if whole < test.atLeast || whole > test.atMost || partition > whole {
				t.Errorf("asks for %d bytes, %d of a partition; want %d … %d", whole, partition, test.atLeast, test.atMost)
			}
		})
	}
}
