package ledger

import (
	"math"
	"reflect"
	"slices"
	"testing"
)

// markText is the metadata of a commit at 10 whose mark is these numbers.
func markText(numbers ...uint64) string { return textOf(append([]uint64{10, 7, 1}, numbers...)...) }

func TestTheNextOwnerReadsOfDeathsWhatTheOneBeforeWrote(t *testing.T) {
	full := Mark{
		Owner: math.MaxUint32, Ended: 11, HandedOut: 40, Deaths: 3, SuspectsFrom: 12, SuspectsEnd: 30,
		Alone: 14, Accused: 16, Died: []uint32{1, math.MaxUint32}, Condemned: 2,
	}
	for name, test := range map[string]struct{ change, want func(m *Mark) }{
		"all of it": {func(*Mark) {}, func(*Mark) {}},
		"the first open record runs, and is accused": {
			func(m *Mark) { m.Alone, m.Accused = 10, 10 },
			func(m *Mark) { m.Alone, m.Accused = 10, 10 },
		},
		"no suspect runs, and none is accused": {
			func(m *Mark) { m.Alone, m.Accused, m.Died = -1, -1, nil },
			func(m *Mark) { m.Alone, m.Accused, m.Died = -1, -1, nil },
		},
		"what is before the commit is settled, whatever is said of it": {
			func(m *Mark) { m.Ended, m.HandedOut, m.SuspectsFrom, m.Alone, m.Accused = 5, 6, 7, 8, 9 },
			func(m *Mark) {
				m.Ended, m.HandedOut, m.SuspectsFrom, m.Alone, m.Accused, m.Died = 10, 10, 10, -1, -1, nil
			},
		},
		"nobody died": {
			func(m *Mark) { m.Deaths, m.Accused = 0, -1 },
			func(m *Mark) { m.Deaths, m.SuspectsFrom, m.SuspectsEnd, m.Accused, m.Died = 0, 0, 0, -1, nil },
		},
	} {
		said, want := full, full
		test.change(&said)
		test.want(&want)
		got := ReadMetadata(10, WriteMetadata(10, Metadata{Topic: 7, Epoch: 3, Mark: &said}, slices.Values([]Span{{12, 14}}), MetadataLimit))
		if got.Mark == nil || !reflect.DeepEqual(*got.Mark, want) || got.Epoch != 3 || len(got.Spans) != 1 {
			t.Errorf("%s: %+v, want %+v; beside it %+v", name, got.Mark, want, got)
		}
	}
}

func TestACommitWithoutAMarkSaysThatNobodyDied(t *testing.T) {
	if g := NewGuard(ReadMetadata(10, "").MarkOrNone(), 10, Rules{Limit: 1, Owner: mine}); g.Now().Deaths != 0 || g.IsAccused(0) || g.Suspects(10) {
		t.Errorf("%+v", g.Now())
	}
}

// The numbers of a mark: owner, ended, handed out, deaths, suspects from and to, alone, accused,
// condemned, how many died then, and who. An epoch follows.
func TestAMarkWithANumberThatCannotBeSaysNothing(t *testing.T) {
	dead := func(n int) []uint64 {
		return append(append([]uint64{1, 0, 0, 3, 0, 9, 0, 1, 0, uint64(n)}, slices.Repeat([]uint64{5}, n)...), 2)
	}
	for name, test := range map[string]struct {
		numbers []uint64
		says    bool
	}{
		"all can be":                       {[]uint64{1, 0, 0, 3, 0, 9, 0, 1, 0, 1, 5, 2}, true},
		"the highest numbers of processes": {[]uint64{math.MaxUint32, 0, 0, 3, 0, 9, 0, 1, 0, 1, math.MaxUint32, 2}, true},
		"an owner that is none":            {[]uint64{1 << 32, 0, 0, 3, 0, 9, 0, 1, 0, 1, 5, 2}, false},
		"a death of what is no process":    {[]uint64{1, 0, 0, 3, 0, 9, 0, 1, 0, 2, 5, 1 << 32, 2}, false},
		"as far as offsets can be apart":   {[]uint64{1, 1 << 40, 1 << 40, 3, 0, 9, 0, 1, 0, 1, 5, 2}, true},
		"farther than that":                {[]uint64{1, 0, 1<<40 + 1, 3, 0, 9, 0, 1, 0, 1, 5, 2}, false},
		"as many deaths as can be named":   {dead(128), true},
		"one more":                         {dead(129), false},
		"it ends before its numbers do":    {[]uint64{1, 0, 0, 3, 0, 9, 0, 1, 0}, false},
		"it ends before its dead do":       {[]uint64{1, 0, 0, 3, 0, 9, 0, 1, 0, 2, 5}, false},
	} {
		got := ReadMetadata(10, markText(test.numbers...))
		if (got.Mark != nil) != test.says || got.Topic == 7 != test.says {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestAMarkThatFitsIsWrittenIntoNoMoreThanThat(t *testing.T) {
	for _, died := range []int{0, 1, 4, 101} {
		far := int64(10_000_000)
		said := Mark{
			Owner: another, Ended: far, HandedOut: 2 * far, Deaths: 100, SuspectsEnd: 2 * far,
			Alone: far, Accused: far, Died: slices.Repeat([]uint32{math.MaxUint32}, died), Condemned: 2,
		}
		g := NewGuard(said, 10, Rules{Limit: 100, Owner: another})
		now := g.Now()
		now.Alone = far
		need := len(WriteMetadata(10, Metadata{Topic: math.MaxUint32, Epoch: 1 << 20, Mark: &now}, slices.Values([]Span(nil)), MetadataLimit))
		if g.Fits(need-1) || !g.Fits(need+100) {
			t.Errorf("with %d deaths it needs %d bytes; fits into one less: %v, into 100 more: %v", died, need, g.Fits(need-1), g.Fits(need+100))
		}
	}
}
