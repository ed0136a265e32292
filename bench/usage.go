package main

import (
	"context"
	"errors"
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
	allocs uint64        // objects
	broker time.Duration // CPU time of RabbitMQ
}

func now(broker int) (sample, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // it has no error but a wrong argument
	}
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	used, err := ofProcess(broker)
	return sample{time.Now(), time.Duration(u.Utime.Nano() + u.Stime.Nano()), mem.Mallocs, used}, err
}

// peakRSS reads /proc: what getrusage tells of a process that was forked begins with what its
// parent had.
func peakRSS() (int64, error) { return statusOf("VmHWM:") }

// statusOf reads a size in bytes.
func statusOf(name string) (int64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, fmt.Errorf("memory: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		if kib, ok := strings.CutPrefix(line, name); ok {
			n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(kib), " kB"), 10, 64)
			return n << 10, err
		}
	}
	return 0, nil
}

// ofProcess is how much CPU time another process on Linux has used; 0 is the id of none.
func ofProcess(pid int) (time.Duration, error) {
	if pid == 0 {
		return 0, nil
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("CPU time of the broker: %w", err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ") // the name before may hold anything
	const user, system = 11, 12                   // behind the state
	fields := strings.Fields(rest)
	if len(fields) <= system {
		return 0, fmt.Errorf("CPU time of the broker: %q", stat)
	}
	u, err := strconv.ParseInt(fields[user], 10, 64)
	s, err2 := strconv.ParseInt(fields[system], 10, 64)
	return time.Duration(u+s) * (time.Second / 100), errors.Join(err, err2) // USER_HZ is 100
}

// quiet waits until a process has used next to nothing for a second, so that what it does for the
// past, as to write segments or to delete queues, is not measured with what comes.
func quiet(ctx context.Context, pid int) error {
	const span, little, limit = time.Second, 50 * time.Millisecond, 2 * time.Minute
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	before := time.Duration(-1)
	for {
		used, err := ofProcess(pid)
		if err != nil {
			return err
		}
		if pid == 0 || before >= 0 && used-before <= little {
			return nil
		}
		before = used
		select {
		case <-time.After(span):
		case <-ctx.Done():
			return fmt.Errorf("wait until the broker is quiet: %w", context.Cause(ctx))
		}
	}
}
