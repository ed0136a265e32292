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
// takes two percent off. It starts with the worst, so that nothing is fetched in vain before anything is known.
type slowest struct {
	mu   sync.Mutex
	time time.Duration
}

func (s *slowest) saw(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.time = max(d, s.time-s.time/50)
}

func (s *slowest) now() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.time
}
