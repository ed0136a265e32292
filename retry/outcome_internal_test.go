package retry

import (
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/outcomes"
)

func TestTheOutcomeOfWhatNoOperationReplayedAllocatesNothing(t *testing.T) {
	k := &parking{outcome: func(outcomes.Event) { t.Error("told") }}
	for name, extra := range map[string]map[string]any{"no other headers": nil, "headers of somebody else": {"x-other": "x"}} {
		e := &envelope.Envelope{Message: stepwell.Message{ID: "orders.v1:0:1"}, Extra: extra}
		if n := testing.AllocsPerRun(100, func() { k.tellOutcome(e, 1, outcomes.Handled) }); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
