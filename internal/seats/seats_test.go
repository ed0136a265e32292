package seats

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// work takes a seat again and again for a call of this length, until over.
func work(d *Side, call time.Duration, over <-chan struct{}, began func()) {
	for {
		if !d.Take(over) {
			return
		}
		began()
		time.Sleep(call)
		d.Leave()
		select {
		case <-over:
			return
		default:
		}
	}
}

func TestBothSidesGetWhatTheyMayHaveWhileBothWait(t *testing.T) {
	for _, test := range []struct{ size, first, retry int }{
		{1, 50, 50}, {2, 100, 100}, {3, 200, 100}, {4, 200, 200}, {7, 400, 300}, {16, 800, 800},
	} {
		t.Run(fmt.Sprint(test.size), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New(test.size)
				over := make(chan struct{})
				var firsts, retries int // the bubble's clock steps only when all sleep, but goroutines run at once
				count := make(chan *int)
				go func() {
					for n := range count {
						*n++
					}
				}()
				for range 2 * test.size { // some wait all the time
					go work(s.First(), time.Second, over, func() { count <- &firsts })
					go work(s.Retry(), time.Second, over, func() { count <- &retries })
				}
				time.Sleep(100*time.Second - time.Millisecond)
				synctest.Wait()
				close(over)
				time.Sleep(time.Minute)
				close(count)
				synctest.Wait()
				// The first calls begin before anybody waits, and may all be of one side.
				if near := 2 * test.size; abs(firsts-test.first) > near || abs(retries-test.retry) > near {
					t.Errorf("%d first tries and %d retries, want about %d and %d", firsts, retries, test.first, test.retry)
				}
				if s.free != test.size || s.first.held != 0 || s.retry.held != 0 {
					t.Errorf("in the end %d of %d seats are free", s.free, test.size)
				}
			})
		})
	}
}

func abs(n int) int { return max(n, -n) }

func TestRetriesTakeAllSeatsWhereNoFirstTryWaitsAndGiveThemBackAsTheyEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(4)
		for range 4 {
			s.Retry().Take(nil)
		}
		var got []string
		wait := func(d *Side, name string) {
			go func() {
				d.Take(nil)
				got = append(got, name)
			}()
			synctest.Wait()
		}
		wait(s.Retry(), "retry")
		for range 3 {
			wait(s.First(), "first")
		}
		for range 4 {
			s.Retry().Leave()
			synctest.Wait()
		}
		// Four retries run, then three, then two: half of all. The next to end makes room for one.
		if want := []string{"first", "first", "retry", "first"}; !slices.Equal(got, want) {
			t.Errorf("seats went to %v, want %v", got, want)
		}
	})
}

func TestWhoNoLongerWantsASeatGetsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(1)
		s.First().Take(nil)
		over := make(chan struct{})
		answers := make(chan bool, 2)
		go func() { answers <- s.Retry().Take(over) }()
		go func() { answers <- s.First().Take(over) }()
		synctest.Wait()
		close(over)
		if a, b := <-answers, <-answers; a || b {
			t.Error("a seat that was not there was taken")
		}
		s.First().Leave()
		if !s.Retry().Take(nil) || s.free != 0 {
			t.Error("the seat went to who did not want it any more")
		}
	})
}

func TestWhoLooksWhileWaitingKeepsTheirPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(1)
		if !s.First().TakeLooking(nil, func() <-chan struct{} { t.Error("looked, though a seat was free"); return nil }) {
			t.Fatal("the free seat was not taken")
		}
		kick, looks := make(chan struct{}), 0
		var got []string
		go func() {
			s.First().TakeLooking(nil, func() <-chan struct{} { looks++; return kick })
			got = append(got, "who looks")
		}()
		synctest.Wait()
		go func() {
			s.First().Take(nil)
			got = append(got, "who came later")
		}()
		synctest.Wait()
		if looks != 1 {
			t.Errorf("%d looks at first, want 1", looks)
		}
		for n := range 3 {
			old := kick
			kick = make(chan struct{})
			close(old)
			synctest.Wait()
			if looks != n+2 {
				t.Errorf("%d looks after %d kicks", looks, n+1)
			}
		}
		for range 2 {
			s.First().Leave()
			synctest.Wait()
		}
		if want := []string{"who looks", "who came later"}; !slices.Equal(got, want) {
			t.Errorf("seats went to %q, want %q", got, want)
		}
	})
}

func TestYieldKeepsTheSeatWhereNobodyWaitsAndElseComesAfterThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(1)
		s.First().Take(nil)
		closed := make(chan struct{})
		close(closed)
		if !s.First().Yield(closed) {
			t.Fatal("the seat was lost though nobody waits")
		}
		var got []string
		for _, d := range []*Side{s.First(), s.Retry()} {
			go func() {
				d.Take(nil)
				got = append(got, fmt.Sprint(d == s.Retry()))
				d.Leave()
			}()
		}
		synctest.Wait()
		if !s.First().Yield(nil) {
			t.Fatal("no seat")
		}
		if want := []string{"true", "false"}; !slices.Equal(got, want) {
			t.Errorf("before it came back, retries had the seat: %v, want %v", got, want)
		}
		go s.Retry().Take(nil)
		synctest.Wait()
		if s.First().Yield(closed) {
			t.Error("there is a seat though all are taken and the wait is over")
		}
	})
}

func TestNeverMoreSeatsThanThereAreAndNoneIsFreeWhileAnybodyWaits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 9).Draw(t, "size")
		s := New(size)
		sides := []*Side{s.First(), s.Retry()}
		check := func() {
			switch held := s.first.held + s.retry.held; {
			case held+s.free != size || s.free < 0:
				t.Fatalf("%d held and %d free of %d", held, s.free, size)
			case s.free > 0 && len(s.first.line)+len(s.retry.line) > 0:
				t.Fatal("somebody waits for a seat that is free")
			}
		}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			i := rapid.IntRange(0, 1).Draw(t, "side")
			d := sides[i]
			waiting, retries := len(s.first.line) > 0, s.retry.held
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0: // take, without waiting
				if s.free > 0 {
					d.Take(nil)
				} else {
					s.mu.Lock()
					d.join()
					s.mu.Unlock()
				}
			case 1:
				if d.held > 0 {
					d.Leave()
				}
			case 2: // somebody gives up
				if n := len(d.line); n > 0 {
					closed := make(chan struct{})
					close(closed)
					if d.await(d.line[rapid.IntRange(0, n-1).Draw(t, "who")], closed, nil) {
						t.Fatal("a seat for one who waits in line")
					}
				}
			}
			check()
			if waiting && s.retry.held > retries && retries >= max(1, size/2) {
				t.Fatalf("a retry got a seat beyond the %d of %d though a first try waited", retries, size)
			}
		}
	})
}

func BenchmarkTakeAndLeave(b *testing.B) {
	d := New(16).First()
	for b.Loop() {
		d.Take(nil)
		d.Leave()
	}
}
