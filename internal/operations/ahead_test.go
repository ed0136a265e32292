package operations

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// inbox is where messages wait to be handled; lost is why it is not known how many. mu guards
// all of the pile.
type inbox struct {
	mu      sync.Mutex
	waiting int
	lost    error
}

func (p *pile) Waiting(context.Context) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiting, p.lost
}

func TestAReplayWaitsWhileAsManyWaitToBeHandledAsItMayBeAhead(t *testing.T) {
	run(t, func(t *testing.T, r *Runner, p *pile) {
		p.set(func(p *pile) { p.match, p.waiting = 100, 50 })
		wish := request(orders)
		wish.Ahead = 50
		id := ask(t, r, wish, Unlimited).ID
		time.Sleep(time.Minute)
		if o := find(t, r, id); o.Phase != Running || o.Done != 0 || !strings.HasPrefix(o.Why, "50 messages wait to be handled") || o.Matched != 100 || len(p.turns) != 0 {
			t.Errorf("none fits: %+v, %d turns", o, len(p.turns))
		}
		p.set(func(p *pile) { p.waiting = 43 })
		time.Sleep(aheadPause)
		p.set(func(p *pile) { p.waiting = 50 })
		time.Sleep(time.Minute)
		if o := find(t, r, id); o.Done != 7 || o.Why == "" || o.ETASeconds != 0 || len(p.turns) != 1 || p.turns[0] != 7 {
			t.Errorf("seven fit: %+v, turns of %v", o, p.turns)
		}
		p.set(func(p *pile) { p.waiting = 40 })
		began := time.Now()
		time.Sleep(20 * aheadPause)
		if o := find(t, r, id); o.Phase != Done || o.Done != 100 || o.Why != "" {
			t.Errorf("ten fit each time: %+v", o)
		}
		for i := range p.began[2:] {
			if apart := p.began[i+2].Sub(p.began[i+1]); apart < aheadPause {
				t.Errorf("after %s: it looks again %s after the last look", p.began[i+2].Sub(began), apart)
			}
		}
	})
}

func TestAReplayThatWaitsForRoomIsPausedAndCancelledAtOnce(t *testing.T) {
	run(t, func(t *testing.T, r *Runner, p *pile) {
		p.set(func(p *pile) { p.match, p.waiting = 100, DefaultAhead })
		id := ask(t, r, request(orders), Unlimited).ID
		time.Sleep(time.Minute)
		if o := find(t, r, id); o.Ahead != DefaultAhead || o.Phase != Running || len(p.turns) != 0 {
			t.Errorf("the default: %+v, %d turns", o, len(p.turns))
		}
		for _, p := range []Phase{Paused, Running, Cancelled} {
			began := time.Now()
			if o := change(t, r, id, p); o.Phase != p && p != Running || time.Since(began) > 0 {
				t.Errorf("%s: %+v after %s", p, o, time.Since(began))
			}
			time.Sleep(time.Minute)
		}
		if len(p.turns) != 0 || p.match != 100 {
			t.Errorf("%d turns", len(p.turns))
		}
	})
}

func TestADeleteWaitsForNobodyWhoHandles(t *testing.T) {
	run(t, func(t *testing.T, r *Runner, p *pile) {
		p.set(func(p *pile) { p.match, p.waiting = 100, 2*DefaultAhead })
		wish := request(orders)
		wish.Action = Delete
		id := ask(t, r, wish, Unlimited).ID
		time.Sleep(time.Minute)
		if o := find(t, r, id); o.Phase != Done || o.Done != 100 || o.Ahead != 0 {
			t.Errorf("%+v", o)
		}
	})
}

func TestWhereNobodyKnowsWhatWaitsNothingIsReplayed(t *testing.T) {
	run(t, func(t *testing.T, r *Runner, p *pile) {
		p.set(func(p *pile) { p.match, p.lost = 10, fmt.Errorf("%w: connection refused", ErrAway) })
		id := ask(t, r, request(orders), Unlimited).ID
		time.Sleep(time.Minute)
		if o := find(t, r, id); o.Phase != Running || o.Why != "not now: connection refused" || len(p.turns) != 0 {
			t.Errorf("%+v, %d turns", o, len(p.turns))
		}
		p.set(func(p *pile) { p.lost = nil })
		time.Sleep(longestWait + time.Minute)
		if o := find(t, r, id); o.Phase != Done || o.Done != 10 || o.Why != "" {
			t.Errorf("%+v", o)
		}
	})
}
