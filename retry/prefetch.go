package retry

import (
	"sync"
	"time"
)

// prefetch is how many messages to take from the broker at once, so that the last of them is settled long before the broker's
// consumer time-out, which also runs for those that wait in our buffer: all of them take at most a quarter of it. There is always
// one to go on with, and never more than limit otherwise.
func prefetch(workers, limit int, timeout, slow time.Duration) int {
	rounds := float64(timeout) / 4 / float64(max(slow, 1))
	n := limit
	if many := float64(workers) * rounds; many < float64(limit) {
		n = int(many)
	}
	return max(n, workers+1)
}

// slowest estimates how long a slow call of the handler takes now: the maximum of the calls so far, where each further call
// takes two percent off, and of those that still run. It starts with the worst, so that nothing is fetched in vain before anything is known.
type slowest struct {
	mu      sync.Mutex
	time    time.Duration
	running []time.Time // by worker; zero: idle
}

func newSlowest(workers int, worst time.Duration) *slowest {
	return &slowest{time: worst, running: make([]time.Time, workers)}
}

func (s *slowest) begin(worker int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running[worker] = time.Now()
}

func (s *slowest) end(worker int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.time = max(time.Since(s.running[worker]), s.time-s.time/50)
	s.running[worker] = time.Time{}
}

func (s *slowest) now() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	slow := s.time
	for _, began := range s.running {
		if !began.IsZero() {
			slow = max(slow, time.Since(began))
		}
	}
	return slow
}
