package operations

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stepwell/stepwell/internal/outcomes"
)

func TestWhatALookFindsRefusesWhatIsUntouchedPausesWhatHasBegunOrEndsIt(t *testing.T) {
	ten, room := 10, 5
	for _, c := range []struct {
		what     string
		expected *int
		cutOff   bool
		at       State
		found    Sample
		want     Phase
	}{
		{"none matches", nil, false, State{}, Sample{}, Done},
		{"none matches any more", &ten, false, State{Done: 4}, Sample{}, Done},
		{"some match", nil, false, State{}, Sample{Matched: 11}, ""},
		{"as many as expected", &ten, false, State{}, Sample{Matched: 10}, ""},
		{"one more than expected", &ten, false, State{}, Sample{Matched: 11}, Refused},
		{"as many more as are left of those expected", &ten, false, State{Done: 4}, Sample{Matched: 6}, ""},
		{"one more than are left of those expected", &ten, false, State{Done: 4}, Sample{Matched: 7}, Paused},
		{"one more than a turn left that was cut off", &ten, true, State{Begun: 4}, Sample{Matched: 7}, Paused},
		{"they fit into the trash", nil, false, State{}, Sample{Matched: 5, Room: &room}, ""},
		{"one does not fit", nil, false, State{}, Sample{Matched: 6, Room: &room}, Refused},
		{"one does not fit any more", nil, false, State{Done: 1}, Sample{Matched: 6, Room: &room}, Paused},
		{"one does not fit, and a turn was cut off", nil, true, State{}, Sample{Matched: 6, Room: &room}, Paused},
		{"one does not fit, and what a turn was to do would be known", &ten, true, State{}, Sample{Matched: 6, Room: &room}, Refused},
	} {
		p, why := verdict(c.expected, c.cutOff, &c.at, &c.found)
		if p != c.want || (why == "") != (p == "" || p == Done) {
			t.Errorf("%s: %q, %s", c.what, p, why)
		}
	}
}

func TestHowManyMessagesATurnMayActOn(t *testing.T) {
	ten := 10
	for _, c := range []struct {
		what    string
		request Request
		at      State
		canary  bool
		allowed int
		most    int
		every   time.Duration
	}{
		{"nothing bounds it", Request{Action: Replay}, State{}, false, noLimit, noLimit, 0},
		{"its rate", Request{Action: Replay}, State{Rate: Rate{10, time.Minute}}, false, noLimit, 1, 6 * time.Second},
		{"what may still fail", Request{Action: Replay}, State{}, false, 7, 7, 0},
		{"the rest of the canary", Request{Action: Replay, Canary: 10}, State{Done: 4}, true, noLimit, 6, 0},
		{"the rest of the canary, after a turn that was cut off", Request{Action: Replay, Canary: 10}, State{Done: 4, Begun: 9}, true, noLimit, 1, 0},
		{"no canary any more", Request{Action: Replay, Canary: 10}, State{Done: 10}, false, noLimit, noLimit, 0},
		{"what is left of those expected", Request{Action: Replay, Expect: &ten}, State{Done: 7}, false, noLimit, 3, 0},
		{"what is left for sure of those expected", Request{Action: Replay, Expect: &ten}, State{Done: 3, Begun: 9}, false, noLimit, 1, 0},
		{"what was there when a sort began", Request{Action: Sort}, State{Matched: 10, Done: 4}, false, noLimit, 6, 0},
		{"what was there when an unsort began", Request{Action: Unsort}, State{Matched: 10, Done: 10}, false, noLimit, 0, 0},
		{"what the trash made room for", Request{Action: Delete}, State{Matched: 5000, Done: 1000}, false, noLimit, 4000, 0},
		{"what the trash makes room for in any case", Request{Action: Delete}, State{Matched: 5000, Done: 4000}, false, noLimit, 2000, 0},
		{"none goes into the trash", Request{Action: Delete, Forever: true}, State{Matched: 5000, Done: 1000}, false, noLimit, noLimit, 0},
	} {
		w := worker{l: &live{request: c.request}}
		if most, every := w.portion(&c.at, c.canary, c.allowed); most != c.most || every != c.every {
			t.Errorf("%s: %d each %s", c.what, most, every)
		}
	}
}

// What was written down before a turn is what it may do, and then what it began with.
func TestWhatIsLeftOfAPromiseOnceTheTurnIsOver(t *testing.T) {
	for _, c := range []struct {
		what   string
		turn   Turn
		cutOff bool
		begun  int
	}{
		{"all was done", Turn{Begun: 40, Done: 40}, false, 60},
		{"less was there", Turn{Begun: 10, Done: 10}, false, 30},
		{"none was there", Turn{}, false, 20},
		{"it was cut off, and some are not seen to be gone", Turn{Begun: 15, Done: 5}, true, 35},
		{"it was cut off before it began", Turn{}, true, 20},
		{"it was over, and some are still there", Turn{Begun: 15, Done: 5}, false, 25},
	} {
		s := State{Done: 20, Begun: 60}
		if s.settle(c.turn, 40, c.cutOff); s.Begun != c.begun {
			t.Errorf("%s: %d, not %d", c.what, s.Begun, c.begun)
		}
	}
}

func TestOnlyATurnThatCameToTheEndSaysWhatIsLeftOutAndUnseen(t *testing.T) {
	was := State{Why: "it was away", Matched: 10, Done: 4, Unsorted: 7, LeftOut: LeftOut{CrashLoop: 3, TooLarge: 2}}
	end := Turn{Begun: 2, Done: 2, Unseen: 5, LeftOut: LeftOut{CrashLoop: 1, TooLarge: 4}}
	more := end
	more.More = true
	saw := end
	saw.Unseen = 0
	for what, c := range map[string]struct {
		turn Turn
		err  error
		want State
	}{
		"to the end": {end, nil, State{Matched: 10, Done: 6, Unsorted: 5, LeftOut: LeftOut{CrashLoop: 1, TooLarge: 4}}},
		"all":        {saw, nil, State{Matched: 10, Done: 6, Complete: true, LeftOut: LeftOut{CrashLoop: 1, TooLarge: 4}}},
		"not to it":  {more, nil, State{Matched: 10, Done: 6, Unsorted: 7, LeftOut: LeftOut{CrashLoop: 3, TooLarge: 4}}},
		"cut off":    {more, errors.New("away"), State{Why: "it was away", Matched: 10, Done: 6, Unsorted: 7, LeftOut: LeftOut{CrashLoop: 3, TooLarge: 4}}},
	} {
		s := was
		s.took(c.turn, c.err)
		if s.Why != c.want.Why || s.Matched != c.want.Matched || s.Done != c.want.Done || s.Unsorted != c.want.Unsorted || s.Complete != c.want.Complete || s.LeftOut != c.want.LeftOut {
			t.Errorf("%s: %+v", what, s)
		}
	}
}

// What a person was told when he let it go on is accepted, and nothing that he was not told of.
func TestWhatAPersonAcceptsWhoLetsAReplayGoOn(t *testing.T) {
	for what, c := range map[string]struct {
		why  string
		want Accepted
	}{
		"a guard paused it":  {"of 10 messages 7 failed a try: " + thenMend, Accepted{9, 20, 3}},
		"nobody told of any": {"nobody told: " + thenLook, Accepted{9, 20, 3}},
		"a person paused it": {"", Accepted{5, 8, 3}},
		"more matched":       {"11 more match", Accepted{5, 8, 3}},
	} {
		s := State{Phase: Paused, Why: c.why, Accepted: Accepted{5, 8, 3}}
		if s.accept(outcomes.Tally{Handled: 11, Failed: 9}); s.Accepted != c.want {
			t.Errorf("%s: %+v", what, s.Accepted)
		}
	}
	s := State{Why: "7 failed a try: " + thenMend, Accepted: Accepted{5, 8, 3}}
	if s.accept(outcomes.Tally{}); s.Accepted != (Accepted{5, 8, 3}) {
		t.Errorf("what was told is forgotten, and so is that it was accepted: %+v", s.Accepted)
	}
}

func TestListsHaveTheNewestFirstAndWhatIsOfOneMomentByItsID(t *testing.T) {
	s, at := NewMemory(), time.Unix(1000, 0)
	for i, id := range []string{"op_b", "op_d", "op_a", "op_c"} {
		if err := s.Create(t.Context(), Request{ID: id, CreatedAt: at.Add(time.Duration(i/2) * time.Second)}, State{Phase: Queued}); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	all, err := s.List()
	for _, o := range all {
		got = append(got, o.ID)
	}
	if want := []string{"op_c", "op_a", "op_d", "op_b"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestAboutHowLongTheRestTakes(t *testing.T) {
	second := Rate{10, time.Second}
	for _, c := range []struct {
		what    string
		at      State
		limited bool
		done    int
		took    time.Duration
		want    int
	}{
		{"nothing is left", State{Matched: 10, Done: 10, Rate: second}, false, 10, time.Second, 0},
		{"others removed some", State{Matched: 10, Done: 12}, false, 12, time.Second, 0},
		{"at its rate", State{Matched: 300, Done: 100, Rate: second}, false, 100, time.Hour, 20},
		{"at a rate a minute", State{Matched: 300, Done: 100, Rate: Rate{10, time.Minute}}, false, 100, time.Second, 1200},
		{"a rate, before its first turn", State{Matched: 300, Rate: second}, false, 0, 0, 30},
		{"at its speed so far", State{Matched: 300, Done: 100}, false, 100, 10 * time.Second, 20},
		{"at its speed here, of what another process began", State{Matched: 300, Done: 100}, false, 20, 10 * time.Second, 100},
		{"what is out is limited, and slower than its rate", State{Matched: 300, Done: 100, Rate: second}, true, 100, 50 * time.Second, 100},
		{"none is done, and there is no rate", State{Matched: 300}, false, 0, time.Minute, 0},
		{"what is out is limited, and none is done", State{Matched: 300, Rate: second}, true, 0, time.Minute, 0},
		{"in less than a second", State{Matched: 101, Done: 100, Rate: second}, false, 100, time.Minute, 1},
	} {
		if got := c.at.eta(c.limited, c.done, c.took); got != c.want {
			t.Errorf("%s: %d s, not %d", c.what, got, c.want)
		}
	}
}
