package actor_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/internal/testbroker"
)

// keyed are records of one key.
func keyed(key string, vs ...string) []*kgo.Record {
	var records []*kgo.Record
	for _, v := range vs {
		records = append(records, &kgo.Record{Key: []byte(key), Value: []byte(v)})
	}
	return records
}

// lines are the calls of a key as "value attempt", in order.
func (c *calls) lines(key string) (all []string) {
	for _, s := range c.all() {
		if string(s.m.Key) == key {
			all = append(all, fmt.Sprintf("%s %d", s.m.Value, s.m.Attempt))
		}
	}
	return all
}

// ill is a handler whose verdict is what the value says: how often it fails, or that it always
// "fails", "dies", or "goes" to a channel.
func ill(m *stepwell.Message) error {
	var times int
	switch _, word, _ := strings.Cut(string(m.Value), ":"); word {
	case "dies":
		return stepwell.DeadLetter(errFlaky)
	case "fails":
		return errFlaky
	case "goes":
		return stepwell.To("slow")
	default:
		_, _ = fmt.Sscan(word, &times) // what says nothing goes well
	}
	if m.Attempt <= times {
		return errFlaky
	}
	return nil
}

func TestAFailingKeyHoldsBackItsOwnMessagesAloneUntilItIsDoneOrDead(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var c calls
		others, dead := make(chan struct{}), [2]int{-1, -1} // when d and f were called
		broker := w.broker()
		r := w.start(orders(func(ctx context.Context, m *stepwell.Message) error {
			c.add(m)
			switch value := string(m.Value); {
			case value == "a:2" && m.Attempt == 3:
				<-others
			case value == "d", value == "f":
				n, err := ready(ctx, broker, w.queue("orders", "dead_set"))
				if err != nil {
					t.Error(err)
				}
				dead[(value[0]-'d')/2] = n
			}
			return ill(m)
		}), settings{"RETRY_IN_PLACE": "all", "RETRY_COUNT": "3", "CONCURRENCY": "2", "ORDER": "key"})
		w.produce(keyed("bad", "a:2", "b", "c:fails", "d", "e:dies", "f")...)
		for i := range 200 {
			w.produce(keyed(fmt.Sprint("good-", i%20), "x")...)
		}
		eventually(t, "all of other keys are called", func() bool { return len(c.all()) >= 200+3 })
		if got, want := c.lines("bad"), []string{"a:2 1", "a:2 2", "a:2 3"}; !slices.Equal(got, want) {
			t.Errorf("meanwhile the key had the calls %q, want %q", got, want)
		}
		close(others)
		want := []string{"a:2 1", "a:2 2", "a:2 3", "b 1", "c:fails 1", "c:fails 2", "c:fails 3", "c:fails 4", "d 1", "e:dies 1", "f 1"}
		eventually(t, "the key is through", func() bool { return len(c.lines("bad")) == len(want) && w.committed() == 206 })
		if got := c.lines("bad"); !slices.Equal(got, want) {
			t.Errorf("the key had the calls %q, want %q", got, want)
		}
		if dead != [2]int{1, 2} {
			t.Errorf("the dead set had %v when what comes after dead messages was called, want 1 and 2", dead)
		}
		all := r.deadCount(2)
		if m := all[0]; m["value"] != "c:fails" || m["attempts_total"] != 4.0 || m["attempts"] != 4.0 || m["reason"] != stepwell.ReasonExhausted {
			t.Errorf("in the dead set: %v", m)
		}
		if parked, rested := r.metric("stepwell_retries_total"), r.metric("stepwell_retries_in_place_total"); parked != 0 || rested != 5 {
			t.Errorf("%v failures were parked and %v rested in place, want 0 and 5", parked, rested)
		}
		r.queuesEmptyBut(w.queue("orders", "dead_set"))
	})
}

func TestWhatWaitsForAMessageThatDiesOrIsHandedOverGoesOnWhenRabbitMQHasConfirmedIt(t *testing.T) {
	onPrivate(t, func(t *testing.T, w *world, node *testbroker.Rabbit) {
		var c, slow calls
		r := w.start(withSlow(func(_ context.Context, m *stepwell.Message) error { c.add(m); return ill(m) },
			actor.Channel{Handler: func(_ context.Context, m *stepwell.Message) error { slow.add(m); return nil }}),
			settings{"RETRY_IN_PLACE": "all", "RETRY_COUNT": "1"})
		r.ready()
		w.produce(keyed("warm", "x")...)
		eventually(t, "it works", func() bool { return w.committed() == 1 })
		node.Kill()
		w.produce(append(keyed("bad", "a:fails", "b"), keyed("handed", "c:goes", "d")...)...)
		w.produce(keyed("good", "x")...)
		eventually(t, "the others go on", func() bool {
			return len(c.lines("good")) == 1 && len(c.lines("bad")) == 2 && len(c.lines("handed")) == 1
		})
		always(t, "the keys wait", 2*time.Second, func() bool { return len(c.lines("bad")) == 2 && len(c.lines("handed")) == 1 })
		node.Start()
		eventually(t, "the keys go on", func() bool { return w.committed() == 6 && len(slow.all()) == 1 })
		if got := c.lines("bad"); !slices.Equal(got, []string{"a:fails 1", "a:fails 2", "b 1"}) {
			t.Errorf("calls %q", got)
		}
		if got := c.lines("handed"); !slices.Equal(got, []string{"c:goes 1", "d 1"}) {
			t.Errorf("calls %q", got)
		}
		r.deadCount(1)
	})
}

func TestAPartitionInItsOrderGoesOnWhenRabbitMQHasWhatDied(t *testing.T) {
	onPrivate(t, func(t *testing.T, w *world, node *testbroker.Rabbit) {
		w.topic += ".of-one-partition"
		w.createTopic(w.topic, 1)
		var c calls
		r := w.start(orders(func(_ context.Context, m *stepwell.Message) error { c.add(m); return ill(m) }),
			settings{"RETRY_IN_PLACE": "all", "RETRY_COUNT": "0", "ORDER": "partition"})
		r.ready()
		w.produce(keyed("warm", "x")...)
		eventually(t, "it works", func() bool { return w.committed() == 1 })
		node.Kill()
		w.produce(append(keyed("one", "a:fails"), keyed("another", "b")...)...)
		eventually(t, "it has failed", func() bool { return len(c.lines("one")) == 1 })
		always(t, "its partition waits", 2*time.Second, func() bool { return len(c.lines("another")) == 0 })
		node.Start()
		eventually(t, "its partition goes on", func() bool { return w.committed() == 3 && len(c.lines("another")) == 1 })
		r.deadCount(1)
	})
}

func TestOnlySoManyWaitsAreInPlaceAndTheOthersInQueuesWithAllTriesCounted(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var c calls
		r := w.start(orders(func(_ context.Context, m *stepwell.Message) error { c.add(m); return ill(m) }),
			settings{"RETRY_IN_PLACE": "1", "RETRY_COUNT": "3", "RETRY_DELAY": "300ms"})
		w.produce(keyed("bad", "a:fails", "b")...)
		dead := r.deadCount(1)[0]
		if got, want := c.lines("bad"), []string{"a:fails 1", "a:fails 2", "b 1", "a:fails 3", "a:fails 4"}; !slices.Equal(got, want) {
			t.Errorf("calls %q, want %q", got, want)
		}
		if dead["attempts_total"] != 4.0 || dead["attempts"] != 4.0 {
			t.Errorf("in the dead set: %v", dead)
		}
		for i, s := range c.all() {
			if first := c.all()[0].at; i > 0 && string(s.m.Value) != "b" && (s.m.FirstFailed.Before(first) || s.m.FirstFailed.Sub(first) > 200*time.Millisecond) {
				t.Errorf("try %d says that it failed first at %v, which was at %v", s.m.Attempt, s.m.FirstFailed, first)
			}
		}
		if parked, rested := r.metric("stepwell_retries_total"), r.metric("stepwell_retries_in_place_total"); parked != 2 || rested != 1 {
			t.Errorf("%v failures were parked and %v rested in place, want 2 and 1", parked, rested)
		}
		r.do("POST", "/v1/dead_set/replay?count=1&stream=orders", "")
		dead = r.deadCount(1)[0]
		if dead["attempts_total"] != 8.0 || r.metric("stepwell_retries_in_place_total") != 1 {
			t.Errorf("a replay has no tries in place; in the dead set: %v", dead)
		}
	})
}

func TestAMessageThatIsToRestForTooLongIsCountedAndItsKeyGoesOn(t *testing.T) {
	t.Parallel()
	w := embeddedWorld(t)
	var c calls
	r := w.start(orders(func(_ context.Context, m *stepwell.Message) error {
		c.add(m)
		if string(m.Value) == "a" {
			return stepwell.RetryAfter(errFlaky, 61*time.Minute)
		}
		return nil
	}), settings{"RETRY_IN_PLACE": "all"})
	w.produce(keyed("bad", "a", "b")...)
	eventually(t, "both are settled", func() bool { return w.committed() == 2 })
	if got := c.lines("bad"); !slices.Equal(got, []string{"a 1", "b 1"}) {
		t.Errorf("calls %q", got)
	}
	if given, rested := r.metric("stepwell_order_given_up_total"), r.metric("stepwell_retries_in_place_total"); given != 1 || rested != 0 {
		t.Errorf("%v are counted, and %v rested in place", given, rested)
	}
}

func TestWhatWaitsForAMessageThatRestsInPlaceIsUpToTheOrder(t *testing.T) {
	for order, before := range map[string][]string{
		"key":       {"a:1 1", "x 1", "a:1 2", "b 1"},
		"partition": {"a:1 1", "a:1 2", "b 1", "x 1"},
		"none":      {"a:1 1", "b 1", "x 1", "a:1 2"},
	} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			w := embeddedWorld(t)
			w.topic += ".one"
			w.createTopic(w.topic, 1)
			var c calls
			r := w.start(orders(func(_ context.Context, m *stepwell.Message) error { c.add(m); return ill(m) }),
				settings{"RETRY_IN_PLACE": "all", "RETRY_DELAY": "1s", "ORDER": order, "CONCURRENCY": "1"})
			w.produce(append(keyed("bad", "a:1", "b"), keyed("good", "x")...)...)
			eventually(t, "all are done", func() bool { return w.committed() == 3 })
			var got []string
			for _, s := range c.all() {
				got = append(got, fmt.Sprintf("%s %d", s.m.Value, s.m.Attempt))
			}
			if !slices.Equal(got, before) {
				t.Errorf("calls %q, want %q", got, before)
			}
			r.end()
		})
	}
}

func TestAnOnDeadThatTakesOverLetsTheKeyGoOn(t *testing.T) {
	t.Parallel()
	w := embeddedWorld(t)
	var c, taken calls
	app := orders(func(_ context.Context, m *stepwell.Message) error { c.add(m); return ill(m) })
	s := app.Streams["orders"]
	s.OnDead = func(_ context.Context, m *stepwell.Message, _ error) error { taken.add(m); return nil }
	app.Streams["orders"] = s
	r := w.start(app, settings{"RETRY_IN_PLACE": "all", "RETRY_COUNT": "2"})
	w.produce(keyed("bad", "a:fails", "b:dies", "c")...)
	eventually(t, "all is settled", func() bool { return w.committed() == 3 })
	if got, want := c.lines("bad"), []string{"a:fails 1", "a:fails 2", "a:fails 3", "b:dies 1", "c 1"}; !slices.Equal(got, want) {
		t.Errorf("calls %q, want %q", got, want)
	}
	if got, want := taken.lines("bad"), []string{"a:fails 3", "b:dies 1"}; !slices.Equal(got, want) {
		t.Errorf("taken over %q, want %q", got, want)
	}
	r.queuesEmpty()
}

func TestARestInPlaceDelaysNeitherAStopNorARevoke(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		env := settings{"RETRY_IN_PLACE": "all", "RETRY_DELAY": "10m", "KAFKA_SESSION_TIMEOUT": "6s"}
		const keys = 40 // so that each partition has some
		var records []*kgo.Record
		for i := range keys {
			records = append(records, keyed(fmt.Sprint(i), "a:fails", "b")...)
		}
		var first, second calls
		r := w.start(orders(func(_ context.Context, m *stepwell.Message) error { first.add(m); return ill(m) }), env)
		w.produce(records...)
		eventually(t, "the first of each key rests", func() bool { return len(first.all()) == keys && r.metric("stepwell_retries_in_place_total") == keys })
		if o, ok := r.status("orders")["oldest"].(map[string]any); !ok || o["next_try"] == nil || r.status("orders")["resting"] != float64(keys) {
			t.Errorf("the API does not say until when the oldest rests: %v", r.status("orders"))
		}
		began := time.Now()
		other := w.start(orders(func(_ context.Context, m *stepwell.Message) error { second.add(m); return ill(m) }), env)
		within(t, 40*time.Second, "the other one has some", func() bool { return len(second.all()) >= 1 })
		t.Logf("handed over after %v", time.Since(began))
		began = time.Now()
		r.end()
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("the stop took %v", took)
		}
		eventually(t, "the other one has all", func() bool { return len(second.all()) == keys })
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

func TestAMessageThatKillsTheProcessLetsItsKeyGoOnWhenItIsDead(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT RUN: processes that are killed again and again, because of -short")
	}
	t.Parallel()
	w := newWorld(t)
	nodes := testbroker.RabbitMQs(t)
	w.rabbit, w.seeds = nodes[0].URL, testbroker.Kafka(t)
	w.connect(kgo.SeedBrokers(w.seeds))
	w.createTopic(w.topic, 1)
	t.Cleanup(w.deleteQueues)
	s := w.supervise(t, 1, "RETRY_IN_PLACE=all")
	w.produce(keyed("bad", "fails 1", "kills later", "after")...)
	w.produce(keyed("good", "x")...)
	within(t, 5*time.Minute, "the killer is dead and all else is done", func() bool {
		return w.committed() == 4 && w.ready(t, "dead_set") == 1 && s.logged([]string{"+ after\n", "+++ fails 1\n"})
	})
	s.stop()
}
