package ledger

import (
	"reflect"
	"slices"
	"testing"
)

// Of two processes one is looked at, which has the partition now.
const (
	mine    = 7
	another = 8
)

// lastSaid is what the commit at 10 says of another process, of which nothing was heard since.
func lastSaid(change func(m *Mark)) Mark {
	m := Mark{Owner: another, Ended: 10, HandedOut: 20, Alone: -1, Accused: -1}
	change(&m)
	return m
}

// heir is the guard of who has the partition after that.
func heir(change func(m *Mark)) Guard {
	return NewGuard(lastSaid(change), 10, Rules{Limit: 3, Owner: mine})
}

// suspecting is the guard of who begins with suspects from 10 to 19, and has committed that.
func suspecting() Guard {
	g := heir(func(m *Mark) { m.Deaths, m.SuspectsEnd = 2, 1034 })
	g.Stored(g.Mark(10, 10, 10, 0, 0, false))
	return g
}

func TestADeathIsCountedAndNarrowsWhatIsSuspected(t *testing.T) {
	for name, test := range map[string]struct {
		said func(m *Mark)
		want Mark
	}{
		"the first":                                 {func(*Mark) {}, Mark{Deaths: 1, SuspectsFrom: 10, SuspectsEnd: 1034}},
		"the first, of one that handed more out":    {func(m *Mark) { m.HandedOut = 5000 }, Mark{Deaths: 1, SuspectsFrom: 10, SuspectsEnd: 5000}},
		"calls were over":                           {func(m *Mark) { m.Ended = 13 }, Mark{Deaths: 1, SuspectsFrom: 13, SuspectsEnd: 1034}},
		"calls before the commit were over":         {func(m *Mark) { m.Ended = 8 }, Mark{Deaths: 1, SuspectsFrom: 10, SuspectsEnd: 1034}},
		"the second":                                {func(m *Mark) { m.Deaths, m.SuspectsEnd = 1, 1034 }, Mark{Deaths: 2, SuspectsFrom: 10, SuspectsEnd: 20}},
		"the second, of one that handed none out":   {func(m *Mark) { m.Deaths, m.SuspectsEnd, m.HandedOut = 1, 1034, 10 }, Mark{Deaths: 2, SuspectsFrom: 10, SuspectsEnd: 11}},
		"the third":                                 {func(m *Mark) { m.Deaths, m.SuspectsEnd = 2, 30 }, Mark{Deaths: 3, SuspectsFrom: 10, SuspectsEnd: 20}},
		"the fourth forgets no suspect":             {func(m *Mark) { m.Deaths, m.SuspectsEnd = 3, 30 }, Mark{Deaths: 3, SuspectsFrom: 10, SuspectsEnd: 30}},
		"the fourth, of one that handed more out":   {func(m *Mark) { m.Deaths, m.SuspectsEnd = 3, 15 }, Mark{Deaths: 3, SuspectsFrom: 10, SuspectsEnd: 20}},
		"it is our own: we lost the partition once": {func(m *Mark) { m.Owner, m.Deaths, m.SuspectsEnd = mine, 2, 30 }, Mark{Deaths: 2, SuspectsEnd: 30}},
		"there was none: it parted in order":        {func(m *Mark) { m.Owner, m.Deaths, m.SuspectsEnd = 0, 2, 30 }, Mark{Deaths: 2, SuspectsEnd: 30}},
		"all that was suspected before is settled":  {func(m *Mark) { m.Deaths, m.SuspectsEnd, m.Condemned = 3, 10, 2 }, Mark{Deaths: 1, SuspectsFrom: 10, SuspectsEnd: 1034, Condemned: 2}},
	} {
		g := heir(test.said)
		test.want.Owner, test.want.Ended, test.want.HandedOut, test.want.Alone, test.want.Accused = mine, g.Now().Ended, g.Now().HandedOut, -1, -1
		if got := g.Now(); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

// Three deaths came before.
func TestADeathIsHeldAgainstTheSuspectThatRanThen(t *testing.T) {
	for name, test := range map[string]struct {
		said    func(m *Mark)
		accused int64
		died    []uint32
	}{
		"none ran":                                {func(*Mark) {}, -1, nil},
		"one ran":                                 {func(m *Mark) { m.Alone = 12 }, 12, []uint32{another}},
		"the first open record ran":               {func(m *Mark) { m.Alone = 10 }, 10, []uint32{another}},
		"the accused ran again":                   {func(m *Mark) { m.Alone, m.Accused, m.Died = 12, 12, []uint32{5} }, 12, []uint32{5, another}},
		"one ran that was not the accused":        {func(m *Mark) { m.Alone, m.Accused, m.Died = 12, 11, []uint32{5} }, 12, []uint32{another}},
		"the accused did not run":                 {func(m *Mark) { m.Accused, m.Died = 12, []uint32{5} }, 12, []uint32{5}},
		"the accused is settled":                  {func(m *Mark) { m.Accused, m.Died = 9, []uint32{5} }, -1, nil},
		"the accused is the first open record":    {func(m *Mark) { m.Accused, m.Died = 10, []uint32{5} }, 10, []uint32{5}},
		"there were more than are needed already": {func(m *Mark) { m.Alone, m.Accused, m.Died = 12, 12, []uint32{1, 2, 3, 4} }, 12, []uint32{2, 3, 4, another}},
	} {
		g := heir(func(m *Mark) { m.Deaths, m.SuspectsEnd = 3, 30; test.said(m) })
		if got := g.Now(); got.Accused != test.accused || !slices.Equal(got.Died, test.died) || got.Alone != -1 {
			t.Errorf("%s: %+v, want %d accused of the deaths of %v", name, got, test.accused, test.died)
		}
	}
}

func TestOneMoreDeathThanTheLimitCondemnsTheAccused(t *testing.T) {
	for name, test := range map[string]struct {
		died  []uint32
		lives uint32
		want  bool
	}{
		"as many as the limit":            {[]uint32{1, 2}, 0, false},
		"one more":                        {[]uint32{1, 2, 3}, 0, true},
		"one more, but one was no death":  {[]uint32{1, 2, 3}, 2, false},
		"enough, though one was no death": {[]uint32{1, 2, 3}, 4, true},
		"one more, but the last was none": {[]uint32{1, 2, 3}, another, false},
	} {
		g := heir(func(m *Mark) { m.Deaths, m.SuspectsEnd, m.Alone, m.Accused, m.Died = 3, 30, 12, 12, test.died })
		if got := g.Review(func(owner uint32) bool { return owner == test.lives }); got != test.want || slices.Contains(g.Now().Died, test.lives) {
			t.Errorf("%s: condemned is %v, for the deaths of %v", name, got, g.Now().Died)
		}
	}
}

func TestWhereDeathsAreNotCountedNothingIsHeldBack(t *testing.T) {
	said := lastSaid(func(m *Mark) { m.Deaths, m.SuspectsEnd, m.Alone, m.Accused = 9, 30, 12, 12 })
	g := NewGuard(said, 10, Rules{Owner: mine})
	if g.Counts() || !g.Free() || g.Bound() < 1<<62 || g.Suspects(12) || g.IsAccused(12) || g.IsAccused(0) {
		t.Errorf("counts %v, free %v, hands out up to %d, suspects %v, accuses %v", g.Counts(), g.Free(), g.Bound(), g.Suspects(12), g.IsAccused(12))
	}
	if m := g.Mark(10, 10, 20, 0, 0, false); g.Urges(m) || g.Urges(said) {
		t.Error("a commit is to say something of deaths")
	}
}

func TestOnlyWhatWasOutAtAsManyDeathsAsTheLimitIsSuspected(t *testing.T) {
	suspects := func(g Guard) (all []int64) {
		for offset := int64(5); offset < 40; offset++ {
			if g.Suspects(offset) {
				all = append(all, offset)
			}
		}
		return all
	}
	second := heir(func(m *Mark) { m.Deaths, m.SuspectsEnd = 1, 1034 })
	if got := suspects(second); len(got) > 0 {
		t.Errorf("%v after two deaths of three", got)
	}
	third := heir(func(m *Mark) { m.Ended, m.HandedOut, m.Deaths, m.SuspectsEnd = 12, 15, 2, 1034 })
	if got := suspects(third); !slices.Equal(got, []int64{12, 13, 14}) {
		t.Errorf("%v, and those from 12 to 14 were out", got)
	}
	third.SawEnd(14)
	third.SawEnd(13) // when it is fetched anew
	if got := suspects(third); !slices.Equal(got, []int64{12, 13}) {
		t.Errorf("%v, and the log ended at 14 when the partition was taken over", got)
	}
	later := heir(func(m *Mark) { m.HandedOut, m.Deaths, m.SuspectsEnd = 13, 2, 1034 })
	later.SawEnd(1000)
	if got := suspects(later); !slices.Equal(got, []int64{10, 11, 12}) {
		t.Errorf("%v in a log that goes on, and those from 10 to 12 were out", got)
	}
}

func TestOnceAllThatIsSuspectedIsSettledDeathsAreForgotten(t *testing.T) {
	g := heir(func(m *Mark) { m.Deaths, m.SuspectsEnd, m.Accused, m.Died, m.Condemned = 3, 20, 12, []uint32{5}, 1 })
	g.Stored(g.Mark(10, 10, 10, 0, 0, false))
	g.Progress(12)
	if !g.IsAccused(12) {
		t.Error("the accused is the first open record, and is not accused any more")
	}
	g.Progress(13)
	if now := g.Now(); now.Accused != -1 || now.Died != nil || now.Deaths != 3 {
		t.Errorf("the accused is settled, others are not: %+v", now)
	}
	g.Progress(19)
	if now := g.Now(); g.Free() || now.Deaths != 3 || now.Condemned != 1 {
		t.Errorf("one is open: %+v", now)
	}
	g.Progress(20)
	want := NoMark()
	want.Owner, want.Ended, want.HandedOut, want.Condemned = mine, g.Now().Ended, g.Now().HandedOut, 1
	if now := g.Now(); !g.Free() || !reflect.DeepEqual(now, want) {
		t.Errorf("all are settled: %+v", now)
	}
}

func TestWhereNothingWasLeftToHandOutNothingIsSuspected(t *testing.T) {
	g := heir(func(m *Mark) { m.Deaths, m.SuspectsEnd = 3, 11 })
	if !g.WantsEnd() {
		t.Error("owners died, and nobody asks where the log ends")
	}
	g.Stored(g.Mark(10, 10, 10, 0, 0, false))
	g.SawEnd(10)
	m := g.Mark(10, 10, 10, 0, 0, false)
	if m.Deaths != 0 || !g.Urges(m) || g.WantsEnd() || g.Suspects(10) {
		t.Errorf("the log ends where all is settled: %+v, urgent is %v", m, g.Urges(m))
	}
}

// The broker is to know, though nothing was settled: a killer beside it would be let go.
func TestTheEndOfARowIsCommittedAtOnce(t *testing.T) {
	g := heir(func(m *Mark) { m.Deaths, m.SuspectsEnd, m.Condemned = 3, 10, 2 })
	g.Stored(g.Mark(10, 10, 10, 0, 0, false))
	if m := g.Mark(10, 10, 10, 0, 0, false); g.Urges(m) || m.Condemned != 2 {
		t.Errorf("the row goes on: %+v", m)
	}
	g.EndRow()
	m := g.Mark(10, 10, 10, 0, 0, false)
	if !g.Urges(m) || m.Condemned != 0 {
		t.Errorf("it ended: %+v, urgent is %v", m, g.Urges(m))
	}
	g.Stored(m)
	if g.Urges(g.Mark(10, 10, 10, 0, 0, false)) {
		t.Error("the broker knows, and it is urgent still")
	}
}

func TestASuspectThatCameToItsEndClearsItselfAndTheRow(t *testing.T) {
	begin := func() Guard {
		g := heir(func(m *Mark) { m.Deaths, m.SuspectsEnd, m.Accused, m.Died, m.Condemned = 3, 20, 12, []uint32{5}, 2 })
		g.Stored(g.Mark(10, 10, 10, 0, 0, false))
		return g
	}
	g := begin()
	g.Returned(11)
	if now := g.Now(); now.Condemned != 0 || now.Accused != 12 || len(now.Died) != 1 {
		t.Errorf("one that was not accused came to its end: %+v", now)
	}
	g.Returned(12)
	if now := g.Now(); now.Accused != -1 || now.Died != nil {
		t.Errorf("the accused came to its end: %+v", now)
	}
	g = begin()
	g.Acquit(12)
	if now := g.Now(); now.Accused != -1 || now.Died != nil || now.Condemned != 2 {
		t.Errorf("the accused was acquitted, and did not run: %+v", now)
	}
}
