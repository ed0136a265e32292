package streams

import (
	"bytes"
	"context"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
)

func TestOneRecordIsReadFromWhereItIsAndWhatIsNotThereIsNotFound(t *testing.T) {
	t.Parallel()
	each(t, 2, func(t *testing.T, w *world) {
		w.produce(1, 20)
		w.send(&kgo.Record{Partition: 1, Key: []byte{}, Value: bytes.Repeat([]byte("large "), 100_000), Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("v")}}})
		var cut kadm.Offsets
		cut.AddOffset(w.topic, 1, 5, -1)
		if _, err := w.admin.DeleteRecords(t.Context(), cut); err != nil {
			t.Fatal(err)
		}
		tests := map[string]struct {
			at   stepwell.Origin
			want string // the value's end; empty: not found
		}{
			"the first one left":     {stepwell.Origin{Topic: w.topic, Partition: 1, Offset: 5}, "value-5"},
			"one in between":         {stepwell.Origin{Topic: w.topic, Partition: 1, Offset: 7}, "value-7"},
			"a large one, the last":  {stepwell.Origin{Topic: w.topic, Partition: 1, Offset: 20}, "large "},
			"a deleted one":          {stepwell.Origin{Topic: w.topic, Partition: 1, Offset: 4}, ""},
			"one not yet there":      {stepwell.Origin{Topic: w.topic, Partition: 1, Offset: 21}, ""},
			"one far beyond the end": {stepwell.Origin{Topic: w.topic, Partition: 1, Offset: 1000}, ""},
			"an empty partition":     {stepwell.Origin{Topic: w.topic, Partition: 0, Offset: 0}, ""},
			"no such partition":      {stepwell.Origin{Topic: w.topic, Partition: 9, Offset: 0}, ""},
			"no such topic":          {stepwell.Origin{Topic: w.topic + "-not", Partition: 0, Offset: 0}, ""},
		}
		for name, test := range tests {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			m, found, err := ReadRecord(ctx, w.config().Kafka.Options, test.at)
			cancel()
			if err != nil || found != (test.want != "") || !bytes.HasSuffix(m.Value, []byte(test.want)) {
				t.Errorf("%s: found %t, %.20q, %v", name, found, m.Value, err)
			}
			if found && (m.Origin != test.at || m.Time.IsZero()) {
				t.Errorf("%s: %+v", name, m)
			}
		}
	})
}

func TestARecordOfAnUnreachableClusterIsAnErrorAndNotTakenForGone(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for name, address := range map[string]string{"refuses": "127.0.0.1:1", "silent": silent.Addr().String()} {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		began := time.Now()
		_, found, err := ReadRecord(ctx, []kgo.Opt{kgo.SeedBrokers(address)}, stepwell.Origin{Topic: "t"})
		cancel()
		if found || err == nil || time.Since(began) > 5*time.Second {
			t.Errorf("%s: found %t, %v after %v", name, found, err, time.Since(began))
		}
	}
}

func TestAMarkerOfATransactionIsNoRecordNorReplacedByTheNextOne(t *testing.T) {
	t.Parallel()
	w := realWorld(t, 1)
	producer, err := kgo.NewClient(kgo.SeedBrokers(w.seeds...), kgo.TransactionalID(w.group), kgo.DefaultProduceTopic(w.topic))
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	for range 2 {
		if err := producer.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := producer.ProduceSync(t.Context(), &kgo.Record{Value: []byte("v")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := producer.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
			t.Fatal(err)
		}
	}
	for offset, want := range []bool{true, false, true, false} {
		_, found, err := ReadRecord(t.Context(), w.config().Kafka.Options, stepwell.Origin{Topic: w.topic, Offset: int64(offset)})
		if err != nil || found != want {
			t.Errorf("offset %d: found %t, %v", offset, found, err)
		}
	}
}
