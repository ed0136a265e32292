package ledger

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A log, one owner of it after the other, and what all of them settled.
type owners struct {
	t       *rapid.T
	log     []int64 // the offsets that have a record
	settled map[int64]bool

	commit Checkpoint // that the broker has
	l      Ledger     // of the present owner
	next   int        // the first of the log that it has not read
	life   uint32
}

// takeOver begins the ownership of another process.
func (o *owners) takeOver() {
	o.life++
	o.l = New(Rules{Limit: 3, Owner: o.life}, nil)
	o.l.Restore(o.commit.At.Offset, o.commit.Metadata)
	o.l.Begin(o.commit.At, false)
	o.l.Identify([16]byte{1})
	o.next, _ = slices.BinarySearch(o.log, o.commit.At.Offset)
}

func (o *owners) read(n int) {
	for ; n > 0 && o.next < len(o.log); n-- {
		offset := o.log[o.next]
		o.next++
		o.l.Reserve(1)
		if o.l.Add(offset, 0, 10) {
			if !o.settled[offset] {
				o.t.Fatalf("%d is passed over, and nobody settled it", offset)
			}
			o.l.Settle(offset, offset)
		}
	}
	o.l.HandOut(o.l.Expected())
}

func (o *owners) settle(offset int64) {
	if o.l.Settle(offset, offset).Records > 0 {
		o.settled[offset] = true
	}
}

func (o *owners) send(limit int) {
	c, dirty := o.l.Checkpoint(limit, 1)
	if !dirty {
		return
	}
	for _, offset := range o.log {
		if offset < c.At.Offset && !o.settled[offset] {
			o.t.Fatalf("the commit %d passes %d, which nobody settled", c.At.Offset, offset)
		}
	}
	if len(c.Metadata) > limit {
		o.t.Fatalf("%d bytes of metadata, %d are the limit", len(c.Metadata), limit)
	}
	o.l.Stored(c)
	o.commit = c
}

func TestNoOwnerPassesOverWhatNobodySettledNorRunsAgainWhatACommitSaysIsSettled(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := &owners{t: t, settled: map[int64]bool{}, commit: Checkpoint{At: At(0, 0)}}
		every := rapid.Int64Range(2, 9).Draw(t, "records side by side")
		for at := int64(0); len(o.log) < 300; at++ {
			if at%every != 0 { // an offset without a record
				o.log = append(o.log, at)
			}
		}
		o.takeOver()
		t.Repeat(map[string]func(*rapid.T){
			"read": func(t *rapid.T) { o.read(rapid.IntRange(1, 50).Draw(t, "records")) },
			"settle": func(t *rapid.T) {
				for range rapid.IntRange(1, 20).Draw(t, "records") {
					o.settle(o.log[rapid.IntRange(0, max(0, o.next-1)).Draw(t, "which")])
				}
			},
			"commit":    func(t *rapid.T) { o.send(rapid.SampledFrom([]int{150, 300, MetadataLimit}).Draw(t, "limit")) },
			"take over": func(*rapid.T) { o.takeOver() },
			"": func(t *rapid.T) {
				if first := o.l.FirstOpen(); o.commit.At.Offset > first {
					t.Fatalf("the commit is at %d, the first that is open is %d", o.commit.At.Offset, first)
				}
			},
		})
		// With room for all of it a commit says all that is known to be settled, read or not.
		o.send(1 << 20)
		known := map[int64]bool{}
		for _, offset := range o.log {
			known[offset] = o.l.Settled(offset) || slices.ContainsFunc(o.l.inherited.Spans, func(s Span) bool { return s.First <= offset && offset < s.End })
		}
		o.takeOver()
		o.read(len(o.log))
		for _, offset := range o.log {
			if o.l.Settled(offset) != known[offset] {
				t.Fatalf("%d: settled for one owner is %v, for the next %v", offset, known[offset], o.l.Settled(offset))
			}
		}
	})
}

func TestACommitIsSentOnceAndAgainOnlyWhenItSaysMore(t *testing.T) {
	l := New(Rules{}, nil)
	l.Begin(At(10, 1), false)
	for offset := int64(10); offset < 20; offset++ {
		l.Reserve(1)
		l.Add(offset, 1, 1)
	}
	if c, dirty := l.Checkpoint(MetadataLimit, 0); dirty {
		t.Fatalf("%+v though nothing is settled", c)
	}
	l.Settle(12, 12)
	c, dirty := l.Checkpoint(MetadataLimit, 0)
	if !dirty || c.At != At(10, 1) || !slices.Equal(ReadMetadata(10, c.Metadata).Spans, []Span{{12, 13}}) {
		t.Fatalf("%+v %v, want what is settled beyond the beginning", c, dirty)
	}
	if again, dirty := l.Checkpoint(MetadataLimit, 0); !dirty || again.Metadata != c.Metadata {
		t.Fatalf("%+v %v: what was not stored is to be sent again", again, dirty)
	}
	l.Stored(c)
	if c, dirty := l.Checkpoint(MetadataLimit, 0); dirty {
		t.Fatalf("%+v once more", c)
	}
	l.Settle(10, 11)
	if c, dirty := l.Checkpoint(MetadataLimit, 0); !dirty || c.At != At(13, 1) || c.Metadata != "" {
		t.Fatalf("%+v %v", c, dirty)
	}
}

func TestABeginningThatIsToBeRestatedIsCommittedOnce(t *testing.T) {
	l := New(Rules{}, nil)
	l.Begin(At(5, 0), true)
	c, dirty := l.Checkpoint(MetadataLimit, 0)
	if !dirty || c.At != At(5, 0) {
		t.Fatalf("%+v %v, want the beginning", c, dirty)
	}
	l.Stored(c)
	if c, dirty := l.Checkpoint(MetadataLimit, 0); dirty {
		t.Fatalf("%+v once more", c)
	}
}

func TestTheOldestIsTheFirstOpenRecordAndWhatIsBehindItIsCounted(t *testing.T) {
	l := New(Rules{}, nil)
	l.Begin(At(0, 0), false)
	now := time.Now()
	if _, _, _, open := l.Oldest(now); open {
		t.Fatal("there is none")
	}
	for offset := range int64(10) {
		l.Reserve(1)
		l.Add(offset, 0, 1)
	}
	l.Settle(0, 2)
	l.Settle(5, 9)
	l.Oldest(now)
	offset, since, behind, open := l.Oldest(now.Add(time.Second))
	if !open || offset != 3 || behind != 6 || !since.Equal(now) {
		t.Fatalf("%d since %v with %d behind it, %v", offset, since, behind, open)
	}
}

func TestALogThatIsEmptyIsPassedOverOnceNothingBeforeIsOpen(t *testing.T) {
	l := New(Rules{}, nil)
	if gone := l.Emptied(-1, 10); gone != 0 {
		t.Errorf("%d are gone of what nobody knows where it begins", gone)
	}
	l.Begin(At(5, 0), false)
	l.Reserve(1)
	l.Add(5, 0, 1)
	for name, gone := range map[string]int64{
		"one is open": l.Emptied(6, 10), "another is expected": l.Emptied(5, 10), "all was read": l.Emptied(6, 6), "another log": l.Emptied(6, 2),
	} {
		if gone != 0 {
			t.Errorf("%s: %d are gone", name, gone)
		}
	}
	l.Settle(5, 5)
	if gone := l.Emptied(6, 10); gone != 4 || l.Emptied(6, 10) != 0 {
		t.Errorf("%d are gone, want 4 and that once", gone)
	}
	if c, dirty := l.Checkpoint(MetadataLimit, 0); !dirty || c.At != At(10, -1) || l.Expected() != 10 {
		t.Errorf("%+v %v, expects %d", c, dirty, l.Expected())
	}
}
