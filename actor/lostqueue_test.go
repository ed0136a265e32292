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

func TestAQueueDeletedOrPurgedUnderLoadCostsOnlyWhatItHeld(t *testing.T) {
	const prefetch = 2
	t.Parallel()
	onBrokers(t, func(t *testing.T, w *world) {
		y := newTally()
		app, b := logged(orders(y.handler(func(value string, attempt int) error {
			if strings.HasPrefix(value, "dead") {
				return stepwell.DeadLetter(errors.New("no"))
			}
			return failsOnce(value, attempt)
		})))
		// Few prefetched messages, since these are in the queue though nobody can count them.
		r := w.start(app, settings{"RETRY_DELAY": "1s", "RETRY_PREFETCH": fmt.Sprint(prefetch), "CONCURRENCY": "1"})
		r.ready()
		produced, stop := w.load(t)
		ch := w.channel()

		held := map[string]int{}
		for _, kind := range []string{"delay.1000", "instant", "dead_set"} {
			name := w.queue("orders", kind)
			for _, method := range []string{"purge", "delete"} {
				if kind != "instant" { // which is empty most of the time
					eventually(t, name+" has messages", func() bool { return r.depths()[name] > 3 })
				}
				n, err := ch.QueuePurge(name, false)
				if method == "delete" {
					var rest int
					rest, err = ch.QueueDelete(name, false, false, false)
					n += rest
				}
				if err != nil {
					t.Fatal(err)
				}
				held[kind] += n
				_, before := y.count()
				eventually(t, "work goes on after the "+method+" of "+name, func() bool { _, now := y.count(); return now > before+20 })
				if method == "delete" {
					eventually(t, "the log says that it is there again", func() bool { return b.said("has been declared again", name) })
				}
			}
		}
		total := stop()
		eventually(t, "all first tries are settled", func() bool { return w.committed() == int64(total) })
		eventually(t, "nothing is on its way", func() bool {
			d := r.depths()
			return d[w.queue("orders", "delay.1000")]+d[w.queue("orders", "instant")]+r.inFlight() == 0
		})

		lostBad, lostDead := 0, 0
		inDeadSet := r.dead(10_000)
		kept := map[string]bool{}
		for _, m := range inDeadSet {
			kept[fmt.Sprint(m["value"])] = true
		}
		for i := range produced() {
			switch value := loadValue(i); {
			case strings.HasPrefix(value, "dead") && !kept[value]:
				lostDead++
			case !strings.HasPrefix(value, "dead") && y.doneOf(value) == 0:
				lostBad++
				if kept[value] {
					t.Errorf("%s is in the dead set", value)
				}
			}
		}
		t.Logf("held %v; lost %d that waited for their retry and %d dead ones", held, lostBad, lostDead)
		if most := held["delay.1000"] + held["instant"] + 2*(prefetch+1); lostBad > most {
			t.Errorf("%d messages are gone, the queues held %d", lostBad, most)
		}
		// A message whose confirm went down with its queue is published again, so fewer may be gone than there were.
		if lostDead > held["dead_set"] || lostDead == 0 {
			t.Errorf("%d dead messages are gone, the dead set held %d", lostDead, held["dead_set"])
		}
	})
}

// load produces about 200 records a second until stop, which returns how many; so does produced at any time.
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

func (y *tally) doneOf(value string) int {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.done[value]
}

func TestAQueueWithOtherArgumentsIsNamedAndOnceItIsGoneTheActorGoesOn(t *testing.T) {
	for _, kind := range []string{"instant", "delay.100", "dead_set"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			onBrokers(t, func(t *testing.T, w *world) {
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
				if !b.said("ERROR", "exists with other arguments", name) {
					t.Errorf("the log does not say so:\n%s", b)
				}
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
