package streams

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/task"
)

// victim is a reader that can die: then it settles nothing any more, commits nothing, and leaves
// its group without a word.
type victim struct {
	*running
	dying atomic.Bool
}

// deadly are the records that kill the reader which calls their handler, and what came of all.
type deadly struct {
	w      *world
	kills  map[int64]bool // by offset, in partition 0
	deaths chan *victim

	mu        sync.Mutex
	handled   map[string]int
	condemned []string
}

func newDeadly(w *world, kills ...int64) *deadly {
	d := &deadly{w: w, kills: map[int64]bool{}, deaths: make(chan *victim, 100), handled: map[string]int{}}
	for _, o := range kills {
		d.kills[o] = true
	}
	return d
}

func nameOf(m *stepwell.Message) string {
	return fmt.Sprintf("%d:%d", m.Origin.Partition, m.Origin.Offset)
}

// start runs a reader. What it calls takes the time it is told to, and a killer takes it to its
// death.
func (d *deadly) start(takes time.Duration) {
	v := &victim{}
	cfg := d.w.config()
	cfg.Guard.CrashLimit, cfg.Group.HeartbeatInterval, cfg.Group.SessionTimeout = 3, 200*time.Millisecond, 6*time.Second
	cfg.Guard.Probation = 300 * time.Millisecond // they leave the group as they die
	cfg.Group.RebalanceTimeout = 8 * time.Second // for so long a group waits for one that died while it joined
	cfg.Guard.Condemn = func(_ context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.condemned = append(d.condemned, nameOf(m))
		return task.Settled
	}
	v.running = d.w.run(cfg, func(ctx context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
		kills := m.Origin.Partition == 0 && d.kills[m.Origin.Offset]
		if kills && !v.dying.Swap(true) {
			d.deaths <- v
		}
		if !task.Sleep(ctx, takes) || kills || v.dying.Load() {
			<-ctx.Done()
			return task.Abandoned
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.handled[nameOf(m)]++
		return task.Settled
	})
}

func (d *deadly) done() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.handled) + len(d.condemned)
}

// fate is what was condemned, and how often the named record was handled. Others may be handled
// again meanwhile, by who took over from a reader that had not committed them.
func (d *deadly) fate(name string) (condemned []string, handled int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.condemned), d.handled[name]
}

// die ends a reader as the death of its process does.
func (v *victim) die() {
	v.dying.Store(true)
	v.commits.turn <- struct{}{} // no commit from now on, also no last one
	v.kill(nil)
	<-v.done
}

func TestARecordThatKillsTheProcessIsCondemnedAndNoOtherIs(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		members int
		takes   time.Duration
	}{
		{"a single reader of fast records", 1, 0},
		{"three readers of slow ones", 3, 50 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := fakeWorld(t, 4, kfake.SleepOutOfOrder())
			const each = 40
			for p := range int32(4) {
				w.produce(p, each)
			}
			d := newDeadly(w, 17)
			for range test.members {
				d.start(test.takes)
			}
			deaths := 0
			defer func() { t.Logf("%d of %d came to an end, after %d deaths", d.done(), 4*each, deaths) }()
			within(t, 3*time.Minute, "all is handled but the killer", func() bool {
				select {
				case v := <-d.deaths:
					deaths++
					v.die()
					d.start(test.takes)
				default:
				}
				return d.done() == 4*each
			})
			if condemned, survived := d.fate("0:17"); !slices.Equal(condemned, []string{"0:17"}) || survived > 0 {
				t.Errorf("condemned %v; the killer was handled %d times", condemned, survived)
			}
			if deaths != 7 {
				t.Errorf("%d deaths, want 3 until it was a suspect, and 4 while it ran as one", deaths)
			}
			eventually(t, "all is committed", func() bool { c := w.committed(); return c[0] == each && c[3] == each })
		})
	}
}

func TestABrokerThatTakesNoMetadataStopsNothing(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 1)
	w.produce(0, 100)
	var refused atomic.Int32
	w.refuseMetadataOver(20, &refused)
	d := newDeadly(w)
	d.start(0)
	eventually(t, "all is done", func() bool { return d.done() == 100 })
	eventually(t, "all is committed", func() bool { return w.committed()[0] == 100 })
	if refused.Load() == 0 {
		t.Error("nothing was refused")
	}
}
