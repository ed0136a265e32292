package operations

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stepwell/stepwell/internal/failpoint"
	"github.com/stepwell/stepwell/internal/records"
)

const (
	// kind is that of the records of operations: each has one by its id, with the request, and one
	// more with its state once that is not the first any more.
	kind        = "stepwell.operations"
	stateSuffix = ".state"
	// MaxRequest is how many bytes a request may have as JSON: 1000 ids of 255 bytes, and a note.
	MaxRequest = 320 << 10
	// maxRequests is how many bytes those of all operations may have: a quarter of what fits.
	maxRequests = 8 << 20
	// maxAge is for how long an operation that is over is kept.
	maxAge = 30 * 24 * time.Hour
	// maxWhy is how many bytes of a reason are kept.
	maxWhy = 1 << 10
	// storeLimit is how long a person waits for records at most.
	storeLimit = 10 * time.Second
)

// ErrLarge says that the request has more bytes than are kept.
var ErrLarge = fmt.Errorf("the request is larger than the %d bytes that are kept: name fewer ids", MaxRequest)

// Large are the records of operations that may be larger than others; see [records.Config].
func Large() map[string]int { return map[string]int{kind: MaxRequest + 1<<10} }

// Shared is a [Store] that all processes of an app have: two records for each operation. The first
// is the request beside the first state: an operation is there from the moment at which that one
// record is. All later states are the second.
type Shared struct {
	records *records.Store
	// mu guards what List decoded last, by name.
	mu      sync.Mutex
	decoded kept
}

// NewShared makes a Shared.
func NewShared(r *records.Store) *Shared { return &Shared{records: r} }

// first is the first record of an operation, later the second.
type first struct {
	Request Request `json:"request"`
	State   State   `json:"state"`
}

type later struct {
	// Of is when the operation was asked for: a record that was left behind by one before it, of
	// the same key, has another.
	Of    time.Time `json:"of"`
	State State     `json:"state"`
}

// decoded is a record that was decoded, or err says why it could not be.
type decoded struct {
	raw   json.RawMessage
	first first
	later later
	err   error
}

// Create keeps a new operation; see [Store].
func (s *Shared) Create(ctx context.Context, r Request, at State) error {
	ctx, cancel := context.WithTimeout(ctx, storeLimit)
	defer cancel()
	if _, trouble := s.records.Status(); trouble != nil {
		return away(trouble) // at once, and not after a wait
	}
	value, err := json.Marshal(first{r, at})
	if err != nil {
		return fmt.Errorf("operation %s: %w", r.ID, err)
	}
	if len(value) > MaxRequest {
		return ErrLarge
	}
	if err := s.records.Sync(ctx); err != nil {
		return away(err)
	}
	if _, there, err := s.records.Get(kind, r.ID); there || err != nil {
		return cmp.Or(err, ErrExists)
	}
	if err := s.makeRoom(ctx, len(value)); err != nil {
		return err
	}
	exists := false
	err = s.records.Change(ctx, kind, r.ID, func(old records.Record) (records.Record, error) {
		if exists = old.Value != nil; exists {
			return old, ErrExists
		}
		old.Value = value
		return old, nil
	})
	if err != nil && !exists {
		return away(err)
	}
	failpoint.Hit("operation asked")
	return err
}

// makeRoom forgets what has been over for longest, so that one more of so many bytes fits. The
// request goes first: a state without one is nobody's.
func (s *Shared) makeRoom(ctx context.Context, size int) error {
	kept, err := s.all()
	if err != nil {
		return err
	}
	waiting, waits := 0, size // bytes
	var over []Operation
	for _, o := range kept.operations() {
		if size += len(kept[o.ID].raw); o.Phase.IsOver() {
			over = append(over, o)
		} else {
			waiting++
			waits += len(kept[o.ID].raw)
		}
	}
	if waiting >= MaxWaiting || waits > maxRequests {
		return ErrFull // and nothing is forgotten for what does not fit all the same
	}
	slices.SortFunc(over, func(a, b Operation) int { return a.EndedAt.Compare(b.EndedAt) })
	left := kept.left()
	for n := len(over); len(over) > 0 && (n > MaxFinished || size > maxRequests || time.Since(over[0].EndedAt) > maxAge); n-- {
		id := over[0].ID
		if err := s.remove(ctx, id, kept[id].raw); err != nil {
			return err
		}
		size -= len(kept[id].raw)
		left, over = append(left, id+stateSuffix), over[1:]
	}
	for _, name := range left {
		if err := s.remove(ctx, name, kept[name].raw); err != nil {
			return err
		}
	}
	return nil
}

var errOther = errors.New("the record is another one by now")

// remove removes a record if it is as it was seen: an operation that is asked for with the same key
// meanwhile has records of the same names.
func (s *Shared) remove(ctx context.Context, name string, seen json.RawMessage) error {
	err := s.records.Change(ctx, kind, name, func(r records.Record) (records.Record, error) {
		if seen == nil || !bytes.Equal(r.Value, seen) {
			return r, errOther
		}
		r.Value = nil
		return r, nil
	})
	if err != nil && !errors.Is(err, errOther) {
		return away(err)
	}
	return nil
}

// Change replaces a state; see [Store].
func (s *Shared) Change(ctx context.Context, id string, change func(State) (State, error)) (State, error) {
	ctx, cancel := context.WithTimeout(ctx, storeLimit)
	defer cancel()
	o, err := s.Load(ctx, id)
	if err != nil {
		return State{}, err
	}
	var now State
	var refused error
	err = s.records.Change(ctx, kind, id+stateSuffix, func(r records.Record) (records.Record, error) {
		old := o.State
		if r.Value != nil {
			if is, err := readLater(r.Value); err == nil && is.Of.Equal(o.CreatedAt) {
				old = is.State
			}
		}
		if now, refused = change(old); refused != nil {
			return r, refused
		}
		if len(now.Why) > maxWhy {
			now.Why = strings.ToValidUTF8(now.Why[:maxWhy], "") + "…"
		}
		value, err := json.Marshal(later{o.CreatedAt, now})
		r.Value = value
		return r, err
	})
	switch {
	case refused != nil:
		return now, refused
	case err != nil:
		return now, away(err)
	}
	return now, nil
}

// Load returns one; see [Store]. What another process has stored before it answers is found.
func (s *Shared) Load(ctx context.Context, id string) (Operation, error) {
	r, there, err := s.records.Get(kind, id)
	if !there {
		// It may be there by now: only who reads on can tell.
		if _, trouble := s.records.Status(); trouble != nil {
			return Operation{}, away(trouble)
		}
		r, there, err = s.records.Latest(ctx, kind, id)
	}
	switch {
	case err != nil:
		return Operation{}, away(err)
	case !there || strings.HasSuffix(id, stateSuffix):
		return Operation{}, ErrUnknown
	}
	is, err := readFirst(r.Value)
	if err != nil {
		return Operation{}, fmt.Errorf("operation %s: %w", id, err)
	}
	at := later{}
	if r, there, err = s.records.Get(kind, id+stateSuffix); err == nil && there {
		at, err = readLater(r.Value)
	}
	return is.with(at, err), nil
}

// with is the operation in its later state, unless that is of another one. Where the later state
// cannot be read, since a newer release wrote it, nobody here is to go on from the first.
func (f first) with(at later, unread error) Operation {
	o := Operation{f.Request, f.State}
	switch {
	case unread != nil:
		o.Foreign = true
	case at.State.Phase != "" && at.Of.Equal(o.CreatedAt):
		o.State = at.State
	}
	return o
}

// List returns all; see [Store]. One that cannot be read at all is left out.
func (s *Shared) List() ([]Operation, error) {
	kept, err := s.all()
	all := slices.DeleteFunc(kept.operations(), func(o Operation) bool { return o.Phase.IsOver() && time.Since(o.EndedAt) > maxAge })
	slices.SortFunc(all, newestFirst)
	return all, err
}

// kept are the records of operations, by name.
type kept map[string]decoded

// all decodes what there is.
func (s *Shared) all() (kept, error) {
	all, err := s.records.All(kind)
	if err != nil {
		return nil, away(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := make(kept, len(all))
	for _, r := range all {
		// Most have not changed since the last time.
		d := s.decoded[r.Name]
		if len(d.raw) != len(r.Value) || &d.raw[0] != &r.Value[0] {
			d = decoded{raw: r.Value}
			if strings.HasSuffix(r.Name, stateSuffix) {
				d.later, d.err = readLater(r.Value)
			} else {
				d.first, d.err = readFirst(r.Value)
			}
		}
		now[r.Name] = d
	}
	s.decoded = now
	return now, nil
}

// operations are those that can be read.
func (k kept) operations() (all []Operation) {
	for name, d := range k {
		if d.err == nil && !strings.HasSuffix(name, stateSuffix) {
			at := k[name+stateSuffix]
			all = append(all, d.first.with(at.later, at.err))
		}
	}
	return all
}

// left are the names of states whose request is gone.
func (k kept) left() (names []string) {
	for name := range k {
		if id, isState := strings.CutSuffix(name, stateSuffix); isState && k[id].raw == nil {
			names = append(names, name)
		}
	}
	return names
}

// Changed is closed with the next change; see [Store].
func (s *Shared) Changed() <-chan struct{} { return s.records.Changed(kind) }

// readFirst reads a first record. One with members that this release does not know is marked: what
// is not understood must not be left out of what is done.
func readFirst(value json.RawMessage) (is first, err error) {
	strict := json.NewDecoder(bytes.NewReader(value))
	strict.DisallowUnknownFields()
	if strict.Decode(&is) == nil {
		return is, nil
	}
	is = first{}
	err = json.Unmarshal(value, &is)
	is.Request.Foreign = true
	return is, err
}

func readLater(value json.RawMessage) (is later, err error) {
	err = json.Unmarshal(value, &is)
	return is, err
}

// away says why operations are not known, or cannot be kept.
func away(err error) error {
	if errors.Is(err, ErrAway) {
		return err
	}
	return fmt.Errorf("%w: operations are in records that all processes share: %w", ErrAway, err)
}
