package deadset_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stepwell/stepwell/deadset"
	"github.com/stepwell/stepwell/embedded/memory"
	"github.com/stepwell/stepwell/internal/filter"
	"github.com/stepwell/stepwell/internal/queue"
)

// parting is a broker that cuts all off once so many messages were published.
type parting struct {
	*memory.Broker
	after int64
	seen  atomic.Int64
}

func (b *parting) Publisher(name string) queue.Publisher {
	return &partingPublisher{b.Broker.Publisher(name), b}
}

type partingPublisher struct {
	queue.Publisher
	b *parting
}

func (p *partingPublisher) Publish(ctx context.Context, name string, m queue.Message, done func(error)) {
	if p.b.seen.Add(1) == p.b.after+1 {
		p.b.SetUp(false)
	}
	p.Publisher.Publish(ctx, name, m, done)
}

// publishing are the walks that publish what they take, each on the messages that there are.
var publishing = map[string]func(t *testing.T, s *deadset.Set, n int) error{
	"a replay by count": func(t *testing.T, s *deadset.Set, n int) error {
		_, err := s.Replay(t.Context(), n)
		return err
	},
	"a replay": func(t *testing.T, s *deadset.Set, n int) error {
		_, err := choose(t, s, whole("op_2")).Replay(t.Context(), nil, n)
		return err
	},
	"a delete": func(t *testing.T, s *deadset.Set, n int) error {
		_, err := choose(t, s, whole("op_2")).Trash(t.Context(), s.Trash(keep), nil, n)
		return err
	},
	"a restore": func(t *testing.T, s *deadset.Set, n int) error {
		c, err := s.Trash(keep).Choose(whole("op_2"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Restore(t.Context(), nil, n)
		return err
	},
	"an edit": func(t *testing.T, s *deadset.Set, _ int) error {
		value := []byte("other")
		_, err := s.Trash(keep).Edit(t.Context(), "op_2", "t:0:3", deadset.Edit{Value: &value})
		return err
	},
	"a sort": func(t *testing.T, s *deadset.Set, n int) error {
		_, err := s.Pages().Sort(t.Context(), nil, "op_2", n)
		return err
	},
	"the way back": func(t *testing.T, s *deadset.Set, n int) error {
		_, err := s.Pages().Back(t.Context(), nil, n)
		return err
	},
}

// whole chooses all that is there.
func whole(operation string) deadset.Selection {
	return deadset.Selection{Filter: filter.All(), Before: time.Now(), Operation: operation, Undated: true}
}

// A walk loses its lease, and with it all that it holds, while it cannot publish. By the time that
// it can, others may have deleted for good what it was about to publish.
func TestWhoHasLostTheLeaseGivesUpWhatItHasNotPublished(t *testing.T) {
	const n = 20
	for what, act := range publishing {
		for stored := range 2 { // before it is cut off: these may be in both places
			t.Run(fmt.Sprint(what, " of which ", stored, " is published"), func(t *testing.T) {
				inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
					bury(t, b, n)
					cfg := deadset.Config{App: "a", Stream: "s", Queue: dead, Instant: ready, Broker: b, Pages: 2, TrashPages: 2}
					switch what {
					case "a restore":
						thrownAway(t, deadset.New(cfg))
					case "the way back":
						sorted(t, deadset.New(cfg), "op_1")
					}
					cfg.Broker = &parting{Broker: b, after: int64(stored)}
					time.AfterFunc(2*time.Second, func() { b.SetUp(true) }) // a walk waits longer for confirms
					if err := act(t, deadset.New(cfg), n); !errors.Is(err, queue.ErrUnavailable) {
						t.Errorf("%v", err)
					}
					time.Sleep(time.Minute)
					there := 0
					for _, name := range []string{dead, ready, deadset.PageOf(dead, 0), deadset.TrashOf(dead, keep, 0)} {
						if d, err := b.Depth(t.Context(), name); err == nil {
							there += d
						}
					}
					if there < n || there > n+stored {
						t.Errorf("%d messages became %d", n, there)
					}
				})
			})
		}
	}
}
