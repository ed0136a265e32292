package operations

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMoreThanExpectedAreNotTouched(t *testing.T) {
	run(t, func(t *testing.T, r *Runner, p *pile) {
		p.set(func(p *pile) { p.match = 11 })
		id := ask(t, r, request(orders, 10), Unlimited).ID
		time.Sleep(time.Minute)
		if o := find(t, r, id); o.Phase != Refused || o.Done != 0 || o.Matched != 11 || o.Why == "" || len(p.turns) != 0 {
			t.Errorf("%+v, %d turns", o, len(p.turns))
		}
	})
}

func TestNeverMoreAreDoneThanWereExpectedAlsoWhereMoreComeIntoView(t *testing.T) {
	run(t, func(t *testing.T, r *Runner, p *pile) {
		p.set(func(p *pile) { p.match, p.behind = 10, 100 })
		id := ask(t, r, request(orders, 12), Unlimited).ID
		time.Sleep(time.Minute)
		o := find(t, r, id)
		if o.Phase != Paused || o.Done != 12 || o.Why == "" {
			t.Errorf("%+v", o)
		}
		change(t, r, id, Running)
		time.Sleep(time.Minute)
		if o := find(t, r, id); o.Phase != Paused || o.Done != 12 {
			t.Errorf("resumed: %+v", o)
		}
		p.set(func(p *pile) { p.match, p.behind = 0, 0 })
		change(t, r, id, Running)
		time.Sleep(time.Minute)
		if o := find(t, r, id); o.Phase != Done || o.Done != 12 {
			t.Errorf("when the others are gone: %+v", o)
		}
	})
}

// leftBehind is a delete of 100 whose process was killed in a turn that would have made 60 of 20,
// where a look did not see all messages, and so cannot say what the turn did.
func leftBehind(t *testing.T, r *Runner) (id string) {
	t.Helper()
	wish := request(orders, 100)
	wish.ID, wish.Action, wish.Forever = NewID(wish.CreatedAt), Delete, true
	if err := r.cfg.Store.Create(t.Context(), wish, State{Phase: Running, Matched: 70, Done: 20, Begun: 60, Unsorted: 30}); err != nil {
		t.Fatal(err)
	}
	return wish.ID
}

func TestWhatATurnThatWasCutOffMayHaveDoneCountsAlsoOnceItIsResumed(t *testing.T) {
	run(t, func(t *testing.T, r *Runner, p *pile) {
		p.set(func(p *pile) { p.match = 55 })
		id := leftBehind(t, r)
		for range 3 {
			time.Sleep(time.Minute)
			if o := find(t, r, id); o.Phase != Paused || len(p.turns) > 0 {
				t.Errorf("60 and 55 are more than 100: %+v, turns of %v", o.State, p.turns)
				return
			}
			change(t, r, id, Running)
		}
		p.set(func(p *pile) { p.match = 40 })
		change(t, r, id, Running)
		time.Sleep(time.Minute)
		if o := find(t, r, id); o.Phase != Done || p.match > 0 {
			t.Errorf("60 and 40 are none too many: %+v", o.State)
		}
	})
}

func TestWhatATurnThatWasCutOffMayHaveDoneCountsAlsoOnceTheBrokersWereAway(t *testing.T) {
	run(t, func(t *testing.T, r *Runner, p *pile) {
		p.set(func(p *pile) { p.match, p.turnErr = 35, ErrAway })
		id := leftBehind(t, r)
		time.Sleep(time.Minute)
		p.set(func(p *pile) { p.turnErr, p.behind = nil, 30 })
		time.Sleep(time.Minute)
		if o := find(t, r, id); o.Phase != Paused || p.match+p.behind < 25 {
			t.Errorf("only 40 of these 65 were to go: %+v, and %d are left", o.State, p.match+p.behind)
		}
	})
}

func TestWhatWasOnItsWayWhenSomebodyLookedIsLeftOutWhereMoreMatchThanWereSeen(t *testing.T) {
	run(t, func(t *testing.T, r *Runner, p *pile) {
		for _, test := range []struct {
			expect, old, young int
			age                time.Duration // of the storm, when it was asked for
			want               Phase
		}{
			{100, 95, 5, time.Second, Done},    // 100 were seen, of which 5 died in the last second, and 5 were on their way
			{95, 95, 0, time.Second, Done},     // all that were seen died before
			{100, 95, 5, time.Minute, Refused}, // these were there to be seen
			{90, 95, 15, time.Second, Refused}, // more match all the same
			{3, 0, 3, time.Second, Refused},    // none is left without them
		} {
			request := request(orders, test.expect)
			request.Before = time.Now()
			p.set(func(p *pile) {
				p.match, p.young, p.storm = test.old, test.young+5, request.Before.Add(-test.age)
			})
			o := ask(t, r, request, Unlimited)
			time.Sleep(time.Minute)
			switch o = find(t, r, o.ID); {
			case o.Phase != test.want:
				t.Errorf("%+v: %s, %s", test, o.Phase, o.Why)
			case test.want == Done && (o.Done != 95 || !o.ActsBefore.Equal(request.Before.Add(-2*time.Second)) || !o.Before.Equal(request.Before)):
				t.Errorf("%+v", o)
			case test.want == Refused && (o.Done != 0 || !o.ActsBefore.IsZero()):
				t.Errorf("%+v", o)
			}
		}
	})
}

func TestWhatATurnBeganWithMatchedAlsoWhereItWasNotSeenToBeGone(t *testing.T) {
	s := State{Matched: 10, Done: 8}
	s.took(Turn{Done: 1, Begun: 5, More: true}, errors.New("the channel is gone"))
	if s.Done != 9 || s.Matched != 13 {
		t.Errorf("%d done of %d, want 9 of 13", s.Done, s.Matched)
	}
}

func TestWhatATurnDidBeforeTheBrokerWasAwayIsCountedAlsoWhereNoNumberIsExpected(t *testing.T) {
	run(t, func(t *testing.T, r *Runner, p *pile) {
		p.set(func(p *pile) { p.match, p.halfway = 40, 7 })
		id := ask(t, r, request(orders), Unlimited).ID
		time.Sleep(time.Minute)
		if o := find(t, r, id); o.Phase != Done || o.Done != 40 || o.Matched != 40 {
			t.Errorf("%+v", o.State)
		}
	})
}

func TestWhatPausesBesideATurnThatWasCutOffSaysHowManyThatMayHaveDone(t *testing.T) {
	run(t, func(t *testing.T, r *Runner, p *pile) {
		p.set(func(p *pile) { p.match = 55 })
		id := leftBehind(t, r)
		time.Sleep(time.Minute)
		const want = "55 more match, and 100 in all were expected, of which a turn that was cut off may have done 40: look again, cancel this one and ask anew"
		if o := find(t, r, id); o.Why != want {
			t.Errorf("%s", o.Why)
		}
	})
}

func TestACutThatWasCountedIsInDoubtNoMore(t *testing.T) {
	for _, wanted := range []Phase{Cancelled, Paused} {
		run(t, func(t *testing.T, r *Runner, p *pile) {
			p.set(func(p *pile) { p.match, p.halfway = 40, 7 })
			id := ask(t, r, request(orders), "10/m").ID
			time.Sleep(30 * time.Second)
			p.set(func(p *pile) { p.err = ErrAway })
			if o := change(t, r, id, wanted); o.Done < 7 || o.Done > 15 || o.Why != "" {
				t.Errorf("%+v", o.State)
			}
		})
	}
}

func TestWhyItWaitedIsForgottenOnceItIsCounted(t *testing.T) {
	run(t, func(t *testing.T, r *Runner, p *pile) {
		p.set(func(p *pile) { p.match, p.err = 10, ErrAway })
		id := ask(t, r, request(orders), Unlimited).ID
		time.Sleep(time.Minute)
		p.set(func(p *pile) { p.err, p.held = nil, true }) // its first turn lasts
		time.Sleep(longestWait + time.Second)
		if o := find(t, r, id); len(p.turns) == 0 || o.Matched != 10 || o.Why != "" {
			t.Errorf("%+v, %d turns", o.State, len(p.turns))
		}
		p.set(func(p *pile) { p.held = false })
	})
}

func TestACanaryOfNothingIsDone(t *testing.T) {
	for what, behind := range map[string]int{"there is none": 0, "none is in view": 10} {
		guarded(t, 0, Request{Canary: 10}, func(t *testing.T, r *Runner, p *pile, _ *told, id string) {
			p.set(func(p *pile) { p.unseen = behind })
			if o := settled(t, r, id); o.Phase != Done || o.Done != 0 {
				t.Errorf("%s: %+v", what, o.State)
			}
		})
	}
}

// looked is a dead set whose looks are as a test says it.
type looked struct {
	*pile
	look func(r *Request, s *Sample) error
}

func (l *looked) Sample(ctx context.Context, r *Request) (Sample, error) {
	s, err := l.pile.Sample(ctx, r)
	if err == nil {
		err = l.look(r, &s)
	}
	return s, err
}

// The look that leaves out what was on its way may fail: that says nothing of how many match.
func TestMoreThanExpectedAreNotRefusedBeforeWhatWasOnItsWayIsLeftOut(t *testing.T) {
	run(t, func(t *testing.T, r *Runner, p *pile) {
		wish := request(orders, 100)
		wish.Before = time.Now()
		p.set(func(p *pile) { p.match, p.young, p.storm = 95, 10, wish.Before.Add(-time.Second) })
		away := ErrAway
		r.cfg.Sets[orders] = &looked{p, func(r *Request, _ *Sample) error {
			if !r.Before.Before(wish.Before) {
				return nil
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			return away
		}}
		id := ask(t, r, wish, Unlimited).ID
		time.Sleep(time.Minute)
		if o := find(t, r, id); o.Phase != Running || o.Why != ErrAway.Error() {
			t.Errorf("%+v", o.State)
		}
		p.set(func(*pile) { away = nil })
		time.Sleep(time.Minute)
		if o := find(t, r, id); o.Phase != Done || o.Done != 95 {
			t.Errorf("%+v", o.State)
		}
	})
}

// Once they are gone nothing else says what they died of.
func TestWhatKilledThoseThatMatchedAtFirstIsRemembered(t *testing.T) {
	run(t, func(t *testing.T, r *Runner, p *pile) {
		p.set(func(p *pile) { p.match, p.turnErr = 10, errors.New("what is this") })
		r.cfg.Sets[orders] = &looked{p, func(_ *Request, s *Sample) error {
			s.Causes = []Cause{{Group: strings.Repeat("g", s.Matched), Count: s.Matched}}
			return nil
		}}
		id := ask(t, r, request(orders), Unlimited).ID
		time.Sleep(time.Minute)
		p.set(func(p *pile) { p.match, p.turnErr = 4, nil })
		change(t, r, id, Running)
		time.Sleep(time.Minute)
		if o := find(t, r, id); o.Phase != Done || !slices.Equal(o.Causes, []Cause{{Group: "gggggggggg", Count: 10}}) {
			t.Errorf("%+v", o.State)
		}
	})
}

func TestWhereAsManyMatchAsAreExpectedNothingIsLeftOut(t *testing.T) {
	run(t, func(t *testing.T, r *Runner, p *pile) {
		for _, expect := range []int{10, 11} {
			p.set(func(p *pile) { p.match = 10 })
			if o := over(t, r, request(orders, expect)); o.Phase != Done || o.Done != 10 || !o.ActsBefore.IsZero() {
				t.Errorf("%+v", o.State)
			}
		}
	})
}

// The pile panics where a turn takes what died in the storm.
func TestWhatWasLeftOutAtFirstIsLeftOutAlsoOnceItIsResumed(t *testing.T) {
	for what, waiting := range map[string]int{"before its first turn": DefaultAhead, "after some turns": 0} {
		run(t, func(t *testing.T, r *Runner, p *pile) {
			wish := request(orders, 100)
			wish.Before = time.Now()
			p.set(func(p *pile) { p.match, p.young, p.storm, p.waiting = 95, 10, wish.Before.Add(-time.Second), waiting })
			id := ask(t, r, wish, "1/s").ID
			for range 3 {
				time.Sleep(5 * time.Second)
				change(t, r, id, Paused)
				change(t, r, id, Running)
			}
			p.set(func(p *pile) { p.waiting = 0 })
			time.Sleep(10 * time.Minute)
			if o := find(t, r, id); o.Phase != Done || o.Done != 95 || !o.ActsBefore.Equal(wish.Before.Add(-2*time.Second)) {
				t.Errorf("%s: %+v", what, o.State)
			}
		})
	}
}
