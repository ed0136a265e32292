package actor_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/internal/envelope"
)

// What a replay leaves out unless it is asked for is said in the request, and known to the dead
// set: the one has to reach the other.
func TestAReplayOfAChoiceLeavesOutWhatKilledTheProcessAndWhatNobodyBuriedUnlessAsked(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var handled calls
		r := w.start(actor.App{Streams: actor.Streams{"orders": {Handler: func(_ context.Context, m *stepwell.Message) error {
			handled.add(m)
			return nil
		}}}}, nil)
		r.ready()
		lies := w.broker().Publisher("test")
		for i, test := range []struct {
			id, reason string
			died       time.Time
		}{{"t:0:1", stepwell.ReasonCrashLoop, time.Now()}, {"t:0:2", stepwell.ReasonDeadLetter, time.Time{}}, {"t:0:3", stepwell.ReasonDeadLetter, time.Now()}} {
			e := envelope.Envelope{
				Message:       stepwell.Message{ID: test.id, Stream: "orders", Value: []byte("x"), Attempt: 1, Origin: stepwell.Origin{Topic: "t", Offset: int64(i + 1)}},
				AttemptsTotal: 1, DiedAt: test.died, Failure: envelope.Failure{Reason: test.reason, At: test.died},
			}
			stored := make(chan error, 1)
			lies.Publish(t.Context(), w.queue("orders", "dead_set"), e.Encode(), func(err error) { stored <- err })
			if err := <-stored; err != nil {
				t.Fatal(err)
			}
		}
		r.deadCount(3)
		for _, step := range []struct {
			asks             string
			left             int
			looping, undated float64
		}{
			{`"select":{"all":true}`, 2, 1, 1},
			{`"select":{"all":true},"include_crash_loop":true`, 1, 0, 1},
			{`"select":{"ids":["t:0:2"]}`, 0, 0, 0},
		} {
			o := r.operate(`{"action":"replay","stream":"orders",` + step.asks + `}`)
			out, _ := o["left_out"].(map[string]any)
			if o["state"] != "done" || o["done"] != 1.0 || out["crash_loop"] != step.looping || out["undated"] != step.undated {
				t.Errorf("%s: %v", step.asks, o)
			}
			r.deadCount(step.left)
			eventually(t, fmt.Sprint(3-step.left, " are handled"), func() bool { return len(handled.all()) == 3-step.left })
		}
	})
}
