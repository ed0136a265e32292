package operations

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// saga is one replay, with all that happens to it, until it is over.
type saga struct {
	random *rand.Rand
	world  *deadWorld
	store  Store
	terms  int64
	wish   Request
	// runner is that of the process that lives now, until stop; kills are those of its like.
	runner *Runner
	life   *life
	stop   func()
	kills  int
	// accepted are the failures that a person has seen when he let it go on. forgiven are how many
	// messages do not count any more: these, and those of which nobody told.
	accepted Accepted
	forgiven int
	// short says that done may stay behind what is gone.
	short bool
	// story is what happened, for who reads of a failure.
	story []string
}

func newSaga(seed uint64) *saga {
	random := rand.New(rand.NewPCG(seed, 1))
	n := 20 + random.IntN(400)
	w := &deadWorld{random: rand.New(rand.NewPCG(seed, 2)), sees: n, late: time.Duration(1 + random.Int64N(int64(20*time.Second)))}
	if random.IntN(2) == 0 {
		w.sees = 30 + random.IntN(n)
	}
	failing := []float64{0, 0, 0.02, 0.1, 0.5, 1}[random.IntN(6)]
	for i := range n {
		w.all = append(w.all, &deadMessage{id: strconv.Itoa(i), fails: random.Float64() < failing})
	}
	s := &saga{random: random, world: w, store: NewMemory(), wish: request(orders)}
	switch random.IntN(4) {
	case 0:
		s.wish.StopAt.Count = 1 + random.IntN(30)
	case 1:
		s.wish.StopAt.Percent = float64(1 + random.IntN(100))
	}
	if random.IntN(2) == 0 {
		s.wish.Canary = 1 + random.IntN(20)
	}
	if random.IntN(2) == 0 {
		expect := n
		if w.sees < n {
			expect = w.sees + random.IntN(n-w.sees+1)
		}
		s.wish.Expect = &expect
	}
	return s
}

func (s *saga) note(format string, of ...any) {
	s.story = append(s.story, time.Now().Format("04:05.000 ")+fmt.Sprintf(format, of...))
}

// begin starts a process.
func (s *saga) begin() {
	s.life = &life{}
	s.life.left.Store(1 << 40)
	s.runner = New(Config{
		Store: mortalStore{s.store, s.life}, Sets: map[Target]DeadSet{orders: &mortalSet{world: s.world, life: s.life}},
		Outcomes: s.world, Logger: slog.New(slog.DiscardHandler), Election: succession{&s.terms},
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = s.runner.Run(ctx) })
	s.stop = func() { cancel(); running.Wait() }
}

// happens is one thing that happens to it while it runs, or nothing.
func (s *saga) happens(o *Operation) {
	switch s.random.IntN(12) {
	case 0, 1:
		if s.kills++; s.kills <= 4 {
			steps := s.random.Int64N(60)
			s.note("it is to be killed in %d steps", steps)
			s.life.left.Store(steps)
		}
	case 2:
		messages := 1 + s.random.IntN(30)
		s.note("the broker is away after %d messages more", messages)
		s.world.set(func(w *deadWorld) { w.cutAfter = messages })
	case 3:
		s.note("a person pauses it")
		s.wishes(o.ID, Paused)
	}
}

// resume lets it go on, or cancels it where that is of no use. Where no turn is announced nothing
// says after a pause that a turn before it was cut off: if nobody looked in between, as where the
// process was killed meanwhile, what that turn did is never counted.
func (s *saga) resume(o *Operation) {
	announced := s.wish.Expect != nil || s.wish.StopAt != StopAt{} || s.wish.Canary > 0 && !o.CanaryOver
	s.world.set(func(w *deadWorld) {
		s.note("paused: %q, %d sent, %d failed", o.Why, w.sent, w.tally.Failed)
		s.short = s.short || w.unclear && !announced
	})
	next := Running
	if strings.Contains(o.Why, "expected") && s.random.IntN(4) == 0 {
		next = Cancelled
	}
	s.wishes(o.ID, next)
	if o, err := s.store.Load(context.Background(), o.ID); err == nil && o.Accepted != s.accepted {
		s.accepted = o.Accepted
		s.forgiven = max(s.forgiven, o.Accepted.Failed+o.Accepted.Unknown)
	}
}

// wishes is a person who waits for an answer for a while: who is asked may be killed.
func (s *saga) wishes(id string, p Phase) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, _ = s.runner.Change(ctx, id, Change{Phase: p})
}

// wrong says what must not be, and is; empty: nothing. What is done is compared with what is gone
// only where all is in view: else a look after a turn that was cut off cannot tell what that turn
// did from what has come into view, and done may be more, or less.
func (s *saga) wrong(o *Operation) string {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	sent, failed, tried := s.world.sent, s.world.tally.Failed, s.world.tally.Tried()
	limit, share := s.wish.StopAt, s.wish.StopAt.Percent*float64(tried-s.accepted.Tried)/100
	left, _ := s.world.look()
	gone, seesAll := s.world.gone(), len(s.world.all) <= s.world.sees
	switch {
	case s.wish.Expect != nil && sent > *s.wish.Expect:
		return fmt.Sprintf("%d are sent, and %d were expected", sent, *s.wish.Expect)
	case limit.Count > 0 && failed > s.forgiven+limit.Count:
		return fmt.Sprintf("%d failed, of which %d were forgiven, and stop_at is %s", failed, s.forgiven, limit)
	case limit.Percent > 0 && float64(failed-s.forgiven) >= max(shareFrom, share)+fewUnknown:
		return fmt.Sprintf("%d of %d failed, of which %d were forgiven, and stop_at is %s", failed, tried, s.forgiven, limit)
	case o.Phase == Done && len(left) > 0:
		return fmt.Sprintf("it is done, and %d are left in view", len(left))
	case seesAll && (o.Done > gone || o.Phase == Done && !s.short && o.Done < gone):
		return fmt.Sprintf("%s: %d are done, and %d are gone", o.Phase, o.Done, gone)
	}
	return ""
}

// words are what was asked for.
func (s *saga) words() string {
	expect := "any"
	if s.wish.Expect != nil {
		expect = strconv.Itoa(*s.wish.Expect)
	}
	return fmt.Sprintf("expect %s, canary %d, stop_at %q", expect, s.wish.Canary, s.wish.StopAt)
}

// run plays it to its end, or for as long as somebody looks, and returns how far it came then.
func (s *saga) run(t *testing.T) (last Phase, wrong string) {
	s.begin()
	defer func() { s.stop() }()
	rate := Unlimited
	if s.random.IntN(3) == 0 {
		rate = fmt.Sprintf("%d/s", 1+s.random.IntN(100))
	}
	id := ask(t, s.runner, s.wish, rate).ID
	s.note("%d messages, %d in view, at %s: %s", len(s.world.all), s.world.sees, rate, s.words())
	for range 400 {
		time.Sleep(time.Duration(s.random.Int64N(int64(3 * time.Second))))
		synctest.Wait()
		o, err := s.store.Load(t.Context(), id)
		if err != nil {
			return "", err.Error()
		}
		last = o.Phase
		if wrong = s.wrong(&o); wrong != "" || last.IsOver() {
			return last, wrong
		}
		switch {
		case s.life.over.Load():
			s.world.set(func(w *deadWorld) {
				s.note("killed: done %d, begun %d of %d, %d sent", o.Done, o.Begun, o.Matched, w.sent)
				w.unclear = true
			})
			s.stop()
			s.begin()
		case o.Phase == Paused:
			s.resume(&o)
		default:
			s.happens(&o)
		}
	}
	return last, ""
}

// Each seed is one replay. What happens is drawn while it happens, by several goroutines of a false
// clock: rapid could neither draw that nor make it smaller.
func TestWhateverIsKilledCutOffOrPausedAReplayDoesNoMoreThanItMayAndCountsWhatIsGone(t *testing.T) {
	const seeds = 1000
	over := 0
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSaga(seed)
				last, wrong := s.run(t)
				if wrong != "" {
					t.Errorf("seed %d: %s\n%s", seed, wrong, strings.Join(s.story, "\n"))
				}
				if last.IsOver() {
					over++
				}
			})
		})
	}
	if over < seeds*3/4 {
		t.Errorf("only %d of %d came to an end", over, seeds)
	}
}
