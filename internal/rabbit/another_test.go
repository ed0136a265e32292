package rabbit

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell/internal/queue"
)

func TestAnotherPrefetchIsHandedOutWhileNoneIsSettledAndNoMore(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		const all, prefetch, limit = 60, 5, 20
		n := newNames(t, url)
		b, _ := run(t, Config{URLs: []string{url}})
		declare(t, b, n.specs())
		publish(t, b, n.instant, 0, all)
		var mu sync.Mutex
		var held []queue.Delivery
		most, settles := 0, false
		consume(t, b, queue.Consumption{
			Queue: n.instant, Prefetch: func() int { return prefetch },
			Another: func(held int) bool { return held+prefetch <= limit },
			Handle: func(_ context.Context, d queue.Delivery) bool {
				mu.Lock()
				defer mu.Unlock()
				if settles {
					d.Ack()
					return true
				}
				held = append(held, d)
				most = max(most, len(held))
				return true
			},
		})
		eventually(t, 30*time.Second, "four prefetches to be in hand", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(held) == limit
		})
		depthIs(t, b, n.instant, all-limit) // the others are RabbitMQ's
		mu.Lock()
		settles = true
		for _, d := range held {
			d.Ack()
		}
		mu.Unlock()
		depthIs(t, b, n.instant, 0)
		mu.Lock()
		defer mu.Unlock()
		if most != limit {
			t.Errorf("%d were in hand at once, want %d", most, limit)
		}
	})
}
