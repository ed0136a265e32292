package retry

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/queue"
)

// ladder has the queues for waits that handlers ask for. Those of rungs are declared when the first
// message needs them, and at the start where they are there already.
type ladder struct {
	topology Topology
	broker   queue.Broker
	log      *slog.Logger

	life context.Context // ends with close
	end  context.CancelFunc
	work sync.WaitGroup // declarations

	mu      sync.Mutex
	queues  map[time.Duration]string // that are declared
	over    chan struct{}            // closed when the declaration that is under way ends; nil: none is
	waiting []func()                 // for that
	refused map[time.Duration]time.Time
}

// refusedFor is how long a rung is not declared again after it could not be.
const refusedFor = time.Minute

func newLadder(t Topology, broker queue.Broker, log *slog.Logger) *ladder {
	l := &ladder{topology: t, broker: broker, log: log, queues: map[time.Duration]string{}, refused: map[time.Duration]time.Time{}}
	l.life, l.end = context.WithCancel(context.Background())
	for _, q := range t.delays() {
		l.queues[time.Duration(q.ms)*time.Millisecond] = q.name
	}
	return l
}

// close ends declarations that are under way, and waits for them.
func (l *ladder) close() {
	l.mu.Lock() // no declaration begins after this
	l.end()
	l.mu.Unlock()
	l.work.Wait()
}

// spec is the queue of a rung.
func (l *ladder) spec(rung time.Duration) queue.Spec {
	return queue.Spec{Name: l.topology.rungName(rung), Kind: queue.Delay, TTL: rung, Target: l.topology.Instant}
}

// find declares the rungs that are there, from an earlier process or another one, so that they are
// kept, and hops find them.
func (l *ladder) find(ctx context.Context) error {
	known := l.names()
	var specs []queue.Spec
	for _, rung := range rungs() {
		spec := l.spec(rung)
		if slices.Contains(known, spec.Name) {
			continue
		}
		_, err := l.broker.Depth(ctx, spec.Name)
		if errors.Is(err, queue.ErrMissing) {
			continue
		}
		if err != nil {
			return err
		}
		specs = append(specs, spec)
	}
	if len(specs) == 0 {
		return nil
	}
	if err := l.broker.Declare(ctx, specs); err != nil {
		return err
	}
	l.have(specs)
	return nil
}

func (l *ladder) have(specs []queue.Spec) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range specs {
		l.queues[s.TTL] = s.Name
		delete(l.refused, s.TTL)
	}
}

// prepare calls then as soon as the queues that a wait needs are declared, or cannot be, in which
// case the wait goes through those that there are. It does not wait itself.
func (l *ladder) prepare(w envelope.Wait, then func()) {
	l.mu.Lock()
	if l.declaring(w) == nil {
		l.mu.Unlock()
		then()
		return
	}
	l.waiting = append(l.waiting, func() { l.prepare(w, then) }) // one declaration at a time; when it is over, look again
	l.mu.Unlock()
}

// await is prepare for who can wait. Its error is the cause with which ctx ended before; then
// nothing is kept of who waited.
func (l *ladder) await(ctx context.Context, w envelope.Wait) error {
	for {
		l.mu.Lock()
		over := l.declaring(w)
		l.mu.Unlock()
		if over == nil {
			return nil
		}
		select {
		case <-over:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// declaring begins to declare the queues that a wait needs, unless a declaration is under way, and
// returns what is closed when that is over; nil: there is nothing to declare. l.mu is held.
func (l *ladder) declaring(w envelope.Wait) <-chan struct{} {
	var missing []queue.Spec
	for _, rung := range descent(w) {
		if _, ok := l.queues[rung]; !ok && time.Since(l.refused[rung]) > refusedFor {
			missing = append(missing, l.spec(rung))
		}
	}
	if len(missing) == 0 || l.life.Err() != nil {
		return nil
	}
	if l.over == nil {
		l.over = make(chan struct{})
		l.work.Go(func() { l.declare(missing) })
	}
	return l.over
}

func (l *ladder) declare(specs []queue.Spec) {
	if err := l.broker.Declare(l.life, specs); err != nil {
		l.refuse(specs, err)
	} else {
		l.have(specs)
	}
	l.mu.Lock()
	close(l.over)
	waiting := l.waiting
	l.waiting, l.over = nil, nil
	l.mu.Unlock()
	for _, then := range waiting {
		then()
	}
}

func (l *ladder) refuse(specs []queue.Spec, err error) {
	if l.life.Err() != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var names []string
	for _, s := range specs {
		names = append(names, s.Name)
		l.refused[s.TTL] = time.Now()
	}
	l.log.Warn("queues for waits that a handler asked for cannot be declared: such waits go through the delay queues that there are, and may be longer",
		"queues", strings.Join(names, ","), "error", err)
}

// step is the queue that comes next of a wait, and what is left beyond it. from is the queue that a
// message on its way comes from, empty for one that begins its wait. Nobody here may know that
// queue, and it may be gone by now, as the queue of a former delay: so it is used only where a rung
// that the wait needs is not known, since it could not be declared. ok is false where the stream
// has no delay queue at all.
func (l *ladder) step(w envelope.Wait, from string) (name string, left envelope.Wait, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	queues := l.queues
	unknown := func(rung time.Duration) bool { return queues[rung] == "" }
	if wait, ok := l.waitOf(from); ok && unknown(wait) && slices.ContainsFunc(descent(w), unknown) {
		queues = maps.Clone(queues)
		queues[wait] = from
	}
	if len(queues) == 0 {
		return "", w, false
	}
	next := rungFor(w, slices.Sorted(maps.Keys(queues)))
	w.Remaining = max(0, w.Remaining-next)
	return queues[next], w, true
}

// names are the queues of rungs that are declared, beside those of the policy.
func (l *ladder) names() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var names []string
	own := l.topology.Delays()
	for _, rung := range rungs() {
		if name := l.queues[rung]; name != "" && !slices.Contains(own, name) {
			names = append(names, name)
		}
	}
	return names
}

// waitOf is how long a delay queue of the stream holds a message, by its name.
func (l *ladder) waitOf(name string) (time.Duration, bool) {
	number, ok := strings.CutPrefix(name, l.topology.delayPrefix())
	ms, err := strconv.ParseInt(number, 10, 64)
	return time.Duration(ms) * time.Millisecond, ok && err == nil && ms > 0
}
