package operations

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestACancelOfWhatRunsNowhereIsInTheLogAndAPauseOfItIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := New(Config{Store: NewMemory(), Sets: map[Target]DeadSet{orders: &pile{}, slow: &pile{}}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		id := ask(t, r, request(slow), Unlimited).ID
		change(t, r, id, Paused)
		if log.Len() > 0 {
			t.Errorf("a person paused it, who knows that: %s", &log)
		}
		change(t, r, id, Cancelled)
		for _, said := range []string{"audit: operation is over", "operation=" + id, "action=replay", "by=alice", "stream=orders", "channel=slow", "state=cancelled"} {
			if !strings.Contains(log.String(), said) {
				t.Errorf("without %s: %s", said, &log)
			}
		}
		if strings.Contains(log.String(), "why=") || strings.Count(log.String(), "\n") != 1 {
			t.Errorf("%s", &log)
		}
		log.Reset()
		change(t, r, ask(t, r, request(orders), Unlimited).ID, Cancelled)
		if strings.Contains(log.String(), "channel=") {
			t.Errorf("there is no channel: %s", &log)
		}
	})
}

func TestWhatPausesBySomethingElseThanAPersonIsInTheLogWithTheReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		p := &pile{match: 10, turnErr: errors.New("what is this")}
		r := New(Config{Store: NewMemory(), Sets: map[Target]DeadSet{orders: p}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		stop := background(t, r.Run)
		id := ask(t, r, request(orders), Unlimited).ID
		time.Sleep(time.Minute)
		stop()
		if got := log.String(); strings.Count(got, "an operation pauses") != 1 || !strings.Contains(got, "operation="+id) || !strings.Contains(got, `why="what is this"`) || !strings.Contains(got, "matched=10 done=0") {
			t.Errorf("%s", got)
		}
	})
}

// What it is, and how far, a newer release knows.
func TestWhatIsNotUnderstoodCanBeCancelledAndNothingElse(t *testing.T) {
	fast := Rate{9, time.Second}
	for what, c := range map[string]struct {
		wish Change
		err  error
	}{
		"a cancel":              {Change{Phase: Cancelled}, nil},
		"a pause":               {Change{Phase: Paused}, ErrForeign},
		"another rate":          {Change{Rate: &fast}, ErrForeign},
		"a cancel and anything": {Change{Phase: Cancelled, Rate: &fast}, ErrForeign},
	} {
		r := taking(NewMemory())
		if err := r.cfg.Store.Create(t.Context(), Request{ID: "op_a", Action: Replay, Target: orders, Foreign: true}, State{Phase: Queued}); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Change(t.Context(), "op_a", c.wish); !errors.Is(err, c.err) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestWhoAsksForAPauseAndGoesAwayIsAnsweredAndTheWishStays(t *testing.T) {
	run(t, func(t *testing.T, r *Runner, p *pile) {
		if err := r.cfg.Store.Create(t.Context(), Request{ID: "op_a", Action: Replay, Target: slow}, State{Phase: Paused}); err != nil {
			t.Fatal(err)
		}
		// As one that runs in another process, which is slow to obey.
		if _, err := r.cfg.Store.Change(t.Context(), "op_a", func(s State) (State, error) { s.Phase, s.Term = Running, 7; return s, nil }); err != nil {
			t.Fatal(err)
		}
		ctx, leave := context.WithTimeout(t.Context(), 3*time.Second)
		defer leave()
		began := time.Now()
		o, err := r.Change(ctx, "op_a", Change{Phase: Paused})
		if err != nil || o.Phase != Running || o.Wanted != Paused || time.Since(began) != 3*time.Second {
			t.Errorf("%+v after %s, %v", o.State, time.Since(began), err)
		}
	})
}

func TestACanaryIsWaitedForAsLongAsWasAskedOrAsIsUsual(t *testing.T) {
	for _, c := range []struct{ asked, want Request }{
		{Request{Action: Replay}, Request{Ahead: DefaultAhead}},
		{Request{Action: Replay, Canary: 5}, Request{Ahead: DefaultAhead, CanaryWait: Wait(2 * time.Minute)}},
		{Request{Action: Replay, Canary: 5, CanaryWait: Wait(time.Hour), Ahead: 7}, Request{Ahead: 7, CanaryWait: Wait(time.Hour)}},
		{Request{Action: Delete}, Request{}},
	} {
		c.asked.Target = orders
		o, _, err := taking(NewMemory()).Ask(t.Context(), c.asked, Rate{}, "")
		if err != nil || o.Ahead != c.want.Ahead || o.CanaryWait != c.want.CanaryWait {
			t.Errorf("%+v: %+v, %v", c.asked, o.Request, err)
		}
	}
}

// obeying has a replay of 100 whose first turn is cut off after 30, and meanwhile called while it
// obeys a pause: what that turn did is counted before it rests, and that takes two seconds here.
func obeying(t *testing.T, finds func(*Sample), meanwhile func(t *testing.T, r *Runner, id string)) {
	t.Helper()
	run(t, func(t *testing.T, r *Runner, p *pile) {
		pauses := false
		r.cfg.Sets[orders] = &looked{p, func(_ *Request, s *Sample) error {
			p.mu.Lock()
			slow := pauses
			p.mu.Unlock()
			if slow {
				time.Sleep(2 * time.Second)
				finds(s)
			}
			return nil
		}}
		p.set(func(p *pile) { p.match, p.halfway = 100, 30 })
		id := ask(t, r, request(orders), Unlimited).ID
		time.Sleep(freeTime * 3 / 2)
		p.set(func(*pile) { pauses = true })
		go func() { _, _ = r.Change(t.Context(), id, Change{Phase: Paused}) }()
		time.Sleep(time.Second)
		if o := find(t, r, id); o.Phase != Running || o.Wanted != Paused {
			t.Fatalf("it does not obey now: %+v", o.State)
		}
		meanwhile(t, r, id)
	})
}

func allIsSeen(*Sample)      {}
func notAllIsSeen(s *Sample) { s.Unsorted = 1000 }

func TestAPauseThatIsWithdrawnBeforeItIsObeyedIsNone(t *testing.T) {
	for what, finds := range map[string]func(*Sample){"what was cut off is known": allIsSeen, "nobody knows it": notAllIsSeen} {
		obeying(t, finds, func(t *testing.T, r *Runner, id string) {
			if o := change(t, r, id, Running); o.Phase != Running {
				t.Errorf("%s: as it is withdrawn: %+v", what, o.State)
			}
			time.Sleep(time.Minute)
			if o := find(t, r, id); o.Phase != Done {
				t.Errorf("%s: it comes all the same: %+v", what, o.State)
			}
		})
	}
}

// A look that did not see all leaves it open what the turn did, also for the next.
func TestWhatMayHaveBegunDoesNotPassForUntouchedWhereItsPauseWasWithdrawn(t *testing.T) {
	finds := func(s *Sample) { s.Unsorted, s.Room = 1000, new(int) }
	obeying(t, finds, func(t *testing.T, r *Runner, id string) {
		change(t, r, id, Running)
		time.Sleep(time.Minute)
		if o := find(t, r, id); o.Phase != Paused || !strings.HasPrefix(o.Why, "70 more are to be deleted") {
			t.Errorf("%+v", o.State)
		}
	})
}

func TestACancelOfWhatIsAboutToPauseSaysStillWhyItDid(t *testing.T) {
	obeying(t, notAllIsSeen, func(t *testing.T, r *Runner, id string) {
		if o := change(t, r, id, Cancelled); o.Phase != Cancelled || o.Why != notCounted {
			t.Errorf("%+v", o.State)
		}
	})
}
