//go:build long

package chaos

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell/chaos/ledger"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/rabbit"
	"github.com/stepwell/stepwell/internal/testbroker"
)

// longWait is what a record asks for that "waits": see the child's. Without what is left of it
// after one hop it is over long before, also where an actor has to start meanwhile.
const longWait = 13500 * time.Millisecond

// A wait that no queue has is spent in several, and between two of them the message is in a process
// for a moment. That process dies at each step of the first hop.
func TestAHopKilledAtAnyStepIsMadeAgainAndTheMessageIsCalledOnceAndNotEarly(t *testing.T) {
	if testing.Short() {
		t.Skip(testbroker.NotRun + "actors are not killed with -short")
	}
	steps := slices.DeleteFunc([]hopStep{
		{"hop", 1, 0, 0},
		{"published", 2, 0, 1}, // it may not have reached the broker
		{"confirmed", 2, 1, 1},
		{"hopped", 1, 1, 1},
		{"ack", 1, 1, 1},
		{"acked", 1, 0, 1}, // nor may the ack
	}, func(step hopStep) bool { return !matches(step.name()) })
	if len(steps) == 0 {
		t.Skip(testbroker.NotRun + "no step of a hop is chosen")
	}
	child := buildChild(t)
	kafka := testbroker.StartKafka(t, testbroker.KafkaOptions{})
	for _, release := range releases() {
		s := &site{release: release, child: child, kafka: kafka, rabbit: testbroker.StartRabbitMQ(t, release, testbroker.RabbitOptions{})}
		for _, step := range steps {
			t.Run(release+", "+step.name(), func(t *testing.T) {
				t.Parallel()
				s.hopAndDie(t, step)
			})
		}
	}
}

// hopStep is a moment of a hop.
type hopStep struct {
	mark string
	// hit is which one is of the hop: before it the message was published and confirmed once, when
	// its try had failed.
	hit int
	// fewest and most are how many copies of the message the next actor removes uncalled.
	fewest, most int
}

func (step hopStep) name() string { return "an actor dies in a hop at: " + step.mark }

func (s *site) hopAndDie(t *testing.T, step hopStep) {
	r := s.quiet(t, scenario{name: t.Name()}, nil)
	ch := r.channel()
	r.makeRungs(ch)
	victim := r.dying(step.mark, step.hit)
	record := ledger.Record{Key: 7, Sequence: 41} // which succeeds, but for its wait
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	produced, err := r.client.ProduceSync(ctx, &kgo.Record{Topic: r.topic, Key: fmt.Append(nil, record.Key), Value: fmt.Appendf(nil, "%d waits 1", record.Sequence)}).First()
	r.check(err)
	p := ledger.Position{Partition: produced.Partition, Offset: produced.Offset}
	r.watch.produced(p, record)
	if !victim.died(time.Minute) {
		t.Fatalf("the actor never came to the mark %s", step.mark)
	}
	if n := r.calls(ledger.Began, false, 2); n > 0 {
		t.Fatal("the actor died when the wait was over, and not in the hop")
	}
	next := r.spawn()
	r.until("it is done", time.Minute, func() bool { return r.calls(ledger.Done, false, 2) > 0 })
	r.until("its copies are removed uncalled, and nothing waits", time.Minute, func() bool {
		return next.duplicates() >= step.fewest && r.inRungs(ch) == 0 && r.waiting() == 0 && r.watch.committed(map[int32]int64{p.Partition: p.Offset + 1})
	})
	if n := next.duplicates(); n > step.most {
		t.Errorf("%d copies were removed uncalled, want %d at most", n, step.most)
	}
	next.stop()
	r.end.Queues = r.empty()
	report, entries := r.watch.judge(r.end)
	if len(report.Lost) > 0 || len(report.Wrong) > 0 || len(r.complaints) > 0 {
		t.Errorf("lost %v, wrong: %q, %q", report.Lost, report.Wrong, r.complaints)
	}
	if n := r.calls(ledger.Began, false, 2); n != 1 {
		t.Errorf("it was called %d times after its wait", n)
	}
	if first := failed(entries); first.IsZero() || second(entries).Sub(first) < longWait {
		t.Errorf("it failed at %s and was called at %s, and had asked for %s", first, second(entries), longWait)
	}
}

// rungs are the queues that a long wait goes down.
func rungs() []time.Duration { return []time.Duration{time.Second, 5 * time.Second} }

// makeRungs makes them, as an earlier actor would have: where the first message that needs them has
// to wait for that, one whose wait is cut short comes no earlier than it may.
func (r *run) makeRungs(ch *amqp.Channel) {
	for _, rung := range rungs() {
		spec := queue.Spec{Name: r.queue(delayed(rung)), Kind: queue.Delay, TTL: rung, Target: r.queue("instant")}
		arguments, err := rabbit.Arguments(spec)
		r.check(err)
		_, err = ch.QueueDeclare(spec.Name, true, false, false, false, arguments)
		r.check(err)
	}
}

// inRungs is how many messages are in them.
func (r *run) inRungs(ch *amqp.Channel) (n int) {
	for _, rung := range rungs() {
		q, err := ch.QueueDeclarePassive(r.queue(delayed(rung)), true, false, false, false, nil)
		r.check(err)
		n += q.Messages
	}
	return n
}

// duplicates is how many messages the actor removed without a call.
func (p *process) duplicates() int {
	ctx, cancel := p.r.shortly()
	defer cancel()
	metrics, err := p.metrics(ctx)
	p.r.check(err)
	return int(metrics["stepwell_duplicates_total"])
}

// failed is when the first try did, and second when the next one began.
func failed(entries []ledger.Entry) time.Time { return timeOf(entries, 1, ledger.Failed) }
func second(entries []ledger.Entry) time.Time { return timeOf(entries, 2, ledger.Began) }

func timeOf(entries []ledger.Entry, attempt int, kind ledger.Kind) (at time.Time) {
	for _, e := range entries {
		if e.Attempt == attempt && e.Kind == kind {
			return e.Time
		}
	}
	return at
}
