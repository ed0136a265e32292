package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// sample is a moment, and what the process had used by then.
type sample struct {
	at     time.Time
	cpu    time.Duration
	allocs uint64 // objects
}

func now() sample {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // it has no error but a wrong argument
	}
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	return sample{time.Now(), time.Duration(u.Utime.Nano() + u.Stime.Nano()), mem.Mallocs}
}

// peakRSS reads /proc: what getrusage tells of a process that was forked begins with what its parent had.
func peakRSS() (int64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, fmt.Errorf("peak memory: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		if kib, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(kib), " kB"), 10, 64)
			return n << 10, err
		}
	}
	return 0, nil
}
