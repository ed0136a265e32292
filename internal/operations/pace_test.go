package operations

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell/embedded/memory"
)

func TestARateThatIsChangedAgainAndAgainIsKept(t *testing.T) {
	run(t, func(t *testing.T, r *Runner, p *pile) {
		p.set(func(p *pile) { p.match = 100_000 })
		id := ask(t, r, request(orders), "200/s").ID
		for i := range 40 { // a program that looks twice a second how fast it may be
			time.Sleep(500 * time.Millisecond)
			rate := Rate{200 - i%2, time.Second}
			if _, err := r.Change(t.Context(), id, Change{Rate: &rate}); err != nil {
				t.Fatal(err)
			}
		}
		if o := find(t, r, id); o.Done > 20*200+400 {
			t.Errorf("in 20 s at 200/s %d are done", o.Done)
		}
	})
}

func TestARateIsKeptWhereTurnsAreCutOff(t *testing.T) {
	run(t, func(t *testing.T, r *Runner, p *pile) {
		p.set(func(p *pile) { p.match = 100_000 })
		id := ask(t, r, request(orders), "200/s").ID
		for range 20 {
			p.set(func(p *pile) { p.halfway = 400 })
			time.Sleep(time.Second)
		}
		var gone int
		p.set(func(p *pile) { gone = 100_000 - p.match })
		if o := find(t, r, id); gone > 20*200+400 {
			t.Errorf("in 20 s at 200/s %d are gone: %+v", gone, o.State)
		}
	})
}

// Nobody could be waited for.
func TestAReplayOfWhichNothingIsLeftIsDoneWhoeverTellsOfIt(t *testing.T) {
	for _, match := range []int{1, 10, 11, 15, 19, 20} {
		guarded(t, match, Request{StopAt: stopAt(t, "20")}, func(t *testing.T, r *Runner, _ *pile, _ *told, id string) {
			time.Sleep(10 * time.Minute)
			if at := find(t, r, id); at.Phase != Done || at.Done != match {
				t.Errorf("%d messages, all replayed: %s, %d done, %q", match, at.Phase, at.Done, at.Why)
			}
		})
	}
}

// A canary that waited for room has sent nothing, and goes on in the next process after somebody
// edited messages: these do not pass for its own, of which nobody would ever tell.
func TestWhatOthersTookAwayBeforeTheFirstTurnIsNoneOfTheCanary(t *testing.T) {
	run(t, func(t *testing.T, r *Runner, p *pile) {
		r.cfg.Outcomes = &told{tally: canaryOf(10)}
		p.set(func(p *pile) { p.match = 55 })
		wish := request(orders)
		wish.ID, wish.Canary, wish.Ahead, wish.CanaryWait = NewID(wish.CreatedAt), 10, DefaultAhead, Wait(DefaultCanaryWait)
		if err := r.cfg.Store.Create(t.Context(), wish, State{Phase: Running, Matched: 100, Complete: true}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		if at := find(t, r, wish.ID); at.Phase != Done || at.Done != 55 {
			t.Errorf("%+v", at.State)
		}
	})
}

// Its reason was one of while it ran.
func TestWhatIsPutBackForAProcessThatKnowsItIsNotSaidToPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, p := memory.New(), &pile{match: 1000, inbox: inbox{waiting: DefaultAhead}}
		background(t, b.Run)
		old := launch(t, b, "old", map[Target]DeadSet{orders: p})
		id := ask(t, old.Runner, request(orders), "1/m").ID
		time.Sleep(10 * time.Second)
		next := launch(t, b, "next", map[Target]DeadSet{slow: &pile{}})
		old.stop()
		time.Sleep(time.Minute)
		if o, err := next.cfg.Store.Load(t.Context(), id); err != nil || o.Phase != Queued || o.Why != "" {
			t.Errorf("%+v, %v", o.State, err)
		}
		if strings.Contains(next.log.String(), "pauses") {
			t.Errorf("%s", next.log)
		}
	})
}
