package actor_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
)

// deadLetterTimeout is how long an expired message may wait at a broker with the usual settings
// when its target was deleted; the brokers that the tests start have a shorter one.
const deadLetterTimeout = 200 * time.Second

func TestAQueueDeletedOrPurgedUnderLoadCostsOnlyWhatItHeld(t *testing.T) {
	const prefetch = 2
	t.Parallel()
	onEachBroker(t, func(t *testing.T, w *world) {
		y := newTally()
		var dead atomic.Int64
		app, b := logged(orders(y.handler(func(value string, attempt int) error {
			if strings.HasPrefix(value, "dead") {
				dead.Add(1)
				return stepwell.DeadLetter(errors.New("no"))
			}
			return failsOnce(value, attempt)
		})))
		b.tellTroubles(t)
		// Few prefetched messages, since these are in the queue though nobody can count them.
		r := w.start(app, settings{"RETRY_DELAY": "1s", "RETRY_PREFETCH": fmt.Sprint(prefetch), "CONCURRENCY": "1"})
		r.ready()
		produced, stop := w.load(t)
		ch := w.channel()

		// held is what the broker said that it threw away. A delete counts what was there when it
		// began: uncounted is what may have come since, or was still on its way.
		held, uncounted := map[string]int{}, map[string]int{}
		for _, kind := range []string{"delay.1000", "instant", "dead_set"} {
			name := w.queue("orders", kind)
			for _, method := range []string{"purge", "delete"} {
				before := dead.Load()
				if kind != "instant" { // which is empty most of the time
					eventually(t, name+" has messages", func() bool { return r.depths()[name] > 3 })
				}
				n, err := ch.QueuePurge(name, false)
				if method == "delete" {
					var rest int
					rest, err = ch.QueueDelete(name, false, false, false)
					n += rest
					uncounted[kind] = int(dead.Load() - before) // as many fail once as die
				}
				if err != nil {
					t.Fatal(err)
				}
				held[kind] += n
				_, sofar := y.count()
				eventually(t, "work goes on after the "+method+" of "+name, func() bool { _, now := y.count(); return now > sofar+20 })
				if method == "delete" {
					eventually(t, "the log says that it is there again", func() bool { return b.said("has been declared again", name) })
				}
			}
		}
		total := stop()
		eventually(t, "all first tries are settled", func() bool { return w.committed() == int64(total) })
		most := held["delay.1000"] + held["instant"] + uncounted["delay.1000"] + uncounted["instant"] + 2*(prefetch+1)
		// What expired while its target was away is handed on once the broker's time-out for that
		// is over.
		within(t, deadLetterTimeout, fmt.Sprintf("at most the %d messages are gone that the queues held", most), func() bool {
			return lostOf(produced(), "bad", func(value string) bool { return y.doneOf(value) > 0 }) <= most
		})
		kept := map[string]bool{}
		for _, m := range r.dead(10_000) {
			value := fmt.Sprint(m["value"])
			kept[value] = true
			if !strings.HasPrefix(value, "dead") {
				t.Errorf("%s is in the dead set", value)
			}
		}
		if n := lostOf(produced(), "good", func(value string) bool { return y.doneOf(value) > 0 }); n > 0 {
			t.Errorf("%d good messages are gone", n)
		}
		lostDead := lostOf(produced(), "dead", func(value string) bool { return kept[value] })
		t.Logf("held %v and perhaps %v; lost %d dead ones", held, uncounted, lostDead)
		// A message whose confirm went down with its queue is published again, so fewer may be gone
		// than there were.
		if most := held["dead_set"] + uncounted["dead_set"]; lostDead > most || lostDead == 0 {
			t.Errorf("%d dead messages are gone, the dead set held %d", lostDead, most)
		}
	})
}

// load produces about 200 records a second until stop, which returns how many; so does produced at
// any time.
func (w *world) load(t *testing.T) (produced func() int, stop func() int) {
	ctx, cancel := context.WithCancel(context.Background())
	var n atomic.Int64
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			var records []*kgo.Record
			for range 4 {
				value := loadValue(int(n.Load()))
				records = append(records, &kgo.Record{Topic: w.topic, Key: []byte(value), Value: []byte(value)})
				n.Add(1)
			}
			if err := w.client.ProduceSync(context.Background(), records...).FirstErr(); err != nil {
				t.Errorf("produce: %v", err)
				return
			}
			<-tick.C
		}
	}()
	produced = func() int { return int(n.Load()) }
	stop = func() int { cancel(); <-ended; return produced() }
	t.Cleanup(func() { stop() })
	return produced, stop
}

// loadValue is the value of record i: one in four dies, one in four fails once.
func loadValue(i int) string {
	return fmt.Sprintf("%s-%d", []string{"good", "bad", "good", "dead"}[i%4], i)
}

// lostOf is how many of the first n values of this kind are not found.
func lostOf(n int, kind string, found func(value string) bool) int {
	lost := 0
	for i := range n {
		if value := loadValue(i); strings.HasPrefix(value, kind) && !found(value) {
			lost++
		}
	}
	return lost
}

func (y *tally) doneOf(value string) int {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.done[value]
}

func TestAQueueWithOtherArgumentsIsNamedAndOnceItIsGoneTheActorGoesOn(t *testing.T) {
	for _, kind := range []string{"instant", "delay.100", "dead_set"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			onEachBroker(t, func(t *testing.T, w *world) {
				ch := w.channel()
				name := w.queue("orders", kind)
				if _, err := ch.QueueDeclare(name, true, false, false, false, amqp.Table{"x-queue-type": "classic"}); err != nil {
					t.Fatal(err)
				}
				var c calls
				app, b := logged(orders(failing(&c)))
				r := w.start(app, settings{"RETRY_COUNT": "1"})
				w.produce(values("x")...)
				r.notReady("stream orders", "queue "+name+" exists with other arguments")
				eventually(t, "the log says so", func() bool { return b.said("ERROR", "exists with other arguments", name) })
				if n := len(c.all()); n != 0 {
					t.Errorf("%d calls without a place for failures", n)
				}
				if _, err := ch.QueueDelete(name, false, false, false); err != nil {
					t.Fatal(err)
				}
				r.ready()
				r.deadCount(1)
			})
		})
	}
}
