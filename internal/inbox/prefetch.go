package inbox

import (
	"sync"
	"sync/atomic"
	"time"
)

// Ahead is for how long a delivery may wait here for a worker, or for one call if that is longer: a
// quarter of the broker's consumer time-out, which runs for such deliveries too.
func Ahead(consumerTimeout time.Duration) time.Duration { return consumerTimeout / 4 }

// prefetch is how many deliveries to hold at once. For batches that is decided beforehand.
func (in *Inbox) prefetch() int {
	if g := in.cfg.Gather; g != nil {
		return max(1, in.largest.fit(Prefetch{Messages: g.Messages, Bytes: in.cfg.Prefetch.Bytes}))
	}
	limit := in.largest.fit(in.cfg.Prefetch)
	return prefetch(in.cfg.Workers, limit, in.cfg.Prefetch.ConsumerTimeout, in.slow.now())
}

// another says whether as many more are to be held: most of those that are held need no worker, but
// rest, or wait for a confirm, and must not keep others from the workers as long as all together
// are within the limit. What is gathered needs none for a while.
func (in *Inbox) another(held int) bool {
	if in.cfg.Gather != nil {
		return false
	}
	n := in.prefetch()
	need := held - max(0, int(in.inFlight.Load())-in.slow.busy())
	return need < n/2 && held+n <= in.largest.fit(in.cfg.Prefetch)
}

// prefetch is how many deliveries to hold at once: calls of the slow duration must get through all
// of them within [Ahead]. It is at most limit, but always one more than there are workers, so that
// none of them waits for the broker. See [largest] for its other limit.
func prefetch(workers, limit int, timeout, slow time.Duration) int {
	rounds := float64(Ahead(timeout)) / float64(max(slow, 1))
	n := limit
	if many := float64(workers) * rounds; many < float64(limit) {
		n = int(many)
	}
	return max(n, workers+1)
}

// largest estimates how large a message is: as the largest so far, from which each further one
// takes a percent off, so that after some hundred small ones it is forgotten. One goroutine at a
// time sees messages; any may ask.
type largest struct{ bytes atomic.Int64 }

func (l *largest) saw(bytes int) {
	had := l.bytes.Load()
	l.bytes.Store(max(int64(bytes), had-had/100))
}

// fit is how many of them are within both limits; before the first nothing is known of bytes.
func (l *largest) fit(in Prefetch) int {
	size := l.bytes.Load()
	if in.Bytes == 0 || size == 0 {
		return in.Messages
	}
	return min(in.Messages, int(int64(in.Bytes)/size))
}

// slowest estimates how long a slow call takes now: the longest so far, from which each further
// call takes two percent off, or one that still runs, where that is longer. It starts with the
// worst, so that not too much is fetched before anything is known.
type slowest struct {
	mu sync.Mutex
	// time is how long a slow call took, of those that are over. mu guards it, running and calls.
	time time.Duration
	// running has for each worker when its call began, or its wait for a seat; zero: it has none.
	running []time.Time
	calls   []Call // for each worker that of its handler; zero: it has none
}

func newSlowest(workers int, worst time.Duration) *slowest {
	return &slowest{time: worst, running: make([]time.Time, workers), calls: make([]Call, workers)}
}

func (s *slowest) begin(worker int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running[worker] = time.Now()
}

// end takes the worker's call into the estimate. Two percent a call: after some hundred fast calls
// a slow one is forgotten.
func (s *slowest) end(worker int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.time = max(time.Since(s.running[worker]), s.time-s.time/50)
	s.running[worker], s.calls[worker] = time.Time{}, Call{}
}

// busy is how many workers have a call, or wait for a seat.
func (s *slowest) busy() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, began := range s.running {
		if !began.IsZero() {
			n++
		}
	}
	return n
}

// called notes the call of a handler.
func (s *slowest) called(worker int, c Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[worker] = c
}

// oldest is the call of a handler that runs for the longest; zero: none runs.
func (s *slowest) oldest() (oldest Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if !c.Began.IsZero() && (oldest.Began.IsZero() || c.Began.Before(oldest.Began)) {
			oldest = c
		}
	}
	return oldest
}

// now counts a call that still runs as well: the first slow call would else be noticed only when it
// is over, and by then the prefetch might be too old to be acked in time.
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
