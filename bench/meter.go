package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// meter counts records and measures from the first of them to the last.
type meter struct {
	wanted int64
	total  atomic.Int64
	parts  [partitions]counter
	first  sync.Once
	last   sync.Once
	began  sample
	ended  sample
	done   chan struct{} // closed with the last record
}

// counter belongs to whoever handles the partition; it has cache lines of its own.
type counter struct {
	n, next, again int64
	_              [104]byte
}

// countStep is how many records of a partition are added to the total at once, so that counting costs next to nothing.
const countStep = 256

func newMeter(wanted int64) *meter { return &meter{wanted: wanted, done: make(chan struct{})} }

// count is what the handlers of all cases do.
func (m *meter) count(partition int32, offset int64) {
	p := &m.parts[partition]
	if p.n == 0 {
		m.first.Do(func() { m.began = now() })
	}
	p.n++
	if offset < p.next {
		p.again++
	}
	p.next = offset + 1
	if p.n%countStep == 0 && m.total.Add(countStep) >= m.wanted {
		m.last.Do(func() { m.ended = now(); close(m.done) })
	}
}

// result is what one run of a case measured.
type result struct {
	Records int64
	Wall    time.Duration
	CPU     time.Duration
	PeakRSS int64 // bytes
}

// perSecond is how many records were handled in a second.
func (r result) perSecond() float64 { return float64(r.Records) / r.Wall.Seconds() }

// cpuPerMillion is the CPU time of a million records in seconds.
func (r result) cpuPerMillion() float64 { return r.CPU.Seconds() / float64(r.Records) * 1e6 }

// result may be asked for when the case has ended.
func (m *meter) result() (result, error) {
	r := result{Records: m.wanted, Wall: m.ended.at.Sub(m.began.at), CPU: m.ended.cpu - m.began.cpu}
	for i := range m.parts {
		if again := m.parts[i].again; again > 0 {
			return r, fmt.Errorf("partition %d: %d records came twice or in the wrong order", i, again)
		}
	}
	var err error
	r.PeakRSS, err = peakRSS()
	return r, err
}

type sample struct {
	at  time.Time
	cpu time.Duration
}

func now() sample {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // it has no error but a wrong argument
	}
	return sample{time.Now(), time.Duration(u.Utime.Nano() + u.Stime.Nano())}
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
