package streams

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/crew"
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
		said = ledger.ReadMetadata(0, w.metadata())
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

// Calls may be over, and the partition given up, before the partition hears that its messages were
// gathered.
func TestWhatIsGatheredCountsUntilItsCallIsOverWhateverComesFirst(t *testing.T) {
	const n = int64(slabSize / 2)
	for name, test := range map[string]struct {
		meanwhile func(t *testing.T, p *partition, offsets []int64)
		runs      int64 // so many, once all is gathered
		settled   int64 // are committed at last
		ends      bool  // the partition does
	}{
		"its call is over before": {func(_ *testing.T, p *partition, offsets []int64) { p.Ended(offsets, task.Settled) }, 0, n, false},
		"half of them, and it is revoked": {func(_ *testing.T, p *partition, offsets []int64) {
			p.Ended(offsets[:n/2], task.Settled)
			p.stop()
			p.Ended(offsets[n/2:], task.Abandoned)
		}, 0, n / 2, true},
		"half of them, and there is no verdict on the others": {func(_ *testing.T, p *partition, offsets []int64) {
			p.Ended(offsets[:n/2], task.Settled)
			p.Ended(offsets[n/2:], task.Abandoned)
		}, 0, n / 2, true},
		"it is given up": {func(_ *testing.T, p *partition, offsets []int64) {
			p.stop()
			p.release(ErrLost)
			p.Ended(offsets, task.Abandoned)
		}, 0, 0, true},
		"its call takes longer": {func(_ *testing.T, p *partition, offsets []int64) {
			time.AfterFunc(time.Minute, func() { p.Ended(offsets, task.Settled) })
			p.stop()
		}, n, n, true},
		"its call ends its goroutine": {func(t *testing.T, p *partition, offsets []int64) {
			if err := p.Desert(offsets); err == nil || !strings.Contains(err.Error(), "t:0:0") {
				t.Errorf("the error does not name the first: %v", err)
			}
		}, 0, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var p *partition
				var early bool
				gather := func(of task.Gatherable, messages []crew.Entry) {
					var offsets []int64
					for _, m := range messages {
						offsets = append(offsets, m.Offset)
					}
					test.meanwhile(t, of.(*partition), offsets)
					early = isClosed(p.done)
				}
				r, err := New(Config{Stream: "orders", Group: Group{ID: "g"}, Topics: []string{"t"}, Calls: Calls{Gather: gather}},
					func(context.Context, *stepwell.Message, task.Ticket) task.Outcome {
						t.Error("a message is not gathered")
						return task.Settled
					})
				if err != nil {
					t.Fatal(err)
				}
				r.life = t.Context()
				p = newPartition(r.parts.shared, topicPartition{"t", 0})
				p.begin(ledger.At(0, 0), false)
				p.append(records(0, n), [16]byte{}, 0)
				p.roster.Offer()
				synctest.Wait()
				count := func() (gathered, running int) {
					p.mu.Lock()
					defer p.mu.Unlock()
					return p.gathered, p.running()
				}
				if _, running := count(); early || int64(running) != test.runs || running > 0 && isClosed(p.done) {
					t.Errorf("%d run, want %d; its end: %v, and while it gathered: %v", running, test.runs, isClosed(p.done), early)
				}
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				if gathered, running := count(); gathered != 0 || running != 0 || isClosed(p.done) != test.ends {
					t.Errorf("%d are gathered, %d run, its end: %v", gathered, running, isClosed(p.done))
				}
				if c, _ := p.dirty(4096); c.At.Offset != test.settled {
					t.Errorf("%d are committed, want %d", c.At.Offset, test.settled)
				}
				over, dismiss := context.WithCancel(t.Context())
				dismiss()
				r.crew.Run(over)
			})
		})
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
