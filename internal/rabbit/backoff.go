package rabbit

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff yields waits that double from least to most, each spread over its upper half so that many
// clients do not come back at the same moment. It is for one goroutine.
type backoff struct {
	least, most time.Duration
	// tries counts the waits since the last success; see reset.
	tries int
}

func (c *Config) backoff() backoff { return backoff{least: c.BackoffMin, most: c.BackoffMax} }

func (b *backoff) reset() { b.tries = 0 }

func (b *backoff) next() time.Duration {
	d := b.after(b.tries)
	b.tries++
	return d
}

// after returns the wait that follows the given number of tries.
func (b *backoff) after(tries int) time.Duration {
	// The shift is bounded: one by 63 or more would make the wait zero or negative.
	d := min(b.least<<min(tries, 20), b.most)
	return d/2 + rand.N(d/2+1)
}

// sleep waits for d, and reports whether it did so before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
