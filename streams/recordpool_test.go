package streams

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/task"
)

func TestAMessageThatIsKeptStaysAsItIsWhileMoreAreRead(t *testing.T) {
	t.Parallel()
	const rounds, batch = 20, 200
	w := fakeWorld(t, 1)
	var mu sync.Mutex
	var kept []*stepwell.Message
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(kept)
	}
	w.run(w.config(), func(_ context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
		mu.Lock()
		defer mu.Unlock()
		kept = append(kept, m)
		return task.Settled
	})
	for round := range rounds { // one after the other, so that the client reads each into memory of an earlier one
		var records []*kgo.Record
		for i := range batch {
			text := fmt.Appendf(nil, "%d", round*batch+i)
			records = append(records, &kgo.Record{Key: text, Value: text, Headers: []kgo.RecordHeader{{Key: "n", Value: text}}})
		}
		w.send(records...)
		eventually(t, "the batch is read", func() bool { return count() == (round+1)*batch })
	}
	for i, m := range kept {
		want := fmt.Sprint(i)
		header, _ := m.Header("n")
		if string(m.Key) != want || string(m.Value) != want || string(header) != want || m.Origin.Offset != int64(i) || m.Origin.Topic != w.topic {
			t.Fatalf("message %d became key %q value %q header %q of %+v", i, m.Key, m.Value, header, m.Origin)
		}
	}
}

func TestTheClientReadsIntoMemoryOfRecordsThatAreMessagesAlready(t *testing.T) {
	pool := &recordPool{}
	for _, test := range []struct {
		name     string
		put, get int
	}{{"as large", 100, 100}, {"smaller", 100, 50}, {"larger", 100, 200}} {
		pool.PutRecords(make([]kgo.Record, test.put))
		if got := pool.GetRecords(test.get); cap(got) < test.get {
			t.Errorf("%s: got room for %d records, want %d", test.name, cap(got), test.get)
		}
	}
}
