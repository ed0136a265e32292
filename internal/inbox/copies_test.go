package inbox_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// Suspects that wait for their turn are on their way to the queue beside when a process dies of
// another message right after it began.
func TestSuspectsThatWaitForTheirTurnAreNotDoubledByEachDeath(t *testing.T) {
	for _, wait := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newCrashWorld(3, 8)
			defer w.close()
			w.wait = wait
			const innocents = 5
			for n := range innocents {
				w.put(fmt.Sprint("innocent ", n), temper{takes: 10 * time.Millisecond}, 11)
			}
			w.put("killer", temper{takes: 5 * time.Millisecond, kills: always}, 0)
			w.change(w.begin)
			time.Sleep(12 * s)
			w.change(func() {
				if n := len(w.queue.items); n > 5*innocents { // the one that is announced may be there once more after each
					t.Errorf("queue beside %v: %d copies of %d messages after %d deaths", wait, n, innocents+1, w.deaths)
				}
			})
		})
	}
}
