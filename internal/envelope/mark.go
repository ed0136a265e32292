package envelope

import (
	"maps"
	"strings"

	"github.com/stepwell/stepwell/internal/queue"
)

// Mark says which operation replayed a message last. It is a header of its own and no part of the
// envelope: a program that does not know it keeps it.
type Mark struct {
	// Operation is the id; empty: none did.
	Operation string
	// Canary: it is one of the first few, which are waited for.
	Canary bool
}

const (
	hOperation = "x-stepwell-operation"
	hCanary    = "x-stepwell-canary"
	// maxOperation is how long the id of an operation may be.
	maxOperation = 64
)

// MarkOf reads the mark in headers.
func MarkOf(headers map[string]any) Mark {
	id, _ := headers[hOperation].(string) // what is no text is no mark of ours
	if !strings.HasPrefix(id, "op_") || len(id) > maxOperation {
		return Mark{}
	}
	return Mark{id, headers[hCanary] != nil}
}

// Mark is the message's own.
func (e *Envelope) Mark() Mark { return MarkOf(e.Extra) }

// Marked is the message with this mark in place of what it has; the zero one takes that off.
func Marked(m queue.Message, mark Mark) queue.Message {
	m.Headers = maps.Clone(m.Headers)
	delete(m.Headers, hOperation)
	delete(m.Headers, hCanary)
	if mark.Operation == "" {
		return m
	}
	if m.Headers == nil {
		m.Headers = map[string]any{}
	}
	m.Headers[hOperation] = mark.Operation
	if mark.Canary {
		m.Headers[hCanary] = "1"
	}
	return m
}
