package deadset_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell/deadset"
	"github.com/stepwell/stepwell/embedded/memory"
	"github.com/stepwell/stepwell/internal/filter"
	"github.com/stepwell/stepwell/internal/queue"
)

// breaking publishes some messages once more behind the last of them, as a publisher does whose
// channel ends before their confirms.
type breaking struct {
	queue.Broker
	first, last int

	mu   sync.Mutex
	sent []queue.Message
}

func (b *breaking) Publisher(name string) queue.Publisher {
	return &breakingPublisher{b.Broker.Publisher(name), b}
}

type breakingPublisher struct {
	queue.Publisher
	b *breaking
}

func (p *breakingPublisher) Publish(ctx context.Context, name string, m queue.Message, done func(error)) {
	p.Publisher.Publish(ctx, name, m, done)
	var n int
	if _, err := fmt.Sscanf(m.ID, "t:0:%d", &n); err != nil || name == ready || n < p.b.first || n > p.b.last {
		return
	}
	p.b.mu.Lock()
	defer p.b.mu.Unlock()
	p.b.sent = append(p.b.sent, m)
	if n == p.b.last {
		for _, again := range p.b.sent {
			p.Publisher.Publish(ctx, name, again, func(error) {})
		}
		p.b.sent, p.b.last = nil, -1
	}
}

// A page is filled, and its last messages are published twice since the channel broke: the copies
// lie behind what a window holds.
func TestWhatABrokenChannelPutTwiceIntoAFullPageIsSeenAndReplayedOnce(t *testing.T) {
	replays := map[string]func(t *testing.T, s *deadset.Set) int{
		"by choice": func(t *testing.T, s *deadset.Set) int {
			r, err := choose(t, s, deadset.Selection{Filter: filter.All(), Before: time.Now(), Operation: "op_1"}).Replay(t.Context(), nil, everything)
			if err != nil {
				t.Fatal(err)
			}
			return r.Done
		},
		"by count": func(t *testing.T, s *deadset.Set) int {
			r, err := s.Replay(t.Context(), everything)
			if err != nil {
				t.Fatal(err)
			}
			return r.Done
		},
	}
	// Pages of four, by their bytes, and of 2000.
	for _, c := range []struct{ n, bytes, first, last int }{{9, 900, 2, 2}, {9, 900, 3, 3}, {2500, 64 << 20, 1000, 1999}, {2500, 64 << 20, 800, 1799}} {
		for name, replay := range replays {
			t.Run(fmt.Sprint(name, c), func(t *testing.T) {
				inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
					bury(t, b, c.n)
					s := deadset.New(deadset.Config{
						App: "a", Stream: "s", Queue: dead, Instant: ready, WalkBytes: c.bytes, Pages: 8, Broker: &breaking{Broker: b, first: c.first, last: c.last},
					})
					if got := sorted(t, s, "op"); got != c.n {
						t.Errorf("%d moved", got)
					}
					if got := listed(t, s); !slices.Equal(got, from(0, c.n)) {
						t.Errorf("a look shows %d, pages %v", len(got), inPages(t, b))
					}
					done := 0
					for range 5 {
						done += replay(t, s)
					}
					if n := depth(t, b, ready); done != c.n || n != c.n {
						t.Errorf("%d done, %d replayed", done, n)
					}
				})
			})
		}
	}
}
