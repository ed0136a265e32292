package rabbit

import (
	"log/slog"
	"regexp"
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

	// mu guards what, which has sentences for each part, as "queue x" or "publisher y", that is
	// hindered: the last is what hinders it now, those before it did since it was hindered first.
	mu   sync.Mutex
	what map[string][]string
}

func newTrouble(log *slog.Logger) *trouble {
	return &trouble{log: log, what: map[string][]string{}}
}

// mostTold is how many sentences are kept of a part.
const mostTold = 8

// ownEnd is our end of a connection, which is another port each time: with it no reason would ever
// be the same as before.
var ownEnd = regexp.MustCompile(`\b(read|write) (tcp\d?) \S+->`)

// set notes what hinders part. One outage hinders many parts for the same reason, and one part for
// two reasons in turn, say EOF and a reset: each reason is logged once.
func (t *trouble) set(part, what string) {
	what = ownEnd.ReplaceAllString(what, "$1 $2 ")
	t.mu.Lock()
	known := false
	for _, told := range t.what {
		known = known || slices.Contains(told, what)
	}
	told := slices.DeleteFunc(t.what[part], func(s string) bool { return s == what })
	told = append(told, what)
	t.what[part] = told[max(0, len(told)-mostTold):]
	t.mu.Unlock()
	if !known {
		t.log.Warn("waiting for RabbitMQ", "part", part, "reason", what)
	}
}

// clear notes that nothing hinders part any longer.
func (t *trouble) clear(part string) {
	t.mu.Lock()
	was := last(t.what[part])
	delete(t.what, part)
	t.mu.Unlock()
	if was != "" {
		t.log.Info("RabbitMQ is in use again", "part", part, "after", was)
	}
}

// forget is for a part that has ended, or has nothing to do: nothing hinders it any longer, and
// nothing is in use again.
func (t *trouble) forget(part string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.what, part)
}

// of is what hinders part; "": nothing.
func (t *trouble) of(part string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return last(t.what[part])
}

// last is what was told last; "": nothing.
func last(told []string) string {
	if len(told) == 0 {
		return ""
	}
	return told[len(told)-1]
}

// text names each trouble once.
func (t *trouble) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]string, 0, len(t.what))
	for _, told := range t.what {
		all = append(all, last(told))
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), "; ")
}

// consumerOf is the part that trouble has for a consumer.
func consumerOf(name string) string { return "consumer of " + name }

// Trouble is why nothing is consumed from the queue; see queue.Broker.
func (b *Broker) Trouble(name string) string { return b.trouble.of(consumerOf(name)) }
