package chaos

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell/chaos/ledger"
	"github.com/stepwell/stepwell/internal/testbroker"
)

// An actor dies at each step of a hand-over, of a first try and of a retry. Before the hand-over is
// confirmed, or what it came from is committed or acked, the next actor makes it again.
func TestAHandOverKilledBeforeItsConfirmIsMadeAgain(t *testing.T) {
	if testing.Short() {
		t.Skip(testbroker.NotRun + "actors are not killed with -short")
	}
	child := buildChild(t)
	kafka := testbroker.StartKafka(t, testbroker.KafkaOptions{})
	for _, release := range releases() {
		s := &site{release: release, child: child, kafka: kafka, rabbit: testbroker.StartRabbitMQ(t, release, testbroker.RabbitOptions{})}
		for _, test := range []struct {
			mark string
			// hit is which one of a first try's hand-over, retried that of one after two failures;
			// 0: it has none.
			hit, retried int
			again        bool // another actor surely makes it
		}{
			{"publish", 1, 3, true},
			{"published", 1, 3, true},
			{"confirmed", 1, 3, true},
			{"parked", 1, 3, true},
			{"commit", 2, 0, true}, // the first says who begins
			{"committed", 2, 0, false},
			{"ack", 0, 2, true},
			{"acked", 0, 2, false}, // the ack may not have reached the broker
		} {
			for _, of := range []struct {
				name      string
				hit, from int // the attempt that hands over
				sequence  int
			}{{"a first try", test.hit, 1, 65}, {"a retry", test.retried, 3, 55}} {
				if of.hit == 0 {
					continue
				}
				t.Run(fmt.Sprintf("%s, %s at: %s", release, of.name, test.mark), func(t *testing.T) {
					t.Parallel()
					s.handOverAndDie(t, test.mark, of.hit, of.sequence, of.from, test.again)
				})
			}
		}
	}
}

func (s *site) handOverAndDie(t *testing.T, mark string, hit, sequence, from int, again bool) {
	r := s.quiet(t, scenario{name: t.Name()}, nil)
	victim := r.dying(mark, hit)
	record := ledger.Record{Key: 7, Sequence: sequence}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	produced, err := r.client.ProduceSync(ctx, &kgo.Record{Topic: r.topic, Key: fmt.Append(nil, record.Key), Value: fmt.Appendf(nil, "%d x", sequence)}).First()
	r.check(err)
	p := ledger.Position{Partition: produced.Partition, Offset: produced.Offset}
	r.watch.produced(p, record)
	if !victim.died(time.Minute) {
		t.Fatalf("the actor never came to the mark %s", mark)
	}
	next := r.spawn()
	r.until("the channel is done with it", time.Minute, func() bool { return r.calls(ledger.Done, true, 1) > 0 })
	r.until("nothing waits", time.Minute, func() bool {
		return r.waiting() == 0 && r.watch.committed(map[int32]int64{p.Partition: p.Offset + 1})
	})
	r.until("the next actor is up", time.Minute, next.ready) // and takes signals
	next.stop()
	r.end.Queues = r.empty()
	report, _ := r.watch.judge(r.end)
	if len(report.Lost) > 0 || len(report.Wrong) > 0 || len(r.complaints) > 0 {
		t.Errorf("lost %v, wrong: %q, %q", report.Lost, report.Wrong, r.complaints)
	}
	if n := r.calls(ledger.HandedOver, false, from); again && n != 2 || n < 1 || n > 2 {
		t.Errorf("it was handed over %d times", n)
	}
}

// calls is how many calls of that attempt ended so.
func (r *run) calls(kind ledger.Kind, channel bool, attempt int) (n int) {
	r.watch.mu.Lock()
	defer r.watch.mu.Unlock()
	for _, e := range r.watch.entries {
		if e.Kind == kind && e.Channel == channel && e.Attempt == attempt {
			n++
		}
	}
	return n
}
