package ledger

import "testing"

// nextOf is what the next commit of a guard says, if 10 is the first open record and those before
// 14 were handed out, all of which run.
func nextOf(g *Guard) Mark { return g.Mark(10, 10, 14, 0, 4, false) }

func TestASuspectRunsOnceTheBrokerKnowsAndTheNextOnceItKnowsOfTheEnd(t *testing.T) {
	g := suspecting()
	expect := func(when string, runs, quiet, urgent bool) {
		t.Helper()
		if g.MayRun(12) != runs || g.NoneAnnounced() != quiet || g.Urges(nextOf(&g)) != urgent {
			t.Errorf("%s: runs %v, quiet %v, urgent %v", when, g.MayRun(12), g.NoneAnnounced(), g.Urges(nextOf(&g)))
		}
	}
	expect("at first", false, true, false)
	before := nextOf(&g)
	g.Announce(12)
	expect("announced", false, false, true)
	g.Stored(before)
	expect("a commit is stored that was on its way", false, false, true)
	g.Stored(nextOf(&g))
	expect("the broker knows", true, false, false)
	if g.MayRun(11) {
		t.Error("another one may run, too")
	}
	announced := nextOf(&g)
	g.Withdraw()
	expect("withdrawn", false, false, true)
	g.Stored(announced)
	expect("a commit is stored that was on its way and announces it", false, false, true)
	g.Stored(nextOf(&g))
	expect("the broker knows that, too", false, true, false)
	g.Announce(12)
	g.Withdraw()
	expect("withdrawn before any commit announced it", false, true, false)
}

// The first record of a partition has the lowest of offsets.
func TestTheFirstRecordOfALogCanBeASuspectThatRuns(t *testing.T) {
	g := NewGuard(Mark{Owner: another, HandedOut: 5, Deaths: 3, SuspectsEnd: 5, Alone: 0, Accused: -1}, 0, Rules{Limit: 3, Owner: mine})
	if !g.IsAccused(0) {
		t.Errorf("it ran when the process died: %+v", g.Now())
	}
	g.Stored(g.Mark(0, 0, 5, 0, 0, false))
	g.Announce(0)
	if g.NoneAnnounced() {
		t.Error("it is announced, and nothing runs")
	}
	g.Stored(g.Mark(0, 0, 5, 0, 0, false))
	g.Withdraw()
	if g.NoneAnnounced() || !g.Urges(g.Mark(0, 0, 5, 0, 0, false)) {
		t.Error("the broker believes that it runs")
	}
}

func TestNothingIsHandedOutBeforeTheFirstCommitAndAfterADeathNoMoreThanTheLastOneSays(t *testing.T) {
	free := heir(func(m *Mark) { m.Owner = 0 })
	died := heir(func(*Mark) {})
	for name, g := range map[string]*Guard{"nobody died": &free, "one died": &died} {
		if g.Bound() != 0 || g.Free() {
			t.Errorf("%s: up to %d before the first commit, free is %v", name, g.Bound(), g.Free())
		}
	}
	free.Stored(nextOf(&free))
	if free.Bound() < 1<<62 || !free.Free() {
		t.Errorf("nobody died, and nothing after %d is handed out", free.Bound())
	}
	stored := nextOf(&died)
	died.Stored(stored)
	if died.Bound() != stored.HandedOut || died.Free() {
		t.Errorf("one died: up to %d, and the commit says %d", died.Bound(), stored.HandedOut)
	}
	free.Stored(free.Mark(10, 10, 14, 0, 4, true))
	if free.Bound() != 0 || free.Free() {
		t.Error("the broker has that we parted with the partition, and records are handed out")
	}
}

// counting is the guard of who regains a partition after so many deaths of others.
func counting(deaths int) Guard {
	said := Mark{Owner: mine, HandedOut: 9000, Deaths: deaths, SuspectsEnd: 9000, Alone: -1, Accused: -1}
	return NewGuard(said, 10, Rules{Limit: 200, Owner: mine})
}

func TestAfterADeathFewRecordsAreOutAtOnce(t *testing.T) {
	for name, test := range map[string]struct {
		deaths            int
		oldest, handedOut int64
		running           int
		want              int64
	}{
		"none, all that are ahead":      {0, 10, 20, 5, 20 + 77},
		"none, and others were settled": {0, 30, 20, 5, 30 + 77},
		"one":                           {1, 10, 20, 0, 20 + 1024},
		"one, and some run":             {1, 10, 20, 24, 20 + 1000},
		"one, and more run than that":   {1, 10, 20, 2000, 20},
		"one, and others were settled":  {1, 30, 20, 24, 30 + 1000},
		"two":                           {2, 10, 20, 0, 20 + 128},
		"three":                         {3, 10, 20, 0, 20 + 16},
		"very many":                     {100, 10, 20, 0, 20 + 16},
	} {
		g := counting(test.deaths)
		if got := g.Mark(test.oldest, 10, test.handedOut, 77, test.running, false).HandedOut; got != test.want {
			t.Errorf("%s: up to %d, want %d", name, got, test.want)
		}
	}
}

// They may be out already.
func TestWhatACommitPermittedTheNextOnesSay(t *testing.T) {
	g := counting(3)
	permitted := g.Mark(10, 10, 5000, 0, 0, false)
	g.Stored(permitted)
	if got := g.Mark(10, 10, 20, 0, 16, false).HandedOut; got != permitted.HandedOut {
		t.Errorf("up to %d, and %d was permitted", got, permitted.HandedOut)
	}
}

// Three may have died: 16 are out at once.
func TestMoreIsAskedForUnlessTheEndOfACallGivesIt(t *testing.T) {
	g := suspecting()
	for running, want := range map[int]bool{0: true, 15: true, 16: false, 17: false} {
		g.Stored(nextOf(&g))
		if g.AskForMore(running) != want || g.Urges(nextOf(&g)) != want {
			t.Errorf("%d run: asked is not %v, or not at once", running, want)
		}
	}
	fresh := heir(func(m *Mark) { m.Deaths, m.SuspectsEnd = 2, 1034 })
	if !fresh.AskForMore(16) {
		t.Error("before the first commit no call's end gives any")
	}
}

func TestACommitSaysHowFarCallsAreOverAndAFarewellThatNobodyIsThere(t *testing.T) {
	g := suspecting()
	g.Announce(12)
	if m := g.Mark(10, 13, 20, 0, 0, false); m.Ended != 13 || m.Owner != mine || m.Alone != 12 {
		t.Errorf("%+v", m)
	}
	if m := g.Mark(14, 13, 20, 0, 0, false); m.Ended != 14 {
		t.Errorf("%d: all before 14 is settled", m.Ended)
	}
	m := g.Mark(10, 13, 20, 0, 0, true)
	if m.Owner != 0 || m.Alone != -1 || m.HandedOut != 10 || m.Deaths != 3 || m.SuspectsEnd != 20 {
		t.Errorf("the farewell: %+v", m)
	}
	if m := g.Mark(20, 20, 20, 0, 0, true); m.Deaths != 0 {
		t.Errorf("all suspects are settled, and the farewell says %+v", m)
	}
}

func TestACommitIsUrgentWhenTheNextOwnerWouldBeMisled(t *testing.T) {
	free := heir(func(m *Mark) { m.Owner = 0 })
	free.Stored(free.Mark(10, 10, 20, 1000, 0, false))
	died := suspecting()
	again := heir(func(m *Mark) { m.Owner = mine })
	left := heir(func(m *Mark) { m.Owner = 0 })
	for name, test := range map[string]struct {
		g    *Guard
		mark Mark
		want bool
	}{
		"nothing is new":                          {&free, free.Mark(10, 10, 20, 1000, 0, false), false},
		"calls are over, and nobody died":         {&free, free.Mark(10, 15, 20, 1000, 0, false), false},
		"as many more as may be out at once":      {&free, free.Mark(10, 10, 20, 1000+1024, 0, false), false},
		"one more than that":                      {&free, free.Mark(10, 10, 20, 1001+1024, 0, false), true},
		"a farewell":                              {&free, free.Mark(10, 10, 20, 1000, 0, true), true},
		"nothing is new after deaths":             {&died, died.Mark(10, 10, 10, 0, 0, false), false},
		"much more is out after deaths":           {&died, died.Mark(10, 10, 9000, 0, 0, false), false},
		"calls are over after deaths":             {&died, died.Mark(10, 11, 10, 0, 0, false), true},
		"the first of who regains the partition":  {&again, again.Mark(10, 10, 10, 0, 0, false), true},
		"a farewell of who has said nothing else": {&left, left.Mark(10, 10, 10, 0, 0, true), false},
	} {
		if got := test.g.Urges(test.mark); got != test.want {
			t.Errorf("%s: urgent is %v", name, got)
		}
	}
}
