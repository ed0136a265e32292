package actor_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell"
)

// putNumbers publishes the numbers up to n, as text.
func putNumbers(t *testing.T, ch *amqp.Channel, name string, n int) {
	t.Helper()
	for i := range n {
		put(t, ch, name, amqp.Publishing{MessageId: fmt.Sprint("id-", i), Body: fmt.Append(nil, i)})
	}
}

// onQuorum runs the test on one of the RabbitMQs with a quorum queue that is none of ours.
func onQuorum(t *testing.T, test func(t *testing.T, w *world, name string, ch *amqp.Channel)) {
	t.Parallel()
	onBrokers(t, func(t *testing.T, w *world) {
		name, ch := w.foreign(t, "quorum")
		test(t, w, name, ch)
	})
}

func TestABatchOfAQueueHasManyMessagesAndOnlyWhatItMarksIsRetriedOneMessageEach(t *testing.T) {
	onQueues(t, func(t *testing.T, w *world, name string, ch *amqp.Channel) {
		s := newSeen(t)
		r := w.start(batched(func(_ context.Context, b *stepwell.Batch) error {
			defer s.enter(b)()
			for _, m := range b.Messages() {
				q := m.Origin.Queue
				if q == nil || q.Name != name || m.ID != "id-"+string(m.Value) {
					t.Errorf("message %s came as %s of %+v", m.Value, m.ID, q)
				}
				if n := string(m.Value); m.Attempt == 1 && (n == "3" || n == "7") {
					m.ID, m.Value = "spoilt", []byte("spoilt") // its own
					b.Fail(m, errItem)
				}
			}
			return nil
		}), ofQueue(name).with(settings{"BATCH_SIZE": "10", "BATCH_WAIT": "10s"}))
		putNumbers(t, ch, name, 10)
		want := []string{"0#1", "1#1", "2#1", "3#1", "3#2", "4#1", "5#1", "6#1", "7#1", "7#2", "8#1", "9#1"}
		eventually(t, "all are handled", func() bool { return slices.Equal(s.flat(), want) })
		if len(s.calls) != 3 || len(s.calls[0]) != 10 {
			t.Errorf("calls %v, want one of all and two of one", s.calls)
		}
		r.queuesEmpty()
		r.end()
		if n := depthOf(t, ch, name); n != 0 {
			t.Errorf("%d messages are in the queue still", n)
		}
	})
}

func TestBatchesOfAQueueRunAtOnceAndEachMessageIsInOne(t *testing.T) {
	onQuorum(t, func(t *testing.T, w *world, name string, ch *amqp.Channel) {
		s := newSeen(t)
		var running atomic.Int64
		var once sync.Once
		both := make(chan struct{})
		r := w.start(batched(func(ctx context.Context, b *stepwell.Batch) error {
			defer s.enter(b)()
			defer running.Add(-1)
			switch n := running.Add(1); {
			case n == 2:
				once.Do(func() { close(both) })
			case n > 2:
				t.Errorf("%d batches run at once, want 2 at most", n)
			}
			select {
			case <-both:
			case <-ctx.Done():
			}
			return nil
		}), ofQueue(name).with(settings{"BATCH_SIZE": "50", "BATCH_WAIT": "200ms", "CONCURRENCY": "2"}))
		const n = 1000
		putNumbers(t, ch, name, n)
		eventually(t, "all are handled", func() bool { return len(s.flat()) >= n })
		r.end()
		if all := s.flat(); len(all) != n || len(slices.Compact(all)) != n {
			t.Errorf("%d tries of %d messages", len(all), n)
		}
		if left := depthOf(t, ch, name); left != 0 {
			t.Errorf("%d messages are in the queue still", left)
		}
	})
}

func TestABatchOfLargeMessagesOfAQueueDoesNotWaitForMoreThanIsHandedOut(t *testing.T) {
	onQuorum(t, func(t *testing.T, w *world, name string, ch *amqp.Channel) {
		s := newSeen(t)
		r := w.start(batched(func(_ context.Context, b *stepwell.Batch) error {
			defer s.enter(b)()
			return nil
		}), ofQueue(name).with(settings{"WINDOW_BYTES": "500KiB", "BATCH_WAIT": "10s"}))
		r.ready()
		began := time.Now()
		for range 8 {
			put(t, ch, name, amqp.Publishing{Body: make([]byte, 100<<10)})
		}
		// Eight while no size was known; then four at once, of which the last may wait for a fifth.
		eventually(t, "as many as fit are handled", func() bool { return len(s.flat()) >= 4 })
		if took := time.Since(began); took > 9*time.Second {
			t.Errorf("it took %s: the batch waited for messages that were not handed out", took)
		}
	})
}

func TestAPauseGivesBackWhatWasGatheredFromAQueue(t *testing.T) {
	onQuorum(t, func(t *testing.T, w *world, name string, ch *amqp.Channel) {
		s := newSeen(t)
		r := w.start(batched(func(_ context.Context, b *stepwell.Batch) error {
			defer s.enter(b)()
			return nil
		}), ofQueue(name).with(settings{"BATCH_SIZE": "100", "BATCH_WAIT": "10s"}))
		r.ready()
		putNumbers(t, ch, name, 5)
		eventually(t, "they are gathered", func() bool { return r.inFlight() == 5 })
		if status, _ := r.do("POST", "/v1/streams/orders/pause", ""); status != 200 {
			t.Fatalf("pause: %d", status)
		}
		eventually(t, "they rest in the queue", func() bool { return depthOf(t, ch, name) == 5 && r.inFlight() == 0 })
		if calls := s.flat(); len(calls) > 0 {
			t.Errorf("called in a pause: %v", calls)
		}
		if status, _ := r.do("POST", "/v1/streams/orders/resume", ""); status != 200 {
			t.Fatalf("resume: %d", status)
		}
		// They came back, and so go over the instant queue, each in a batch of one.
		eventually(t, "all are handled", func() bool { return len(s.flat()) == 5 })
		if len(s.calls) != 5 {
			t.Errorf("what came back was called together: %v", s.calls)
		}
		putNumbers(t, ch, name, 100) // what was given up does not hold up what comes after
		eventually(t, "they are handled", func() bool { return len(s.flat()) == 105 })
		if last := s.calls[len(s.calls)-1]; len(last) != 100 {
			t.Errorf("the last batch had %d messages, want all 100", len(last))
		}
		r.queuesEmpty()
	})
}

func TestAStopCallsOneMoreBatchOfAQueueAndGivesTheRestBack(t *testing.T) {
	onQuorum(t, func(t *testing.T, w *world, name string, ch *amqp.Channel) {
		s := newSeen(t)
		begun, goOn := make(chan struct{}, 100), make(chan struct{})
		r := w.start(batched(func(_ context.Context, b *stepwell.Batch) error {
			defer s.enter(b)()
			begun <- struct{}{}
			<-goOn
			return nil
		}), ofQueue(name).with(settings{"BATCH_SIZE": "4", "BATCH_WAIT": "10s"}))
		putNumbers(t, ch, name, 30)
		<-begun
		eventually(t, "as many are held as three batches have", func() bool { return r.inFlight() == 12 })
		r.stop()
		time.AfterFunc(100*time.Millisecond, func() { close(goOn) })
		r.end()
		done := len(s.flat())
		if done != 4 && done != 8 {
			t.Errorf("%d were called, want one batch or two: %v", done, s.flat())
		}
		// What a closed channel held is put back some time after the close is answered.
		eventually(t, "all others are in the queue", func() bool { return depthOf(t, ch, name) == 30-done })
	})
}

func TestAStopCallsWhatWasGatheredFromAQueueAtOnce(t *testing.T) {
	onQuorum(t, func(t *testing.T, w *world, name string, ch *amqp.Channel) {
		s := newSeen(t)
		r := w.start(batched(func(_ context.Context, b *stepwell.Batch) error {
			defer s.enter(b)()
			return nil
		}), ofQueue(name).with(settings{"BATCH_SIZE": "100", "BATCH_WAIT": "10s"}))
		putNumbers(t, ch, name, 5)
		eventually(t, "they are gathered", func() bool { return r.inFlight() == 5 })
		began := time.Now()
		r.stop()
		r.end()
		if took := time.Since(began); took > 8*time.Second {
			t.Errorf("the stop took %s: it waited for a full batch", took)
		}
		if n := len(s.flat()); n != 5 {
			t.Errorf("%d messages were called, want 5", n)
		}
		if left := depthOf(t, ch, name); left != 0 {
			t.Errorf("%d messages are in the queue still", left)
		}
	})
}

func TestABatchOfAQueueThatCallsGoexitEndsTheActorAndNothingIsLost(t *testing.T) {
	onQuorum(t, func(t *testing.T, w *world, name string, ch *amqp.Channel) {
		var healed atomic.Bool
		s := newSeen(t)
		app := batched(func(_ context.Context, b *stepwell.Batch) error {
			if !healed.Load() {
				runtime.Goexit()
			}
			s.enter(b)()
			return nil
		})
		env := ofQueue(name).with(settings{"BATCH_SIZE": "10", "BATCH_WAIT": "100ms"})
		putNumbers(t, ch, name, 30)
		r := w.start(app, env)
		select {
		case <-r.ended:
		case <-time.After(40 * time.Second):
			t.Fatal("the actor goes on")
		}
		if text := fmt.Sprint(r.err); !strings.Contains(text, "runtime.Goexit") || !strings.Contains(text, "in a batch of") {
			t.Errorf("the error says %q", text)
		}
		healed.Store(true)
		again := w.start(app, env)
		eventually(t, "all are handled", func() bool { return len(s.flat()) == 30 })
		again.queuesEmpty()
		again.end()
	})
}

func TestABatchOfAQueueThatIsKilledComesAgainAndNothingOfItIsLost(t *testing.T) {
	onQueues(t, func(t *testing.T, w *world, name string, ch *amqp.Channel) {
		const kills, each = 3, 200
		env := ofQueue(name).with(settings{batchVariable: "yes", "BATCH_SIZE": "20", "BATCH_WAIT": "20ms", "CONCURRENCY": "4"})
		var workers []*worker
		n := 0
		for range kills {
			k := w.work(t, "telling", env) // which fails each message once
			workers = append(workers, k)
			for range each {
				put(t, ch, name, amqp.Publishing{Body: fmt.Append(nil, "bad-", n)})
				n++
			}
			eventually(t, "many are under way", func() bool { return k.attempt(fmt.Sprint("bad-", n-each/2)) > 0 })
			k.kill(t)
		}
		last := w.work(t, "telling", env)
		workers = append(workers, last)
		eventually(t, "each was done in its second try", func() bool {
			for i := range n {
				value := fmt.Sprint("done bad-", i)
				if !slices.ContainsFunc(workers, func(k *worker) bool { return k.attempt(value) > 1 }) {
					return false
				}
			}
			return true
		})
		last.stop(t)
		if left := depthOf(t, ch, name); left != 0 {
			t.Errorf("%d messages are in the queue still", left)
		}
	})
}
