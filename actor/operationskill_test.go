package actor_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/failpoint"
	"github.com/stepwell/stepwell/internal/testbroker"
)

// victim is an actor that only serves /v1, until it kills itself at the mark.
type victim struct {
	t       *testing.T
	address string
	cmd     *exec.Cmd
}

func (w *world) victim(t *testing.T, mark string) *victim {
	t.Helper()
	v := &victim{t: t, address: testbroker.Address(t)}
	v.cmd = w.actorCommand(t, nil, settings{"MODES": "api", "SERVER_ADDRESS": v.address, failpoint.Variable: mark})
	if err := v.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = v.cmd.Process.Kill() }) // it has ended, unless the test failed
	eventually(t, "it knows the records", func() bool {
		status, _ := v.do("GET", "/v1/dead_set/operations", "", "")
		return status == 200
	})
	return v
}

// do sends a request; status 0: there was no answer.
func (v *victim) do(method, path, body, key string) (status int, text string) {
	req, err := http.NewRequestWithContext(v.t.Context(), method, "http://"+v.address+path, strings.NewReader(body))
	if err != nil {
		v.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, ""
	}
	defer resp.Body.Close()
	data, _ := io.ReadAll(resp.Body) // it may be killed in it
	return resp.StatusCode, string(data)
}

// The process that runs an operation is killed at each of its steps. Another goes on; nothing is
// lost, nothing else is touched, and no more is done than was asked for.
func TestAnOperationWhoseProcessIsKilledAtAnyStepGoesOnInAnother(t *testing.T) {
	if testing.Short() {
		t.Skip(testbroker.NotRun + "processes that are killed again and again, because of -short")
	}
	t.Parallel()
	onBrokers(t, func(t *testing.T, w *world) {
		k := &killing{w: w}
		app := orders(func(_ context.Context, m *stepwell.Message) error {
			if m.Replays == 0 {
				return stepwell.DeadLetter(errors.New("not mended"))
			}
			k.handled.add(m)
			return nil
		})
		k.one = w.start(app, nil)
		k.one.ready()
		k.other = w.start(app, settings{"MODES": "api"}) // three replicas, with the victim
		k.other.ready()
		for _, action := range []string{"replay", "delete", "trash"} {
			for _, mark := range []string{
				"operation asked:1", "operation begun:1", "operation promised:1", "walk held:1", "walk published:3", "walk confirmed:3", "walk acked:1", "walk closed:1",
				"operation promised:2", "operation ends:1",
			} {
				if action == "delete" && (strings.HasPrefix(mark, "walk published") || strings.HasPrefix(mark, "walk confirmed")) {
					continue // nothing is published
				}
				t.Run(action+" at "+mark, func(t *testing.T) { k.at(t, action, mark) })
			}
		}
	})
}

type killing struct {
	w          *world
	one, other *running
	handled    calls
	round      int
}

// at kills the process at the mark.
func (k *killing) at(t *testing.T, action, mark string) {
	n := 40
	k.round++
	before := k.values("chosen", n)
	k.w.produce(values(before...)...)
	k.one.deadCount(n)
	v := k.w.victim(t, mark)
	handled := len(k.handled.all())
	key := fmt.Sprintf("%s-%d", k.w.app, k.round)
	does, forever := action, ""
	switch action {
	case "delete":
		forever = `,"forever":true`
	case "trash":
		does = "delete"
	}
	body := fmt.Sprintf(`{"action":%q,"stream":"orders","select":{"filter":{"value":"chosen"}},"expect":%d,"before":%q,"rate":"15/s"%s}`,
		does, n, time.Now().UTC().Format(time.RFC3339Nano), forever)
	status, text := v.do("POST", "/v1/dead_set/operations", body, key)
	later := k.values("chosen later", 5) // died after it was asked for
	k.w.produce(values(later...)...)
	_ = v.cmd.Wait() // says that it was killed
	died := time.Now()
	if v.cmd.ProcessState.String() != "signal: killed" {
		t.Fatalf("%s at %s: %s", action, mark, v.cmd.ProcessState)
	}
	survivor := &victim{t: t, address: k.other.actor.Address()}
	again, text2 := survivor.do("POST", "/v1/dead_set/operations", body, key) // finds it, or makes it where it was not stored
	if again != 200 && again != 202 || status == 202 && again != 200 {
		t.Fatalf("%s at %s: %d %s; again: %d %s", action, mark, status, text, again, text2)
	}
	var o map[string]any
	eventually(t, "it is known", func() bool {
		_, list := k.one.do("GET", "/v1/dead_set/operations?limit=1", "")
		all := list["operations"].([]any)
		if len(all) == 1 {
			o = all[0].(map[string]any)
		}
		return o != nil
	})
	path := fmt.Sprint("/v1/dead_set/operations/", o["id"])
	eventually(t, "another process has it", func() bool {
		_, o = k.one.do("GET", path, "")
		return o["resumed"] != nil || strings.HasPrefix(mark, "operation asked")
	})
	took := time.Since(died)
	eventually(t, "it is over", func() bool {
		_, o = k.one.do("GET", path, "")
		return o["state"] != "queued" && o["state"] != "running"
	})
	if o["state"] != "done" || o["done"] != float64(n) {
		t.Errorf("%s at %s: %v", action, mark, o)
	}
	t.Logf("%s killed at %s: taken over after %d ms", action, mark, took.Milliseconds())
	// All that came later is there, in its order, and nothing else.
	if left := valuesOf(k.one.deadCount(len(later))); left != strings.Join(later, " ") {
		t.Errorf("%s at %s: left %s", action, mark, left)
	}
	if action == "trash" {
		if got := valuesOf(k.one.inTrash(fmt.Sprint("&limit=500&operation=", o["id"]))); got != strings.Join(before, " ") {
			t.Errorf("%s at %s: in the trash %s", action, mark, got)
		}
	}
	if action == "replay" {
		eventually(t, "all are handled", func() bool { return len(k.handled.all()) >= handled+n })
		got := map[string]bool{}
		for _, m := range k.handled.all()[handled:] {
			got[string(m.m.Value)] = true
		}
		if lost := slices.DeleteFunc(before, func(v string) bool { return got[v] }); len(lost) > 0 || len(got) != n {
			t.Errorf("%s at %s: lost %v; %d of %d handled", action, mark, lost, len(got), n)
		}
	} else if more := len(k.handled.all()) - handled; more > 0 {
		t.Errorf("%s at %s: %d handled", action, mark, more)
	}
	if status, answer := k.one.do("DELETE", "/v1/dead_set", fmt.Sprintf(`{"count":%d,"stream":"orders"}`, len(later))); status != 200 {
		t.Fatalf("%d %v", status, answer)
	}
}

// values are new ones that begin so.
func (k *killing) values(beginning string, n int) (all []string) {
	for i := range n {
		all = append(all, strings.ReplaceAll(fmt.Sprintf("%s-%d-%d", beginning, k.round, i), " ", "-"))
	}
	return all
}
