package retry_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/task"
	"github.com/stepwell/stepwell/internal/testbroker"
	"github.com/stepwell/stepwell/retry"
)

func TestRetryAfterNeverComesEarlyAndAtMostATenthLate(t *testing.T) {
	for _, d := range []time.Duration{
		time.Millisecond, 900 * time.Millisecond, 3 * time.Second, 14500 * time.Millisecond, 16 * time.Second, 7 * time.Minute,
		2*time.Hour + time.Millisecond, 20 * time.Hour, 30 * 24 * time.Hour, 90 * 24 * time.Hour,
	} {
		inWorld(t, retry.Linear(5*time.Second, 0, 3), func(w *world) {
			var c calls
			r := w.start(c.succeeding)
			began := time.Now()
			w.first(record("v"), retry.Failure{Err: errAway, After: d})
			want := min(d, stepwell.LongestWait)
			time.Sleep(want + want/10 + 2*time.Second)
			r.end()
			w.empty()
			if len(c.at) != 1 {
				t.Fatalf("%d calls for a wait of %s", len(c.at), d)
			}
			if took := c.at[0].Sub(began); took < want || took > want+max(time.Second, want/10)+50*time.Millisecond {
				t.Errorf("%s became %s", want, took)
			}
			if got := c.tries[0]; got.Attempt != 2 || got.Snoozes != 0 {
				t.Errorf("attempt %d, %d snoozes", got.Attempt, got.Snoozes)
			}
		})
	}
}

func TestOnRealQueuesAWaitThatAHandlerAsksForIsKept(t *testing.T) {
	for _, node := range testbroker.Sample(t, testbroker.RabbitMQs(t)) {
		t.Run(node.Version, func(t *testing.T) {
			t.Parallel()
			w := onRabbit(t, node.URL, retry.Linear(100*time.Millisecond, 0, 3))
			t.Cleanup(func() { deleteQueues(t, node.URL, w.retrier.Rungs()...) })
			t.Cleanup(w.retrier.Close)
			var c calls
			r := w.start(c.succeeding)
			m := record("v")
			parked := make(chan error, 1)
			w.retrier.Fail(t.Context(), m, nil, retry.Failure{Err: errAway, After: 2500 * time.Millisecond}, func(err error) { parked <- err })
			if err := <-parked; err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			eventually(t, "it came back", func() bool { return len(c.attempts()) == 1 })
			r.end()
			if took := time.Since(began); took < 2400*time.Millisecond { // some of it may have passed before the confirm was seen
				t.Errorf("came after %s", took)
			}
			if names := w.retrier.Rungs(); len(names) != 1 || names[0] != w.retrier.Topology().Instant[:len(w.retrier.Topology().Instant)-len("instant")]+"delay.1000" {
				t.Errorf("rungs %q", names)
			}
			w.renew() // as a new process does
			t.Cleanup(w.retrier.Close)
			if err := w.retrier.Declare(t.Context()); err != nil {
				t.Fatal(err)
			}
			if names := w.retrier.Rungs(); len(names) != 1 {
				t.Errorf("a new process knows of %q", names)
			}
		})
	}
}

func TestASnoozeIsNoTryAndNoRepeat(t *testing.T) {
	inWorld(t, retry.Linear(time.Second, 0, 1), func(w *world) {
		var c calls
		r := w.start(func(_ context.Context, m *stepwell.Message, t retry.Ticket) task.Outcome {
			switch c.add(m) {
			case 1, 2, 3:
				t.Snooze(time.Hour)
			case 4:
				t.Fail(retry.Failure{Err: errAway})
			default:
				t.Fail(retry.Failure{Err: errAway})
			}
			return task.Pending
		})
		began := time.Now()
		parked := make(chan error, 1)
		w.retrier.Snooze(w.t.Context(), record("v"), nil, time.Minute, func(err error) { parked <- err })
		if err := <-parked; err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Hour)
		r.end()
		e := w.oneDead()
		if e.AttemptsTotal != 2 || e.Message.Snoozes != 4 || e.Failure.Reason != stepwell.ReasonExhausted {
			t.Errorf("dead after %d tries and %d snoozes: %s", e.AttemptsTotal, e.Message.Snoozes, e.Failure.Reason)
		}
		var attempts, snoozes []int
		for _, m := range c.tries {
			attempts, snoozes = append(attempts, m.Attempt), append(snoozes, m.Snoozes)
		}
		for i, want := range []struct{ attempt, snoozes int }{{1, 1}, {1, 2}, {1, 3}, {1, 4}, {2, 4}} {
			if i >= len(attempts) || attempts[i] != want.attempt || snoozes[i] != want.snoozes {
				t.Fatalf("attempts %v with snoozes %v", attempts, snoozes)
			}
		}
		for i, want := range []time.Duration{time.Minute, time.Hour + time.Minute, 2*time.Hour + time.Minute} {
			if at := c.at[i].Sub(began); at < want || at > want+want/10+time.Second {
				t.Errorf("call %d after %s", i+1, at)
			}
		}
		if w.counts.now().duplicates != 0 {
			t.Error("a snooze was taken for a repeat")
		}
	})
}

// A hop changes one header and is made before anything else looks at the message: programs that do
// not know the header call at once, and those that know it hand on what they cannot read.
func TestAHopLeavesTheMessageAsItIs(t *testing.T) {
	inWorld(t, retry.Linear(time.Second, 0, 1), func(w *world) {
		var c calls
		r := w.start(c.succeeding)
		sent := queue.Message{ID: "x", Body: []byte("of a later version"), Headers: map[string]any{"x-stepwell": "v99 what=ever", "foreign": int64(7)}}
		w.put(w.retrier.Topology().Instant, envelope.Wait{Remaining: 3 * time.Second, Whole: 4 * time.Second}.On(sent))
		time.Sleep(2500 * time.Millisecond)
		if at, err := w.broker.Depth(w.t.Context(), w.retrier.Topology().Delays()[0]); err != nil || at != 1 {
			w.t.Errorf("%d wait, %v", at, err)
		}
		time.Sleep(time.Second)
		lease, err := w.broker.Lease(w.t.Context(), w.retrier.Topology().Delays()[0]) // where what is of a newer version waits for others
		if err != nil {
			w.t.Fatal(err)
		}
		defer lease.Release()
		window, err := lease.Window(w.t.Context(), 1, 1<<20)
		if err != nil {
			w.t.Fatal(err)
		}
		came := <-window.Deliveries()
		if _, err := window.Close(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
		_, waits := envelope.WaitOf(came.Message)
		if len(c.tries) != 0 || waits || came.ID != sent.ID || !bytes.Equal(came.Body, sent.Body) ||
			came.Headers["x-stepwell"] != sent.Headers["x-stepwell"] || came.Headers["foreign"] != sent.Headers["foreign"] {
			w.t.Errorf("%d calls, and this is left: %+v", len(c.tries), came)
		}
		r.end()
	})
}

func TestWhatCannotBeDeclaredWaitsInTheQueuesThatThereAre(t *testing.T) {
	inWorld(t, retry.Linear(5*time.Second, 0, 1), func(w *world) {
		w.cfg.Broker = &refusing{Broker: w.broker}
		w.renew()
		var c calls
		r := w.start(c.succeeding)
		began := time.Now()
		w.first(record("v"), retry.Failure{Err: errAway, After: 12 * time.Second})
		time.Sleep(time.Minute)
		r.end()
		if len(c.at) != 1 || c.at[0].Sub(began) < 12*time.Second || c.at[0].Sub(began) > 16*time.Second {
			t.Errorf("called %v after", c.at)
		}
	})
}

// The stop comes while a hop waits for its queues. Called at once it would come early.
func TestAStopWaitsForNoQueueThatAHopNeedsAndTheMessageStays(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.cfg.Broker = deaf{w.broker}
		w.renew()
		wait := envelope.Wait{Remaining: time.Minute, Whole: time.Hour}
		w.put(w.retrier.Topology().Instant, wait.On(queue.Message{ID: "x", Headers: map[string]any{"x-stepwell": "v1"}}))
		var c calls
		r := w.start(c.succeeding)
		time.Sleep(s)
		began := time.Now()
		r.end()
		w.retrier.Close()
		if took := time.Since(began); took > 0 || w.depth(w.retrier.Topology().Instant) != 1 || len(c.attempts()) != 0 {
			t.Errorf("the stop took %s, with %d messages in the queue and %d calls", took, w.depth(w.retrier.Topology().Instant), len(c.attempts()))
		}
	})
}

// deaf is a broker that does not answer who declares queues for waits.
type deaf struct{ queue.Broker }

func (d deaf) Declare(ctx context.Context, specs []queue.Spec) error {
	if specs[0].Kind != queue.Delay {
		return d.Broker.Declare(ctx, specs)
	}
	<-ctx.Done()
	return ctx.Err()
}

// They are kept, and a hop that another process began goes on through them.
func TestQueuesOfWaitsThatAnotherProcessDeclaredAreFound(t *testing.T) {
	inWorld(t, retry.Linear(s, 0, 1), func(w *world) {
		for _, after := range []time.Duration{30 * s, 5 * time.Hour} {
			w.first(record("v"), retry.Failure{Err: errAway, After: after})
		}
		declared := w.retrier.Rungs()
		w.retrier.Close()
		w.renew()
		if known := w.retrier.Rungs(); len(declared) < 2 || len(known) > 0 {
			t.Errorf("%v were declared, and before it looked it knew %v", declared, known)
		}
		if err := w.retrier.FindRungs(w.t.Context()); err != nil {
			t.Error(err)
		}
		if found := w.retrier.Rungs(); !slices.Equal(found, declared) || slices.Contains(found, w.retrier.Topology().Delays()[0]) {
			t.Errorf("found %v of %v", found, declared)
		}
		w.retrier.Close()
	})
}

func TestASnoozeForWhichThereIsNoQueueIsToldAndParkedOnceOneCanBeDeclared(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		reluctant := &refusing{Broker: w.broker}
		w.cfg.Broker = reluctant
		w.renew()
		parked := make(chan error, 1)
		w.retrier.Snooze(w.t.Context(), record("v"), nil, time.Minute, func(err error) { parked <- err })
		time.Sleep(90 * time.Second) // it is tried again at each minute, and does not rest at that moment
		if st := w.retrier.Status(); len(parked) > 0 || !strings.Contains(st.Trouble, "has no delay queue") {
			t.Errorf("parked: %v; status %+v", len(parked) > 0, st)
		}
		reluctant.relents.Store(true)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if len(parked) != 1 || <-parked != nil || w.retrier.Status().Trouble != "" {
			t.Errorf("not parked, though its queues can be declared: %+v", w.retrier.Status())
		}
	})
}

// refusing is a broker that declares no queue but those of the policy, until it relents.
type refusing struct {
	queue.Broker
	relents atomic.Bool
}

func (r *refusing) Declare(ctx context.Context, specs []queue.Spec) error {
	for _, s := range specs {
		if s.Kind == queue.Delay && s.TTL != 5*time.Second && !r.relents.Load() {
			return errors.New("access refused")
		}
	}
	return r.Broker.Declare(ctx, specs)
}

// The process ends when the next queue has the message and before the delivery is acked: both are
// there then, and each waits for its time.
func TestAKillDuringAHopLosesNothing(t *testing.T) {
	const wait = 12 * time.Second
	inWorld(t, retry.Linear(time.Second, 0, 1), func(w *world) {
		broker := w.broker
		hopped := make(chan struct{}, 1)
		w.cfg.Broker = holding{broker, hopped}
		w.renew()
		var early, c calls
		r := w.start(early.succeeding)
		began := time.Now()
		put := make(chan error, 1)
		w.retrier.Fail(w.t.Context(), record("v"), nil, retry.Failure{Err: errAway, After: wait}, func(err error) { put <- err })
		if err := <-put; err != nil {
			w.t.Fatal(err)
		}
		<-hopped // 5 s later, from one queue to the next
		r.abort()
		r.end()
		if len(early.tries) != 0 {
			w.t.Error("it was called early")
		}
		w.cfg.Broker = broker
		w.renew()
		r = w.start(c.succeeding)
		time.Sleep(wait)
		r.end()
		w.empty()
		if len(c.at) != 1 || c.at[0].Sub(began) < wait {
			w.t.Errorf("called at %v, the wait of %s began at %s", c.at, wait, began)
		}
		if n := w.counts.now().duplicates; n != 1 {
			w.t.Errorf("%d repeats, want the message that hopped twice", n)
		}
	})
}

// holding is a broker that confirms no hop to those who published it.
type holding struct {
	queue.Broker
	hopped chan<- struct{}
}

func (h holding) Publisher(name string) queue.Publisher {
	return &holdingPublisher{h.Broker.Publisher(name), h.hopped, false}
}

type holdingPublisher struct {
	queue.Publisher
	hopped chan<- struct{}
	parked bool
}

func (h *holdingPublisher) Publish(ctx context.Context, name string, m queue.Message, done func(error)) {
	if _, waits := envelope.WaitOf(m); !waits || !h.parked {
		h.parked = true
		h.Publisher.Publish(ctx, name, m, done)
		return
	}
	h.Publisher.Publish(ctx, name, m, func(error) { h.hopped <- struct{}{} })
}

func TestAJobComesAfterItsWaitHoweverLongThatIs(t *testing.T) {
	for _, d := range []time.Duration{0, time.Millisecond, 16 * time.Second, 7 * time.Minute, 20 * time.Hour, stepwell.LongestWait} {
		inWorld(t, retry.Linear(5*time.Second, 0, 3), func(w *world) {
			var c calls
			r := w.start(c.succeeding)
			began := time.Now()
			if err := w.retrier.Enqueue(w.t.Context(), &stepwell.Message{ID: "order-17", Value: []byte("v")}, d, "", ""); err != nil {
				t.Fatal(err)
			}
			time.Sleep(d + d/10 + 5*time.Second)
			r.end()
			w.empty()
			if len(c.at) != 1 {
				t.Fatalf("%d calls for a wait of %s", len(c.at), d)
			}
			// Beside the wait: two seconds for each new queue before it is used, which are those of
			// the first job alone.
			if took := c.at[0].Sub(began); took < d || took > d+max(time.Second, d/10)+2*time.Second {
				t.Errorf("%s became %s", d, took)
			}
			if got := c.tries[0]; got.Attempt != 1 || got.Snoozes != 0 || got.ID != "order-17" || w.counts.now().enqueued != 1 {
				t.Errorf("called with %+v, %d counted", got, w.counts.now().enqueued)
			}
		})
	}
}
