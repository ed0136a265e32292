package streams

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/ledger"
	"github.com/stepwell/stepwell/internal/solo"
	"github.com/stepwell/stepwell/internal/task"
)

// A rest clears no suspect: what kills the process in its second try would never be found.
func TestASuspectOfABatchThatRestsKeepsItsTurn(t *testing.T) {
	w := fakeWorld(t, 1)
	w.produce(0, 3)
	w.suspected(2, func(*ledger.Mark) {})
	called := make(chan int64, 3)
	of := make(chan task.Gatherable, 3)
	r := w.run(w.guarded(&solo.Token{}), func(_ context.Context, _ *stepwell.Message, tk task.Ticket) task.Outcome {
		p, offset := tk.Place()
		of <- p
		called <- offset
		return task.Gathered
	})
	p := <-of
	first := []int64{<-called, <-called}
	slices.Sort(first)
	if !slices.Equal(first, []int64{0, 2}) {
		t.Fatalf("gathered were %v, want a suspect and what is none", first)
	}
	p.Rest(0, time.Now().Add(time.Hour))
	p.Ended([]int64{2}, task.Settled)
	var said ledger.Metadata
	eventually(t, "a commit comes after that", func() bool {
		said = ledger.ReadMetadata(0, w.metadata(0))
		return slices.Contains(said.Spans, ledger.Span{First: 2, End: 3})
	})
	if said.Mark.Alone != 0 || said.Mark.Ended != 0 || len(called) > 0 {
		t.Errorf("the commit says %+v, and %d more were called, while the suspect rests", said.Mark, len(called))
	}
	p.Rest(0, time.Time{})
	p.Ended([]int64{0}, task.Settled)
	if offset := <-called; offset != 1 {
		t.Errorf("then %d is called", offset)
	}
	p.Ended([]int64{1}, task.Settled)
	eventually(t, "all is committed", func() bool { return w.committed()[0] == 3 })
	if err := r.end(); err != nil {
		t.Error(err)
	}
}
