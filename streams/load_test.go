package streams

import (
	"strings"
	"testing"
)

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
