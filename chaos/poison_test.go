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
	return all
}

// poison starts each process that dies again, until none does for long enough that a group would have noticed.
func (r *run) poison(attempt, processes int) {
	for len(r.actors) > processes {
		r.actors[0].leave()
	}
	for len(r.actors) < processes {
		r.spawn()
	}
	r.until("work goes on", time.Minute, r.actors[0].ready)
	for range 2 {
		r.load.once(special{fmt.Sprintf("this kills %d", attempt), stepwell.ReasonCrashLoop})
	}
	deaths, most := 0, 100
	for since := time.Now(); time.Since(since) < 20*time.Second && deaths < most; {
		for _, p := range slices.Clone(r.actors) {
			if p.died(time.Millisecond) {
				since = time.Now()
				deaths++
				r.spawn()
			}
		}
		r.pause(100 * time.Millisecond)
	}
	r.t.Logf("%d deaths", deaths)
	if deaths == 0 || deaths == most {
		r.complain("%d processes died", deaths)
	}
}
