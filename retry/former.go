package retry

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
)

// maxFormer is how many queues of former delays are remembered.
const maxFormer = 2 * MaxDelays

// former are the delay queues that the stream no longer has and from which messages still come:
// those of a delay that was changed. Nobody can list queues by AMQP, so that one is known only when
// its first message has come.
type former struct {
	now    map[string]bool // the delay queues that the stream has
	prefix string          // of their names, and of those of former delays
	log    *slog.Logger

	mu    sync.Mutex
	names []string
}

func newFormer(t Topology, log *slog.Logger) *former {
	f := &former{now: map[string]bool{}, prefix: t.delayPrefix(), log: log}
	for _, rung := range rungs() {
		f.now[t.rungName(rung)] = true
	}
	for _, name := range t.Delays() {
		f.now[name] = true
	}
	return f
}

// note notes the queue that a message waited in; empty: none. What a foreign program writes there
// is bounded like all else.
func (f *former) note(name string) {
	if name == "" || f.now[name] || !strings.HasPrefix(name, f.prefix) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if slices.Contains(f.names, name) || len(f.names) == maxFormer {
		return
	}
	f.names = append(f.names, name)
	f.log.Warn("messages come from the queue of a delay that the stream had before: it drains by itself; delete it once it is empty", "queue", name)
}

// Former names the queues of former delays from which messages have come, as far as [Retrier.Gone]
// was not told of their end.
func (r *Retrier) Former() []string {
	r.former.mu.Lock()
	defer r.former.mu.Unlock()
	return slices.Clone(r.former.names)
}

// Gone forgets such a queue, and reports whether it was one.
func (r *Retrier) Gone(name string) bool {
	f := r.former
	f.mu.Lock()
	defer f.mu.Unlock()
	before := len(f.names)
	f.names = slices.DeleteFunc(f.names, func(known string) bool { return known == name })
	return len(f.names) < before
}
