//go:build long

package main

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// One host answers, one takes connections and says nothing: 100,000 calls to the second leave the
// first at least nine tenths of its rate, once each of them was tried or put off.
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
			run.rate(url, live, 5*time.Second) // warm
			before := run.rate(url, live, 20*time.Second)
			body := fmt.Appendf(nil, `{"request":{"url":"http://localhost:%d/"},"waits":["1h"]}`, silent.Addr().(*net.TCPAddr).Port)
			began := time.Now()
			run.inParallel(dead, func() {
				if _, err := run.retrier.handler.Post(t.Context(), body); err != nil {
					t.Error(err)
				}
			})
			posted := time.Since(began)
			eventually(t, "each call was tried or put off", func() bool { return run.snoozed() >= dead-20 })
			away := time.Since(began)
			after := run.rate(url, live, 20*time.Second)
			t.Logf("%.0f/s alone, %.0f/s beside %d dead calls: %.2f; these were posted in %s, put off in %s", before, after, dead, after/before, posted, away)
			if after < 0.9*before {
				t.Errorf("%.2f of the rate is left, want 0.9", after/before)
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

// rate is how many calls a second come through to the receiver.
func (r *running) rate(url string, to *receiver, howLong time.Duration) float64 {
	body := fmt.Appendf(nil, `{"request":{"url":%q},"waits":["1s"]}`, url)
	began, first := time.Now(), len(to.requests())
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			for time.Since(began) < howLong {
				if _, err := r.retrier.handler.Post(r.t.Context(), body); err != nil {
					r.t.Error(err)
				}
			}
		})
	}
	all.Wait()
	return float64(len(to.requests())-first) / time.Since(began).Seconds()
}
