package retry_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/task"
	"github.com/stepwell/stepwell/retry"
)

// publishes notes what is told of publishes, beside what is counted.
type publishes struct {
	*counts
	mu   sync.Mutex
	told []string
}

func (p *publishes) Publish(id, traceParent, _ string) func(error) {
	p.note(id + " of " + traceParent + " begins")
	return func(err error) {
		if err != nil {
			p.note(id + " is lost")
		} else {
			p.note(id + " is safe")
		}
	}
}

func (p *publishes) note(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told = append(p.told, what)
}

// taken is what was told since the last time.
func (p *publishes) taken() []string {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	told := p.told
	p.told = nil
	return told
}

func TestEachMessageThatIsParkedIsToldAsAPublishAndWhatIsOnlyPutOffIsNot(t *testing.T) {
	inWorld(t, retry.Linear(time.Minute, 0, 3), func(w *world) {
		p := &publishes{counts: w.counts}
		w.cfg.Telemetry = p
		w.renew()
		ctx, safe := w.t.Context(), func(error) { p.note("done") }
		m := &stepwell.Message{ID: "t:0:1", Attempt: 1, Origin: stepwell.Origin{Topic: "t", Offset: 1}}
		want := []string{"t:0:1 of first begins", "t:0:1 is safe", "done"}
		if w.retrier.Fail(ctx, m, nil, retry.Failure{Err: errAway, TraceParent: "first"}, safe); !slices.Equal(p.taken(), want) {
			w.t.Errorf("a failure, want %v", want)
		}
		handed := []string{"t:0:1@ of first begins", "t:0:1@ is safe", "done"} // with the channel's name, of which there is none
		if w.retrier.Hand(ctx, m, nil, "first", "", safe); !slices.Equal(p.taken(), handed) {
			w.t.Errorf("a hand-over, want %v", handed)
		}
		if w.retrier.Snooze(ctx, m, nil, time.Minute, safe); !slices.Equal(p.taken(), want[2:]) {
			w.t.Errorf("a snooze, want %v", want[2:])
		}
		err := w.retrier.Enqueue(ctx, m, 0, "first", "")
		if told := p.taken(); err != nil || !slices.Equal(told, want[:2]) {
			w.t.Errorf("what is enqueued: %v, %v; want %v", told, err, want[:2])
		}
		r := w.start(func(_ context.Context, _ *stepwell.Message, tk retry.Ticket) task.Outcome {
			tk.Fail(retry.Failure{Err: errAway, TraceParent: "first"})
			return task.Pending
		})
		time.Sleep(time.Second) // what was handed over and what was enqueued fails
		if told := p.taken(); len(told) != 4 || !slices.Contains(told, want[0]) || !slices.Contains(told, want[1]) {
			w.t.Errorf("failures of what came again: %v", told)
		}
		r.end()
		w.retrier.Close()
	})
}
