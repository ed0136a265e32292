package chaos

import (
	"fmt"
	"net/http"
	"time"
)

// trashed are deletes of all that is dead into the trash, and what undoes them, by an actor that
// dies in them, while records go on dying. In the end all is restored, and judged as what was never
// deleted: nothing may be lost, and nothing may be there twice.
func trashed() []scenario {
	var all []scenario
	for _, mark := range []string{"pages proven", "page read", "walk held", "walk published", "walk confirmed", "walk acked", "walk closed", "page filled"} {
		all = append(all, scenario{name: "an actor dies in a delete into the trash at: " + mark, lone: true, env: inPages, fault: func(r *run) {
			r.dieInTrash(mark)
			r.restore()
		}})
	}
	for _, mark := range []string{"walk held", "walk published", "walk confirmed", "walk acked", "walk closed"} {
		// One window shows all that has arrived: of more, a kill may leave copies.
		all = append(all, scenario{name: "an actor dies in a restore at: " + mark, lone: true, fault: func(r *run) {
			r.dieInRestore(mark)
			r.restore()
		}})
	}
	return all
}

// throwAway asks for a delete of all: a filter sees no further than one window, which inPages makes
// small.
const throwAway = `{"action":"delete","stream":"orders","select":{"all":true}}`

// undo asks for a restore of what that delete put into the trash.
func undo(id string) string {
	return fmt.Sprintf(`{"action":"restore","stream":"orders","select":{"operation":%q}}`, id)
}

// dieInTrash asks an actor for deletes, which dies at the mark, three times.
func (r *run) dieInTrash(mark string) {
	for n := range 3 {
		r.dyingOften(mark, n).diesOf(throwAway)
	}
}

// dieInRestore has a living actor delete, and asks another to undo that, which dies at the mark,
// three times.
func (r *run) dieInRestore(mark string) {
	for n := range 3 {
		p := r.dyingOften(mark, n)
		for began := time.Now(); ; {
			// More may die meanwhile: where there was too little to die of, it is deleted again.
			deleted := r.asked(throwAway)
			r.over()
			// It may die before it has answered.
			_, _, _ = p.do(r.t.Context(), http.MethodPost, operationsPath, undo(deleted))
			if p.died(time.Second) {
				break
			}
			if time.Since(began) > 4*time.Minute {
				r.complain("the actor never came to the mark %s", mark)
				p.leave()
				break
			}
			r.over()
		}
	}
}

// restore undoes all deletes once no operation runs, so that the judge finds where the dead arrive
// what was never deleted.
func (r *run) restore() {
	r.t.Helper()
	r.single = true
	for _, o := range r.over() {
		if o.Action == "delete" {
			r.asked(undo(o.ID))
		}
	}
	all := r.over()
	undone := map[string]bool{} // deletes of which a restore is done
	for _, o := range all {
		if o.Action == "restore" && o.State == "done" {
			undone[o.Select.Operation] = true
		}
	}
	deleted, restored := 0, 0
	for _, o := range all {
		// Another restore of a delete that is undone finds nothing, and is refused.
		if o.State != "done" && (o.State != "refused" || !undone[o.Select.Operation]) {
			r.complain("a %s is %s: %s", o.Action, o.State, o.Why)
		}
		switch o.Action {
		case "delete":
			deleted += o.Done
		case "restore":
			restored += o.Done
		}
	}
	// They need not be as many: what was moved between the last count that was saved and a kill is
	// in no count.
	if deleted == 0 || restored == 0 {
		r.complain("%d were deleted, and %d restored", deleted, restored)
	}
}
