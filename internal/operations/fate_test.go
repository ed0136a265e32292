package operations

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/internal/outcomes"
)

func stopAt(t *testing.T, text string) StopAt {
	t.Helper()
	limit, err := ParseStopAt(text)
	if err != nil {
		t.Fatal(err)
	}
	return limit
}

func TestNoMoreMessagesAreOutOfWhichNobodyToldThanMayStillFail(t *testing.T) {
	guarded(t, 1000, Request{StopAt: stopAt(t, "20")}, func(t *testing.T, r *Runner, _ *pile, o *told, id string) {
		for _, step := range []struct {
			told outcomes.Tally
			done int
		}{
			{outcomes.Tally{}, 20},
			{outcomes.Tally{Handled: 9}, 20}, // less than half of those that may be out
			{outcomes.Tally{Handled: 10}, 30},
			{outcomes.Tally{Handled: 20, Failed: 10}, 40},               // 10 more may fail
			{outcomes.Tally{Handled: 20, Failed: 19, Recovered: 1}, 40}, // 38 are known
			{outcomes.Tally{Handled: 21, Failed: 19}, 41},
			{outcomes.Tally{Handled: 22, Failed: 19}, 42},
		} {
			o.set(step.told)
			if at := settled(t, r, id); at.Phase != Running || at.Done != step.done || !strings.Contains(at.Why, "with stop_at 20 no more may be out") {
				t.Fatalf("%+v: %s, %d done, %s", step.told, at.Phase, at.Done, at.Why)
			}
		}
		o.set(outcomes.Tally{Handled: 22, Failed: 20})
		if at := settled(t, r, id); at.Phase != Paused || at.Done != 42 {
			t.Fatalf("%+v", at)
		}
	})
}

func TestHowManyMoreMayFail(t *testing.T) {
	for _, c := range []struct {
		what          string
		limit         StopAt
		failed, tried int
		want          int
	}{
		{"none failed so far", StopAt{Count: 20}, 0, 500, 20},
		{"some failed", StopAt{Count: 20}, 15, 500, 5},
		{"fewer than a person accepted, since some are forgotten", StopAt{Count: 20}, -5, 500, 25},
		{"a share says nothing of the first", StopAt{Percent: 5}, 9, 10, 40},
		{"a share says soon something", StopAt{Percent: 100}, 0, 49, 10},
		{"a share of as many as it is of", StopAt{Percent: 100}, 0, 50, 50},
		{"a share of many", StopAt{Percent: 5}, 20, 1000, 30},
		{"a share that is nearly reached", StopAt{Percent: 5}, 49, 1000, 10},
	} {
		if got := c.limit.mayFail(c.failed, c.tried); got != c.want {
			t.Errorf("%s: %d, not %d", c.what, got, c.want)
		}
	}
}

// Else it would crawl: one message at a time.
func TestWhatAPersonAcceptedLeavesAllThatMayFail(t *testing.T) {
	guarded(t, 1000, Request{StopAt: stopAt(t, "20")}, func(t *testing.T, r *Runner, _ *pile, o *told, id string) {
		time.Sleep(time.Second) // 20 are out
		o.set(outcomes.Tally{Failed: 20})
		if at := settled(t, r, id); at.Phase != Paused || at.Done != 20 {
			t.Fatalf("%+v", at)
		}
		change(t, r, id, Running)
		if at := settled(t, r, id); at.Phase != Running || at.Done != 40 {
			t.Fatalf("20 more may fail: %+v", at)
		}
		o.set(outcomes.Tally{Failed: 20, Handled: 20})
		if at := settled(t, r, id); at.Phase != Running || at.Done != 60 {
			t.Fatalf("20 more may fail: %+v", at)
		}
	})
}

// All that is out fails, however late that is told, once so many were handled.
func TestWhateverFailsTheLimitIsNotExceededByMoreThanItSays(t *testing.T) {
	for text, most := range map[string]func(tried int) float64{
		"1": func(int) float64 { return 1 }, "20": func(int) float64 { return 20 },
		"5%":    func(tried int) float64 { return max(50, 0.05*float64(tried)+10) },
		"0.25%": func(tried int) float64 { return max(50, 0.0025*float64(tried)+10) },
		"100%":  func(tried int) float64 { return float64(max(50, tried)) },
	} {
		limit := stopAt(t, text)
		for handled := range 5000 {
			failed, tried := 0, handled
			for !limit.reached(failed, tried) && failed < 5000 {
				more := limit.mayFail(failed, tried)
				failed, tried = failed+more, tried+more
			}
			if float64(failed) > most(tried) {
				t.Fatalf("%s: after %d were handled %d of %d fail", text, handled, failed, tried)
			}
		}
	}
}

func TestWhereNobodyTellsOfMessagesTheReplayPausesAndSaysSo(t *testing.T) {
	guarded(t, 1000, Request{StopAt: stopAt(t, "20")}, func(t *testing.T, r *Runner, _ *pile, o *told, id string) {
		o.mu.Lock()
		o.alone = errors.New("what other processes handled is not known")
		o.mu.Unlock()
		time.Sleep(time.Minute)
		o.set(outcomes.Tally{Handled: 1}) // so it waits anew: who handles them is slow
		time.Sleep(DefaultCanaryWait - time.Second)
		if at := find(t, r, id); at.Phase != Running || at.Done != 20 {
			t.Fatalf("%+v", at)
		}
		at := settled(t, r, id)
		if at.Phase != Paused || at.Done != 20 || !strings.Contains(at.Why, "nobody told within 2m0s how the first try of 19 messages ended") || !strings.Contains(at.Why, thenLook) || !strings.HasSuffix(at.Why, o.alone.Error()) {
			t.Fatalf("%+v", at)
		}
		change(t, r, id, Running)
		if at := settled(t, r, id); at.Phase != Running || at.Done != 40 {
			t.Fatalf("of the 19 somebody knows, 20 more may fail: %+v", at)
		}
	})
}

// The order that the pause itself advises: the stream is resumed, and then the operation.
func TestMessagesThatAreToldOfAfterAllAreForgottenAsUnknown(t *testing.T) {
	guarded(t, 1000, Request{StopAt: stopAt(t, "20")}, func(t *testing.T, r *Runner, _ *pile, o *told, id string) {
		at := settled(t, r, id)
		for at.Phase == Running {
			at = settled(t, r, id)
		}
		if at.Accepted.Unknown != 20 {
			t.Fatalf("%+v", at)
		}
		o.set(outcomes.Tally{Handled: 20})
		change(t, r, id, Running)
		if at := settled(t, r, id); at.Phase != Running || at.Done != 40 || at.Accepted.Unknown != 0 {
			t.Fatalf("20 are out, which may all fail: %+v", at)
		}
	})
}

func TestHowLongNobodyTellsIsAsLongAsACanaryHas(t *testing.T) {
	guarded(t, 1000, Request{StopAt: stopAt(t, "20"), CanaryWait: Wait(5 * time.Minute)}, func(t *testing.T, r *Runner, _ *pile, _ *told, id string) {
		time.Sleep(5*time.Minute - time.Second)
		if at := find(t, r, id); at.Phase != Running {
			t.Fatalf("%+v", at)
		}
		if at := settled(t, r, id); at.Phase != Paused || !strings.Contains(at.Why, "within 5m0s") {
			t.Fatalf("%+v", at)
		}
	})
}

// Where the process is killed in a turn, who goes on has to know what may be out.
func TestWhatMayBeOutIsWrittenDownBeforeItIs(t *testing.T) {
	guarded(t, 1000, Request{StopAt: stopAt(t, "20")}, func(t *testing.T, r *Runner, p *pile, o *told, id string) {
		time.Sleep(time.Second)
		p.set(func(p *pile) { p.held = true })
		o.set(outcomes.Tally{Handled: 20})
		time.Sleep(time.Second)
		stored, err := r.cfg.Store.Load(t.Context(), id)
		if err != nil || stored.Begun != 40 || stored.unknown(o.tally) != 20 {
			t.Fatalf("%+v, %v", stored, err)
		}
		p.set(func(p *pile) { p.held = false })
	})
}

func TestFewerThanTheRateAllowsComeAsMuchSooner(t *testing.T) {
	w := worker{l: &live{}}
	if most, every := w.portion(&State{Rate: Rate{200, time.Second}}, false, 20); most != 20 || every != 100*time.Millisecond {
		t.Errorf("%d each %s", most, every)
	}
}

func TestACanaryThatIsAllThatMatchesIsWaitedForBeforeTheReplayIsOver(t *testing.T) {
	for name, expect := range map[string][]int{"expected": {3}, "": nil} {
		for _, became := range []struct {
			told  outcomes.Tally
			phase Phase
			why   string
		}{
			{canaryOf(3), Done, ""},
			{outcomes.Tally{Handled: 2, Failed: 1, Died: 1}, Paused, "of the 3 messages of the canary 1 failed a try or died"},
			{outcomes.Tally{}, Paused, "0 were handled within 2m0s"},
		} {
			t.Run(name+" "+string(became.phase), func(t *testing.T) {
				run(t, func(t *testing.T, r *Runner, p *pile) {
					o := &told{}
					r.cfg.Outcomes = o
					p.set(func(p *pile) { p.match = 3 })
					wish := request(orders, expect...)
					wish.Canary = 10
					id := ask(t, r, wish, Unlimited).ID
					if at := settled(t, r, id); at.Phase != Running || at.Done != 3 || !strings.Contains(at.Why, "it waits for the canary") {
						t.Fatalf("%+v", at)
					}
					o.set(became.told)
					time.Sleep(time.Minute)
					if at := settled(t, r, id); at.Phase != became.phase || !strings.Contains(at.Why, became.why) || became.phase == Done && !at.CanaryOver {
						t.Fatalf("%+v", at)
					}
				})
			})
		}
	}
}
