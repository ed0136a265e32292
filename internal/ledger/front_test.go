package ledger

import (
	"testing"
	"time"
)

func TestTheTimeOfTheOldestStaysAsLongAsItIsAndBeginsAnewWithTheNext(t *testing.T) {
	began := time.Now()
	at := func(second int) time.Time { return began.Add(time.Duration(second) * time.Second) }
	var f front
	for _, look := range []struct {
		what  string
		at    int
		first int64
		open  bool
		since time.Time
	}{
		{"nothing was read", 0, 0, false, time.Time{}},
		{"offset 0 is", 1, 0, true, at(1)},
		{"it still is", 5, 0, true, at(1)},
		{"the next one is", 6, 1, true, at(6)},
		{"it still is", 7, 1, true, at(6)},
		{"all is settled", 8, 0, false, time.Time{}},
		{"another one is, after a while", 20, 9, true, at(20)},
		{"it still is", 21, 9, true, at(20)},
	} {
		if got := f.see(look.first, look.open, at(look.at)); !got.Equal(look.since) {
			t.Errorf("second %d, %s: since second %v, want %v", look.at, look.what, got.Sub(began), look.since.Sub(began))
		}
	}
}
