package chaos

import (
	"fmt"
	"slices"
	"time"

	"github.com/stepwell/stepwell"
)

// poisons are records that end whatever process takes them.
func poisons() []scenario {
	var all []scenario
	for _, when := range []struct {
		name    string
		attempt int
	}{{"first try", 1}, {"retry", 2}} {
		for _, processes := range []int{1, 3} {
			all = append(all, scenario{
				name:  fmt.Sprintf("two records kill each process that takes their %s (%d at once)", when.name, processes),
				fault: func(r *run) { r.poison(when.attempt, processes) },
			})
		}
	}
	return append(all, scenario{
		name: "a record kills each process that takes it beside one that hangs",
		env:  settings{"HANDLER_TIMEOUT": "2s"}, fault: killBesideAHang,
	})
}

// poison has two records kill the processes that take them.
func (r *run) poison(attempt, processes int) {
	r.exactly(processes)
	for range 2 {
		r.load.once(special{fmt.Sprintf("this kills %d", attempt), stepwell.ReasonCrashLoop})
	}
	r.survive()
}

// killBesideAHang has the one process be killed by a record, and be in a call that hangs past its
// time-out. All others are handled meanwhile.
func killBesideAHang(r *run) {
	r.exactly(1)
	before := r.watch.length()
	r.load.once(special{text: "this hangs 1"})
	r.load.once(special{"this kills 1", stepwell.ReasonCrashLoop})
	r.survive()
	// Each key has a suspect, so that what comes later waits in its order: for the look before a
	// trial, which takes CRASH_PROBATION, 7 s, or for a turn of twice HANDLER_TIMEOUT, and not for
	// the hang, which takes 25.
	const most = 10 * time.Second
	still := r.watch.stillest(before)
	r.t.Logf("a process stood still for %s at most", still)
	if still == 0 {
		r.complain("no process came to a first try and another call")
	}
	if still > most {
		r.complain("a process that had something to do stood still for %s", still)
	}
}

// exactly leaves or makes so many actors.
func (r *run) exactly(processes int) {
	for len(r.actors) > processes {
		r.actors[0].leave()
	}
	for len(r.actors) < processes {
		r.spawn()
	}
	r.until("work goes on", time.Minute, r.actors[0].ready)
}

// survive starts each process that dies again, until none does for long enough: from one death of a
// suspect to the next it takes a session and the probation, and both may take their time. Where
// they take longer than that, settle starts the next ones.
func (r *run) survive() {
	r.mortal = true
	deaths, most := 0, 100
	for since := time.Now(); time.Since(since) < 40*time.Second && deaths < most; r.pause(100 * time.Millisecond) {
		if n := r.revive(); n > 0 {
			since = time.Now()
			deaths += n
		}
	}
	r.t.Logf("%d deaths", deaths)
	if deaths == 0 || deaths == most {
		r.complain("%d processes died", deaths)
	}
}

// revive starts a process for each that has died, and returns how many.
func (r *run) revive() (deaths int) {
	for _, p := range slices.Clone(r.actors) {
		if p.died(time.Millisecond) {
			deaths++
			r.spawn()
		}
	}
	return deaths
}
