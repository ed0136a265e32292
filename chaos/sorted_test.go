package chaos

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// inPages makes pages of some dozen messages, so that a sort fills several.
var inPages = settings{"DEAD_SET_WALK_BYTES": "30000"}

// sorted are sorts of the dead set by an actor that dies in them, while records go on dying.
// Nothing may be lost, and nothing may be there twice. In the end all is moved back, and judged as
// what was never sorted. Kills of replays and deletes over pages are tested in package deadset.
func sorted() []scenario {
	var all []scenario
	for _, mark := range []string{"pages proven", "page read", "walk held", "walk published", "walk confirmed", "walk acked", "walk closed", "page filled"} {
		all = append(all, scenario{name: "an actor dies in a sort at: " + mark, lone: true, env: inPages, fault: func(r *run) {
			r.dieInSort(mark)
			r.unsort()
		}})
	}
	return all
}

// dieInSort asks an actor for sorts, which dies at the mark, three times.
func (r *run) dieInSort(mark string) {
	for n := range 3 {
		r.dyingOften(mark, n).diesOf(sortBody("sort"))
	}
	r.operate("sort") // behind those that were begun, which any actor goes on with
}

// dyingOften starts an actor that dies at the mark, for the n-th time, and waits until there is
// enough to do.
func (r *run) dyingOften(mark string, n int) *process {
	r.t.Helper()
	most := 20
	if mark != "walk published" && mark != "walk confirmed" { // once a page, or a turn
		most = 2
	}
	p := r.dying(mark, 1+r.random.IntN(most))
	r.until("it is ready", time.Minute, p.ready)
	r.until("some are dead", time.Minute, func() bool { _, dead := r.watch.done(); return dead > 60*(n+1) })
	return p
}

// diesOf asks an actor for operations until it dies of one. Who runs them goes on while there is
// something to run: only behind the last does this one, since it is asked. Of some there is too
// little to do.
func (p *process) diesOf(body string) {
	p.r.t.Helper()
	p.r.until("it dies", 4*time.Minute, func() bool {
		if _, over := p.operations(); over {
			_, _, _ = p.do(p.r.t.Context(), http.MethodPost, operationsPath, body) // it may die before it has answered
		}
		return p.died(300 * time.Millisecond)
	})
}

const operationsPath = "/v1/dead_set/operations"

// sortBody asks for a sort, or its way back, of all actors: they are of one release.
func sortBody(action string) string {
	if action == "sort" {
		return `{"action":"sort","stream":"orders","force":true}`
	}
	return fmt.Sprintf(`{"action":%q,"stream":"orders"}`, action)
}

// operation is one as an actor tells of it.
type operation struct {
	ID, Action, State, Why string
	Done                   int
	Select                 struct{ Operation string } // the delete that a restore undoes
}

// operations are those that the actor knows; over says that none waits or runs.
func (p *process) operations() (all []operation, over bool) {
	var list struct{ Operations []operation }
	status, text, err := p.do(p.r.t.Context(), http.MethodGet, operationsPath, "")
	if err != nil || status != http.StatusOK || json.Unmarshal([]byte(text), &list) != nil {
		return nil, false
	}
	return list.Operations, !slices.ContainsFunc(list.Operations, func(o operation) bool { return o.State == "queued" || o.State == "running" })
}

// asked asks a living actor for an operation, and returns its id.
func (r *run) asked(body string) (id string) {
	r.t.Helper()
	r.until("it is asked for: "+body, time.Minute, func() bool {
		status, text, err := r.actors[0].do(r.t.Context(), http.MethodPost, operationsPath, body)
		var o operation
		if err != nil || status != http.StatusAccepted || json.Unmarshal([]byte(text), &o) != nil {
			return false
		}
		id = o.ID
		return true
	})
	return id
}

// over waits until no operation waits or runs, and returns all.
func (r *run) over() (all []operation) {
	r.t.Helper()
	r.until("operations are over", 4*time.Minute, func() (over bool) {
		all, over = r.actors[0].operations()
		return over
	})
	return all
}

// operate asks a living actor for a sort, or its way back, and waits until that and all that were
// asked for before are over.
func (r *run) operate(action string) {
	r.t.Helper()
	r.asked(sortBody(action))
	moved := 0
	for _, o := range r.over() {
		if moved += o.Done; o.State != "done" {
			r.complain("a %s is %s: %s", o.Action, o.State, o.Why)
		}
	}
	if moved == 0 {
		r.complain("nothing was moved")
	}
}

// unsort moves all back, so that the judge finds it where the dead arrive. Nothing that was killed
// before may have left a message twice.
func (r *run) unsort() {
	r.t.Helper()
	r.single = true
	r.operate("unsort")
}

// once complains about what is twice in the dead set though it died once. A message may die twice,
// as where its process is killed between its burial and its ack, but not at one moment.
func (r *run) once() {
	r.t.Helper()
	twice := 0
	for _, n := range r.deaths {
		if n > 1 {
			twice++
		}
	}
	if r.single && twice > 0 {
		r.complain("%d of %d dead messages are there twice", twice, len(r.deaths))
	}
}
