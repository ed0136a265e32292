//go:build clockjump

package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// jump is how far a signal moves the clock.
const jump = 3 * time.Hour

// clock has the wall clock jump ahead at a SIGUSR1, and back at a SIGUSR2, for all of the process.
// The tests build it with a package time that has a Jump: see clocks_test.go. The monotonic clock
// goes on, as when somebody sets a machine's clock.
func clock() {
	signals := make(chan os.Signal, 10)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGUSR2)
	go func() { // as long as the process lives
		for s := range signals {
			if s == syscall.SIGUSR1 {
				time.Jump(jump)
			} else {
				time.Jump(-jump)
			}
		}
	}()
}
