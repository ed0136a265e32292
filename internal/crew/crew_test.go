package crew

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/seats"
	"github.com/stepwell/stepwell/internal/task"
)

func TestFastCallsRunInAStretchThatIsSettledInOneStep(t *testing.T) {
	var order []int64
	handle := func(_ context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
		order = append(order, m.Origin.Offset)
		return task.Settled
	}
	inCrew(t, Config{Handle: handle, Size: 4}, func(_ *Crew, s *source) {
		s.put(make([]uint64, StretchSize)...)
		synctest.Wait()
		if s.steps != 1 || !slices.Equal(s.sees(&s.settled), upTo(StretchSize)) || !slices.Equal(order, upTo(StretchSize)) {
			t.Errorf("settled %v in %d steps, called %v", s.settled, s.steps, order)
		}
	})
}

func TestWhoGathersIsGivenAWholeStretchWhichIsToldInOneStep(t *testing.T) {
	var given [][]int64
	running := 0
	cfg := Config{Size: 1, Handle: settle}
	cfg.Gather = func(_ task.Gatherable, stretch []Entry) {
		var offsets []int64
		for _, e := range stretch {
			offsets = append(offsets, e.Message.Origin.Offset)
		}
		given = append(given, offsets)
	}
	inCrew(t, cfg, func(c *Crew, s *source) {
		c.Pause()
		s.put(make([]uint64, StretchSize+3)...)
		s.put(7, 7)
		synctest.Wait()
		if len(given) > 0 {
			t.Fatalf("given in a pause: %v", given)
		}
		c.Resume()
		s.roster.Offer()
		synctest.Wait()
		if all := slices.Concat(given...); len(given) != 2 || len(given[0]) != StretchSize || !slices.Equal(all, upTo(StretchSize+5)) {
			t.Errorf("given: %v", given)
		}
		s.note(func() { running = s.roster.Running() })
		if got := s.sees(&s.gathered); s.steps != 2 || running != 0 || !slices.Equal(got, upTo(StretchSize+5)) {
			t.Errorf("told in %d steps, %d still run: %v", s.steps, running, got)
		}
		s.roster.Halt()
		s.put(0)
		synctest.Wait()
		if len(given) != 2 || len(s.sees(&s.settled)) > 0 {
			t.Errorf("after the halt: %v, %v", given, s.settled)
		}
	})
}

// hasty halts its roster as soon as a worker lets go of the lock.
type hasty struct {
	*source
	halts bool
}

func (h *hasty) Unlock() {
	if h.halts && h.roster.running > 0 {
		h.roster.Halt()
	}
	h.source.Unlock()
}

func TestWhatIsHaltedBeforeItIsGatheredIsNot(t *testing.T) {
	given := 0
	cfg := Config{Size: 1, Handle: settle, Gather: func(task.Gatherable, []Entry) { given++ }}
	inCrew(t, cfg, func(c *Crew, s *source) {
		h := &hasty{source: newSource(c, nil), halts: true}
		h.roster = c.NewRoster(h, h.source)
		h.put(0, 7, 7)
		synctest.Wait()
		if running := h.roster.Running(); given > 0 || h.steps > 0 || running > 0 {
			t.Errorf("gathered %d times, told %d times, %d run", given, h.steps, running)
		}
		h.cancel()
		s.put(0)
		synctest.Wait()
		if given != 1 {
			t.Errorf("another feed's were gathered %d times", given)
		}
	})
}

// A worker is to hold nothing that it is through with while it rests or waits: one message keeps
// all that was fetched with it in memory.
func TestAWorkerThatRestsOrWaitsKeepsNothingOfItsLastStretch(t *testing.T) {
	for name, waits := range map[string]func(c *Crew) task.Handle{
		"rests": func(*Crew) task.Handle {
			return func(ctx context.Context, m *stepwell.Message, tk task.Ticket) task.Outcome {
				tk.Rest(ctx, time.Hour, m)
				return task.Abandoned
			}
		},
		"waits for the end of a pause": func(c *Crew) task.Handle {
			return slowly(2*time.Minute, func(context.Context, *stepwell.Message, task.Ticket) task.Outcome {
				c.Pause() // the next of its key has come meanwhile
				return task.Settled
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			var other *source
			handle := func(_ context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
				if m.Origin.Offset == StretchSize-1 {
					other.roster.Offer() // before the worker sleeps
				}
				return task.Settled
			}
			inCrew(t, Config{Size: 2, Handle: handle}, func(c *Crew, s *source) {
				third := newSource(c, wary{slowly(time.Minute, settle)})
				third.put(0) // so that one worker does all that follows
				synctest.Wait()
				c.Pause()
				s.put(make([]uint64, StretchSize)...)
				var messages []weak.Pointer[stepwell.Message]
				for _, e := range s.queue {
					messages = append(messages, weak.Make(e.Message))
				}
				other = newSource(c, wary{waits(c)})
				other.put(7, 7)
				synctest.Wait()
				c.Resume()
				s.roster.Offer()
				time.Sleep(3 * time.Minute)
				if len(s.sees(&s.settled)) != StretchSize {
					t.Fatalf("settled: %v", s.settled)
				}
				s.queue = nil
				runtime.GC()
				for i, m := range messages {
					if m.Value() != nil {
						t.Fatalf("message %d of %d is kept", i, len(messages))
					}
				}
				for _, x := range []*source{other, third} {
					x.roster.Halt()
					x.cancel()
				}
				c.Resume()
			})
		})
	}
}

// wary has every message run by itself.
type wary struct{ handle task.Handle }

func (wary) Free() bool                                             { return false }
func (wary) SetAside(Entry) bool                                    { return false }
func (wary) NextAside() (Entry, bool)                               { return Entry{}, false }
func (w wary) Handle(int64) task.Handle                             { return w.handle }
func (wary) Rests(Rest)                                             {}
func (wary) AwaitTurn(context.Context, int64, <-chan struct{}) bool { return true }

func TestAFeedThatAsksKnowsWhatAStretchHasDoneSoFarAndNoMore(t *testing.T) {
	var s *source
	var seen []int64
	handle := func(_ context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
		if m.Origin.Offset == 10 {
			s.note(func() { s.roster.Flush(); seen = slices.Clone(s.settled) })
		}
		return task.Settled
	}
	inCrew(t, Config{Handle: handle, Size: 1}, func(_ *Crew, feed *source) {
		s = feed
		s.put(make([]uint64, 20)...)
		synctest.Wait()
		if !slices.Equal(seen, upTo(10)) || !slices.Equal(s.sees(&s.settled), upTo(20)) {
			t.Errorf("during call 10 %v were settled, in the end %v", seen, s.settled)
		}
	})
}

func TestWhatIsPendingInAStretchIsNeverSettledByIt(t *testing.T) {
	handle := func(_ context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
		if m.Origin.Offset%7 == 3 {
			return task.Pending
		}
		return task.Settled
	}
	inCrew(t, Config{Handle: handle, Size: 2}, func(_ *Crew, s *source) {
		s.put(make([]uint64, 30)...)
		synctest.Wait()
		if !slices.Equal(s.sees(&s.pending), []int64{3, 10, 17, 24}) || len(s.sees(&s.settled)) != 26 {
			t.Errorf("pending %v, settled %v", s.pending, s.settled)
		}
	})
}

func TestASlowSingleStretchDoesNotHoldTheQueueBack(t *testing.T) {
	var release chan struct{}
	handle := func(_ context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
		if m.Origin.Offset == 0 {
			<-release
		}
		return task.Settled
	}
	for name, put := range map[string]func(s *source){
		"what was there before":  func(s *source) { s.put(make([]uint64, 10)...) },
		"what comes during call": func(s *source) { s.put(0); synctest.Wait(); s.put(make([]uint64, 9)...) },
	} {
		t.Run(name, func(t *testing.T) {
			inCrew(t, Config{Handle: handle, Size: 2}, func(_ *Crew, s *source) {
				release = make(chan struct{})  // in the bubble
				time.Sleep(10 * watchInterval) // the watch sleeps
				put(s)
				time.Sleep(10 * watchInterval)
				if got := s.sees(&s.settled); !slices.Equal(got, upTo(10)[1:]) {
					t.Errorf("settled %v while the first call runs", got)
				}
				close(release)
				synctest.Wait()
			})
		})
	}
}

func TestAPauseLetsWhatRunsEndAndBeginsNothing(t *testing.T) {
	var begun atomic.Int64
	handle := func(ctx context.Context, m *stepwell.Message, tk task.Ticket) task.Outcome {
		begun.Add(1)
		return slowly(time.Second, settle)(ctx, m, tk)
	}
	inCrew(t, Config{Handle: handle, Size: 2}, func(c *Crew, s *source) {
		s.put(make([]uint64, 10)...)
		time.Sleep(500 * time.Millisecond)
		c.Pause()
		before := begun.Load()
		time.Sleep(time.Hour)
		if begun.Load() != before || len(s.sees(&s.settled)) != int(before) {
			t.Errorf("%d began, %d in the pause; settled %v", before, begun.Load()-before, s.settled)
		}
		c.Resume()
		s.roster.Offer()
		time.Sleep(time.Minute)
		if !slices.Equal(s.sees(&s.settled), upTo(10)) {
			t.Errorf("settled %v", s.settled)
		}
	})
}

func TestAfterACallWithoutAVerdictItsFeedHandsOutNothingMoreAndOthersGoOn(t *testing.T) {
	for name, slow := range map[string]time.Duration{"in a stretch": 0, "by itself": time.Second} {
		t.Run(name, func(t *testing.T) {
			handle := func(_ context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
				if m.Origin.Offset == 5 {
					return 0 // forgotten
				}
				return task.Settled
			}
			inCrew(t, Config{Handle: slowly(slow, handle), Size: 1}, func(c *Crew, s *source) {
				other := newSource(c, nil)
				s.put(slices.Repeat([]uint64{1}, 10)...)
				time.Sleep(time.Minute)
				other.put(1, 1, 1)
				time.Sleep(time.Minute)
				if !slices.Equal(s.sees(&s.settled), upTo(5)) || !slices.Equal(s.sees(&s.abandoned), []int64{5}) || !slices.Equal(other.sees(&other.settled), upTo(3)) {
					t.Errorf("settled %v, abandoned %v; of the other feed %v", s.settled, s.abandoned, other.settled)
				}
				other.roster.Halt()
			})
		})
	}
}

func TestAHandlerThatEndsItsGoroutineTellsWhichAndOthersComeToTheirEnd(t *testing.T) {
	handle := func(ctx context.Context, m *stepwell.Message, tk task.Ticket) task.Outcome {
		if m.Origin.Offset == 5 {
			runtime.Goexit()
		}
		return slowly(time.Minute, settle)(ctx, m, tk)
	}
	shared := seats.New(2)
	inCrew(t, Config{Handle: handle, Size: 2, Seats: shared.First()}, func(c *Crew, s *source) {
		other := newSource(c, nil)
		other.put(0)
		synctest.Wait()
		s.next = 5
		s.put(1, 1)
		<-c.Failed()
		if err := c.Err(); !errors.Is(err, errDeserted) || !slices.Equal(s.sees(&s.deserted), []int64{5}) {
			t.Errorf("%v, %v", err, s.deserted)
		}
		s.roster.Offer()
		time.Sleep(time.Hour)
		if len(s.sees(&s.settled)) > 0 || len(s.sees(&s.deserted)) != 1 || !slices.Equal(other.sees(&other.settled), []int64{0}) || shared.Taken() != 0 {
			t.Errorf("settled %v; of the other feed %v; %d seats are taken", s.settled, other.settled, shared.Taken())
		}
		other.roster.Halt()
	})
}

// asider keeps one message aside until it is let go.
type asider struct {
	*source
	which int64
	kept  []Entry
	freed bool
}

func (a *asider) Free() bool { return false }

func (a *asider) SetAside(e Entry) bool {
	if e.Offset == a.which && !a.freed {
		a.kept = append(a.kept, e)
		return true
	}
	return false
}

func (a *asider) NextAside() (Entry, bool) {
	if !a.freed || len(a.kept) == 0 {
		return Entry{}, false
	}
	e := a.kept[0]
	a.kept = nil
	return e, true
}

func TestASuspectThatIsSetAsideHoldsUpItsKeyAlone(t *testing.T) {
	inCrew(t, Config{Handle: slowly(time.Second, settle), Size: 3}, func(c *Crew, _ *source) {
		a := &asider{which: 2}
		a.source = newSource(c, a)
		a.roster = c.NewRoster(a.source, a)
		a.put(1, 2, 1, 2, 1, 2) // 2 is of key 1, and so is 4
		time.Sleep(time.Minute)
		if got := a.sees(&a.settled); !slices.Equal(got, []int64{0, 1, 3, 5}) {
			t.Errorf("settled %v while it is aside", got)
		}
		a.note(func() { a.freed = true })
		a.roster.Offer()
		time.Sleep(time.Minute)
		if got := a.ordered(); !slices.Equal(got[4:], []int64{2, 4}) {
			t.Errorf("then settled %v", got[4:])
		}
		a.roster.Halt()
	})
}

// Whatever calls do, each message is handled once, a key in its order, on no more lanes than there
// are.
func TestWhateverCallsDoEachMessageIsHandledOnceAndAKeyInItsOrder(t *testing.T) {
	for seed := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		ways := rand.New(rand.NewPCG(seed, 2)) // of the handler, under mu
		size, keys, n := 1+rnd.IntN(5), 1+rnd.IntN(20), 300
		var mu sync.Mutex
		lanes, last := map[int]bool{}, map[uint64]int64{}
		var order []uint64
		enter := func(lane int) {
			mu.Lock()
			defer mu.Unlock()
			if lanes[lane] || lane < 0 || lane >= size {
				t.Errorf("seed %d: lane %d of %d is taken", seed, lane, size)
			}
			lanes[lane] = true
		}
		leave := func(lane int) {
			mu.Lock()
			defer mu.Unlock()
			lanes[lane] = false
		}
		handle := func(ctx context.Context, m *stepwell.Message, tk task.Ticket) task.Outcome {
			mu.Lock()
			if key := order[m.Origin.Offset]; key != 0 {
				if m.Origin.Offset <= last[key] {
					t.Errorf("seed %d: %d of a key after %d", seed, m.Origin.Offset, last[key])
				}
				last[key] = m.Origin.Offset
			}
			way := ways.IntN(40)
			mu.Unlock()
			enter(laneOf(tk))
			switch {
			case way == 0:
				time.Sleep(20 * time.Millisecond)
			case way < 4:
				leave(laneOf(tk))
				if !tk.Rest(ctx, 5*time.Millisecond, m.Clone()) {
					return task.Abandoned
				}
				enter(laneOf(tk))
			case way == 5:
				over := make(chan struct{})
				time.AfterFunc(5*time.Millisecond, func() { close(over) })
				leave(laneOf(tk))
				tk.RestUntil(ctx, over, m.Clone())
				enter(laneOf(tk))
			case way == 4:
				time.AfterFunc(time.Millisecond, tk.Settle)
				leave(laneOf(tk))
				return task.Pending
			}
			leave(laneOf(tk))
			return task.Settled
		}
		shared := seats.New(size)
		inCrew(t, Config{Handle: handle, Size: size, Seats: shared.First()}, func(c *Crew, s *source) {
			for len(order) < n {
				var some []uint64
				for range 1 + rnd.IntN(100) {
					some = append(some, uint64(rnd.IntN(keys+1)))
				}
				mu.Lock()
				order = append(order, some...)
				for _, key := range some {
					if _, ok := last[key]; !ok {
						last[key] = -1
					}
				}
				paused := rnd.IntN(3) == 0
				mu.Unlock()
				s.put(some...)
				if paused {
					c.Pause()
					time.Sleep(time.Millisecond)
					c.Resume()
					s.roster.Offer()
				}
			}
			time.Sleep(time.Hour)
			if got := s.sees(&s.settled); !slices.Equal(got, upTo(int64(len(order)))) {
				t.Errorf("seed %d: %d of %d are settled, each once: %v", seed, len(got), len(order), slices.Equal(slices.Compact(got), got))
			}
			if shared.Taken() != 0 || s.resting != 0 || s.roster.Running() != 0 {
				t.Errorf("seed %d: %d seats are taken, %d rest, %d run", seed, shared.Taken(), s.resting, s.roster.Running())
			}
		})
	}
}

func TestCallsInAStretchAllocateNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // where no call is slow, however busy the machine is
		c := New(Config{Handle: settle})
		s := newSource(c, nil)
		serve := c.Inline()
		m := &stepwell.Message{}
		s.settled = make([]int64, 0, 1<<16)
		round := func() {
			s.settled = s.settled[:0]
			for o := range int64(StretchSize) {
				s.roster.Add(Entry{Message: m, Offset: o, Key: uint64(o%7) + 1})
			}
			serve(s.roster)
			if len(s.settled) != StretchSize {
				t.Fatalf("%d are settled", len(s.settled))
			}
		}
		round()
		if n := testing.AllocsPerRun(100, round); n > 1 { // the list of the test's own Done
			t.Errorf("%v allocations for %d calls", n, StretchSize)
		}
	})
}

// laneOf is where the call runs.
func laneOf(t task.Ticket) int {
	lane, _ := t.Running()
	return lane
}
