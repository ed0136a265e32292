package operations

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell/internal/outcomes"
)

// told has what became of messages as a test says it.
type told struct {
	mu    sync.Mutex
	tally outcomes.Tally
	alone error
}

func (o *told) Of(operations ...string) (map[string]outcomes.Tally, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := map[string]outcomes.Tally{}
	for _, id := range operations {
		all[id] = o.tally
	}
	return all, o.alone
}

func (o *told) set(t outcomes.Tally) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tally = t
}

// guarded runs a replay of so many messages, and lets the test see it.
func guarded(t *testing.T, match int, guards Request, test func(t *testing.T, r *Runner, p *pile, o *told, id string)) {
	t.Helper()
	run(t, func(t *testing.T, r *Runner, p *pile) {
		o := &told{}
		r.cfg.Outcomes = o
		p.set(func(p *pile) { p.match = match })
		wish := request(orders)
		wish.Canary, wish.CanaryWait, wish.StopAt = guards.Canary, guards.CanaryWait, guards.StopAt
		test(t, r, p, o, ask(t, r, wish, "unlimited").ID)
	})
}

// settled is the operation once a minute is over.
func settled(t *testing.T, r *Runner, id string) Operation {
	t.Helper()
	time.Sleep(time.Minute)
	return find(t, r, id)
}

func canaryOf(n int) outcomes.Tally {
	t := outcomes.Tally{Handled: n}
	for i := range n {
		t.Canary = append(t.Canary, string(rune('a'+i)))
	}
	return t
}

func TestACanaryIsReplayedAloneAndTheRestOnceAllOfItIsHandled(t *testing.T) {
	guarded(t, 100, Request{Canary: 10}, func(t *testing.T, r *Runner, p *pile, o *told, id string) {
		if at := settled(t, r, id); at.Phase != Running || at.Done != 10 || !strings.Contains(at.Why, "of 10 messages 0 are handled") || at.Outcome.Unknown != 10 {
			t.Fatalf("%+v", at)
		}
		o.set(canaryOf(9))
		if at := settled(t, r, id); at.Phase != Running || at.Done != 10 {
			t.Fatalf("with nine handled: %+v", at)
		}
		o.set(canaryOf(10))
		if at := settled(t, r, id); at.Phase != Done || at.Done != 100 || !at.CanaryOver || at.Why != "" {
			t.Fatalf("%+v", at)
		}
	})
}

func TestOneFailedTryOfTheCanaryPausesAndAPersonMayGoOnAllTheSame(t *testing.T) {
	for name, bad := range map[string]outcomes.Tally{"failed": {Failed: 1}, "failed where an older program told nothing of it": {Handled: 1, Recovered: 1}, "died": {Failed: 1, Died: 1}} {
		t.Run(name, func(t *testing.T) {
			guarded(t, 100, Request{Canary: 10}, func(t *testing.T, r *Runner, p *pile, o *told, id string) {
				time.Sleep(time.Second) // the canary is replayed
				o.set(bad)
				time.Sleep(time.Second) // at once: not after the time that a canary has
				at := find(t, r, id)
				if at.Phase != Paused || at.Done != 10 || !strings.Contains(at.Why, "of the 10 messages of the canary 1 failed a try") || !strings.Contains(at.Why, "cancel") {
					t.Fatalf("%+v", at)
				}
				if _, err := r.Change(t.Context(), id, Change{Phase: Running}); err != nil {
					t.Fatal(err)
				}
				if at := settled(t, r, id); at.Phase != Done || at.Done != 100 {
					t.Fatalf("resumed: %+v", at)
				}
			})
		})
	}
}

func TestACancelOfAReplayThatPausedSaysStillWhyItDid(t *testing.T) {
	guarded(t, 100, Request{Canary: 10}, func(t *testing.T, r *Runner, _ *pile, o *told, id string) {
		time.Sleep(time.Second) // the canary is replayed
		o.set(outcomes.Tally{Handled: 9, Failed: 1})
		if at := settled(t, r, id); at.Phase != Paused || !strings.HasSuffix(at.Why, thenMend) {
			t.Fatalf("it is %s: %s", at.Phase, at.Why)
		}
		at, err := r.Change(t.Context(), id, Change{Phase: Cancelled})
		if err != nil || at.Phase != Cancelled || at.Why != "of the 10 messages of the canary 1 failed a try or died" {
			t.Errorf("it is %s: %q, %v", at.Phase, at.Why, err)
		}
	})
}

func TestWhatNobodyTellsOfACanaryIsNotHandled(t *testing.T) {
	guarded(t, 100, Request{Canary: 3}, func(t *testing.T, r *Runner, p *pile, o *told, id string) {
		o.alone = errors.New("what other processes handled is not known")
		// One was handled twice, since a process was killed: that is not two.
		o.set(outcomes.Tally{Handled: 3, Canary: []string{"a", "b"}})
		if at := settled(t, r, id); at.Phase != Running {
			t.Fatalf("%+v", at)
		}
		time.Sleep(DefaultCanaryWait)
		if at := find(t, r, id); at.Phase != Paused || at.Done != 3 || !strings.Contains(at.Why, "of the 3 messages of the canary 2 were handled within 2m0s") || !strings.Contains(at.Why, "resume") || !strings.HasSuffix(at.Why, o.alone.Error()) {
			t.Fatalf("%+v", at)
		}
	})
}

// The last look at outcomes of a replay that was expected to do so many is before its last turn.
func TestAReplayIsOverAndOfNoneOfItsMessagesIsKnownWhatBecameOfThem(t *testing.T) {
	run(t, func(t *testing.T, r *Runner, p *pile) {
		r.cfg.Outcomes = &told{}
		p.set(func(p *pile) { p.match = 30 })
		wish, expect := request(orders), 30
		wish.Expect = &expect
		id := ask(t, r, wish, "unlimited").ID
		if at := settled(t, r, id); at.Phase != Done || at.Done != 30 || *at.Outcome != (outcomes.Outcome{Unknown: 30}) {
			t.Errorf("%+v of %+v", *at.Outcome, at)
		}
	})
}

func TestWhatFailsOfACanaryWhileTheReplayIsPausedDoesNotPauseItAgain(t *testing.T) {
	limit, err := ParseStopAt("5%")
	if err != nil {
		t.Fatal(err)
	}
	for _, again := range []bool{false, true} { // whether a person pauses it as well
		guarded(t, 100, Request{Canary: 10, StopAt: limit}, func(t *testing.T, r *Runner, p *pile, o *told, id string) {
			time.Sleep(time.Second) // the canary is replayed
			o.set(outcomes.Tally{Failed: 7})
			if at := settled(t, r, id); at.Phase != Paused {
				t.Fatalf("%+v", at)
			}
			if again {
				change(t, r, id, Paused)
			}
			o.set(outcomes.Tally{Failed: 10})
			change(t, r, id, Running)
			time.Sleep(time.Second)
			o.set(outcomes.Tally{Failed: 10, Handled: 50})
			if at := settled(t, r, id); at.Phase != Running && at.Phase != Done {
				t.Fatalf("none failed since it was let go on, paused twice: %t: %+v", again, at)
			}
		})
	}
}

func TestAReplayPausesWhereTooManyFailAndCountsAnewOnceItWasLetGoOn(t *testing.T) {
	limit, err := ParseStopAt("5")
	if err != nil {
		t.Fatal(err)
	}
	guarded(t, 100_000, Request{StopAt: limit}, func(t *testing.T, r *Runner, p *pile, o *told, id string) {
		p.set(func(p *pile) { p.takes = time.Hour })
		o.set(outcomes.Tally{Handled: 900, Failed: 4})
		if at := settled(t, r, id); at.Phase != Running {
			t.Fatalf("%+v", at)
		}
		o.set(outcomes.Tally{Handled: 900, Failed: 5})
		at := settled(t, r, id)
		if at.Phase != Paused || !strings.Contains(at.Why, "stop_at is 5") || at.Outcome.Failed != 5 || at.CanaryOver {
			t.Fatalf("%+v", at)
		}
		if _, err := r.Change(t.Context(), id, Change{Phase: Running}); err != nil {
			t.Fatal(err)
		}
		o.set(outcomes.Tally{Handled: 900, Failed: 9})
		if at := settled(t, r, id); at.Phase != Running {
			t.Fatalf("four more: %+v", at)
		}
		o.set(outcomes.Tally{Handled: 900, Failed: 10})
		if at := settled(t, r, id); at.Phase != Paused {
			t.Fatalf("five more: %+v", at)
		}
	})
}

// After the canary nobody writes down what a turn is to do, where nothing bounds it.
func TestWhatIsGoneAfterAKillBehindTheCanaryIsDone(t *testing.T) {
	run(t, func(t *testing.T, r *Runner, p *pile) {
		r.cfg.Outcomes = &told{tally: canaryOf(10)}
		p.set(func(p *pile) { p.match = 30 })
		wish := request(orders)
		wish.ID, wish.Canary, wish.Ahead = NewID(wish.CreatedAt), 10, DefaultAhead
		if err := r.cfg.Store.Create(t.Context(), wish, State{Phase: Running, Matched: 100, Done: 10, Begun: 10, Complete: true, CanaryOver: true}); err != nil {
			t.Fatal(err)
		}
		if at := settled(t, r, wish.ID); at.Phase != Done || at.Done != 100 || at.Matched != 100 {
			t.Errorf("60 were gone by then, and 30 are done since: %+v", at.State)
		}
	})
}

func TestThatTheCanaryIsOverIsStoredBeforeAllElseIsReplayed(t *testing.T) {
	guarded(t, 100, Request{Canary: 10}, func(t *testing.T, r *Runner, p *pile, o *told, id string) {
		settled(t, r, id)
		p.set(func(p *pile) { p.held = true })
		o.set(canaryOf(10))
		time.Sleep(time.Second)
		if stored, err := r.cfg.Store.Load(t.Context(), id); err != nil || !stored.CanaryOver {
			t.Errorf("%+v, %v", stored.State, err)
		}
		p.set(func(p *pile) { p.held = false })
	})
}

func TestHowManyOfTheCanaryAreOutIsStoredAtOnce(t *testing.T) {
	guarded(t, 100, Request{Canary: 10}, func(t *testing.T, r *Runner, _ *pile, _ *told, id string) {
		time.Sleep(time.Second)
		if stored, err := r.cfg.Store.Load(t.Context(), id); err != nil || stored.Done != 10 || stored.Begun != 10 {
			t.Errorf("%+v, %v", stored.State, err)
		}
	})
}

func TestAShareSaysNothingOfAFew(t *testing.T) {
	share, err := ParseStopAt("5%")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		failed, tried int
		is            bool
	}{{49, 49, false}, {3, 50, true}, {2, 50, false}, {50, 1000, true}, {49, 1000, false}} {
		if share.reached(c.failed, c.tried) != c.is {
			t.Errorf("%+v", c)
		}
	}
	for _, text := range []string{"", "0", "0%", "-1", "101%", "5 %", "1e3", "5%%", "+5", "0.001%"} {
		if s, err := ParseStopAt(text); err == nil {
			t.Errorf("%q is %v", text, s)
		}
	}
}

// What a store keeps comes back as it was.
func TestWhatHoldsAReplayBackSurvivesItsStore(t *testing.T) {
	r := Request{Action: Replay, Canary: 10, CanaryWait: Wait(90 * time.Second), StopAt: StopAt{Percent: 2.5}}
	text, err := json.Marshal(Operation{r, State{Outcome: &outcomes.Outcome{Handled: 1}, CanaryOver: true, Accepted: Accepted{1, 2, 3}}})
	if err != nil {
		t.Fatal(err)
	}
	var back Operation
	if err := json.Unmarshal(text, &back); err != nil || back.CanaryWait != r.CanaryWait || back.StopAt != r.StopAt || back.Canary != 10 || !back.CanaryOver || back.Accepted != (Accepted{1, 2, 3}) || back.Outcome.Handled != 1 {
		t.Fatalf("%s: %+v %v", text, back, err)
	}
}

// What was told is forgotten after a while, and by no process that goes on.
func TestWhatIsShownOfAnOutcomeIsTheNewestThatAnybodyKnows(t *testing.T) {
	kept, none := &outcomes.Outcome{Handled: 5, Failed: 2, Unknown: 3}, outcomes.Outcome{Unknown: 10}
	for _, c := range []struct {
		what   string
		action string
		kept   *outcomes.Outcome
		told   outcomes.Tally
		want   *outcomes.Outcome
	}{
		{"nobody told", Replay, nil, outcomes.Tally{}, &none},
		{"nobody told so far", Replay, &outcomes.Outcome{Unknown: 7}, outcomes.Tally{}, &none},
		{"more is known", Replay, kept, outcomes.Tally{Handled: 9}, &outcomes.Outcome{Handled: 9, Unknown: 1}},
		{"of an edit", Edit, nil, outcomes.Tally{Handled: 10}, &outcomes.Outcome{Handled: 10}},
		{"only deaths are known", Replay, kept, outcomes.Tally{Died: 4}, &outcomes.Outcome{Died: 4, Unknown: 6}},
		{"it is forgotten", Replay, kept, outcomes.Tally{}, kept},
		{"that some were handled is forgotten", Replay, &outcomes.Outcome{Handled: 1}, outcomes.Tally{}, &outcomes.Outcome{Handled: 1}},
		{"that some failed is forgotten", Replay, &outcomes.Outcome{Failed: 1}, outcomes.Tally{}, &outcomes.Outcome{Failed: 1}},
		{"that some died is forgotten", Replay, &outcomes.Outcome{Died: 1}, outcomes.Tally{}, &outcomes.Outcome{Died: 1}},
		{"nobody handles what is deleted", Delete, nil, outcomes.Tally{Handled: 10}, nil},
	} {
		r := taking(NewMemory())
		r.cfg.Outcomes = &told{tally: c.told}
		request := Request{ID: "op_a", Action: c.action, Target: orders}
		if err := r.cfg.Store.Create(t.Context(), request, State{Phase: Done, Done: 10, Outcome: c.kept}); err != nil {
			t.Fatal(err)
		}
		o, err := r.Find(t.Context(), request.ID)
		if err != nil || (o.Outcome == nil) != (c.want == nil) || c.want != nil && *o.Outcome != *c.want {
			t.Errorf("%s: %+v, %v", c.what, o.Outcome, err)
		}
	}
}

func TestWhatWasToldWhileAReplayRanIsKeptWithIt(t *testing.T) {
	guarded(t, 100, Request{Canary: 10}, func(t *testing.T, r *Runner, _ *pile, o *told, id string) {
		o.set(canaryOf(10))
		settled(t, r, id)
		o.set(outcomes.Tally{})
		if at := find(t, r, id); at.Phase != Done || at.Outcome.Handled != 10 {
			t.Errorf("%+v of %+v", at.Outcome, at.State)
		}
	})
}

func TestALimitIsReadAsItIsWritten(t *testing.T) {
	for text, want := range map[string]StopAt{"1": {Count: 1}, "20": {Count: 20}, "5%": {Percent: 5}, "0.25%": {Percent: 0.25}, "100%": {Percent: 100}} {
		if limit := stopAt(t, text); limit != want || limit.String() != text {
			t.Errorf("%s: %+v, %s", text, limit, limit)
		}
	}
	if never := (StopAt{}).String(); never != "" {
		t.Errorf("%q", never)
	}
}

// Whoever handles a message of the canary names it, and only these.
func TestOnlyMessagesOfTheCanaryAreSentAsSuch(t *testing.T) {
	run(t, func(t *testing.T, r *Runner, p *pile) {
		seen := &canaries{pile: p}
		r.cfg.Sets[orders], r.cfg.Outcomes = seen, &told{tally: canaryOf(10)}
		p.set(func(p *pile) { p.match = 30 })
		wish := request(orders)
		wish.Canary = 10
		if o := over(t, r, wish); o.Phase != Done || !slices.Equal(seen.of, []int{10, 0, 0}) {
			t.Errorf("%+v, turns with canaries of %v", o.State, seen.of)
		}
	})
}

// canaries is a dead set that notes of which canary each turn was.
type canaries struct {
	*pile
	of []int
}

func (c *canaries) Turn(ctx context.Context, enough <-chan struct{}, r *Request, most int) (Turn, error) {
	c.set(func(*pile) { c.of = append(c.of, r.Canary) })
	return c.pile.Turn(ctx, enough, r, most)
}
