package crew

import (
	"sync"
	"testing"
)

// The worker begins calls, somebody else takes the rest away: each entry belongs to one of them.
func TestEitherTheWorkerBeginsTheNextCallOrTheRestIsGoneNeverBoth(t *testing.T) {
	for range 2000 {
		var s stretch
		s.begin(StretchSize)
		begun, lostAfter := 0, -1
		var both sync.WaitGroup
		both.Go(func() {
			for at := s.state(); begun < StretchSize && s.next(at); at++ {
				begun++
			}
		})
		both.Go(func() {
			for range 10 {
				if seen := s.state(); seen.begun() > 0 && s.lose(seen) {
					lostAfter = seen.begun()
					return
				}
			}
		})
		both.Wait()
		if lostAfter >= 0 && lostAfter != begun || lostAfter < 0 && begun != StretchSize {
			t.Fatalf("%d calls began, and the rest was taken away after %d", begun, lostAfter)
		}
	}
}

func TestARestIsNotTakenFromALaterStretchThatLooksTheSame(t *testing.T) {
	var s stretch
	s.begin(3)
	s.next(s.state())
	seen := s.state()
	s.end()
	s.begin(3)
	s.next(s.state())
	if s.lose(seen) {
		t.Error("it was seen in the stretch before")
	}
}
