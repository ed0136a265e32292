package retry_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/embedded/memory"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/outcomes"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/task"
	"github.com/stepwell/stepwell/retry"
)

// told are the events of a test.
type told struct {
	mu  sync.Mutex
	all []string
}

func (o *told) tell(e outcomes.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, fmt.Sprintf("%s %d try %d %s", e.Operation, e.Kind, e.Attempt, e.Canary))
}

func (o *told) now() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return fmt.Sprint(o.all)
}

// replays puts a message into the instant queue as a replay with this mark does.
func (w *world) replays(id, value string, mark envelope.Mark) {
	w.t.Helper()
	e := &envelope.Envelope{Message: stepwell.Message{ID: id, Stream: "orders", Value: []byte(value), Attempt: 1, Replays: 1}}
	w.broker.Publisher("replay").Publish(w.t.Context(), w.retrier.Topology().Instant, envelope.Marked(e.Encode(), mark), func(err error) {
		if err != nil {
			w.t.Error(err)
		}
	})
}

func TestWhatAnOperationReplayedIsToldAndNothingElse(t *testing.T) {
	inWorld(t, retry.Linear(s, 0, 2), func(w *world) {
		var o told
		w.cfg.Outcome = o.tell
		w.renew()
		verdicts := map[string]int{"works": 1, "works at the second try": 2, "dies": 9}
		r := w.start(func(_ context.Context, m *stepwell.Message, t retry.Ticket) task.Outcome {
			if m.Attempt >= verdicts[string(m.Value)] {
				return task.Settled
			}
			t.Fail(retry.Failure{Err: errAway})
			return task.Pending
		})
		for i, step := range []struct {
			value string
			mark  envelope.Mark
			want  string
		}{
			{"works", envelope.Mark{}, "[]"},
			{"dies", envelope.Mark{}, "[]"},
			{"works", envelope.Mark{Operation: "no operation of ours"}, "[]"},
			{"works", envelope.Mark{Operation: "op_1"}, "[op_1 1 try 1 ]"},
			{"works", envelope.Mark{Operation: "op_1", Canary: true}, "[op_1 1 try 1 m4]"},
			{"works at the second try", envelope.Mark{Operation: "op_1"}, "[op_1 2 try 1  op_1 1 try 2 ]"},
			{"dies", envelope.Mark{Operation: "op_1", Canary: true}, "[op_1 2 try 1 m6 op_1 2 try 2 m6 op_1 3 try 3 m6]"},
		} {
			w.replays(fmt.Sprint("m", i), step.value, step.mark)
			time.Sleep(5 * s)
			synctest.Wait()
			if got := o.now(); got != step.want {
				t.Errorf("%s with %+v: %s", step.value, step.mark, got)
			}
			o.all = nil
		}
		r.end()
	})
}

// What is wrong where outcomes are told is nothing to a message: it is settled, or parked, before
// anybody hears of it, or beside that.
func TestAMessageIsParkedBeforeItsOutcomeIsTold(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		depth := -1
		w.cfg.Outcome = func(e outcomes.Event) {
			var err error
			if depth, err = w.broker.Depth(context.Background(), w.retrier.Topology().DeadSet); err != nil || e.Kind != outcomes.Died {
				w.t.Errorf("%+v: %v", e, err)
			}
		}
		w.renew()
		r := w.start(func(_ context.Context, _ *stepwell.Message, t retry.Ticket) task.Outcome {
			t.Fail(retry.Failure{Err: errAway})
			return task.Pending
		})
		w.replays("x", "x", envelope.Mark{Operation: "op_1"})
		time.Sleep(s)
		synctest.Wait()
		r.end()
		if depth != 1 {
			t.Errorf("told with %d in the dead set", depth)
		}
	})
}

// BenchmarkOutcome is what a message costs from the instant queue to its end, on queues in memory:
// where no operation replayed it, which is to cost as much as if nobody counted, and where one did.
func BenchmarkOutcome(b *testing.B) {
	for name, mark := range map[string]envelope.Mark{"unmarked": {}, "marked": {Operation: "op_0123456789abcdefghijklmnop"}, "canary": {Operation: "op_0123456789abcdefghijklmnop", Canary: true}} {
		for verdict, err := range map[string]error{"handled": nil, "dies": errors.New("away")} {
			b.Run(verdict+"/"+name, func(b *testing.B) {
				broker := memory.New()
				ctx, cancel := context.WithCancel(b.Context())
				var running sync.WaitGroup
				defer running.Wait()
				defer cancel()
				running.Go(func() { _ = broker.Run(ctx) })
				ends := make(chan struct{}, 1)
				book := outcomes.New(nil, "here", nil)
				r, failed := retry.New(retry.Config{
					App: "app", Stream: "orders", Broker: broker, Logger: slog.New(slog.DiscardHandler), Workers: 1,
					Telling: retry.Telling{Outcome: book.Tell, Died: func(retry.Death) { ends <- struct{}{} }},
				})
				if failed != nil {
					b.Fatal(failed)
				}
				if err := r.Declare(ctx); err != nil {
					b.Fatal(err)
				}
				running.Go(func() {
					_ = r.Run(ctx, ctx, func(_ context.Context, _ *stepwell.Message, t retry.Ticket) task.Outcome {
						if err != nil {
							t.Fail(retry.Failure{Err: err})
							return task.Pending
						}
						ends <- struct{}{}
						return task.Settled
					})
				})
				e := &envelope.Envelope{Message: stepwell.Message{Stream: "orders", Value: make([]byte, 100), Attempt: 1, Replays: 1}}
				p := broker.Publisher("replay")
				ids := make([]queue.Message, b.N)
				for i := range ids {
					e.Message.ID = fmt.Sprint("orders.v1:0:", i)
					ids[i] = envelope.Marked(e.Encode(), mark)
				}
				b.ReportAllocs()
				b.ResetTimer()
				for _, m := range ids {
					p.Publish(ctx, r.Topology().Instant, m, func(error) {})
					<-ends
				}
			})
		}
	}
}
