package deadset_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stepwell/stepwell/deadset"
	"github.com/stepwell/stepwell/embedded/memory"
	"github.com/stepwell/stepwell/internal/filter"
	"github.com/stepwell/stepwell/internal/queue"
)

// The depth is asked for all the time, by every process.
func TestTheDepthIsTrueAfterAnotherProcessSortedThoughPagesAreSeldomLookedFor(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		bury(t, b, 9)
		c := &counting{Broker: b}
		s := paged(c, 8)
		is := func(want int) {
			t.Helper()
			if n, _, err := s.Pages().Depth(t.Context()); n != want || err != nil {
				t.Fatalf("depth %d, not %d: %v", n, want, err)
			}
		}
		for range 20 {
			is(9)
		}
		if c.missing > 1 {
			t.Errorf("a page that is not there was asked for %d times", c.missing)
		}
		sorted(t, paged(b, 8), "op")
		is(9)
		buryMore(t, b, 9, 3)
		is(12)
		// So many arrived while others were sorted that nothing seems to have left.
		sorted(t, paged(b, 8), "op")
		buryMore(t, b, 12, 4)
		time.Sleep(time.Minute)
		is(16)
	})
}

// counting counts how often the depth of a queue was asked that is not there.
type counting struct {
	queue.Broker
	missing int
}

func (c *counting) Depth(ctx context.Context, name string) (int, error) {
	n, err := c.Broker.Depth(ctx, name)
	if errors.Is(err, queue.ErrMissing) {
		c.missing++
	}
	return n, err
}

// A process that sorts for the first time knows from no page of its own how many messages fit.
func TestASortGoesOnBehindAPageThatAnotherProcessFilled(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		large := func(i int) {
			e := deadOf(i, time.Now())
			e.Message.Value = make([]byte, 1000) // more than a walk of this set holds: alone it always fits
			put(t, b, dead, e.Encode())
		}
		large(0)
		sorted(t, paged(b, 8), "op_1")
		large(1)
		large(2)
		another := paged(b, 8)
		if got := sorted(t, another, "op_2"); got != 2 {
			t.Errorf("%d moved", got)
		}
		if got := inPages(t, b); !slices.Equal(got, []int{1, 1, 1}) || depth(t, b, dead) > 0 {
			t.Errorf("in pages %v, arrived %d", got, depth(t, b, dead))
		}
	})
}

// A sort was killed before it had removed what it moved. Whoever acts on some of that alone must
// not find the rest of it again where it was.
func TestWhatAKilledSortLeftTwiceIsNotActedOnTwiceByWalksThatTakeAFew(t *testing.T) {
	for _, act := range []string{"replay", "delete", "replay of a choice", "unsort and replay"} {
		t.Run(act, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
				s := deadset.New(deadset.Config{App: "a", Stream: "s", Queue: dead, Instant: ready, Broker: b, Pages: 4})
				died := time.Now()
				for range 2 {
					for i := range 5 {
						put(t, b, dead, deadOf(i, died).Encode())
					}
					if n, _ := b.Depth(t.Context(), deadset.PageOf(dead, 0)); n < 5 {
						sorted(t, s, "op_1")
					}
				}
				if depth(t, b, deadset.PageOf(dead, 0)) != 5 || depth(t, b, dead) != 5 {
					t.Fatalf("in pages %v, arrived %d", inPages(t, b), depth(t, b, dead))
				}
				var err error
				all := []string{}
				for range 10 {
					if n, _, err := s.Pages().Depth(t.Context()); n == 0 || err != nil {
						break
					}
					switch act {
					case "replay":
						_, err = s.Replay(t.Context(), 1)
					case "delete":
						_, err = s.Delete(t.Context(), 1)
						all = append(all, "")
					case "replay of a choice":
						_, err = choose(t, s, deadset.Selection{Filter: filter.All(), Before: time.Now(), Operation: "op_2"}).Replay(t.Context(), nil, 1)
					default:
						_, err = s.Pages().Back(t.Context(), nil, everything)
						if err == nil {
							_, err = s.Replay(t.Context(), 1)
						}
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				if act != "delete" {
					all = ids(t, b, ready)
				}
				if len(all) != 5 || act != "delete" && act != "unsort and replay" && !slices.Equal(all, from(0, 5)) {
					t.Errorf("%d times: %v", len(all), all)
				}
			})
		})
	}
}

// As with RABBITMQ_DECLARE=check.
func TestAWayBackOfWhoMayDeleteNoQueuesEndsWithAllMovedBack(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		bury(t, b, 7)
		sorted(t, paged(b, 8), "op_1")
		s := paged(&keeping{b}, 8)
		for more := true; more; {
			r, err := s.Pages().Back(t.Context(), nil, everything)
			if err != nil {
				t.Fatal(err)
			}
			more = r.More
		}
		if got := ids(t, b, dead); !slices.Equal(got, from(0, 7)) || len(inPages(t, b)) == 0 {
			t.Errorf("%v, in pages %v", got, inPages(t, b))
		}
	})
}

// keeping refuses to delete queues.
type keeping struct{ queue.Broker }

func (k *keeping) Lease(ctx context.Context, name string) (queue.Lease, error) {
	l, err := k.Broker.Lease(ctx, name)
	return keepingLease{l}, err
}

type keepingLease struct{ queue.Lease }

func (l keepingLease) On(spec queue.Spec) queue.Lease { return keepingLease{l.Lease.On(spec)} }

func (l keepingLease) Drop(context.Context) error { return errors.New("403") }

// A turn whose time is over before it has moved anything, since RabbitMQ is slow, is not the last.
func TestATurnOfASortThatHasNoTimeToMoveAnythingSaysThatThereIsMore(t *testing.T) {
	idle := 0
	for range 40 { // which of two channels that are ready is taken is left to chance
		inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
			bury(t, b, 3)
			enough := make(chan struct{})
			f := &faulty{Broker: b, at: 3, crash: func() { close(enough) }} // as its window is opened
			r, err := paged(f, 8).Pages().Sort(t.Context(), enough, "op", everything)
			if err != nil || !f.reached() || !r.More && r.Done < 3 {
				t.Fatalf("%+v, %v", r, err)
			}
			if r.Done == 0 {
				idle++
			}
		})
	}
	if idle == 0 {
		t.Error("each had time")
	}
}

// Who may not make queues had them made by somebody: without them the next delete would be refused.
func TestEmptyPagesThatNobodyHereMayMakeAgainStay(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		bury(t, b, 9)
		s := deadset.New(deadset.Config{App: "a", Stream: "s", Queue: dead, Instant: ready, Broker: b, WalkBytes: 900, Pages: 8, TrashPages: 8, KeepPages: true})
		sorted(t, s, "op")
		before := len(inPages(t, b))
		if done, err := throw(t, s, everythingOf("op_1")); err != nil || done != 9 {
			t.Fatalf("%d deleted, %v", done, err)
		}
		if done := restore(t, s, everythingOf("op_2")); done != 9 {
			t.Fatalf("%d restored", done)
		}
		for range 4 {
			time.Sleep(6 * time.Minute)
			if err := s.Pages().Tidy(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if got := inPages(t, b); len(got) != before || before == 0 {
			t.Errorf("pages are %v, and there were %d", got, before)
		}
		if _, err := b.Depth(t.Context(), deadset.TrashOf(dead, keep, 0)); err != nil {
			t.Errorf("that of the trash: %v", err)
		}
	})
}

// dying is a broker in whose dead set something dies with each window that is opened.
type dying struct {
	queue.Broker
	windows int
	die     func(window int)
}

func (d *dying) Lease(ctx context.Context, name string) (queue.Lease, error) {
	l, err := d.Broker.Lease(ctx, name)
	if err != nil {
		return nil, err
	}
	return dyingLease{l, d}, nil
}

type dyingLease struct {
	queue.Lease
	of *dying
}

func (l dyingLease) Window(ctx context.Context, most, maxBytes int) (queue.Window, error) {
	w, err := l.Lease.Window(ctx, most, maxBytes)
	l.of.windows++
	l.of.die(l.of.windows)
	return w, err
}

// Where messages died faster than a window was read, it never came to an end.
func TestASortEndsThoughMessagesGoOnDying(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		bury(t, b, 9)
		sorted(t, paged(b, 16), "op_1")
		buryMore(t, b, 9, 3)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		d := &dying{Broker: b, die: func(window int) {
			if window == 100 {
				cancel()
			}
			buryMore(t, b, 100+window, 1)
		}}
		r, err := paged(d, 16).Pages().Sort(ctx, nil, "op_1", 3)
		if err != nil || r.Done != 3 && !r.More || d.windows > 10 {
			t.Errorf("%+v, %v, after %d windows", r, err, d.windows)
		}
	})
}

func TestTwoMessagesOfOneIDThatDiedAtDifferentTimesAreTwoInAPage(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		s := deadset.New(deadset.Config{App: "a", Stream: "s", Queue: dead, Instant: ready, Broker: b, Pages: 8})
		bury(t, b, 3)
		time.Sleep(time.Second)
		bury(t, b, 3)
		sorted(t, s, "op_sort")
		if all := listed(t, s); len(all) != 6 {
			t.Errorf("of 6 messages a look sees %v", all)
		}
		if n, inPages, err := s.Pages().Count(t.Context()); n != 6 || inPages != 6 || err != nil {
			t.Errorf("%d of 6 are there, %d in pages, %v", n, inPages, err)
		}
	})
}
