package chaos

import (
	"net/http"
	"time"
)

// marks are the moments at which an actor kills itself: see package failpoint.
func marks() []scenario {
	var all []scenario
	for _, mark := range []string{
		"publish", "published", "confirmed", "parked", "ack", "acked", "commit", "committed",
	} {
		all = append(all, scenario{name: "an actor dies at: " + mark, short: mark == "published", fault: func(r *run) { dieAt(r, mark, 40*time.Second) }})
	}
	for _, mark := range []string{"walk held", "walk published", "walk confirmed", "walk acked", "walk closed"} {
		all = append(all, scenario{name: "an actor dies at: " + mark, fault: func(r *run) { dieInWalk(r, mark) }})
	}
	return append(all,
		scenario{name: "an actor dies at: peek answered", fault: dieAfterPeek},
		scenario{name: "an actor dies at: shared out", fault: dieWhenSharedOut})
}

// dieAt starts an actor that dies at the mark, three times.
func dieAt(r *run, mark string, most time.Duration) {
	for range 3 {
		p := r.dying(mark, 1+r.random.IntN(40))
		if !p.died(most) {
			r.complain("the actor never came to the mark %s", mark)
			p.leave()
		}
	}
}

// dieWhenSharedOut kills all actors, three times, and starts one that dies when it has told its
// second client of Kafka what to read: alone it is given enough for both.
func dieWhenSharedOut(r *run) {
	for range 3 {
		n := len(r.actors)
		for len(r.actors) > 0 {
			r.actors[0].kill()
		}
		p := r.dying("shared out", 1)
		if !p.died(40 * time.Second) {
			r.complain("the actor never came to the mark shared out")
			p.leave()
		}
		for range n {
			r.spawn()
		}
		r.sometime(5 * time.Second)
	}
}

// dieAfterPeek looks into the dead set by an actor that dies while it still holds what it showed,
// three times.
func dieAfterPeek(r *run) {
	for range 3 {
		p := r.dying("peek answered", 1+r.random.IntN(3))
		r.until("it is ready", time.Minute, p.ready)
		r.until("some are dead", time.Minute, func() bool { _, dead := r.watch.done(); return dead > 10 })
		for !p.died(1100 * time.Millisecond) { // peeks within a second share a walk
			_, _, _ = p.do(r.t.Context(), http.MethodGet, "/v1/dead_set?count=10&stream=orders", "") // it may die before it has told
		}
	}
}

// dieInWalk replays the dead set by an actor that dies half way, three times.
func dieInWalk(r *run, mark string) {
	most := 10
	if mark == "walk held" || mark == "walk acked" || mark == "walk closed" { // once a walk
		most = 1
	}
	for range 3 {
		p := r.dying(mark, 1+r.random.IntN(most))
		r.until("it is ready", time.Minute, p.ready)
		r.until("some are dead", time.Minute, func() bool { _, dead := r.watch.done(); return dead > most })
		for !p.died(100 * time.Millisecond) {
			if _, _, err := p.replay(r.t.Context(), 1000); err == nil {
				r.pause(200 * time.Millisecond) // somebody else had the lease, or there were too few
			}
		}
	}
}
