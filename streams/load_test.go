package streams

import (
	"strings"
	"testing"
)

func TestWhoWaitsForRoomIsWokenWhenAnEighthIsFree(t *testing.T) {
	l := newLoad(80, 1<<20, 800)
	l.add(80, 80)
	l.waiting.Store(true)
	for n := range 80 {
		l.remove(freed{records: 1, bytes: 1, span: 1})
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
	l := newLoad(1, 1, 1)
	if at := l.lastProgress(); !at.IsZero() {
		t.Errorf("before the first record: %s", at)
	}
	l.add(1, 1)
	l.remove(freed{records: 1})
	if at := l.lastProgress(); at.IsZero() || !strings.Contains(at.String(), " m=") {
		t.Errorf("without the monotonic clock: %s", at)
	}
}
