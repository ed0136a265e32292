// Package outcomes counts what becomes of messages that an operation replayed, in all processes of
// an app.
//
// Each message carries the id of its operation. Who handles it tells a [Book], which costs a lock
// and an addition, and never waits. Now and then the book writes what it has counted where all
// processes can read it, a record for each operation and process, and adds up what others wrote. So
// a process that is killed has not told of its last second, and one of an older version tells
// nothing: what is not told is unknown, and never counts as handled.
package outcomes

import (
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"slices"
)

// Tally is what was told of the messages of one operation.
type Tally struct {
	// Handled are done, Recovered those of them of which a try had failed before.
	Handled   int `json:"handled,omitempty"`
	Recovered int `json:"recovered,omitempty"`
	// Failed are messages whose first try failed, whatever became of them since; Died are dead
	// again.
	Failed int `json:"failed,omitempty"`
	Died   int `json:"died,omitempty"`
	// Canary names those of the canary that are done, without a try that failed: one that was
	// handled twice, since a process was killed, must not stand for one that nobody told of.
	Canary []string `json:"canary,omitempty"`
}

// Outcome is what is known of so many messages that were replayed.
type Outcome struct {
	Handled int `json:"handled"`
	// Failed are those of which a try failed, also where they were handled, or died, later.
	Failed int `json:"failed"`
	Died   int `json:"died"`
	// Unknown are those that nobody told anything of: they still wait, or were handled by a process
	// that was killed, or is of an older version.
	Unknown int `json:"unknown"`
}

// Outcome is the tally of so many messages that were replayed.
func (t Tally) Outcome(replayed int) Outcome {
	waiting := max(0, t.Failed-t.Recovered-t.Died) // for their next try
	return Outcome{Handled: t.Handled, Failed: t.Failed, Died: t.Died, Unknown: max(0, replayed-t.Handled-t.Died-waiting)}
}

// Tried is of how many messages it is known how their first try ended.
func (t Tally) Tried() int { return max(0, t.Handled-t.Recovered) + t.Failed }

// Bad is how many messages are known to have had a try that failed.
func (t Tally) Bad() int { return max(t.Failed, t.Recovered, t.Died) }

// add adds what another process told.
func (t *Tally) add(other Tally) {
	t.Handled += other.Handled
	t.Recovered += other.Recovered
	t.Failed += other.Failed
	t.Died += other.Died
	if len(other.Canary) == 0 {
		return
	}
	known := map[string]bool{}
	for _, name := range slices.Concat(t.Canary, other.Canary) {
		known[name] = true
	}
	t.Canary = slices.Sorted(maps.Keys(known))
}

// Event is what became of a message, or of its try.
type Event struct {
	// Operation is the one that replayed it.
	Operation string
	// Canary is the id of a message that is of the operation's canary; empty: it is not.
	Canary string
	// Attempt is the number of the try, 1 for the first since the replay.
	Attempt int
	Kind    Kind
}

// Kind says what became of it.
type Kind int

// The kinds.
const (
	Handled Kind = iota + 1
	Failed       // it is tried again
	Died
)

// MaxCanary is how many messages a canary has at most: their names fit one record.
const MaxCanary = 1000

// count adds an event.
func (t *Tally) count(e Event) {
	first := e.Attempt <= 1
	switch e.Kind {
	case Handled:
		t.Handled++
		if !first {
			t.Recovered++
		} else if name := nameOf(e.Canary); e.Canary != "" && len(t.Canary) < MaxCanary && !slices.Contains(t.Canary, name) {
			t.Canary = append(t.Canary, name)
		}
		return
	case Died:
		t.Died++
	case Failed:
	}
	if first {
		t.Failed++
	}
}

// nameOf is short, since a record has to hold many.
func nameOf(id string) string {
	sum := sha256.Sum256([]byte(id))
	return base64.RawURLEncoding.EncodeToString(sum[:6])
}
