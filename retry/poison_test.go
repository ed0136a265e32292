package retry_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/retry"
)

// fatal counts the deaths of processes, and what was done.
type fatal struct {
	mu     sync.Mutex
	done   map[string]int
	calls  map[string]int
	inside int
	most   int // calls at once when the killer ran
}

// process runs a Retrier until its handler meets the killer, or until stop; then nothing more of it has an effect.
func (w *world) process(f *fatal, limit int, killer string) (died bool) {
	w.cfg.CrashLimit = limit
	w.renew()
	dead := make(chan struct{})
	var once sync.Once
	r := w.start(func(ctx context.Context, m *stepwell.Message, _ retry.Ticket) retry.Outcome {
		f.mu.Lock()
		f.inside++
		f.calls[m.ID]++
		if m.ID == killer {
			f.most = f.inside
		}
		f.mu.Unlock()
		defer func() { f.mu.Lock(); f.inside--; f.mu.Unlock() }()
		if m.ID == killer {
			time.Sleep(time.Millisecond)
			once.Do(func() { close(dead) })
			<-ctx.Done()
			return retry.Abandoned
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return retry.Abandoned
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.done[m.ID]++
		return retry.Settled
	})
	select {
	case <-dead:
		died = true
	case <-time.After(time.Minute):
	}
	r.stop() // first: what is given back must not come to this process again
	r.abort()
	r.end()
	return died
}

func TestAMessageThatKillsTheProcessIsCondemnedAndItsNeighboursAreNot(t *testing.T) {
	inWorld(t, retry.Linear(time.Second, 0, 3), func(w *world) {
		const n, killer = 30, "t:0:7"
		for i := range n {
			m := &stepwell.Message{ID: fmt.Sprintf("t:0:%d", i), Value: []byte("v"), Attempt: 1, Origin: stepwell.Origin{Topic: "t", Offset: int64(i)}}
			w.first(m, retry.Failure{Err: errAway})
		}
		time.Sleep(2 * time.Second)
		f := &fatal{done: map[string]int{}, calls: map[string]int{}}
		deaths := 0
		for deaths < 40 && w.process(f, 3, killer) {
			deaths++
		}
		if deaths != 14 {
			t.Errorf("%d deaths, want 11 until it was a suspect, and 3 alone", deaths)
		}
		if f.most != 1 {
			t.Errorf("the last time %d ran at once", f.most)
		}
		e := w.oneDead()
		if e.Message.ID != killer || e.Failure.Reason != stepwell.ReasonCrashLoop {
			t.Errorf("dead: %s, %s", e.Message.ID, e.Failure.Reason)
		}
		if len(f.done) != n-1 || f.done[killer] != 0 {
			t.Errorf("%d are done, want all but the killer", len(f.done))
		}
	})
}

func TestAMessageWhoseProcessesAreStoppedAgainAndAgainIsNeverCondemned(t *testing.T) {
	inWorld(t, retry.Linear(time.Second, 0, 3), func(w *world) {
		w.first(&stepwell.Message{ID: "t:0:1", Value: []byte("v"), Attempt: 1, Origin: stepwell.Origin{Topic: "t"}}, retry.Failure{Err: errAway})
		time.Sleep(2 * time.Second)
		w.cfg.CrashLimit = 3
		started := make(chan struct{})
		for range 30 {
			w.renew()
			r := w.start(func(ctx context.Context, _ *stepwell.Message, _ retry.Ticket) retry.Outcome {
				started <- struct{}{}
				<-ctx.Done()
				return retry.Abandoned
			})
			<-started
			r.stop()
			time.Sleep(20 * time.Second) // what a stop gives to handlers
			r.abort()
			r.end()
		}
		if n := len(w.dead()); n != 0 {
			t.Errorf("%d in the dead set", n)
		}
	})
}
