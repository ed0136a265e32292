package streams

import (
	"strings"
	"testing"

	"github.com/stepwell/stepwell/internal/ledger"
)

func TestWhoWaitsForRoomIsWokenWhenAnEighthIsFree(t *testing.T) {
	l := newLoad(Window{80, 1 << 20, 800})
	l.add(80, 80)
	l.waiting.Store(true)
	for n := range 80 {
		l.remove(ledger.Freed{Records: 1, Bytes: 1, Span: 1})
		select {
		case <-l.room:
			if n < 9 {
				t.Fatalf("woken when %d were free", n+1)
			}
		default:
			if n >= 9 {
				t.Fatalf("not woken when %d were free", n+1)
			}
		}
	}
}

func TestTheLastProgressIsKnownByTheClockThatNobodySets(t *testing.T) {
	l := newLoad(Window{1, 1, 1})
	if at := l.lastProgress(); !at.IsZero() {
		t.Errorf("before the first record: %s", at)
	}
	l.add(1, 1)
	l.remove(ledger.Freed{Records: 1})
	if at := l.lastProgress(); at.IsZero() || !strings.Contains(at.String(), " m=") {
		t.Errorf("without the monotonic clock: %s", at)
	}
}

func TestThereIsRoomForAsManyRecordsAsFitIntoTheBytesThatAreLeft(t *testing.T) {
	l := newLoad(Window{1000, 1000, 1000})
	for _, step := range []struct {
		adds, bytes int
		averageSize int64
		want        int64
	}{
		{0, 0, 100, 11}, // one too many, so that a large record gets in at all
		{5, 500, 100, 6},
		{0, 499, 100, 1},
		{0, 1, 100, 0},
		{0, 5000, 1, 0},
	} {
		l.add(step.adds, step.bytes)
		if got := l.free(step.averageSize); got != step.want {
			t.Errorf("after %+v there is room for %d", step, got)
		}
	}
	l.remove(ledger.Freed{Bytes: 6000})
	if got := l.free(0); got != 995 {
		t.Errorf("once all bytes are settled there is room for %d", got)
	}
}
