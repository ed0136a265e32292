package rabbit

import (
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
)

// trouble is what is wrong now, by the part that it hinders. It is logged when it changes, not each
// time it is met.
type trouble struct {
	log *slog.Logger

	// releases are those whose fault was warned of.
	releases releases

	// mu guards what, which has a sentence for each part, as "queue x" or "publisher y", that is
	// hindered.
	mu   sync.Mutex
	what map[string]string
}

func newTrouble(log *slog.Logger) *trouble { return &trouble{log: log, what: map[string]string{}} }

// set notes what hinders part. One outage hinders many parts for the same reason: only the first of
// them is logged.
func (t *trouble) set(part, what string) {
	t.mu.Lock()
	known := slices.Contains(slices.Collect(maps.Values(t.what)), what)
	t.what[part] = what
	t.mu.Unlock()
	if !known {
		t.log.Warn("waiting for RabbitMQ", "part", part, "reason", what)
	}
}

// clear notes that nothing hinders part any longer.
func (t *trouble) clear(part string) {
	t.mu.Lock()
	was, had := t.what[part]
	delete(t.what, part)
	t.mu.Unlock()
	if had {
		t.log.Info("RabbitMQ is in use again", "part", part, "after", was)
	}
}

// of is what hinders part; "": nothing.
func (t *trouble) of(part string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.what[part]
}

// text names each trouble once.
func (t *trouble) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := slices.Sorted(maps.Values(t.what))
	return strings.Join(slices.Compact(all), "; ")
}
