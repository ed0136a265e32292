package operations

import (
	"context"
	"strings"
	"testing"
	"time"
)

// bounded is a pile whose trash takes so many.
type bounded struct {
	*pile
	room int
}

func (b *bounded) Sample(ctx context.Context, r *Request) (Sample, error) {
	s, err := b.pile.Sample(ctx, r)
	b.mu.Lock()
	defer b.mu.Unlock()
	room := b.room
	s.Room = &room
	return s, err
}

// over asks for an operation and waits for its end.
func over(t *testing.T, r *Runner, wish Request) Operation {
	t.Helper()
	o := ask(t, r, wish, Unlimited)
	time.Sleep(time.Minute) // on the false clock
	return find(t, r, o.ID)
}

func TestADeleteOfMoreThanFitsIntoTheTrashIsRefused(t *testing.T) {
	run(t, func(t *testing.T, r *Runner, p *pile) {
		b := &bounded{p, 9}
		r.cfg.Sets[orders] = b
		p.set(func(p *pile) { p.match = 10 })
		wish := request(orders)
		wish.Action = Delete
		o := over(t, r, wish)
		if o.Phase != Refused || o.Done != 0 || len(p.turns) > 0 || !strings.Contains(o.Why, "room for about 9") {
			t.Errorf("%+v, %d turns", o.State, len(p.turns))
		}
		p.set(func(*pile) { b.room = 10 })
		if o := over(t, r, wish); o.Phase != Done || o.Done != 10 {
			t.Errorf("%+v", o.State)
		}
	})
}

// A turn makes room for as many as it may do: what is asked for without a number must not be all.
func TestATurnOfADeleteIntoTheTrashIsNotLargerThanWhatWasCounted(t *testing.T) {
	for _, test := range []struct {
		match   int
		forever bool
		most    int
	}{{3, false, leastTrashed}, {7000, false, 7000}, {3, true, noLimit}} {
		run(t, func(t *testing.T, r *Runner, p *pile) {
			p.set(func(p *pile) { p.match = test.match })
			wish := request(orders)
			wish.Action, wish.Forever = Delete, test.forever
			if o := over(t, r, wish); o.Phase != Done || o.Done != test.match || p.turns[0] != test.most {
				t.Errorf("%+v: %+v, turns %v", test, o.State, p.turns)
			}
		})
	}
}

// What a process did that was killed is not known where there is more than a look sees.
func TestADeleteThatWasCutOffIsNotRefusedAsIfNothingWereTouched(t *testing.T) {
	run(t, func(t *testing.T, r *Runner, p *pile) {
		r.cfg.Sets[orders] = &bounded{p, 9}
		p.set(func(p *pile) { p.match, p.behind = 10, 100 })
		wish := request(orders)
		wish.Action, wish.ID = Delete, "op_1"
		if err := r.cfg.Store.Create(t.Context(), wish, State{Phase: Running, StartedAt: wish.CreatedAt, Matched: 10, Unsorted: 105}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if o := find(t, r, "op_1"); o.Phase != Paused || !strings.Contains(o.Why, "room for about 9") {
			t.Errorf("%+v", o.State)
		}
	})
}
