package inbox

import (
	"sync"
	"time"
)

// prefetch is how many deliveries to hold at once. The broker's consumer time-out runs for those
// too that only wait for a worker, so calls of the slow duration must get through all of them
// within a quarter of it. It is at most limit, but always one more than there are workers, so that
// none of them waits for the broker.
func prefetch(workers, limit int, timeout, slow time.Duration) int {
	rounds := float64(timeout) / 4 / float64(max(slow, 1))
	n := limit
	if many := float64(workers) * rounds; many < float64(limit) {
		n = int(many)
	}
	return max(n, workers+1)
}

// slowest estimates how long a slow call takes now: the longest so far, from which each further
// call takes two percent off, or one that still runs, where that is longer. It starts with the
// worst, so that not too much is fetched before anything is known.
type slowest struct {
	mu      sync.Mutex
	time    time.Duration // of the calls that are over
	running []time.Time   // by worker; zero: idle
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
