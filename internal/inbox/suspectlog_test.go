package inbox_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/inbox"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/task"
)

// heard keeps what is logged, without the attributes.
type heard struct {
	slog.Handler
	mu    sync.Mutex
	texts []string
}

func (h *heard) Enabled(context.Context, slog.Level) bool { return true }
func (h *heard) WithAttrs([]slog.Attr) slog.Handler       { return h }

func (h *heard) Handle(_ context.Context, r slog.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.texts = append(h.texts, r.Message)
	return nil
}

// The log is all that tells whoever is on call which message it is.
func TestWhatBecomesOfASuspectIsLoggedOnce(t *testing.T) {
	returned := func(w *world) {
		w.put(w.cfg.Queue, unsuspected("x"))
		w.givenBack(11)
	}
	accused := func(deaths int, ids ...string) func(w *world) {
		return func(w *world) {
			for _, id := range ids {
				w.accused(id, deaths)
			}
		}
	}
	blind := func(w *world) {
		w.sees(func(context.Context, string) (bool, error) { return false, queue.ErrUnavailable })
		w.renew()
		w.accused("x", 1)
	}
	for name, test := range map[string]struct {
		suspects inbox.Suspects
		put      func(w *world)
		want     []string
	}{
		"it became one":        {inbox.Suspects{Limit: 3}, returned, []string{"it is suspected of killing the process"}},
		"nothing is suspected": {inbox.Suspects{}, returned, nil},
		"one death":            {inbox.Suspects{Limit: 3}, accused(1, "x"), []string{"it waits before it runs again", "it runs once more"}},
		"too many deaths":      {inbox.Suspects{Limit: 3}, accused(4, "x"), []string{"it waits before it runs again", "it goes to the dead set, not called"}},
		"three in a row":       {inbox.Suspects{Limit: 3}, accused(4, "x", "y", "z"), []string{"it waits before", "it goes to the dead set, not called", "it waits before", "it goes to the dead set, not called", "it waits before", "it is not the messages"}},
		"nobody sees who died": {inbox.Suspects{Limit: 3, Probation: 6 * time.Minute}, blind, []string{"it waits before", "until it can be seen which processes live", "it waits before"}},
		"it takes its time":    {inbox.Suspects{Limit: 3, AloneFor: 5 * s}, accused(0, "x"), []string{"the next suspect has its turn"}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, s, func(w *world) {
				told := &heard{}
				w.cfg.Suspects, w.cfg.Logger = test.suspects, slog.New(told)
				w.renew()
				test.put(w)
				r := w.start(func(context.Context, *stepwell.Message, inbox.Ticket) task.Outcome {
					time.Sleep(8 * s)
					return task.Settled
				})
				time.Sleep(10 * time.Minute)
				r.end()
				if !slices.EqualFunc(told.texts, test.want, strings.Contains) {
					t.Errorf("the log says %q, want %q", told.texts, test.want)
				}
			})
		})
	}
}
