package actor

import (
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// GNU timeout, and a shell that passes a signal on, signal a child and its group: the child hears
// it twice.
func TestASecondSignalWithinASecondIsTheFirst(t *testing.T) {
	for _, test := range []struct {
		name  string
		after []time.Duration
		exits bool
	}{
		{"one", []time.Duration{0}, false},
		{"two at once", []time.Duration{0, 0}, false},
		{"one that is told thrice", []time.Duration{0, 0, 900 * time.Millisecond}, false},
		{"two", []time.Duration{0, time.Second}, true},
		{"one that is told twice, and another", []time.Duration{0, 0, 5 * time.Second}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				signals, stopped, exited := make(chan os.Signal), false, false
				go heed(signals, func() { stopped = true }, func() { exited = true })
				for _, d := range test.after {
					time.Sleep(d)
					signals <- syscall.SIGTERM
				}
				synctest.Wait()
				if !stopped || exited != test.exits {
					t.Errorf("stopped %v, exited %v", stopped, exited)
				}
				close(signals)
			})
		})
	}
}
