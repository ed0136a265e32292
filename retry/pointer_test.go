package retry_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/retry"
)

// kafka is a source with one record.
type kafka struct {
	mu    sync.Mutex
	away  int // so many reads fail first
	reads int
	found *stepwell.Message
}

func (k *kafka) Record(ctx context.Context, at stepwell.Origin) (m stepwell.Message, found bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reads++
	switch {
	case ctx.Err() != nil:
		return m, false, ctx.Err()
	case k.reads <= k.away:
		return m, false, errors.New("no broker answers")
	case k.found == nil || k.found.Origin != at:
		return m, false, nil
	}
	return *k.found, true, nil
}

func (k *kafka) asked() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.reads
}

// pointed puts a replayed pointer to the record into the instant queue.
func (w *world) pointed(m *stepwell.Message) {
	e := &envelope.Envelope{Message: *m, AttemptsTotal: 1, Failure: envelope.Failure{
		At: time.UnixMilli(1), Error: "of the try before", ErrorType: "*url.Error", Stack: "at a", Group: "g", Run: envelope.Run{Took: time.Second, By: "a/b"},
	}}
	e.Message.Replays = 1
	e.Point()
	w.put(w.retrier.Topology().Instant, e.Encode())
}

func TestAPointerThatIsReplayedIsHandledWithTheRecordFromKafka(t *testing.T) {
	big := record(strings.Repeat("stepwell ", 1000))
	big.Key, big.Headers, big.Time = []byte("k"), []stepwell.Header{{Key: "h", Value: []byte("v")}}, time.UnixMilli(1)
	inWorld(t, retry.Linear(s, 0, 2), func(w *world) {
		w.cfg.Source = &kafka{found: big}
		w.renew()
		w.pointed(big)
		var c calls
		r := w.start(c.succeeding)
		time.Sleep(s)
		r.end()
		if len(c.tries) != 1 {
			t.Fatalf("%d calls", len(c.tries))
		}
		m := c.tries[0]
		if string(m.Value) != string(big.Value) || string(m.Key) != "k" || len(m.Headers) != 1 || m.Attempt != 1 || m.Replays != 1 || m.ID != big.ID || m.Stream != "orders" {
			t.Errorf("called with %v", m)
		}
		w.empty()
	})
}

func TestAPointerWhoseRecordIsGoneComesBackUncalledWithThatReason(t *testing.T) {
	older, other := record("value"), record("values")
	older.Time = time.UnixMilli(1)
	for name, found := range map[string]*stepwell.Message{"nothing there": nil, "one of another time": older, "one of another size": other} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, retry.Linear(s, 0, 2), func(w *world) {
				w.cfg.Source = &kafka{found: found}
				w.renew()
				w.pointed(record("value"))
				var c calls
				r := w.start(c.succeeding)
				time.Sleep(s)
				r.end()
				if e := w.oneDead(); !e.Pointer || e.Size != 5 || e.Failure.Reason != stepwell.ReasonGone || e.Message.Replays != 1 || len(c.tries) != 0 {
					t.Errorf("after %d calls: %+v", len(c.tries), e)
				} else if f := e.Failure; f.ErrorType != "" || f.Stack != "" || f.Group != "" || f.Run != (envelope.Run{}) {
					t.Errorf("it says of the try before: %+v", f)
				}
			})
		})
	}
}

func TestAPointerWaitsWhereItIsWhileKafkaIsAway(t *testing.T) {
	inWorld(t, retry.Linear(s, 0, 2), func(w *world) {
		k := &kafka{found: record("value"), away: 3}
		w.cfg.Source = k
		w.renew()
		w.pointed(record("value"))
		var c calls
		r := w.start(c.succeeding)
		time.Sleep(10 * s)
		if reads, calls := k.asked(), len(c.attempts()); reads != 1 || calls != 0 {
			t.Fatalf("%d reads and %d calls within ten seconds: want one read that failed", reads, calls)
		}
		begin := time.Now()
		r.end()
		if waited := time.Since(begin); waited > s {
			t.Errorf("the stop waited %v for it", waited)
		}
		w.renew()
		r = w.start(c.succeeding)
		time.Sleep(5 * time.Minute)
		r.end()
		if len(c.tries) != 1 || c.tries[0].Attempt != 1 {
			t.Errorf("calls %v", c.attempts())
		}
		w.empty()
	})
}

func TestAPointerWhoseHandlerFailsAgainIsAPointerAgain(t *testing.T) {
	inWorld(t, retry.Linear(s, 0, 2), func(w *world) {
		w.refuses(longerThan(10))
		big := record(strings.Repeat("stepwell ", 1000))
		w.cfg.Source = &kafka{found: big}
		w.renew()
		w.pointed(big)
		var c calls
		r := w.start(c.failing(retry.Failure{Err: errAway}))
		time.Sleep(time.Minute)
		r.end()
		e := w.oneDead()
		if !e.Pointer || e.Size != 9000 || e.Failure.Reason != stepwell.ReasonTooLarge || e.Failure.Error != errAway.Error() || e.AttemptsTotal != 2 || len(c.tries) != 1 {
			t.Errorf("after %d calls: %+v", len(c.tries), e)
		}
	})
}

// What came from no log is in its queue and nowhere else: a pointer would be its loss.
func TestWhatHasNoPlaceInKafkaNeverBecomesAPointer(t *testing.T) {
	value := make([]byte, 1000) // that no compression makes smaller
	_, _ = rand.Read(value)
	job := &stepwell.Message{ID: "order-17", Value: value, Attempt: 1}
	failure := retry.Failure{Err: errors.New(strings.Repeat("no ", 100)), Stack: strings.Repeat("at ", 100)}
	inWorld(t, retry.Linear(s, 0, 0), func(w *world) {
		w.refuses(func(m queue.Message) bool { return m.Size() > 1500 })
		w.first(job, failure)
		e := w.oneDead()
		if e.Pointer || string(e.Message.Value) != string(job.Value) || e.Failure.Reason != stepwell.ReasonExhausted || e.Failure.Stack != "" || e.Failure.Error != "" {
			t.Errorf("in the dead set: %+v", e)
		}
	})
	inWorld(t, retry.Linear(s, 0, 1), func(w *world) {
		w.refuses(func(m queue.Message) bool { return m.Size() > 100 })
		e := &envelope.Envelope{Message: *job, Token: "T"}
		w.put(w.retrier.Topology().Instant, e.Encode())
		var c calls
		r := w.start(c.failing(failure))
		time.Sleep(s)
		trouble := w.retrier.Status().Trouble
		r.end()
		if !strings.Contains(trouble, "order-17") || !strings.Contains(trouble, "in no log") || len(c.tries) != 1 {
			t.Errorf("after %d calls the trouble is %q", len(c.tries), trouble)
		}
		if n, err := w.broker.Depth(t.Context(), w.retrier.Topology().Instant); n != 1 || err != nil {
			t.Errorf("%d messages where it was, %v: want the message itself", n, err)
		}
	})
}

// slow is a source that answers nobody before readable.
type slow struct {
	readable time.Time
	found    *stepwell.Message
	asked    atomic.Int64
}

func (k *slow) Record(ctx context.Context, at stepwell.Origin) (m stepwell.Message, found bool, err error) {
	k.asked.Add(1)
	if time.Now().Before(k.readable) {
		<-ctx.Done()
		return m, false, ctx.Err()
	}
	m = *k.found
	m.Origin = at
	return m, true, nil
}

func TestPointersThatWaitForKafkaLeaveWorkersToOthers(t *testing.T) {
	inWorld(t, retry.Linear(s, 0, 2), func(w *world) {
		source := &slow{readable: time.Now().Add(time.Hour), found: record("value")}
		w.cfg.Source = source
		w.renew()
		const pointers, others = 200, 10
		for i := range pointers {
			m := record("value")
			m.ID, m.Origin.Offset = fmt.Sprint("orders.v1:3:", i), int64(i)
			w.pointed(m)
		}
		var c calls
		r := w.start(c.succeeding)
		time.Sleep(fetchTime + s) // until the first have failed
		for i := range others {
			m := record("other")
			m.ID, m.Origin.Offset = fmt.Sprint("orders.v1:4:", i), int64(i)
			w.first(m, retry.Failure{Err: errAway})
		}
		time.Sleep(time.Minute)
		if n := len(c.attempts()); n != others {
			t.Errorf("%d of %d others were called", n, others)
		}
		if text := w.retrier.Status().Trouble; !strings.Contains(text, "messages point to cannot be read") {
			t.Errorf("the trouble is %q", text)
		}
		time.Sleep(time.Hour + 2*time.Minute)
		r.end()
		if n := len(c.attempts()); n != others+pointers {
			t.Errorf("%d calls once Kafka answers, want %d", n, others+pointers)
		}
		if n := source.asked.Load(); n > 16+pointers+2*60+20 {
			t.Errorf("Kafka was asked %d times", n)
		}
		w.empty()
	})
}

// fetchTime is how long Kafka may take.
const fetchTime = 30 * s
