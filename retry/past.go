package retry

import (
	"slices"
	"strings"

	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/errtext"
)

// Past is what is known of tries that a message failed before it comes to a queue for the first
// time: those that were made in place. Its zero value, and nil, have none.
type Past struct {
	made                    int
	last                    []envelope.Try // of those
	traceParent, traceState string         // of the first
}

// mostText is how much of each error is kept, in bytes: a history shows no more.
const mostText = 256

// Failed adds a try. Of many the last ones are kept, and how many there were.
func (p *Past) Failed(attempt int, f Failure) {
	if p.made++; p.made == 1 {
		p.traceParent, p.traceState = f.TraceParent, f.TraceState
	}
	try := envelope.Try{Attempt: attempt, At: f.At, ErrorType: f.errorType(), Run: f.run("")}
	if f.Err != nil {
		text := errtext.Of(f.Err)
		try.Error = strings.Clone(text[:min(len(text), mostText)])
	}
	if len(p.last) == envelope.MaxHistory {
		p.last = slices.Delete(p.last, 0, 1)
	}
	p.last = append(p.last, try)
}

// into notes the tries, which were made in the process by, in an envelope.
func (p *Past) into(e *envelope.Envelope, by string) {
	if p == nil || p.made == 0 {
		return
	}
	for i := range p.last {
		p.last[i].By = by
	}
	e.AttemptsTotal, e.History = p.made, p.last
	e.TraceParent, e.TraceState = p.traceParent, p.traceState
}
