package streams

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/ledger"
	"github.com/stepwell/stepwell/internal/solo"
	"github.com/stepwell/stepwell/internal/task"
)

func TestAHandlerThatEndsItsGoroutineEndsTheReaderWithAnErrorAndItsRecordIsNotCommitted(t *testing.T) {
	const n, deserter = 100, 57
	for name, before := range map[string]func(context.Context, *stepwell.Message, task.Ticket){
		"in a stretch": func(context.Context, *stepwell.Message, task.Ticket) {},
		"when the rest of its stretch was taken away": func(context.Context, *stepwell.Message, task.Ticket) {
			<-time.After(10 * time.Millisecond)
		},
		"by itself, for slow handlers": func(_ context.Context, m *stepwell.Message, _ task.Ticket) {
			if m.Origin.Offset%10 == 0 || m.Origin.Offset == deserter {
				<-time.After(3 * time.Millisecond)
			}
		},
		"after a rest": func(ctx context.Context, m *stepwell.Message, tk task.Ticket) {
			if m.Origin.Offset == deserter {
				tk.Rest(ctx, 10*time.Millisecond, m)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := fakeWorld(t, 1)
			w.produce(0, n)
			j := newJournal()
			r := w.run(w.config(), func(ctx context.Context, m *stepwell.Message, tk task.Ticket) task.Outcome {
				j.note(m)
				before(ctx, m, tk)
				if m.Origin.Offset == deserter {
					runtime.Goexit()
				}
				return task.Settled
			})
			within(t, 20*time.Second, "the reader ends", func() bool {
				select {
				case <-r.done:
					return true
				default:
					return false
				}
			})
			if text := fmt.Sprint(r.err); !strings.Contains(text, "runtime.Goexit") || !strings.Contains(text, fmt.Sprintf("%s:0:%d,", w.topic, deserter)) {
				t.Errorf("the error says %q", text)
			}
			if at := w.committed()[0]; at != deserter {
				t.Errorf("committed %d, want %d", at, deserter)
			}
			if last := j.of(0)[j.count()-1]; last != deserter {
				t.Errorf("%d was called after %d", last, deserter)
			}
		})
	}
}

func TestAHandlerThatEndsItsGoroutineDuringAStopCountsADeathToo(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 1)
	w.produce(0, 10)
	entered, stopping := make(chan struct{}), make(chan struct{})
	cfg := w.guarded(&solo.Token{})
	cfg.Guard.Process = 7
	r := w.run(cfg, func(_ context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
		if m.Origin.Offset == 5 {
			close(entered)
			<-stopping
			runtime.Goexit()
		}
		return task.Settled
	})
	<-entered
	r.stop()
	eventually(t, "the commit says that we part with the partition", func() bool {
		mark := ledger.ReadMetadata(5, w.metadata()).Mark
		return w.committed()[0] == 5 && mark != nil && mark.Owner == 0
	})
	close(stopping)
	if err := r.end(); err == nil {
		t.Error("no error")
	}
	if mark := ledger.ReadMetadata(5, w.metadata()).Mark; w.committed()[0] != 5 || mark == nil || mark.Owner != 7 {
		t.Errorf("committed %d, %+v", w.committed()[0], mark)
	}
}

// A stop that looks clean would let such a record end all processes again and again.
func TestARecordWhoseHandlerEndsItsGoroutineEachTimeIsCondemnedAfterRestartsAndNoOtherIs(t *testing.T) {
	for name, takes := range map[string]time.Duration{"fast": 0, "slow": 2 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := fakeWorld(t, 2)
			const each, deserter = 40, 17
			w.produce(0, each)
			w.produce(1, each)
			var mu sync.Mutex
			var condemned []int64
			handled := map[string]bool{}
			deaths := 0
			for range 10 {
				cfg := w.guarded(&solo.Token{})
				cfg.Guard.Condemn = func(_ context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
					mu.Lock()
					defer mu.Unlock()
					condemned = append(condemned, m.Origin.Offset)
					return task.Settled
				}
				r := w.run(cfg, func(ctx context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
					task.Sleep(ctx, takes)
					if m.Origin.Partition == 0 && m.Origin.Offset == deserter {
						runtime.Goexit()
					}
					mu.Lock()
					defer mu.Unlock()
					handled[nameOf(m)] = true
					return task.Settled
				})
				ended := false
				within(t, 30*time.Second, "the reader ends, or all is committed", func() bool {
					select {
					case <-r.done:
						ended = true
					default:
					}
					c := w.committed()
					return ended || c[0] == each && c[1] == each
				})
				if !ended {
					break
				}
				deaths++
			}
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(condemned, []int64{deserter}) || len(handled) != 2*each-1 {
				t.Errorf("condemned %v, %d others are handled", condemned, len(handled))
			}
			if deaths != 7 {
				t.Errorf("%d readers ended, want 3 until it was a suspect, and 4 while it ran as one", deaths)
			}
		})
	}
}
