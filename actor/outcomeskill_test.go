package actor_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/failpoint"
	"github.com/stepwell/stepwell/internal/testbroker"
)

// A process that has the canary is killed: while its handlers run, and after it handled and acked
// the canary and before it told anybody. What it did not tell is unknown, and unknown is not
// handled: the operation pauses, says what to do, and has touched nothing but the canary.
func TestACanaryWhoseProcessIsKilledIsUnknownAndTheReplayPauses(t *testing.T) {
	if testing.Short() {
		t.Skip(testbroker.NotRun + "processes that are killed, because of -short")
	}
	t.Parallel()
	const n, canary = 12, 4
	for name, test := range map[string]struct {
		role, value string
		env         settings
	}{
		"while its handlers run": {"hold:+", "bad", settings{"CONCURRENCY": fmt.Sprint(canary)}},
		// One after another: it has told of the first, and is about to tell of the others, a second
		// after that.
		"when it is about to tell what it handled": {"telling", "good", settings{"CONCURRENCY": "1", failpoint.Variable: "outcomes:2"}},
	} {
		t.Run(name, func(t *testing.T) {
			onBrokers(t, func(t *testing.T, w *world) {
				var handled calls
				app := orders(func(_ context.Context, m *stepwell.Message) error {
					if m.Replays == 0 {
						return stepwell.DeadLetter(errors.New("not mended"))
					}
					handled.add(m)
					return nil
				})
				first := w.start(app, nil)
				w.produce(several(test.value, n)...)
				first.deadCount(n)
				first.end()
				r := w.start(app, settings{"MODES": "api"})
				r.ready()
				cmd := w.actorCommand(t, nil, settings{roleVariable: test.role}.with(test.env))
				k := read(t, cmd)
				_, o := r.do("POST", "/v1/dead_set/operations", fmt.Sprintf(`{"action":"replay","stream":"orders","select":{"all":true},"canary":%d,"canary_wait":"4s"}`, canary))
				path := fmt.Sprint("/v1/dead_set/operations/", o["id"])
				dies := test.env[failpoint.Variable] != ""
				if !dies {
					eventually(t, "it has the canary", func() bool { _, held := k.y.count(); return held == canary })
					k.kill(t)
				} else if _ = k.cmd.Wait(); k.cmd.ProcessState.String() != "signal: killed" {
					t.Fatalf("the process ended: %s", k.cmd.ProcessState)
				}
				eventually(t, "the replay pauses", func() bool { _, o = r.do("GET", path, ""); return o["state"] == "paused" })
				known := int(o["outcome"].(map[string]any)["handled"].(float64))
				why := fmt.Sprint(o["why"])
				if o["done"] != float64(canary) || known == canary || !hasAll(why, fmt.Sprintf("canary %d were handled within 4s, and nobody told of the others", known), "whether a process died", "resume", "cancel") {
					t.Errorf("%v", o)
				}
				r.outcomeOf(o["id"], outcome(known, 0, 0, canary-known))
				r.deadCount(n - canary)
				// What it did is acked long before it tells of it.
				waits := canary - k.done()
				eventually(t, "what it had not done waits", func() bool { return r.depths()[w.queue("orders", "instant")] == waits })
				if dies && waits+known == canary {
					t.Fatalf("it was killed with nothing to tell: %d known, %d wait", known, waits)
				}
				w.start(app, settings{"MODES": "streams,retries"})
				known += waits
				r.outcomeOf(o["id"], outcome(known, 0, 0, canary-known))
				if status, o := r.do("PATCH", path, `{"state":"running"}`); status != 200 {
					t.Fatalf("%d %v", status, o)
				}
				eventually(t, "it is done", func() bool { _, o = r.do("GET", path, ""); return o["state"] == "done" })
				r.outcomeOf(o["id"], outcome(n-canary+known, 0, 0, canary-known))
				if o["done"] != float64(n) || len(handled.all()) != n-canary+waits {
					t.Errorf("%d handled: %v", len(handled.all()), o)
				}
			})
		})
	}
}

// done is how many messages a telling one says that are done.
func (k *worker) done() (n int) {
	k.y.mu.Lock()
	defer k.y.mu.Unlock()
	for value := range k.y.tries {
		if strings.HasPrefix(value, "done ") {
			n++
		}
	}
	return n
}
