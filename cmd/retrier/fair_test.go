//go:build long

package main

import (
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// One host answers, one takes connections and says nothing: once 100,000 calls to the second are
// spread over the longest snooze, they leave the first at least nine tenths of the processors. Its
// rate is logged beside that: on a machine that has other work it says little.
func TestAHundredThousandCallsToADeadHostLeaveAnotherHostItsRate(t *testing.T) {
	for _, w := range worlds(t) {
		t.Run(w.name, func(t *testing.T) {
			const dead = 100_000
			silent, err := net.Listen("tcp", "127.0.0.1:0") // its backlog takes connections, and nobody accepts
			if err != nil {
				t.Fatal(err)
			}
			defer silent.Close()
			live := newReceiver(t, always(200))
			run := newWorld(t, w.url).start("APP_TIMEOUT=5s")
			url := live.url("/")
			before, spentBefore := run.rate(url, live)
			body := fmt.Appendf(nil, `{"request":{"url":"http://localhost:%d/"},"waits":["1h"]}`, silent.Addr().(*net.TCPAddr).Port)
			began := time.Now()
			run.inParallel(dead, func() { run.post(body) })
			posted := time.Since(began)
			eventually(t, "each call was tried or put off", func() bool { return run.snoozed() >= dead-20 })
			away := time.Since(began)
			soon, _ := run.rate(url, live)
			time.Sleep(5*time.Minute - time.Since(began) + away) // no condition: what is measured is a time of its own
			hops, since := run.snoozed(), time.Now()
			after, spentAfter := run.rate(url, live)
			rate := float64(run.snoozed()-hops) / time.Since(since).Seconds()
			t.Logf("CPU of the process for a call: %s alone, %s beside the dead ones", spentBefore, spentAfter)
			t.Logf("%.0f/s alone; beside %d dead calls %.0f/s at once, %.0f/s after five minutes: %.2f; posted in %s, put off in %s, then again %.0f a second",
				before, dead, soon, after, after/before, posted, away, rate)
			if left := float64(spentBefore) / float64(spentAfter); left < 0.9 {
				t.Errorf("%.2f of the processors are left, want 0.9", left)
			}
		})
	}
}

// inParallel calls f n times, many at once.
func (r *running) inParallel(n int64, f func()) {
	var left atomic.Int64
	left.Store(n)
	var all sync.WaitGroup
	for range 256 {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				f()
			}
		})
	}
	all.Wait()
}

func (r *running) post(body []byte) {
	if _, err := r.retrier.handler.Post(r.t.Context(), body); err != nil {
		r.t.Error(err)
	}
}

// rate is how many calls a second come through to the receiver, from the first one posted to the
// last one made, the median of three times, and what all of them cost, each.
func (r *running) rate(url string, to *receiver) (median float64, cpu time.Duration) {
	r.t.Helper()
	const calls = 20_000
	body := fmt.Appendf(nil, `{"request":{"url":%q},"waits":["1s"]}`, url)
	var all []float64
	cpu = spent()
	for range 3 {
		began, first := time.Now(), to.count()
		r.inParallel(calls, func() { r.post(body) })
		eventually(r.t, "all calls are made", func() bool { return to.count()-first >= calls })
		all = append(all, calls/time.Since(began).Seconds())
	}
	slices.Sort(all)
	return all[1], (spent() - cpu) / (3 * calls)
}

// spent is the time that the process has had of processors.
func spent() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
