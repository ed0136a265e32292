package actor_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/internal/testbroker"
)

// inOrder handles the messages of a batch one after another. What comes after one of its key that
// failed is put off: it is not its turn.
func inOrder(handle stepwell.Handler) stepwell.BatchHandler {
	return func(ctx context.Context, b *stepwell.Batch) error {
		failed := map[string]bool{}
		for _, m := range b.Messages() {
			key := string(m.Key)
			if failed[key] {
				b.Fail(m, stepwell.Snooze(stepwell.ShortestSnooze))
				continue
			}
			if err := handle(ctx, m); err != nil {
				failed[key] = true
				b.Fail(m, err)
			}
		}
		return nil
	}
}

// sickly is an app whose batches have messages that are ill; it notes each as it comes.
func sickly(c *calls) actor.App {
	return batched(inOrder(func(_ context.Context, m *stepwell.Message) error {
		c.add(m)
		return ill(m)
	}))
}

func TestABatchIsCalledAgainWithWhatFailedOfItForItsWaitsInPlaceAndTheRestComesBackOneByOne(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		s := newSeen(t)
		r := w.start(batched(func(_ context.Context, b *stepwell.Batch) error {
			defer s.enter(b)()
			for _, m := range b.Messages() {
				if err := ill(m); err != nil {
					b.Fail(m, err)
				}
			}
			return nil
		}), settings{"RETRY_IN_PLACE": "1", "RETRY_COUNT": "3", "RETRY_DELAY": "300ms", "BATCH_SIZE": "5", "BATCH_WAIT": "10s"})
		w.produce(keyed("k", "a", "b:fails", "c:fails", "d:1", "e")...)
		for _, dead := range r.deadCount(2) {
			if dead["attempts"] != 4.0 || dead["attempts_total"] != 4.0 || dead["reason"] != stepwell.ReasonExhausted {
				t.Errorf("in the dead set: %v", dead)
			}
		}
		w.allCommitted(r)
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.calls) != 6 || len(s.calls[0]) != 5 || !slices.Equal(s.calls[1], []string{"b:fails#2", "c:fails#2", "d:1#2"}) {
			t.Errorf("calls %q, want all, then what failed of it, then four of one message", s.calls)
		}
		for _, call := range s.calls[2:] {
			if len(call) != 1 {
				t.Errorf("from a queue came %q together", call)
			}
		}
		if parked, rested := r.metric("stepwell_retries_total"), r.metric("stepwell_retries_in_place_total"); parked != 4 || rested != 3 {
			t.Errorf("%v failures were parked and %v rested in place, want 4 and 3", parked, rested)
		}
	})
}

func TestABatchThatFailsHoldsBackItsOwnKeysUntilWhatFailedIsDoneOrDead(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var c calls
		broker, dead := w.broker(), -1 // how many are dead when what comes after them is called
		others := make(chan struct{})  // were called
		app := batched(inOrder(func(ctx context.Context, m *stepwell.Message) error {
			c.add(m)
			switch value := string(m.Value); {
			case value == "a:2" && m.Attempt == 3:
				<-others
			case value == "f":
				n, err := ready(ctx, broker, w.queue("orders", "dead_set"))
				if err != nil {
					t.Error(err)
				}
				dead = n
			}
			return ill(m)
		}))
		r := w.start(app, settings{
			"RETRY_IN_PLACE": "all", "RETRY_COUNT": "2", "RETRY_DELAY": "1s", "CONCURRENCY": "8", "BATCH_SIZE": "2", "BATCH_WAIT": "50ms",
		})
		w.produce(keyed("bad", "a:2", "b", "c:fails", "d", "e:dies", "f")...)
		for i := range 200 {
			w.produce(keyed(fmt.Sprint("good-", i%20), "x")...)
		}
		eventually(t, "the first of the key is in its last try, and most of others, in 8 lanes, were called", func() bool {
			return len(c.lines("bad")) >= 3 && len(c.all()) >= 100+3
		})
		if got, want := c.lines("bad"), []string{"a:2 1", "a:2 2", "a:2 3"}; !slices.Equal(got, want) {
			t.Errorf("meanwhile the key had the calls %q, want %q", got, want)
		}
		close(others)
		eventually(t, "the key is through", func() bool { return len(c.lines("bad")) == 10 && w.committed() == 206 })
		want := []string{"a:2 1", "a:2 2", "a:2 3", "b 1", "c:fails 1", "c:fails 2", "c:fails 3", "d 1", "e:dies 1", "f 1"}
		if got := c.lines("bad"); !slices.Equal(got, want) {
			t.Errorf("the key had the calls %q, want %q", got, want)
		}
		if dead != 2 {
			t.Errorf("the dead set had %d when what comes after them was called, want 2", dead)
		}
		r.deadCount(2)
		r.queuesEmptyBut(w.queue("orders", "dead_set"))
	})
}

func TestALaneOfBatchesGoesOnWhenRabbitMQHasConfirmedWhatDied(t *testing.T) {
	onPrivate(t, func(t *testing.T, w *world, node *testbroker.Rabbit) {
		var c calls
		r := w.start(sickly(&c), settings{"RETRY_IN_PLACE": "all", "RETRY_COUNT": "1", "BATCH_SIZE": "2", "BATCH_WAIT": "50ms"})
		r.ready()
		w.produce(keyed("bad", "warm")...)
		eventually(t, "it works", func() bool { return w.committed() == 1 })
		node.Kill()
		w.produce(keyed("bad", "a:fails", "b", "c:dies", "d")...)
		eventually(t, "the first has had its tries", func() bool { return slices.Contains(c.lines("bad"), "a:fails 2") })
		always(t, "its lane waits", 2*time.Second, func() bool { return len(c.lines("bad")) == 3 })
		node.Start()
		eventually(t, "it goes on", func() bool { return w.committed() == 5 })
		if got, want := c.lines("bad"), []string{"warm 1", "a:fails 1", "a:fails 2", "b 1", "c:dies 1", "d 1"}; !slices.Equal(got, want) {
			t.Errorf("calls %q, want %q", got, want)
		}
		r.deadCount(2)
	})
}

// What RabbitMQ has not confirmed when a stop comes is tried again by the next process, and what
// comes after it of its key is not called before.
func TestAStopWhileRabbitMQIsAwayCallsNothingBehindWhatDied(t *testing.T) {
	onPrivate(t, func(t *testing.T, w *world, node *testbroker.Rabbit) {
		env := settings{"RETRY_IN_PLACE": "all", "RETRY_COUNT": "1", "BATCH_SIZE": "1", "BATCH_WAIT": "50ms"}
		var first, second calls
		r := w.start(sickly(&first), env)
		r.ready()
		w.produce(keyed("bad", "warm")...)
		eventually(t, "it works", func() bool { return w.committed() == 1 })
		node.Kill()
		w.produce(keyed("bad", "a:fails", "b")...)
		eventually(t, "the first has had its tries", func() bool { return slices.Contains(first.lines("bad"), "a:fails 2") })
		always(t, "its lane waits", time.Second, func() bool { return len(first.lines("bad")) == 3 })
		r.end()
		if got, want := first.lines("bad"), []string{"warm 1", "a:fails 1", "a:fails 2"}; !slices.Equal(got, want) {
			t.Errorf("calls until the stop %q, want %q", got, want)
		}
		node.Start()
		r = w.start(sickly(&second), env)
		eventually(t, "the next one is through", func() bool { return w.committed() == 3 })
		if got, want := second.lines("bad"), []string{"a:fails 1", "a:fails 2", "b 1"}; !slices.Equal(got, want) {
			t.Errorf("calls of the next one %q, want %q", got, want)
		}
		r.deadCount(1)
	})
}

func TestARestOfABatchInPlaceDelaysNeitherAStopNorARevoke(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		env := settings{
			"RETRY_IN_PLACE": "all", "RETRY_DELAY": "10m", "KAFKA_SESSION_TIMEOUT": "6s", "BATCH_SIZE": "20", "BATCH_WAIT": "50ms", "CONCURRENCY": "2",
		}
		const keys = 40 // so that each partition has some
		var records []*kgo.Record
		for i := range keys {
			records = append(records, keyed(fmt.Sprint(i), "a:fails", "b")...)
		}
		var first, second calls
		r := w.start(sickly(&first), env)
		w.produce(records...)
		eventually(t, "all that is called rests, and the API says until when", func() bool {
			status := r.status("orders")
			o, ok := status["oldest"].(map[string]any)
			return ok && o["next_try"] != nil && status["resting"].(float64) >= float64(len(first.all())) && len(first.all()) > 0
		})
		other := w.start(sickly(&second), env)
		within(t, 40*time.Second, "the other one has some", func() bool { return len(second.all()) >= 1 })
		began := time.Now()
		r.end()
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("the stop took %v", took)
		}
		eventually(t, "the other one has all partitions", func() bool { return other.status("orders")["partitions"] == 4.0 })
		other.end()
		for _, s := range slices.Concat(first.all(), second.all()) {
			if s.m.Attempt != 1 || string(s.m.Value) != "a:fails" {
				t.Errorf("%s was called, attempt %d", s.m.Value, s.m.Attempt)
			}
		}
		if w.committed() != 0 {
			t.Errorf("%d are committed", w.committed())
		}
	})
}

func TestABatchThatIsKilledInItsSecondTryIsSeenWholeAgain(t *testing.T) {
	t.Parallel()
	onBrokers(t, func(t *testing.T, w *world) {
		env := settings{batchVariable: "yes", "BATCH_SIZE": "4", "BATCH_WAIT": "10s", "RETRY_IN_PLACE": "all", "RETRY_DELAY": "1s"}
		for _, r := range slices.Concat(several("before", 2), values("bad"), several("behind", 1)) {
			r.Partition = 1
			w.produceTo(r)
		}
		first := w.work(t, "hold:++", env) // in its second try
		eventually(t, "it is tried again in place", func() bool { return first.attempt("bad") == 2 })
		eventually(t, "what was done before it is committed", func() bool { return w.committed() == 2 })
		first.kill(t)
		next := w.work(t, "usual", env)
		eventually(t, "all is committed", func() bool { return w.committed() == 4 })
		next.stop(t)
		if n := next.attempt("bad"); n != 2 {
			t.Errorf("it was tried %d times by the next owner, want 2: its budget begins anew", n)
		}
	})
}
