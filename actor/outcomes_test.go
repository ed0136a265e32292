package actor_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/internal/queue"
)

// outcome is what an operation tells of its messages.
func outcome(handled, failed, died, unknown int) string {
	return fmt.Sprintf("%d handled, %d failed, %d died, %d unknown", handled, failed, died, unknown)
}

// outcomeOf waits until the operation tells this of its messages.
func (r *running) outcomeOf(id any, want string) {
	r.t.Helper()
	got := ""
	eventually(r.t, "the outcome is "+want, func() bool {
		_, o := r.do("GET", fmt.Sprint("/v1/dead_set/operations/", id), "")
		of, _ := o["outcome"].(map[string]any)
		now := fmt.Sprintf("%v handled, %v failed, %v died, %v unknown", of["handled"], of["failed"], of["died"], of["unknown"])
		if now != got {
			r.t.Logf("the outcome is %s", now)
		}
		got = now
		return got == want
	})
}

// The process that runs the operation handles nothing: what becomes of its messages it has from the
// one that does.
func TestAReplayKnowsWhatBecameOfItsMessagesInAnotherProcess(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		const n = 30
		var mended [3]atomic.Bool
		var handled calls
		app := ofThreeCauses(&mended, &handled)
		r := w.start(app, nil)
		w.produce(numbered(n)...)
		r.deadCount(n)
		r.end()
		w.start(app, settings{"MODES": "streams,retries"})
		r = w.start(app, settings{"MODES": "api"})
		r.ready()
		mended[0].Store(true)
		o := r.operate(`{"action":"replay","stream":"orders","select":{"all":true},"canary":4}`)
		if why := fmt.Sprint(o["why"]); o["state"] != "paused" || o["done"] != 4.0 || !hasAll(why, "of the 4 messages of the canary", "failed a try") {
			t.Fatalf("a canary of which some die: %v", o)
		}
		r.outcomeOf(o["id"], outcome(2, 2, 2, 0))
		for i := range mended {
			mended[i].Store(true)
		}
		if status, _ := r.do("PATCH", fmt.Sprint("/v1/dead_set/operations/", o["id"]), `{"state":"cancelled"}`); status != 200 {
			t.Fatalf("cancel: %d", status)
		}
		left := len(r.dead(n))
		o = r.operate(`{"action":"replay","stream":"orders","select":{"all":true},"canary":4,"stop_at":"5%"}`)
		if o["state"] != "done" || o["done"] != float64(left) || o["canary_over"] != true {
			t.Fatalf("of %d: %v", left, o)
		}
		r.outcomeOf(o["id"], outcome(left, 0, 0, 0))
	})
}

// thirds is what a handler says of what was replayed: a third each works, works at the second try,
// and dies. Before that all die.
func thirds(_ context.Context, m *stepwell.Message) error {
	n := 0
	if _, err := fmt.Sscan(string(m.Value), &n); err != nil {
		return err
	}
	switch {
	case m.Replays == 0 || n%3 == 2:
		return stepwell.DeadLetter(errors.New("not mended"))
	case n%3 == 1 && m.Attempt == 1:
		return errFlaky
	}
	return nil
}

func TestWhatBecomesOfAReplayIsToldByWhateverHandlesIt(t *testing.T) {
	dies := func(_ context.Context, m *stepwell.Message) error {
		if m.Replays == 0 {
			return stepwell.DeadLetter(errors.New("not mended"))
		}
		return stepwell.To("slow")
	}
	for name, test := range map[string]struct {
		stream actor.Stream
		env    settings
		want   string
	}{
		"a handler":                     {actor.Stream{Handler: thirds}, nil, outcome(8, 8, 4, 0)},
		"a handler with tries in place": {actor.Stream{Handler: thirds}, settings{"RETRY_IN_PLACE": "all"}, outcome(8, 8, 4, 0)},
		"a batch":                       {actor.Stream{Batch: eachOf(thirds)}, nil, outcome(8, 8, 4, 0)},
		"a batch with tries in place":   {actor.Stream{Batch: eachOf(thirds)}, settings{"RETRY_IN_PLACE": "all"}, outcome(8, 8, 4, 0)},
		"a channel":                     {actor.Stream{Handler: dies, Channels: actor.Channels{"slow": {Handler: thirds}}}, nil, outcome(8, 8, 4, 0)},
		"OnDead, which takes over what dies": {
			actor.Stream{Handler: thirds, OnDead: func(_ context.Context, m *stepwell.Message, err error) error {
				if m.Replays == 0 {
					return err
				}
				return nil
			}}, nil, outcome(12, 4, 0, 0),
		},
		"OnDead, which does not": {
			actor.Stream{Handler: thirds, OnDead: func(_ context.Context, _ *stepwell.Message, err error) error { return err }}, nil, outcome(8, 8, 4, 0),
		},
	} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, func(t *testing.T, w *world) {
				r := w.start(actor.App{Streams: actor.Streams{"orders": test.stream}}, test.env)
				w.produce(numbered(12)...)
				r.deadCount(12)
				o := r.operate(`{"action":"replay","stream":"orders","select":{"all":true}}`)
				if o["state"] != "done" || o["done"] != 12.0 {
					t.Fatalf("%v", o)
				}
				r.outcomeOf(o["id"], test.want)
			})
		})
	}
}

// Where RabbitMQ allows no stream, or its place is taken, a process tells what it handled itself;
// messages are handled and settled as ever, and where others have the canary it says so.
func TestWhereProcessesCannotShareMessagesAreHandledAndACanaryOfOthersSaysSo(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		const n = 30
		taken := []queue.Spec{{Name: w.app + ".records", Kind: queue.DeadSet}}
		var mended [3]atomic.Bool
		var handled calls
		app := ofThreeCauses(&mended, &handled)
		if err := w.broker().Declare(t.Context(), taken); err != nil {
			t.Fatal(err)
		}
		r := w.start(app, nil)
		w.produce(numbered(n)...)
		r.deadCount(n)
		mended[0].Store(true)
		mended[1].Store(true)
		o := r.operate(`{"action":"replay","stream":"orders","select":{"filter":{"error":"status 503"}},"canary":4}`)
		if o["state"] != "done" || o["canary_over"] != true {
			t.Fatalf("of its own: %v", o)
		}
		r.outcomeOf(o["id"], outcome(n/3, 0, 0, 0))
		other := w.start(app, settings{"MODES": "api"})
		other.ready()
		eventually(t, "it knows that nothing is shared", func() bool {
			status, _ := other.do("GET", "/v1/dead_set/operations", "")
			return status == 200
		})
		o = other.operate(`{"action":"replay","stream":"orders","select":{"filter":{"error":"no such customer"}},"canary":4,"canary_wait":"2s"}`)
		why := fmt.Sprint(o["why"])
		if o["state"] != "paused" || !hasAll(why, "of the 4 messages of the canary 0 were handled within 2s", "what other processes handled is not known", w.app+".records") {
			t.Errorf("of another process: %v", o)
		}
		eventually(t, "all that was replayed is handled", func() bool { return len(handled.all()) == n/3+4 })
		if _, ready, text := r.health(); ready != 200 || strings.Contains(text, "shared records") {
			t.Errorf("%d %s", ready, text)
		}
	})
}
