//go:build failpoint

package failpoint

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// plan reads the environment once.
//
//nolint:gochecknoglobals // it is the same for all marks of the process
var plan = sync.OnceValues(func() (name string, at int64) {
	name, number, _ := strings.Cut(os.Getenv(Variable), ":")
	at, _ = strconv.ParseInt(number, 10, 64) // no number is no plan: the hits never come to zero
	return name, at
})

// On says whether this process is to be killed at a mark.
func On() bool {
	name, _ := plan()
	return name != ""
}

//nolint:gochecknoglobals // the marks count together
var hits atomic.Int64

// Hit kills the process, without a chance to put anything in order, when the environment says so.
func Hit(name string) {
	wanted, at := plan()
	if name != wanted || hits.Add(1) != at {
		return
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // the signal is on its way
}
