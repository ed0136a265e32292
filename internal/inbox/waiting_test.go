package inbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/inbox"
	"github.com/stepwell/stepwell/internal/task"
	"github.com/stepwell/stepwell/internal/testbroker"
)

// waits says that a message is one of those that cannot go on.
func waits(e *envelope.Envelope) bool { return strings.HasPrefix(e.Message.ID, "waits-") }

// obstacles are why messages cannot go on that no worker has.
var obstacles = map[string]func(o *owner){
	"what they point to cannot be read": func(o *owner) {
		o.incomplete = func(e *envelope.Envelope) (string, error) {
			if waits(e) {
				return "", errors.New("no broker answers")
			}
			return "", nil
		}
	},
	"the dead set confirms nothing": func(o *owner) {
		o.incomplete = func(e *envelope.Envelope) (string, error) {
			if waits(e) {
				return stepwell.ReasonGone, errors.New("nothing there")
			}
			return "", nil
		}
		o.buried = func(func(error)) func(error) { return func(error) {} }
	},
	"the dead set takes none": func(o *owner) {
		o.incomplete = func(e *envelope.Envelope) (string, error) {
			if waits(e) {
				return stepwell.ReasonGone, errors.New("nothing there")
			}
			return "", nil
		}
		o.buried = func(done func(error)) func(error) {
			return func(error) { done(errors.New("it is full")) }
		}
	},
}

// With the first prefetch, of 24, these would be all that is handed out.
func (w *world) othersGoOn(t *testing.T, waiting int, block func(o *owner), called func(n func() int)) {
	t.Helper()
	block(w.owner)
	for i := range waiting {
		w.named(fmt.Sprint("waits-", i))
	}
	for i := range 10 {
		w.named(fmt.Sprint("goes-on-", i))
	}
	var others atomic.Int64
	r := w.start(func(context.Context, *stepwell.Message, inbox.Ticket) task.Outcome {
		others.Add(1)
		return task.Settled
	})
	called(func() int { return int(others.Load()) })
	r.abort()
	r.stop()
}

func TestWhatWaitsForNoWorkerKeepsNoOthersFromTheWorkers(t *testing.T) {
	for why, block := range obstacles {
		t.Run(why, func(t *testing.T) {
			inWorld(t, 0, func(w *world) {
				w.othersGoOn(t, 200, block, func(n func() int) {
					if time.Sleep(30 * s); n() != 10 {
						t.Errorf("%d of 10 others were called in 30 s", n())
					}
				})
			})
		})
	}
}

func TestOnRabbitMQWhatWaitsForNoWorkerKeepsNoOthersFromTheWorkers(t *testing.T) {
	t.Parallel()
	for why, block := range obstacles {
		for _, node := range testbroker.RabbitMQs(t) {
			t.Run(why+"/"+node.Version, func(t *testing.T) {
				t.Parallel()
				w := onRabbit(t, node.URL, 0)
				w.othersGoOn(t, 60, block, func(n func() int) {
					eventually(t, "the others to be called", func() bool { return n() == 10 })
				})
			})
		}
	}
}

func TestThePrefetchOfWhatWaitsIsWithinItsLimit(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		w.cfg.Prefetch.Messages = 60
		w.renew()
		w.othersGoOn(t, 200, obstacles["the dead set confirms nothing"], func(func() int) {
			if time.Sleep(time.Minute); w.inbox.Status().InFlight != 48 {
				t.Errorf("%d are in hand, want two prefetches of 24, as three are more than 60", w.inbox.Status().InFlight)
			}
		})
	})
}

func TestWhatCannotBeReadForLongIsNoSuspectAndIsCalledOnceItCanBe(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		var mu sync.Mutex
		var log bytes.Buffer
		w.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		w.cfg.Suspects = inbox.Suspects{Limit: 3, Process: 7}
		w.renew()
		readable := time.Now().Add(time.Hour)
		w.owner.incomplete = func(*envelope.Envelope) (string, error) {
			if time.Now().Before(readable) {
				return "", errors.New("no broker answers")
			}
			return "", nil
		}
		for i := range 30 {
			w.named(fmt.Sprint("waits-", i))
		}
		tries := map[string]int{}
		r := w.start(func(_ context.Context, m *stepwell.Message, _ inbox.Ticket) task.Outcome {
			mu.Lock()
			defer mu.Unlock()
			tries[m.ID]++
			if m.Attempt != 2 {
				t.Errorf("attempt %d of %s, which was never called", m.Attempt, m.ID)
			}
			return task.Settled
		})
		time.Sleep(time.Hour + 2*time.Minute)
		r.end()
		if len(tries) != 30 {
			t.Errorf("%d of 30 were called", len(tries))
		}
		for id, n := range tries {
			if n != 1 {
				t.Errorf("%s was called %d times", id, n)
			}
		}
		if strings.Contains(log.String(), "suspected") {
			t.Error("what was never called is suspected of killing the process")
		}
		w.empty()
	})
}
