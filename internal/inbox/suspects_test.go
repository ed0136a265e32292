package inbox_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/inbox"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/solo"
	"github.com/stepwell/stepwell/internal/task"
)

// fatal counts the deaths of processes, and what was done.
type fatal struct {
	mu    sync.Mutex
	done  map[string]int
	calls map[string]int
}

// process runs a Retrier until its handler meets the killer, or until stop; then nothing more of it
// has an effect.
func (w *world) process(f *fatal, limit int, killer string) (died bool) {
	w.cfg.Suspects.Limit = limit
	w.renew()
	dead := make(chan struct{})
	var once sync.Once
	r := w.start(func(ctx context.Context, m *stepwell.Message, _ inbox.Ticket) task.Outcome {
		f.mu.Lock()
		f.calls[m.ID]++
		f.mu.Unlock()
		if m.ID == killer {
			time.Sleep(time.Millisecond)
			once.Do(func() { close(dead) })
			<-ctx.Done()
			return task.Abandoned
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return task.Abandoned
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.done[m.ID]++
		return task.Settled
	})
	select {
	case <-dead:
		died = true
	case <-time.After(time.Hour):
	}
	r.stop() // first: what is given back must not come to this process again
	r.abort()
	r.end()
	return died
}

func TestAMessageThatKillsTheProcessIsCondemnedAndItsNeighboursAreNot(t *testing.T) {
	inWorld(t, s, func(w *world) {
		const n, killer = 30, "t:0:7"
		for i := range n {
			w.named(fmt.Sprintf("t:0:%d", i))
		}
		f := &fatal{done: map[string]int{}, calls: map[string]int{}}
		deaths := 0
		for deaths < 40 && w.process(f, 3, killer) {
			deaths++
		}
		if deaths != 15 {
			t.Errorf("%d deaths, want 11 until it was a suspect, and 4 as one", deaths)
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
	inWorld(t, s, func(w *world) {
		w.named("t:0:1")
		w.cfg.Suspects.Limit = 3
		started := make(chan struct{})
		for range 30 {
			w.renew()
			r := w.start(func(ctx context.Context, _ *stepwell.Message, _ inbox.Ticket) task.Outcome {
				started <- struct{}{}
				<-ctx.Done()
				return task.Abandoned
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

// returned makes a suspect of a message that waits in the instant queue: it is handed out and given
// back, again and again.
func (w *world) returned(id string) {
	w.t.Helper()
	w.named(id)
	ctx, end := context.WithCancel(w.t.Context())
	times := 0
	_ = w.broker.Consume(ctx, ctx, queue.Consumption{Queue: w.cfg.Queue, Handle: func(_ context.Context, d queue.Delivery) bool {
		if times++; times > 11 {
			end()
			return false
		}
		d.Release()
		return true
	}})
}

func TestASuspectThatHangsHoldsUpNoRetryAndGivesWayInTime(t *testing.T) {
	inWorld(t, s, func(w *world) {
		var token solo.Token
		w.cfg.Suspects.Limit, w.cfg.Suspects.AloneFor, w.cfg.Suspects.Token = 3, 10*time.Minute, &token
		w.returned("hangs")
		w.renew()
		hanging, handled := make(chan struct{}), make(chan string, 200)
		r := w.start(func(ctx context.Context, m *stepwell.Message, _ inbox.Ticket) task.Outcome {
			if m.ID == "hangs" {
				close(hanging)
				<-ctx.Done()
				return task.Abandoned
			}
			handled <- m.ID
			return task.Settled
		})
		<-hanging
		for i := range 100 {
			w.named(fmt.Sprint("good ", i))
		}
		time.Sleep(2 * time.Second)
		if len(handled) != 100 {
			t.Errorf("%d of 100 were handled beside a suspect that hangs", len(handled))
		}
		other := &solo.Turn{Ready: func() {}}
		if token.Try(other) {
			t.Error("another suspect has its turn at once")
		}
		time.Sleep(10 * time.Minute)
		if !token.Try(other) {
			t.Error("no other suspect has its turn, ten minutes later")
		}
		r.stop()
		r.abort()
		r.end()
	})
}

func TestAProcessThatDiesBeforeTheProbationIsOverCondemnsNobody(t *testing.T) {
	inWorld(t, s, func(w *world) {
		w.cfg.Suspects.Limit, w.cfg.Suspects.Probation = 1, time.Minute
		w.returned("slow")
		for range 20 { // a bad deploy, which dies of itself
			w.renew()
			r := w.start(func(ctx context.Context, _ *stepwell.Message, _ inbox.Ticket) task.Outcome {
				<-ctx.Done()
				return task.Abandoned
			})
			time.Sleep(10 * time.Second)
			r.abort()
			r.stop()
			r.end()
		}
		w.renew()
		done := make(chan string, 10)
		r := w.start(func(_ context.Context, m *stepwell.Message, _ inbox.Ticket) task.Outcome {
			done <- m.ID
			return task.Settled
		})
		time.Sleep(time.Hour)
		r.stop()
		r.end()
		if n := len(w.dead()); n != 0 || len(done) != 1 {
			t.Errorf("%d in the dead set, %d handled", n, len(done))
		}
	})
}

// cut runs the process of that number until the first call, and then cuts its connection.
func (w *world) cut(process uint32) {
	w.cfg.Suspects.Process = process
	w.renew()
	called := make(chan struct{})
	r := w.start(func(ctx context.Context, _ *stepwell.Message, _ inbox.Ticket) task.Outcome {
		close(called)
		<-ctx.Done()
		return task.Abandoned
	})
	<-called
	r.stop()
	r.abort()
	r.end()
}

func TestDeathsOfProcessesThatLiveAreHeldAgainstNoMessage(t *testing.T) {
	inWorld(t, s, func(w *world) {
		w.cfg.Suspects.Limit = 1
		w.sees(func(_ context.Context, name string) (bool, error) {
			return name == w.cfg.Queue+".process.00000007" || name == w.cfg.Queue+".process.00000008", nil
		})
		w.returned("slow")
		for range 10 {
			w.cut(7)
			w.cut(8)
		}
		if n := len(w.dead()); n != 0 {
			t.Errorf("%d in the dead set", n)
		}
	})
}

// It is away for longer than the probation, or may not show itself.
func TestACutOfAProcessThatNobodySeesIsADeath(t *testing.T) {
	inWorld(t, s, func(w *world) {
		w.cfg.Suspects.Limit = 1
		w.returned("slow")
		for range 10 {
			w.cut(7) // and it comes back to the same process
		}
		w.cut(8) // once 7 was held against it
		var c calls
		w.cfg.Suspects.Process = 9
		w.renew()
		r := w.start(c.succeeding)
		time.Sleep(2 * time.Minute) // the probation
		r.end()
		if e := w.oneDead(); e.Failure.Reason != stepwell.ReasonCrashLoop || c.attempts() != nil {
			t.Errorf("%s, after %d calls", e.Failure.Reason, len(c.attempts()))
		}
	})
}

func TestWithoutACrashLimitTheBrokersCountOfReturnsBeginsAnewToo(t *testing.T) {
	inWorld(t, s, func(w *world) {
		w.returned("x")
		w.cfg.Suspects.Limit = 0
		w.renew()
		called := make(chan struct{}, 1)
		r := w.start(func(ctx context.Context, _ *stepwell.Message, _ inbox.Ticket) task.Outcome {
			called <- struct{}{}
			<-ctx.Done()
			return task.Abandoned
		})
		<-called
		synctest.Wait() // until what the copy stands for is acked
		r.stop()
		r.abort()
		r.end()
		ctx, end := context.WithCancel(w.t.Context())
		_ = w.broker.Consume(ctx, ctx, queue.Consumption{Queue: w.cfg.Queue, Handle: func(_ context.Context, d queue.Delivery) bool {
			if d.Returns > 2 {
				t.Errorf("the broker counts %d returns", d.Returns)
			}
			end()
			return false
		}})
	})
}
