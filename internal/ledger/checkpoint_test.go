package ledger

import (
	"slices"
	"testing"
	"time"
)

// heirs is the ledger of who has the partition after another process, whose last commit is at 10,
// and has read 10 to 19.
func heirs(change func(m *Mark)) *Ledger {
	said := lastSaid(change)
	l := New(Rules{Limit: 3, Owner: mine}, nil)
	l.Restore(10, WriteMetadata(10, Metadata{Mark: &said}, slices.Values([]Span(nil)), MetadataLimit))
	l.Begin(At(10, 0), false)
	l.Reserve(10)
	for offset := int64(10); offset < 20; offset++ {
		l.Add(offset, 0, 1)
	}
	return &l
}

// accusing is one that has committed that 12 is accused, in a row of so many that were condemned.
func accusing(t *testing.T, condemned int) *Ledger {
	t.Helper()
	l := heirs(func(m *Mark) {
		m.Deaths, m.SuspectsEnd, m.Accused, m.Died, m.Condemned = 3, 20, 12, []uint32{1, 2, 3, 4}, condemned
	})
	commitOf(t, l, 0)
	return l
}

// commitOf commits, and returns what the next owner reads of deaths.
func commitOf(t *testing.T, l *Ledger, running int) Mark {
	t.Helper()
	c, dirty := l.Checkpoint(MetadataLimit, running)
	if !dirty {
		t.Fatal("nothing is to be committed")
	}
	l.Stored(c)
	return ReadMetadata(c.At.Offset, c.Metadata).MarkOrNone()
}

func TestNothingIsCommittedOfAPartitionWhoseBeginningIsNotKnown(t *testing.T) {
	l := New(Rules{Limit: 3, Owner: mine}, nil)
	if c, dirty := l.Checkpoint(MetadataLimit, 0); dirty {
		t.Errorf("%+v", c)
	}
}

func TestTheFirstCommitOfAnOwnerNamesItAndLetsRecordsGo(t *testing.T) {
	free, died := heirs(func(m *Mark) { m.Owner = 0 }), heirs(func(*Mark) {})
	if m := commitOf(t, free, 0); m.Owner != mine || m.Deaths != 0 || !free.Guard.Free() {
		t.Errorf("nobody died: %+v, free is %v", m, free.Guard.Free())
	}
	if m := commitOf(t, died, 0); m.Owner != mine || m.Deaths != 1 || died.Guard.Bound() != m.HandedOut || m.HandedOut <= 10 {
		t.Errorf("one died: %+v, records before %d may go", m, died.Guard.Bound())
	}
	for name, l := range map[string]*Ledger{"nobody died": free, "one died": died} {
		if c, dirty := l.Checkpoint(MetadataLimit, 0); dirty {
			t.Errorf("%s: %+v once more", name, c)
		}
	}
}

func TestWhereDeathsAreNotCountedACommitSaysNothingOfThem(t *testing.T) {
	l := New(Rules{Owner: mine}, nil)
	l.Begin(At(10, 0), false)
	l.Reserve(1)
	l.Add(10, 0, 1)
	l.Settle(10, 10)
	c, dirty := l.Checkpoint(MetadataLimit, 0)
	if l.Stored(c); !dirty || c.Metadata != "" || !l.Guard.Free() {
		t.Errorf("%+v %v", c, dirty)
	}
}

// Of a death it matters which calls were not over.
func TestACommitSaysWhichCallsAreOverAsLongAsThereAreSuspects(t *testing.T) {
	l := heirs(func(*Mark) {})
	commitOf(t, l, 0)
	l.HandOut(14)
	l.Pend(10)
	l.Rests.Begin(11, time.Time{})
	if m := commitOf(t, l, 4); m.Ended != 12 {
		t.Errorf("the calls before %d are over, want 12", m.Ended)
	}
	l.Settle(12, 13)
	if m := commitOf(t, l, 2); m.Ended != 14 {
		t.Errorf("the calls before %d are over, want 14", m.Ended)
	}
}

func TestACallThatRestsLeavesItsPlaceToAnother(t *testing.T) {
	l := heirs(func(m *Mark) { m.Deaths, m.SuspectsEnd = 2, 1034 })
	commitOf(t, l, 0)
	l.HandOut(14)
	l.Rests.Begin(13, time.Unix(1, 0))
	l.Settle(10, 10)
	if m := commitOf(t, l, 3); m.HandedOut != 14+16-2 {
		t.Errorf("records before %d may be out: two run, 16 may", m.HandedOut)
	}
}

// As many more as may come until the next commit, by what came since the last one.
func TestWithoutDeathsACommitSaysThatMoreIsHandedOutMeanwhile(t *testing.T) {
	l := heirs(func(m *Mark) { m.Owner = 0 })
	commitOf(t, l, 0)
	l.HandOut(12)
	l.Settle(10, 10)
	commitOf(t, l, 1)
	l.HandOut(20)
	l.Settle(11, 11)
	if m := commitOf(t, l, 1); m.HandedOut != 20+1024+2*8 {
		t.Errorf("handed out before %d: 20 of it were, and 8 since the last commit", m.HandedOut)
	}
}

func TestTheAccusedIsAcquittedOnceItIsSettled(t *testing.T) {
	l := accusing(t, 0)
	l.Settle(13, 13)
	if m := commitOf(t, l, 0); m.Accused != 12 || len(m.Died) != 4 {
		t.Errorf("another was settled, and is accused: %d, for %v", m.Accused, m.Died)
	}
	l.Settle(12, 12) // behind open ones
	if m := commitOf(t, l, 0); m.Accused != -1 || m.Died != nil || l.Guard.IsAccused(12) {
		t.Errorf("it is settled, and accused is %d, for %v", m.Accused, m.Died)
	}
}

// The next owner accuses it once more, and condemns it, if it is not.
func TestASentenceCountsOnceTheCondemnedIsSettled(t *testing.T) {
	l := accusing(t, 1)
	l.Condemn(12)
	l.Settle(11, 11)
	if m := commitOf(t, l, 0); m.Condemned != 1 || m.Accused != 12 {
		t.Errorf("it is on its way to the dead set, and %d were condemned; accused is %d", m.Condemned, m.Accused)
	}
	l.Settle(12, 12)
	if m := commitOf(t, l, 0); m.Condemned != 2 {
		t.Errorf("it is in the dead set, and %d were condemned", m.Condemned)
	}
}

// Its offset is the lowest there is.
func TestTheFirstRecordOfALogIsCondemnedAndAcquittedLikeOthers(t *testing.T) {
	said := Mark{Owner: 0, HandedOut: 2, Deaths: 3, SuspectsEnd: 2, Alone: -1, Accused: 0, Died: []uint32{1, 2, 3, 4}}
	l := New(Rules{Limit: 3, Owner: mine}, nil)
	l.Restore(0, WriteMetadata(0, Metadata{Mark: &said}, slices.Values([]Span(nil)), MetadataLimit))
	l.Begin(At(0, 0), false)
	l.Reserve(2)
	l.Add(0, 0, 1)
	l.Add(1, 0, 1)
	l.Condemn(0)
	if m := commitOf(t, &l, 0); m.Condemned != 0 || m.Accused != 0 {
		t.Errorf("it is on its way to the dead set, and %d were condemned; accused is %d", m.Condemned, m.Accused)
	}
	l.Settle(0, 0)
	if m := commitOf(t, &l, 0); m.Condemned != 1 || m.Accused != -1 {
		t.Errorf("it is in the dead set, and %d were condemned; accused is %d", m.Condemned, m.Accused)
	}
}

func TestOnlyWhoDoesNotPartInOrderDied(t *testing.T) {
	for inGoodOrder, deaths := range map[bool]int{true: 1, false: 2} { // one died before
		l := heirs(func(*Mark) {})
		commitOf(t, l, 0)
		l.HandOut(20)
		l.Part(inGoodOrder)
		l.Settle(10, 10)
		next := NewGuard(commitOf(t, l, 3), 11, Rules{Limit: 3, Owner: another})
		if got := next.Now().Deaths; got != deaths {
			t.Errorf("in good order: %v, deaths: %d, want %d", inGoodOrder, got, deaths)
		}
	}
}

// What a death makes suspects of ends there: a claim that goes too far suspects what nobody has
// handed out, and holds up all of it.
func TestNoCommitOfAnOwnerSaysMuchMoreThanWhatItHandedOut(t *testing.T) {
	const begin, handed = 5_000_000, 10
	for name, prepare := range map[string]func(l *Ledger){
		"it begins there":                      func(l *Ledger) { l.Begin(At(begin, -1), true) },
		"it begins where the first record is":  func(*Ledger) {},
		"what was before it was deleted":       func(l *Ledger) { l.Begin(At(100, -1), true); l.GoOn(begin) },
		"all before it was deleted":            func(l *Ledger) { l.Begin(At(100, -1), true); l.Emptied(100, begin) },
		"there are no records between the two": func(l *Ledger) { l.Begin(At(100, -1), true) },
	} {
		l := New(Rules{Limit: 3, Owner: 7}, nil)
		prepare(&l)
		c, _ := l.Checkpoint(MetadataLimit, 0)
		l.Stored(c) // before there is a record
		l.Reserve(30)
		for o := int64(begin); o < begin+30; o++ {
			l.Add(o, 0, 1)
		}
		for commit := range int64(3) {
			l.HandOut(begin + (commit+1)*handed)
			l.Settle(begin+commit, begin+commit)
			c, _ := l.Checkpoint(MetadataLimit, 0)
			out := begin + (commit+1)*handed
			if m := ReadMetadata(c.At.Offset, c.Metadata).MarkOrNone(); m.HandedOut < out || m.HandedOut > out+firstLead+2*handed {
				t.Errorf("%s: commit %d says that all before %d were handed out: %d more than were", name, commit, m.HandedOut, m.HandedOut-out)
			}
			l.Stored(c)
		}
	}
}

// A commit below the log's highest epoch would let the client take back what is settled.
func TestACommitAtTheEndOfASpanHasTheHighestEpochThatTheOwnerBeforeHadRead(t *testing.T) {
	l := New(Rules{}, nil)
	l.Restore(42, WriteMetadata(42, Metadata{Epoch: 5}, slices.Values([]Span{{43, 50}}), MetadataLimit))
	l.Begin(At(42, 3), false)
	l.Reserve(1)
	l.Add(42, 3, 1)
	l.Settle(42, 42)
	if c, dirty := l.Checkpoint(MetadataLimit, 0); !dirty || c.At != At(50, 5) {
		t.Errorf("committed at %+v", c.At)
	}
}
