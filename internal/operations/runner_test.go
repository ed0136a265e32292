package operations

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// pile is a dead set of which only counts are known.
type pile struct {
	inbox
	// match messages are in view, behind lie more, that a look does not see before others went.
	match, behind int
	unseen        int // never seen
	// young are as many more that match and died at the moment storm, or later.
	young int
	storm time.Time
	takes time.Duration
	err   error
	// turnErr is the error of turns alone, samples how often it was counted, and tooLarge how many
	// a turn found that it could not publish.
	turnErr           error
	samples, tooLarge int
	// halfway is how many the next turn does before the broker is away, and it knows of none; 0: it
	// is not.
	halfway int

	turns []int // how many each might do
	began []time.Time
	busy  int // turns under way
	held  bool
}

func (p *pile) May(_ context.Context, r *Request) error {
	if r.Action != Replay && r.Action != Delete && !Sorts(r.Action) {
		return ErrNever
	}
	return nil
}

func (p *pile) Sample(_ context.Context, r *Request) (Sample, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.samples++
	if !p.storm.IsZero() && !r.Before.Before(p.storm) {
		return Sample{Matched: p.match + p.young}, p.err
	}
	return Sample{Matched: p.match, Unsorted: p.behind + p.unseen, LeftOut: LeftOut{CrashLoop: 2}}, p.err
}

func (p *pile) Turn(ctx context.Context, enough <-chan struct{}, r *Request, most int) (t Turn, err error) {
	p.mu.Lock()
	if !p.storm.IsZero() && !r.Before.Before(p.storm) {
		panic("a turn takes what died in the storm")
	}
	if p.busy++; p.busy > 1 {
		panic("two turns at once")
	}
	p.turns, p.began = append(p.turns, most), append(p.began, time.Now())
	if did := min(p.match, p.halfway); did > 0 {
		p.match, p.halfway, p.busy = p.match-did, 0, p.busy-1
		p.mu.Unlock()
		return Turn{Begun: did, More: true}, ErrAway
	}
	takes, held, failed := p.takes, p.held, cmp.Or(p.turnErr, p.err)
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.busy--
	}()
	if failed != nil {
		return Turn{More: true}, failed
	}
	if held { // as one that waits for confirms
		<-enough
		<-ctx.Done()
		return Turn{More: true}, ctx.Err()
	}
	if takes > 0 {
		select {
		case <-time.After(takes):
		case <-enough:
			return Turn{Unseen: p.unseen, More: true}, nil
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	t = Turn{Done: min(p.match, most), Unseen: p.behind + p.unseen, LeftOut: LeftOut{CrashLoop: 2, TooLarge: p.tooLarge}}
	t.Begun = t.Done
	t.More = t.Done == most
	p.match -= t.Done
	come := min(p.behind, t.Done)
	p.match, p.behind = p.match+come, p.behind-come
	return t, nil
}

func (p *pile) set(change func(*pile)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
}

var orders, slow = Target{Stream: "orders"}, Target{Stream: "orders", Channel: "slow"}

// run runs a Runner on a false clock.
func run(t *testing.T, test func(t *testing.T, r *Runner, p *pile)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &pile{}
		sets := map[Target]DeadSet{orders: p}
		for i := range 9 {
			sets[Target{Stream: fmt.Sprint(i)}] = &pile{match: 1, takes: time.Hour}
		}
		r := New(Config{Store: NewMemory(), Sets: sets, Name: "here", Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		test(t, r, p)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func request(at Target, expect ...int) Request {
	time.Sleep(time.Millisecond) // so that one is older than the next
	r := Request{Action: Replay, Target: at, Select: Selection{All: true}, CreatedAt: time.Now(), By: "alice"}
	if len(expect) > 0 {
		r.Expect = &expect[0]
	}
	return r
}

// ask asks for an operation.
func ask(t *testing.T, r *Runner, request Request, rate string) Operation {
	t.Helper()
	limit, err := ParseRate(rate)
	if err != nil {
		t.Fatal(err)
	}
	o, known, err := r.Ask(t.Context(), request, limit, "")
	if err != nil || known || o.Phase != Queued {
		t.Fatalf("%+v, %t, %v", o, known, err)
	}
	return o
}

func find(t *testing.T, r *Runner, id string) Operation {
	t.Helper()
	synctest.Wait()
	o, err := r.Find(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func change(t *testing.T, r *Runner, id string, p Phase) Operation {
	t.Helper()
	o, err := r.Change(t.Context(), id, Change{Phase: p})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestAnOperationIsDoneWhenAFreshLookFindsNothingMore(t *testing.T) {
	run(t, func(t *testing.T, r *Runner, p *pile) {
		p.set(func(p *pile) { p.match, p.behind = 2000, 3000 })
		id := ask(t, r, request(orders), Unlimited).ID
		time.Sleep(time.Minute)
		o := find(t, r, id)
		if o.Phase != Done || o.Done != 5000 || o.Matched != 5000 || !o.Complete || o.Why != "" || o.LeftOut.CrashLoop != 2 || o.Runner != "here" || o.StartedAt.IsZero() || o.EndedAt.IsZero() {
			t.Errorf("%+v", o)
		}
		if len(p.turns) != 4 { // three windows, and the look that finds nothing
			t.Errorf("%d turns", len(p.turns))
		}
		for i := range p.began[1:] {
			if free := p.began[i+1].Sub(p.began[i]); free < freeTime {
				t.Errorf("free for %s between two turns", free)
			}
		}
	})
}

func TestWhereNothingThatALookSeesMatchesItEndsAndSaysWhatWasNotSeen(t *testing.T) {
	run(t, func(t *testing.T, r *Runner, p *pile) {
		p.set(func(p *pile) { p.match, p.unseen = 10, 92_000 })
		id := ask(t, r, request(orders), Unlimited).ID
		time.Sleep(time.Hour)
		if o := find(t, r, id); o.Phase != Done || o.Done != 10 || o.Complete || o.Unsorted != 92_000 || o.Why == "" || len(p.turns) != 2 {
			t.Errorf("%+v, %d turns", o, len(p.turns))
		}
	})
}

func TestARateIsKeptAndMayBeChanged(t *testing.T) {
	run(t, func(t *testing.T, r *Runner, p *pile) {
		p.set(func(p *pile) { p.match = 100_000 })
		id := ask(t, r, request(orders), "200/s").ID
		time.Sleep(10*time.Second - time.Millisecond)
		if o := find(t, r, id); o.Done < 1600 || o.Done > 2000 || o.ETASeconds < 480 || o.ETASeconds > 500 {
			t.Errorf("after ten seconds: %+v", o)
		}
		rate := Rate{10, time.Minute}
		before := find(t, r, id).Done
		if o, err := r.Change(t.Context(), id, Change{Rate: &rate}); err != nil || o.Rate != rate || o.Phase != Running {
			t.Errorf("%+v, %v", o, err)
		}
		time.Sleep(5 * time.Minute)
		if o := find(t, r, id); o.Done-before < 48 || o.Done-before > 52 {
			t.Errorf("five minutes of ten: %d", o.Done-before)
		}
	})
}

func TestAPauseEndsTheTurnAndAResumeGoesOn(t *testing.T) {
	run(t, func(t *testing.T, r *Runner, p *pile) {
		p.set(func(p *pile) { p.match, p.takes = 100, time.Second })
		id := ask(t, r, request(orders), Unlimited).ID
		time.Sleep(freeTime + time.Millisecond) // in its first turn
		began := time.Now()
		if o := change(t, r, id, Paused); o.Phase != Paused || time.Since(began) > 0 {
			t.Errorf("%+v after %s", o, time.Since(began))
		}
		if on := r.RunningOn(orders); on != "" {
			t.Errorf("%s runs", on)
		}
		time.Sleep(time.Hour)
		if o := change(t, r, id, Paused); o.Done != 0 || o.Phase != Paused || len(p.turns) != 1 {
			t.Errorf("while it pauses: %+v, %d turns", o, len(p.turns))
		}
		if o := change(t, r, id, Running); o.Phase.IsOver() {
			t.Errorf("%+v", o)
		}
		synctest.Wait()
		if on := r.RunningOn(orders); on != id {
			t.Errorf("%q runs", on)
		}
		time.Sleep(time.Minute)
		if o := find(t, r, id); o.Phase != Done || o.Done != 100 {
			t.Errorf("%+v", o)
		}
		if _, err := r.Change(t.Context(), id, Change{Phase: Paused}); !errors.Is(err, ErrOver) {
			t.Errorf("%v", err)
		}
		if _, err := r.Change(t.Context(), "op_x", Change{Phase: Paused}); !errors.Is(err, ErrUnknown) {
			t.Errorf("%v", err)
		}
	})
}

func TestACancelEndsWhatRunsPausesOrWaits(t *testing.T) {
	run(t, func(t *testing.T, r *Runner, p *pile) {
		p.set(func(p *pile) { p.match, p.takes = 100, time.Second })
		runs, waits := ask(t, r, request(orders), Unlimited).ID, ask(t, r, request(orders), Unlimited).ID
		time.Sleep(freeTime + time.Millisecond)
		change(t, r, waits, Paused)
		for _, id := range []string{waits, runs} {
			if o := change(t, r, id, Cancelled); o.Phase != Cancelled || o.EndedAt.IsZero() {
				t.Errorf("%+v", o)
			}
		}
		time.Sleep(time.Minute)
		if len(p.turns) != 1 || p.match != 100 {
			t.Errorf("%d turns", len(p.turns))
		}
	})
}

func TestOneOperationRunsOnADeadSetAndFourAtOnceAndAPausedOneDoesNotCount(t *testing.T) {
	run(t, func(t *testing.T, r *Runner, p *pile) {
		var ids []string
		for i := range 6 {
			for range 2 {
				ids = append(ids, ask(t, r, request(Target{Stream: fmt.Sprint(i)}), Unlimited).ID)
			}
		}
		phases := func() (all []Phase) {
			for _, id := range ids {
				all = append(all, find(t, r, id).Phase)
			}
			return all
		}
		if got := fmt.Sprint(phases()); got != "[running queued running queued running queued running queued queued queued queued queued]" {
			t.Errorf("%s", got)
		}
		change(t, r, ids[0], Paused)
		if got := fmt.Sprint(phases()); got != "[paused running running queued running queued running queued queued queued queued queued]" {
			t.Errorf("%s", got)
		}
		change(t, r, ids[0], Running)
		change(t, r, ids[2], Cancelled)
		if got := fmt.Sprint(phases()); got != "[queued running cancelled running running queued running queued queued queued queued queued]" {
			t.Errorf("%s", got)
		}
	})
}

func TestWhileTheBrokersAreAwayItWaitsAndSaysSo(t *testing.T) {
	run(t, func(t *testing.T, r *Runner, p *pile) {
		p.set(func(p *pile) { p.match, p.err = 10, fmt.Errorf("%w: connection refused", ErrAway) })
		id := ask(t, r, request(orders), Unlimited).ID
		time.Sleep(time.Hour)
		if o := find(t, r, id); o.Phase != Running || o.Why != "not now: connection refused" {
			t.Errorf("%+v", o)
		}
		p.set(func(p *pile) { p.err = nil })
		time.Sleep(longestWait + time.Second)
		if o := find(t, r, id); o.Phase != Done || o.Done != 10 || o.Why != "" {
			t.Errorf("%+v", o)
		}
	})
}

func TestATurnThatFindsTheBrokersAwayIsTakenAnewNotTooOftenAndNothingIsCountedTwice(t *testing.T) {
	run(t, func(t *testing.T, r *Runner, p *pile) {
		p.set(func(p *pile) { p.match, p.turnErr = 10, fmt.Errorf("%w: blocked", ErrAway) })
		id := ask(t, r, request(orders, 10), Unlimited).ID
		time.Sleep(time.Minute)
		o := find(t, r, id)
		if o.Phase != Running || o.Why != "not now: blocked" || o.Matched != 10 || o.Done != 0 || !o.Complete {
			t.Errorf("%+v", o)
		}
		// Longer and longer, up to longestWait: some twenty times in a minute.
		if len(p.turns) < 12 || len(p.turns) > 25 {
			t.Errorf("%d turns in a minute", len(p.turns))
		}
		p.set(func(p *pile) { p.turnErr, p.tooLarge = nil, 1 })
		time.Sleep(longestWait + time.Second)
		if o := find(t, r, id); o.Phase != Done || o.Done != 10 || o.Matched != 10 || o.Why != "" || o.LeftOut.TooLarge != 1 {
			t.Errorf("%+v", o)
		}
		samples, turns := p.samples, len(p.turns)
		time.Sleep(time.Hour)
		if p.samples != samples || len(p.turns) != turns {
			t.Error("it goes on though it is over")
		}
	})
}

func TestATurnThatFailsPausesItAndAResumeCountsAnew(t *testing.T) {
	run(t, func(t *testing.T, r *Runner, p *pile) {
		p.set(func(p *pile) { p.match, p.turnErr = 10, errors.New("what is this") })
		id := ask(t, r, request(orders), Unlimited).ID
		time.Sleep(time.Hour)
		if o := find(t, r, id); o.Phase != Paused || o.Why != "what is this" || len(p.turns) != 1 || p.samples != 1 {
			t.Errorf("%+v, %d turns, counted %d times", o, len(p.turns), p.samples)
		}
		p.set(func(p *pile) { p.turnErr = nil })
		change(t, r, id, Running)
		time.Sleep(time.Minute)
		if o := find(t, r, id); o.Phase != Done || o.Why != "" || o.Done != 10 || p.samples != 2 {
			t.Errorf("%+v, counted %d times", o, p.samples)
		}
	})
}

func TestWhoWaitsForAPauseIsNotLeftBehindByAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pile{match: 10, held: true}
		r := New(Config{Store: NewMemory(), Sets: map[Target]DeadSet{orders: p}, Logger: slog.New(slog.DiscardHandler)})
		ctx, stop := context.WithCancel(t.Context())
		ended, told := make(chan error), make(chan Operation)
		go func() { ended <- r.Run(ctx) }()
		id := ask(t, r, request(orders), Unlimited).ID
		time.Sleep(freeTime + time.Millisecond) // in its turn, which nobody confirms
		go func() { told <- change(t, r, id, Paused) }()
		synctest.Wait()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		<-told
		if _, _, err := r.Ask(t.Context(), Request{Target: slow}, Rate{}, ""); err == nil {
			t.Error("a dead set that there is not")
		}
		if _, err := r.Sample(t.Context(), Request{Target: slow}); err == nil {
			t.Error("a dead set that there is not")
		}
		if _, _, err := r.Ask(t.Context(), Request{Target: orders, Action: "move"}, Rate{}, ""); !errors.Is(err, ErrNever) {
			t.Errorf("%v", err)
		}
		if _, err := r.Sample(t.Context(), Request{Target: orders, Action: "move"}); !errors.Is(err, ErrNever) {
			t.Errorf("%v", err)
		}
	})
}

func TestWhatNobodyForesawPausesItAndWhatCannotBeDoneEndsIt(t *testing.T) {
	run(t, func(t *testing.T, r *Runner, p *pile) {
		p.set(func(p *pile) { p.match, p.err = 10, errors.New("what is this") })
		id := ask(t, r, request(orders), Unlimited).ID
		if o := find(t, r, id); o.Phase != Paused || o.Why != "what is this" {
			t.Errorf("%+v", o)
		}
		p.set(func(p *pile) { p.err = ErrNever })
		change(t, r, id, Running)
		if o := find(t, r, id); o.Phase != Failed || o.Why == "" {
			t.Errorf("%+v", o)
		}
	})
}

func TestAKeyAsksForTheSameOperationOnceAndForNoOther(t *testing.T) {
	run(t, func(t *testing.T, r *Runner, p *pile) {
		first := request(orders)
		first.Wish = "all of orders"
		o, known, err := r.Ask(t.Context(), first, Rate{}, "key")
		if err != nil || known {
			t.Fatal(err)
		}
		for range 2 { // under way, and over
			again, known, err := r.Ask(t.Context(), first, Rate{}, "key")
			if err != nil || !known || again.ID != o.ID {
				t.Errorf("%+v, %t, %v", again, known, err)
			}
			time.Sleep(time.Minute)
		}
		other := first
		other.Wish = "less"
		if _, _, err := r.Ask(t.Context(), other, Rate{}, "key"); !errors.Is(err, ErrOtherWish) {
			t.Errorf("%v", err)
		}
	})
}

func TestWhatIsKeptIsBounded(t *testing.T) {
	run(t, func(t *testing.T, r *Runner, p *pile) {
		p.set(func(p *pile) { p.match, p.takes = 1, 100*time.Hour })
		var ids []string
		for range MaxWaiting {
			ids = append(ids, ask(t, r, request(orders), Unlimited).ID)
			time.Sleep(time.Millisecond)
		}
		if _, _, err := r.Ask(t.Context(), request(orders), Rate{}, ""); !errors.Is(err, ErrFull) {
			t.Errorf("%v", err)
		}
		all, err := r.List(t.Context())
		if err != nil || len(all) != MaxWaiting || all[0].ID != ids[MaxWaiting-1] || all[MaxWaiting-1].ID != ids[0] || all[MaxWaiting-1].Phase != Running {
			t.Errorf("%d, %v", len(all), err)
		}
		change(t, r, ids[7], Cancelled)
		for range MaxFinished {
			change(t, r, ask(t, r, request(orders), Unlimited).ID, Cancelled)
		}
		if all, err := r.List(t.Context()); err != nil || len(all) != MaxWaiting-1+MaxFinished {
			t.Errorf("%d, %v", len(all), err)
		}
		if _, err := r.Find(t.Context(), ids[7]); !errors.Is(err, ErrUnknown) {
			t.Errorf("the oldest that is over: %v", err)
		}
	})
}

func TestAStopEndsATurnAndCutsOffOneThatDoesNotEnd(t *testing.T) {
	for held, took := range map[bool]time.Duration{false: 0, true: stopTime} {
		run(t, func(t *testing.T, r *Runner, p *pile) {
			p.set(func(p *pile) { p.match, p.takes, p.held = 10, time.Hour, held })
			ctx, stop := context.WithCancel(t.Context())
			own := New(Config{Store: NewMemory(), Sets: map[Target]DeadSet{orders: p}, Logger: r.cfg.Logger})
			ended := make(chan error)
			go func() { ended <- own.Run(ctx) }()
			ask(t, own, request(orders), Unlimited)
			time.Sleep(freeTime + time.Millisecond) // in its turn
			began := time.Now()
			stop()
			if err := <-ended; err != nil || time.Since(began) != took {
				t.Errorf("held %t: %v after %s", held, err, time.Since(began))
			}
			if _, _, err := own.Ask(t.Context(), request(orders), Rate{}, ""); !errors.Is(err, ErrClosed) {
				t.Errorf("%v", err)
			}
		})
	}
}
