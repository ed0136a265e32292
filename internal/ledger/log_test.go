package ledger

import (
	"slices"
	"testing"
)

// drawn counts the numbers that were drawn.
func drawn(from uint32) func() uint32 {
	return func() uint32 {
		from++
		return from
	}
}

// said is the metadata of a commit at 10 of a log of that number.
func saidOf(log uint32) string {
	return WriteMetadata(10, Metadata{Topic: fingerprint([16]byte{1}), Epoch: 1, Log: log}, slices.Values([]Span(nil)), MetadataLimit)
}

func TestAnOwnerHasTheNumberOfTheCommitItBeginsFromAndDrawsOneWhereThatIsOfAnother(t *testing.T) {
	const was = 7
	for name, test := range map[string]struct {
		restore func(l *Ledger)
		topic   byte
		same    bool
	}{
		"it begins from the commit":             {func(l *Ledger) { l.Restore(10, saidOf(was)) }, 1, true},
		"the broker names no topic":             {func(l *Ledger) { l.Restore(10, saidOf(was)) }, 0, true},
		"there is no commit":                    {func(*Ledger) {}, 1, false},
		"the commit has no metadata":            {func(l *Ledger) { l.Restore(10, "") }, 1, false},
		"its metadata is of others":             {func(l *Ledger) { l.Restore(10, "consumer-1") }, 1, false},
		"its metadata is of another offset":     {func(l *Ledger) { l.Restore(9, saidOf(was)) }, 1, false},
		"its metadata has no number":            {func(l *Ledger) { l.Restore(10, saidOf(0)) }, 1, false},
		"it is of another topic":                {func(l *Ledger) { l.Restore(10, saidOf(was)) }, 2, false},
		"it was moved before the client asked":  {func(l *Ledger) { l.Restore(10, saidOf(was)); l.Restore(9, "") }, 1, false},
		"it came between when the client asked": {func(l *Ledger) { l.Restore(-1, ""); l.Restore(10, saidOf(was)) }, 1, true},
		"the log was cut":                       {func(l *Ledger) { l.Restore(10, saidOf(was)); l.GoOn(12) }, 1, false},
	} {
		l := New(Rules{}, drawn(100))
		test.restore(&l)
		l.Begin(At(10, 0), false)
		l.Identify([16]byte{test.topic})
		if now := l.Log.Number; now == 0 || (now == was) != test.same {
			t.Errorf("%s: number %d", name, now)
		}
	}
}

func TestEachCommitCarriesTheNumberToTheNextOwner(t *testing.T) {
	first := New(Rules{}, drawn(100))
	first.Begin(At(10, 0), false)
	first.Identify([16]byte{1})
	number := first.Log.Number
	first.Reserve(2)
	for offset := int64(10); offset < 12; offset++ {
		first.Add(offset, 0, 1)
		first.Settle(offset, offset)
		c, dirty := first.Checkpoint(MetadataLimit, 0)
		heir := New(Rules{}, drawn(200))
		heir.Restore(c.At.Offset, c.Metadata)
		heir.Begin(c.At, false)
		heir.Identify([16]byte{1})
		if !dirty || heir.Log.Number != number {
			t.Errorf("the commit at %d carries %d, want %d", c.At.Offset, heir.Log.Number, number)
		}
		first.Stored(c)
	}
	if c, dirty := first.Checkpoint(MetadataLimit, 0); dirty {
		t.Errorf("%+v once more", c)
	}
	first.GoOn(12)
	first.Reserve(1)
	first.Add(12, 1, 1)
	first.Settle(12, 12)
	if c, _ := first.Checkpoint(MetadataLimit, 0); ReadMetadata(13, c.Metadata).Log != first.Log.Number || first.Log.Number == number {
		t.Errorf("after a cut the number is %d, and %q is committed", first.Log.Number, c.Metadata)
	}
}

func TestATopicThatIsAnotherWhileItIsReadHasAnotherNumberOnce(t *testing.T) {
	l := New(Rules{}, drawn(100))
	l.Identify([16]byte{1})
	first := l.Log.Number
	l.Identify([16]byte{1})
	if l.Log.Number != first {
		t.Errorf("number %d, then %d", first, l.Log.Number)
	}
	l.Identify([16]byte{2})
	second := l.Log.Number
	l.Identify([16]byte{2})
	if second == first || l.Log.Number != second {
		t.Errorf("number %d, then %d and %d", first, second, l.Log.Number)
	}
}

func TestWithoutNumbersNoneIsTakenOverNorCarriedOn(t *testing.T) {
	l := New(Rules{}, nil)
	l.Restore(10, saidOf(7))
	l.Begin(At(10, 0), false)
	l.Identify([16]byte{2})
	l.GoOn(10)
	l.Reserve(1)
	l.Add(10, 0, 1)
	l.Settle(10, 10)
	if c, dirty := l.Checkpoint(MetadataLimit, 0); !dirty || c.Metadata != "" || l.Log.Number != 0 {
		t.Errorf("%+v %v, number %d", c, dirty, l.Log.Number)
	}
}

// What the owner before had settled behind its commit shows a cut that nobody else saw: a leader of
// a higher epoch wrote something else there.
func TestALogThatWasCutWhileNobodyReadItHasAnotherNumber(t *testing.T) {
	for name, test := range map[string]struct {
		offset int64
		epoch  int32
		same   bool
	}{
		"as before":                           {12, 1, true},
		"a higher epoch before a settled one": {10, 2, false},
		"in the place of one":                 {12, 2, false},
		"behind all that was read":            {14, 2, true},
	} {
		l := New(Rules{}, drawn(100))
		l.Restore(10, WriteMetadata(10, Metadata{Topic: fingerprint([16]byte{1}), Epoch: 1, Log: 7}, slices.Values([]Span{{12, 14}}), MetadataLimit))
		l.Begin(At(10, 1), false)
		l.Identify([16]byte{1})
		l.Reserve(1)
		l.Add(test.offset, test.epoch, 1)
		if now := l.Log.Number; (now == 7) != test.same {
			t.Errorf("%s: number %d", name, now)
		}
	}
}
