package deadset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/filter"
	"github.com/stepwell/stepwell/internal/queue"
)

// Errors of those who look for messages of a kind.
var (
	// ErrNotFound: no message that was looked at has the id.
	ErrNotFound = errors.New("no dead message has this id")
	// ErrMoved: the message behind which a list was to go on is no longer there.
	ErrMoved = errors.New("the list has changed: the message behind which it was to go on is gone")
)

// Span says how much of a dead set an answer is about.
type Span struct {
	// Depth is how many messages the dead set had, Unsorted how many of them were not looked at: a
	// look sees what is in pages, and of the rest the oldest 2000, or as many as fit the bytes of a
	// walk. Complete says that there are no such.
	Depth    int  `json:"depth"`
	Unsorted int  `json:"unsorted"`
	Complete bool `json:"complete"`
	// AsOf is when the look began: who acts on what it showed leaves out what died later.
	AsOf time.Time `json:"as_of"`
}

// Query says which messages to find.
type Query struct {
	Filter filter.Filter
	// MovedBy leaves out what another operation deleted; empty: nothing. It is for a trash.
	MovedBy string
	// Limit is how many at most are shown, 1 or more.
	Limit int
	// After is what the list before, which this one continues, had as its Next; empty: begin with
	// the oldest message.
	After string
}

// List is what was found.
type List struct {
	Span
	// Messages are the oldest of those that match, oldest first.
	Messages []Entry
	// Matched is how many match, shown or not.
	Matched int
	// Next is for the query that goes on behind the last of Messages; empty: there are no more.
	Next string
}

// survey is what one look at the dead set found.
type survey struct {
	Span
	// all are the messages seen, oldest first. They are shared by who asks within a second.
	all []found
}

// survey tells of all messages that a look sees, oldest first, and of when the look began; where it
// returns an error, what was told counts for nothing. Of messages that are remembered only traits
// are told, but of those that wants names; see look. Those who ask within a second share a look,
// unless a replay or delete of this process came between, as long as WalkBytes hold what it saw.
func (s *Set) survey(ctx context.Context, wants func(page []found) []int, tell func(f found, asOf time.Time)) (Span, error) {
	select {
	case <-s.peeking:
	case <-ctx.Done():
		return Span{}, fmt.Errorf("look: wait for another: %w", ctx.Err())
	}
	defer func() { s.peeking <- struct{}{} }()
	if s.closed.Load() {
		return Span{}, fmt.Errorf("look: %w", queue.ErrClosed)
	}
	last, changes := s.recent.last()
	if last != nil {
		for _, f := range last.all {
			tell(f, last.AsOf)
		}
		return last.Span, nil
	}
	v := &survey{Span: Span{AsOf: time.Now().UTC()}}
	bytes, shared := int64(0), true
	seen, err := s.look(ctx, all, wants, func(f found) {
		bytes += f.size
		if shared = shared && f.envelope != nil && bytes <= int64(s.cfg.WalkBytes); shared {
			v.all = append(v.all, f)
		} else {
			v.all = nil
		}
		tell(f, v.AsOf)
	})
	if err != nil {
		return Span{}, fmt.Errorf("look: %w", err)
	}
	unsorted := max(0, seen.depth-seen.seen)
	v.Depth, v.Unsorted, v.Complete = seen.depth, unsorted, unsorted == 0
	if shared {
		s.recent.keepSurvey(v, changes)
	}
	return v.Span, nil
}

// Find lists the oldest messages for which the filter is true. It looks at as much as a look sees,
// which the Span of the list says. The error is as that of Peek, or [ErrMoved].
func (s *Set) Find(ctx context.Context, q Query) (List, error) {
	l := newListing(q, s.cfg.WalkBytes)
	span, err := s.survey(ctx, reading(q.Filter, l.wants), func(f found, _ time.Time) { l.tell(f) })
	if err != nil {
		return List{}, err
	}
	if !l.begun {
		return List{}, ErrMoved
	}
	return List{Span: span, Messages: s.values.entries(ctx, l.shown), Matched: l.matched, Next: l.next}, nil
}

// Detail is all that is known of one message.
type Detail struct {
	Entry
	// Copies is how many messages with this id were seen, this one included.
	Copies int `json:"copies"`
	// Tries are the last failures, oldest first, at most ten; the last of them is what killed it.
	Tries []Try `json:"tries"`
	// TraceURL leads to the trace of TraceID, where SERVER_TRACE_URL says how.
	TraceURL string `json:"trace_url,omitempty"`

	key, value []byte
}

// Try is a try that failed. How and where it was made is not known of those of older programs.
type Try struct {
	Attempt   int        `json:"attempt"`
	At        *time.Time `json:"at,omitempty"`
	Error     string     `json:"error"`
	ErrorType string     `json:"error_type,omitempty"`
	// DurationMS is how long it took, in milliseconds.
	DurationMS float64 `json:"duration_ms,omitempty"`
	// Instance is the process that made it, AppVersion the version of the app there.
	Instance   string `json:"instance,omitempty"`
	AppVersion string `json:"app_version,omitempty"`
	// TraceID and SpanID are those of this very try: each has a trace of its own.
	TraceID string `json:"trace_id,omitempty"`
	SpanID  string `json:"span_id,omitempty"`
	// TraceURL leads to its trace, where SERVER_TRACE_URL says how.
	TraceURL string `json:"trace_url,omitempty"`
}

// tryOf shows a try.
func tryOf(t envelope.Try) Try {
	shown := Try{
		Attempt: t.Attempt, At: instant(t.At), Error: t.Error, ErrorType: t.ErrorType, DurationMS: float64(t.Took.Microseconds()) / 1000,
	}
	shown.Instance, shown.AppVersion = t.Process()
	shown.TraceID, shown.SpanID = t.Trace()
	return shown
}

// Hidden is the detail for those who may not see what is in the record.
func (d Detail) Hidden() any {
	d.Entry, d.key, d.value = d.hidden(), nil, nil
	return d
}

// Bytes returns the record's key and value, whole. Where ValueError is set they are not known.
func (d Detail) Bytes() (key, value []byte) { return d.key, d.value }

// Message shows the oldest message of an id. The error is as that of Peek, or [ErrNotFound], also
// where it may be among those that were not looked at, as it says then.
func (s *Set) Message(ctx context.Context, id string) (Detail, error) {
	var first found
	copies := 0
	is := func(f found) bool { return f.id == id }
	wants := func(page []found) []int {
		if i := slices.IndexFunc(page, is); i >= 0 && copies == 0 {
			return []int{i}
		}
		return nil
	}
	v, err := s.survey(ctx, wants, func(f found, _ time.Time) {
		if !is(f) {
			return
		}
		if copies++; copies == 1 {
			first = f
		}
	})
	switch {
	case err != nil:
		return Detail{}, err
	case copies > 0:
		return s.values.detail(ctx, first, copies), nil
	}
	return Detail{}, v.notFound()
}

// notFound says that nothing of what was looked at has the id.
func (v Span) notFound() error {
	if v.Complete {
		return ErrNotFound
	}
	return fmt.Errorf("%w among the oldest %d of %d: the others were not looked at", ErrNotFound, v.Depth-v.Unsorted, v.Depth)
}

// detail shows one message, whole.
func (v values) detail(ctx context.Context, f found, copies int) Detail {
	e := f.envelope
	d := Detail{Entry: f.entry(), Copies: copies, Tries: []Try{}, key: e.Message.Key, value: e.Message.Value}
	for _, t := range e.History {
		d.Tries = append(d.Tries, tryOf(t))
	}
	if !e.Pointer {
		return d
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTime)
	defer cancel()
	m, why := v.fetch(ctx, e)
	if m == nil {
		d.ValueError = why
		return d
	}
	d.record(m, maxShown)
	d.key, d.value = m.Key, m.Value
	return d
}
