package operations

import (
	"context"
	"testing"
	"time"
)

// thrown is a trash.
type thrown struct{ *pile }

func (thrown) May(context.Context, *Request) error { return nil }

func TestAnUndoOfWhatIsNotInTheTrashIsRefusedAndSaysWhichOthersThereAre(t *testing.T) {
	run(t, func(t *testing.T, r *Runner, p *pile) {
		r.cfg.Sets[orders], r.cfg.Sets[slow] = thrown{p}, &pile{}
		wish := request(orders)
		wish.Action, wish.Select, wish.Trash = Restore, Selection{Operation: "op_1"}, Wait(time.Minute)
		const kept = "; this one keeps for 1m0s: what a delete by count left while that was set otherwise is found once it is set so again"
		const says = "nothing of op_1 is in the trash of orders; other trashes of that stream are those of orders channel slow" + kept
		if found, err := r.Sample(t.Context(), wish); err != nil || found.Nothing != says {
			t.Errorf("%+v, %v", found, err)
		}
		if o := over(t, r, wish); o.Phase != Refused || o.Why != says || len(p.turns) > 0 {
			t.Errorf("%+v, %d turns", o.State, len(p.turns))
		}
		// What is undone by something else than an operation may be nothing.
		wish.Select = Selection{All: true}
		if o := over(t, r, wish); o.Phase != Done || o.Why != "" {
			t.Errorf("%+v", o.State)
		}
		wish.Select = Selection{Operation: "op_1", IDs: []string{"a"}}
		p.set(func(p *pile) { p.match = 2 })
		if found, err := r.Sample(t.Context(), wish); err != nil || found.Nothing != "" {
			t.Errorf("%+v, %v", found, err)
		}
		if o := over(t, r, wish); o.Phase != Done || o.Done != 2 {
			t.Errorf("%+v", o.State)
		}
		delete(r.cfg.Sets, slow)
		if o := over(t, r, wish); o.Phase != Refused || o.Why != "none of these ids is of a message that op_1 left in the trash of orders" {
			t.Errorf("of some: %s, %s", o.Phase, o.Why)
		}
		wish.Select.IDs = nil
		if o := over(t, r, wish); o.Phase != Refused || o.Why != "nothing of op_1 is in the trash of orders"+kept {
			t.Errorf("%+v", o.State)
		}
	})
}
