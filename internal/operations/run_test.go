package operations

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// logged has a process on a store that is there already, and its log: read it when all wait.
func logged(t *testing.T, s Store, p *pile, test func(t *testing.T, r *Runner, log *bytes.Buffer, stop func())) {
	t.Helper()
	log := &bytes.Buffer{}
	r := New(Config{Store: s, Sets: map[Target]DeadSet{orders: p}, Name: "here", Logger: slog.New(slog.NewTextHandler(log, nil))})
	test(t, r, log, background(t, r.Run))
}

func TestWhatAStopCutsOffIsStoredAsFarAsItWasAndInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := NewMemory(), &pile{match: 1000}
		logged(t, s, p, func(t *testing.T, r *Runner, log *bytes.Buffer, stop func()) {
			id := ask(t, r, request(orders), "10/s").ID
			time.Sleep(3 * time.Second) // and the state in the store may be 5 s old
			stop()
			o, err := s.Load(t.Context(), id)
			if err != nil || o.Phase != Running || o.Done == 0 || o.Done != 1000-p.match {
				t.Errorf("%d are gone: %+v, %v", 1000-p.match, o.State, err)
			}
			if got := log.String(); strings.Count(got, "cut off here") != 1 || !strings.Contains(got, "operation="+id) {
				t.Errorf("%s", got)
			}
		})
	})
}

func TestNothingIsSaidToBeCutOffThatIsDoneOrCouldNotBeStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &faulty{Store: NewMemory(), is: func(s State) bool { return s.Phase == Running && s.Done > 0 }}
		logged(t, f, &pile{match: 1000}, func(t *testing.T, r *Runner, log *bytes.Buffer, stop func()) {
			ask(t, r, request(orders), Unlimited)
			time.Sleep(time.Minute)
			ask(t, r, request(orders), "10/s")
			time.Sleep(3 * time.Second)
			synctest.Wait()
			f.times = 1
			stop()
			if got := log.String(); strings.Contains(got, "cut off here") || !strings.Contains(got, "state=done") {
				t.Errorf("%s", got)
			}
		})
	})
}

func TestWhyAnOperationDoesNotBeginIsInTheLogAndItIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &faulty{Store: NewMemory(), is: func(s State) bool { return s.Phase == Running }, times: 2}
		logged(t, f, &pile{match: 10}, func(t *testing.T, r *Runner, log *bytes.Buffer, stop func()) {
			id := ask(t, r, request(orders), Unlimited).ID
			time.Sleep(time.Minute)
			stop()
			if got := log.String(); strings.Count(got, "an operation cannot begin") != 2 || !strings.Contains(got, "operation="+id) || !strings.Contains(got, "no answer in time") || !strings.Contains(got, "state=done") {
				t.Errorf("%s", got)
			}
		})
	})
}

// Its process is gone, and all others are of other streams.
func TestACancelThatNobodyObeysWhoKnowsTheOperationIsInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewMemory()
		if err := s.Create(t.Context(), Request{ID: "op_a", Action: Replay, Target: slow}, State{Phase: Running, Wanted: Cancelled}); err != nil {
			t.Fatal(err)
		}
		logged(t, s, &pile{}, func(t *testing.T, _ *Runner, log *bytes.Buffer, stop func()) {
			time.Sleep(time.Minute)
			stop()
			if got := log.String(); strings.Count(got, "audit: operation is over") != 1 || !strings.Contains(got, "operation=op_a") || !strings.Contains(got, "state=cancelled") || !strings.Contains(got, notCounted) {
				t.Errorf("%s", got)
			}
		})
	})
}

func TestARateIsReachedThoughEachTurnTakesHalfTheTime(t *testing.T) {
	run(t, func(t *testing.T, r *Runner, p *pile) {
		p.set(func(p *pile) { p.match, p.takes = 100_000, time.Second })
		id := ask(t, r, request(orders), "10/s").ID
		time.Sleep(time.Minute)
		if o := find(t, r, id); o.Done < 560 || o.Done > 600 {
			t.Errorf("in a minute at 10/s: %d", o.Done)
		}
	})
}

func TestAnEndThatIsNotStoredYetIsInTheLogUntilItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &faulty{Store: NewMemory(), is: func(s State) bool { return s.Phase == Done }, times: 2}
		logged(t, f, &pile{match: 10}, func(t *testing.T, r *Runner, log *bytes.Buffer, stop func()) {
			id := ask(t, r, request(orders), Unlimited).ID
			time.Sleep(time.Minute)
			stop()
			if got := log.String(); strings.Count(got, "is not stored yet") != 2 || strings.Count(got, "operation="+id) != 3 || !strings.Contains(got, "state=done") {
				t.Errorf("%s", got)
			}
		})
	})
}
