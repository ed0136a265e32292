package chaos

import (
	"fmt"
	"time"

	"github.com/stepwell/stepwell/chaos/ledger"
)

// Of 40 records that rest in the dead set one died of each of two causes: see what the child does.
const (
	exhaustedAt  = 10
	deadLetterAt = 20
)

// operated are replays and deletes of one of two causes by an actor that dies in them. Nothing of
// the other cause may move. They are alone: others replay everything.
func operated() []scenario {
	var all []scenario
	for action, fault := range map[string]func(*run, string){"replay": dieInReplayOfOneCause, "delete": dieInDeleteOfOneCause} {
		for _, mark := range []string{"walk held", "walk published", "walk confirmed", "walk acked", "walk closed"} {
			all = append(all, scenario{name: "an actor dies in a " + action + " of one cause at: " + mark, lone: true, fault: func(r *run) { fault(r, mark) }})
		}
	}
	return all
}

// dieInReplayOfOneCause replays what a handler gave up by an actor that dies half way, three times.
func dieInReplayOfOneCause(r *run, mark string) {
	r.dieInOperation("replay", mark)
	r.pause(2 * time.Second) // what was replayed is called
	if others := r.watch.which(func(e ledger.Entry) bool { return e.Sequence%40 == exhaustedAt && e.Replays > 0 }); len(others) > 0 {
		r.complain("%d records of the other cause were replayed, too: %v", len(others), others[:min(len(others), 5)])
	}
	if asked := r.watch.which(func(e ledger.Entry) bool { return e.Sequence%40 == deadLetterAt && e.Replays > 0 }); len(asked) == 0 {
		r.complain("nothing was replayed")
	}
}

// dieInDeleteOfOneCause deletes it likewise. What is of that cause may be gone from then on; of the
// other nothing is, or it counts as lost.
func dieInDeleteOfOneCause(r *run, mark string) {
	r.dieInOperation("delete", mark)
	r.watch.remove(r.watch.which(func(e ledger.Entry) bool { return e.Sequence%40 == deadLetterAt && e.Kind == ledger.Dead })...)
}

// dieInOperation asks an actor for an operation on what a handler gave up, which dies at the mark.
func (r *run) dieInOperation(action, mark string) {
	most := 10
	if mark != "walk published" && mark != "walk confirmed" { // once a turn
		most = 2
	}
	forever := ""
	if action == "delete" {
		forever = `,"forever":true`
	}
	for range 3 {
		p := r.dying(mark, 1+r.random.IntN(most))
		r.until("it is ready", time.Minute, p.ready)
		r.until("some are dead", time.Minute, func() bool { _, dead := r.watch.done(); return dead > most })
		p.diesOf(fmt.Sprintf(`{"action":%q,"stream":"orders","select":{"filter":{"reason":"dead_letter"}}%s}`, action, forever))
	}
}
