package actor

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/task"
)

// depths are how many messages were ready in each queue when they were last read. Metrics show
// these: a scrape must not wait for RabbitMQ.
type depths struct {
	mu  sync.Mutex
	all map[string]int
}

func (d *depths) set(all map[string]int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = all
}

func (d *depths) get() map[string]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.all)
}

// depthPause is how long after depths that could not be read, say before queues are declared, they
// are read again.
const depthPause = time.Second

// depthLimit is how long the depths of a line, or of a source, are waited for.
const depthLimit = 2 * time.Second

// watchDepths reads all depths now and then, for the metrics, until ctx ends.
func (a *Actor) watchDepths(ctx context.Context) error {
	if a.queues == nil {
		<-ctx.Done()
		return nil
	}
	for {
		next := a.cfg.Telemetry.DepthInterval
		all := map[string]int{}
		for _, s := range a.streams {
			found, known := s.lookDepths(ctx)
			if !known { // the broker's state says why; what is not known is not shown
				next = min(next, depthPause)
			}
			if s.cfg.Retired {
				next = min(next, drainPause)
			}
			maps.Copy(all, found)
			s.tidy(ctx)
			if depth, err := s.sourceDepth(ctx); err == nil && s.consumes != "" {
				all[s.consumes] = depth
			}
		}
		a.depths.set(all)
		if !task.Sleep(ctx, next) {
			return nil
		}
	}
}

// depthsNow asks for the depth of each queue of the line.
func (l *line) depthsNow(ctx context.Context) (map[string]int, error) {
	names := l.retries.names()
	if len(names) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, depthLimit)
	defer cancel()
	found := map[string]int{}
	var errs []error
	for _, name := range names {
		depth, err := l.depthOf(ctx, name)
		// A delay queue of former settings need not be there any more.
		if errors.Is(err, queue.ErrMissing) && l.retries.Gone(name) {
			continue
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		found[name] = depth
	}
	return found, eachOnce(errs)
}

// depthOf asks for the depth of one of them. That of the dead set counts what is in its pages: that
// it was sorted must end no alarm.
func (l *line) depthOf(ctx context.Context, name string) (depth int, err error) {
	if name != l.retries.Topology().DeadSet || l.deadSet == nil {
		return l.broker.Depth(ctx, name)
	}
	depth, _, err = l.deadSet.Pages().Depth(ctx)
	return depth, err
}

// depth asks until there is an answer; its error is queue.ErrMissing, or that of ctx.
func (l *line) depth(ctx context.Context, name string) (int, error) {
	const pause = 5 * time.Second
	for {
		depth, err := l.depthOf(ctx, name)
		if err == nil || errors.Is(err, queue.ErrMissing) || !task.Sleep(ctx, pause) {
			return depth, err
		}
	}
}

// tidy deletes pages of dead sets that nobody has used for a while. What cannot be deleted now is
// tried again at the next look.
func (s *stream) tidy(ctx context.Context) {
	for _, l := range s.lines() {
		if l.deadSet == nil {
			continue
		}
		if err := l.deadSet.Pages().Tidy(ctx); err != nil {
			l.log.Debug("empty pages of the dead set are still there", "error", err)
		}
	}
}

// sourceDepth asks how many messages are ready in the queue that the stream consumes here; 0 where
// it consumes none.
func (s *stream) sourceDepth(ctx context.Context) (int, error) {
	if s.consumes == "" {
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(ctx, depthLimit)
	defer cancel()
	return s.broker.Depth(ctx, s.consumes)
}

// eachOnce is one error in one line, which says once what many say; nil where there are none.
func eachOnce(errs []error) error {
	var said []string
	for _, err := range errs {
		if text := err.Error(); !slices.Contains(said, text) {
			said = append(said, text)
		}
	}
	if said == nil {
		return nil
	}
	return errors.New(strings.Join(said, "; "))
}
