package retry

import (
	"context"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/cause"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/outcomes"
	"github.com/stepwell/stepwell/internal/queue"
)

// taken is a publisher that keeps the last message.
type taken struct{ queue.Message }

func (p *taken) Publish(_ context.Context, _ string, m queue.Message, done func(error)) {
	p.Message = m
	done(nil)
}

type silent struct{ Telemetry }

func (silent) Publish(_, _, _ string) func(error) { return func(error) {} }
func (silent) Died(string)                        {}

// condemned is the failure of a record that killed the process: nobody returned an error.
type condemned string

func (c condemned) Error() string   { return string(c) }
func (condemned) ErrorType() string { return "" }

func TestWhatKilledTheProcessIsOneCauseAsARecordAndAsARetryAndTheTryThatKilledCounts(t *testing.T) {
	const text = "the process died each time the message ran"
	groups := map[string]bool{}
	for name, test := range map[string]struct {
		before int // tries
		bury   func(*parking, *envelope.Envelope)
	}{
		"a record": {0, func(k *parking, e *envelope.Envelope) {
			k.park(t.Context(), k.pack(e, Failure{Err: condemned(text), Reason: stepwell.ReasonCrashLoop}), func(error) {})
		}},
		"a retry": {1, func(k *parking, e *envelope.Envelope) {
			k.Bury(t.Context(), e, stepwell.ReasonCrashLoop, text, func(error) {})
		}},
	} {
		var p taken
		k := &parking{topology: Topology{DeadSet: "dead"}, publisher: &p, telemetry: silent{}, tell: func(Death) {}, outcome: func(outcomes.Event) {}}
		e := &envelope.Envelope{Message: stepwell.Message{ID: "orders.v1:0:1", Time: time.Now(), Attempt: test.before + 1}, AttemptsTotal: test.before}
		test.bury(k, e)
		dead, err := envelope.Decode(p.Message)
		if err != nil {
			t.Fatal(err)
		}
		if dead.Message.Attempt != test.before+1 || dead.AttemptsTotal != test.before+1 {
			t.Errorf("%s: dead after attempt %d, of %d in all", name, dead.Message.Attempt, dead.AttemptsTotal)
		}
		f := dead.Failure
		group, _ := cause.Death{Reason: f.Reason, ErrorType: f.ErrorType, Error: f.Error, Stack: f.Stack}.Group()
		groups[group] = true
		if f.ErrorType != "" || f.Error != text {
			t.Errorf("%s: %q of type %q", name, f.Error, f.ErrorType)
		}
	}
	if len(groups) != 1 {
		t.Errorf("%d causes: %v", len(groups), groups)
	}
}
