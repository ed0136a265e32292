package ledger

import (
	"encoding/base64"
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// after is the ledger of an owner that begins at 10, where the one before had settled 12 and 13 of
// a topic, the last record it read being of leader epoch 1.
func after(topic byte) Ledger {
	text := WriteMetadata(10, Metadata{Topic: fingerprint([16]byte{1}), Epoch: 1}, slices.Values([]Span{{12, 14}}), MetadataLimit)
	l := New(Rules{}, nil)
	l.Restore(10, text)
	l.Begin(At(10, 0), false)
	l.Identify([16]byte{topic})
	l.Reserve(10)
	return l
}

// known are those of the offsets 10 to 15, read with that epoch, that are passed over.
func known(l Ledger, epoch int32) (all []int64) {
	for offset := int64(10); offset < 16; offset++ {
		if l.Add(offset, epoch, 1) {
			all = append(all, offset)
		}
	}
	return all
}

func TestWhatACommitSaysIsSettledIsOnlyOfItsOwnTopicAndLog(t *testing.T) {
	if got := known(after(1), 1); !slices.Equal(got, []int64{12, 13}) {
		t.Errorf("of the same topic %v are passed over", got)
	}
	if got := known(after(0), 1); !slices.Equal(got, []int64{12, 13}) {
		t.Errorf("where the broker names no topic %v are passed over", got)
	}
	if got := known(after(2), 1); len(got) > 0 {
		t.Errorf("of another topic %v are passed over, which nobody settled", got)
	}
	if got := known(after(1), 2); len(got) > 0 {
		t.Errorf("of a log that was cut since %v are passed over, which nobody settled", got)
	}
	l := after(1)
	l.GoOn(12)
	if l.Expected() != 12 {
		t.Errorf("the next record is expected at %d", l.Expected())
	}
	for offset := int64(12); offset < 14; offset++ {
		if l.Add(offset, 1, 1) {
			t.Errorf("%d of another log is passed over", offset)
		}
	}
}

func TestWhereTheLogIsFoundEmptyNothingOfACommitsSpansIsPassedOver(t *testing.T) {
	l := New(Rules{}, nil)
	l.Restore(10, WriteMetadata(10, Metadata{Epoch: 1}, slices.Values([]Span{{12, 2000}}), MetadataLimit))
	l.Begin(At(10, 0), false)
	if gone := l.Emptied(10, 50); gone != 40 {
		t.Fatalf("%d are gone", gone)
	}
	if c, _ := l.Checkpoint(MetadataLimit, 0); c.At.Offset != 50 {
		t.Errorf("the commit is at %d, and the log ends at 50", c.At.Offset)
	}
}

func TestWhatIsLeftOfACommitsSpansIsSaidAgainByTheNext(t *testing.T) {
	begin := func() Ledger {
		l := New(Rules{}, nil)
		l.Restore(10, WriteMetadata(10, Metadata{Epoch: 1}, slices.Values([]Span{{12, 16}, {20, 22}}), MetadataLimit))
		l.Begin(At(10, 0), false)
		l.Reserve(10)
		for offset := int64(10); offset < 13; offset++ { // of the first span, one record
			if l.Add(offset, 1, 1) {
				l.Settle(offset, offset)
			}
		}
		return l
	}
	for name, test := range map[string]struct {
		settled int64
		at      Position
		want    []Span
	}{
		"the span is behind the first open record": {10, At(11, 1), []Span{{12, 16}, {20, 22}}},
		"all before its unread part is settled":    {11, At(16, 1), []Span{{20, 22}}},
	} {
		l := begin()
		l.Settle(10, test.settled)
		c, dirty := l.Checkpoint(MetadataLimit, 0)
		if got := ReadMetadata(c.At.Offset, c.Metadata).Spans; !dirty || c.At != test.at || !slices.Equal(got, test.want) {
			t.Errorf("%s: at %v it says %v, want %v at %v", name, c.At, got, test.want, test.at)
		}
	}
}

// A stop may come after any poll.
func TestWhereverInASpanAStopComesNoneOfItIsCalledAgain(t *testing.T) {
	for stop := int64(11); stop <= 22; stop++ {
		l := New(Rules{}, nil)
		l.Restore(10, WriteMetadata(10, Metadata{Epoch: 1}, slices.Values([]Span{{12, 16}, {17, 22}}), MetadataLimit))
		l.Begin(At(10, 0), false)
		called := map[int64]int{}
		read := func(l *Ledger, from, to int64) {
			l.Reserve(int(to - from))
			for offset := from; offset < to; offset++ {
				if !l.Add(offset, 1, 1) {
					called[offset]++
				}
				l.Settle(offset, offset)
			}
		}
		read(&l, 10, stop)
		c, _ := l.Checkpoint(MetadataLimit, 0)
		heir := New(Rules{}, nil)
		heir.Restore(c.At.Offset, c.Metadata)
		heir.Begin(c.At, false)
		read(&heir, c.At.Offset, 24)
		if want := map[int64]int{10: 1, 11: 1, 16: 1, 22: 1, 23: 1}; !maps.Equal(called, want) {
			t.Errorf("a stop before %d: called %v", stop, called)
		}
	}
}

// What was cut is known only with the first record of the other log.
func TestACommitGoesBackWhereTheUnreadPartOfASpanTurnsOutToBeOfALogThatWasCut(t *testing.T) {
	l := New(Rules{}, nil)
	l.Restore(10, WriteMetadata(10, Metadata{Epoch: 1}, slices.Values([]Span{{11, 20}}), MetadataLimit))
	l.Begin(At(10, 0), false)
	l.Reserve(10)
	l.Add(10, 1, 1)
	l.Add(11, 1, 1)
	l.Settle(10, 11)
	if c, _ := l.Checkpoint(MetadataLimit, 0); c.At != At(20, 1) {
		t.Fatalf("commits %v", c.At)
	} else {
		l.Stored(c)
	}
	if l.Add(12, 2, 1) {
		t.Error("12 is another record, and passed over")
	}
	l.Settle(12, 12)
	if c, dirty := l.Checkpoint(MetadataLimit, 0); !dirty || c.At != At(13, 2) {
		t.Errorf("commits %v", c.At)
	}
}

func TestATopicIsComparedWithTheCommitOnceAndNotWithItsOwnNextCommits(t *testing.T) {
	l := after(1)
	l.Identify([16]byte{2}) // made anew while it is read, of which GoOn is told
	if l.TopicID() != [16]byte{2} {
		t.Errorf("topic %v", l.TopicID())
	}
	if got := known(l, 1); !slices.Equal(got, []int64{12, 13}) {
		t.Errorf("%v are passed over", got)
	}
}

func TestALogThatWasCutIsReadFromTheFirstOpenRecordWhereThatComesFirst(t *testing.T) {
	l := after(1)
	known(l, 1)
	for cut, want := range map[int64]int64{8: 8, 10: 10, 13: 10} {
		if got := l.ResumeAt(At(cut, 1)); got.Offset != want {
			t.Errorf("cut at %d, it is read from %d", cut, got.Offset)
		}
	}
}

func TestTheLagIsFromTheSettledPrefixToTheEndOfTheLog(t *testing.T) {
	l := after(1)
	if l.Lag() != 0 {
		t.Errorf("a lag of %d to an end that nobody saw", l.Lag())
	}
	l.SawEnd(20)
	l.SawEnd(19) // an answer that was late
	if l.Lag() != 10 {
		t.Errorf("a lag of %d", l.Lag())
	}
	l.Add(10, 1, 1)
	l.Settle(10, 10)
	if l.Lag() != 9 {
		t.Errorf("a lag of %d after one was settled", l.Lag())
	}
}

// Who hands a partition over waits for what is pending.
func TestAPartitionIsQuietOnceWhatIsPendingIsSettled(t *testing.T) {
	l := after(1)
	l.Add(10, 1, 1)
	l.Add(11, 1, 1)
	l.Settle(10, 10)
	l.Pend(10) // settled before its call was over
	if !l.Quiet() {
		t.Error("what is settled is pending")
	}
	l.Pend(11)
	if l.Quiet() {
		t.Error("nothing is pending")
	}
	l.Settle(11, 11)
	if !l.Quiet() {
		t.Error("what was settled since is pending")
	}
}

// An owner that dies has not died of a call that is over; one that rests and is made again is not.
func TestACallThatRestsToBeMadeAgainIsNotOver(t *testing.T) {
	ended := func(change func(l *Ledger)) int64 {
		l := after(1)
		for offset := int64(10); offset < 14; offset++ {
			l.Add(offset, 1, 1)
		}
		l.HandOut(13)
		change(&l)
		return l.calls.ended(&l.window, l.Rests)
	}
	for name, test := range map[string]struct {
		change func(l *Ledger)
		want   int64
	}{
		"all run":                  {func(*Ledger) {}, 10},
		"one is settled":           {func(l *Ledger) { l.Settle(10, 10) }, 11},
		"one is on its way":        {func(l *Ledger) { l.Pend(10) }, 11},
		"one rests after its last": {func(l *Ledger) { l.Rests.Begin(10, time.Time{}) }, 11},
		"one is made again":        {func(l *Ledger) { l.Rests.Begin(10, time.Unix(1, 0)) }, 10},
		"one has rested":           {func(l *Ledger) { l.Rests.Begin(10, time.Time{}); l.Rests.End(10) }, 10},
		"all are over":             {func(l *Ledger) { l.Settle(10, 12) }, 13},
		"more than was handed out": {func(l *Ledger) { l.Settle(10, 13) }, 13},
	} {
		if got := ended(test.change); got != test.want {
			t.Errorf("%s: all calls before %d are over, want %d", name, got, test.want)
		}
	}
	rests := Rests{}
	rests.Begin(1, time.Unix(1, 0))
	rests.Begin(2, time.Time{})
	rests.Begin(3, time.Unix(1, 0))
	if rests.Waiting() != 2 || !rests.Until(1).Equal(time.Unix(1, 0)) {
		t.Errorf("%d are made again, the first at %v", rests.Waiting(), rests.Until(1))
	}
}

// textOf is metadata of these numbers.
func textOf(numbers ...uint64) string {
	var raw []byte
	for _, n := range numbers {
		raw = binary.AppendUvarint(raw, n)
	}
	return Prefix + base64.RawStdEncoding.EncodeToString(raw)
}

func TestMetadataWithANumberThatNoLogHasSaysNothing(t *testing.T) {
	// Offset, topic, no mark, epoch and one more; then gaps and runs.
	if got := ReadMetadata(10, textOf(10, 7, 0, 2, 2, 2)); got.Topic != 7 || got.Epoch != 1 || !slices.Equal(got.Spans, []Span{{12, 14}}) {
		t.Fatalf("%+v", got)
	}
	for name, numbers := range map[string][]uint64{
		"a topic of more than 32 bits":     {10, 1 << 32, 0, 2, 2, 2},
		"what is not known by now":         {10, 7, 4, 2, 2, 2},
		"a log's number of 0":              {10, 7, 2, 0, 2, 2, 2},
		"a log's number over 32 bits":      {10, 7, 2, 1 << 32, 2, 2, 2},
		"a log's number that is missing":   {10, 7, 2},
		"an epoch of more than 31 bits":    {10, 7, 0, 1 << 31, 2, 2},
		"no epoch":                         {10, 7, 0},
		"a gap of nothing":                 {10, 7, 0, 2, 0, 2},
		"a run of nothing":                 {10, 7, 0, 2, 2, 0},
		"a gap without its run":            {10, 7, 0, 2, 2},
		"a gap that is too wide":           {10, 7, 0, 2, 1<<40 + 1, 2},
		"a run that is too long":           {10, 7, 0, 2, 2, 1<<40 + 1},
		"a second span that is broken":     {10, 7, 0, 2, 2, 2, 3, 0},
		"a mark that is cut short":         {10, 7, 1, 1, 1, 1},
		"a mark of an owner that is none":  {10, 7, 1, 1 << 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2},
		"a mark whose dead are not listed": {10, 7, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2},
	} {
		if got := ReadMetadata(10, textOf(numbers...)); len(got.Spans) > 0 || got.Mark != nil || got.Topic != 0 || got.Log != 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	whole := textOf(10, 7, 0, 2, 2, 2)
	if got := ReadMetadata(10, strings.TrimPrefix(whole, Prefix)); len(got.Spans) > 0 {
		t.Errorf("without its prefix: %+v", got)
	}
	if got := ReadMetadata(10, whole+"!"); len(got.Spans) > 0 {
		t.Errorf("with what is no base64: %+v", got)
	}
	if farEnd := uint64(1<<62 + 1); len(ReadMetadata(int64(farEnd), textOf(farEnd, 7, 0, 2, 2, 2)).Spans) > 0 {
		t.Error("a commit beyond any offset says something")
	}
}
