package operations

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Errors of a [Store], for those who answer a person.
var (
	// ErrUnknown: there is no such operation.
	ErrUnknown = errors.New("there is no such operation here")
	// ErrExists: there is one with that id.
	ErrExists = errors.New("there is an operation with this id")
	// ErrFull: too many wait.
	ErrFull = fmt.Errorf("%d operations are under way or wait already: cancel some, or ask later", MaxWaiting)
)

// Bounds of what is kept.
const (
	// MaxWaiting is how many operations are not over at a time.
	MaxWaiting = 100
	// MaxFinished is how many are remembered that are.
	MaxFinished = 1000
)

// Store keeps operations, and is all that those who wish for something and those who run it know of
// one another: an operation is what its store says, and not what somebody remembers. A request is
// written once, its state again and again, so the two are two values.
type Store interface {
	// Create keeps a new one in its first state, which may be an end. The error is ErrExists or
	// ErrFull.
	Create(ctx context.Context, r Request, s State) error
	// Change replaces a state by what change makes of it, and returns what it is then. change is
	// called again where another changed it meanwhile; an error of its own ends Change and is
	// returned. So of two that decide something the second sees what the first did. It must not
	// ask the store, nor who does, as [Outcomes] do: the store is locked. The error is ErrUnknown
	// where there is no such operation.
	Change(ctx context.Context, id string, change func(State) (State, error)) (State, error)
	// Load returns one, or ErrUnknown.
	Load(ctx context.Context, id string) (Operation, error)
	// List returns all, the newest first. It waits for nobody.
	List() ([]Operation, error)
	// Changed returns a channel that is closed when something is other than it is now.
	Changed() <-chan struct{}
}

// newestFirst is the order of lists.
func newestFirst(a, b Operation) int {
	return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.ID, a.ID))
}

// Memory is a [Store] that ends with the process.
type Memory struct {
	// mu guards the fields below.
	mu  sync.Mutex
	all map[string]Operation
	// over are the ids of those that are, in the order in which they ended.
	over []string
	// changed is closed, and made anew, with each change.
	changed chan struct{}
}

// NewMemory makes a [Memory] that is empty.
func NewMemory() *Memory { return &Memory{all: map[string]Operation{}, changed: make(chan struct{})} }

// Create keeps a new operation; see [Store].
func (m *Memory) Create(_ context.Context, r Request, s State) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, there := m.all[r.ID]; there {
		return ErrExists
	}
	if len(m.all)-len(m.over) >= MaxWaiting {
		return ErrFull
	}
	if s.Phase.IsOver() {
		m.overLocked(r.ID)
	}
	m.putLocked(Operation{r, s})
	return nil
}

// overLocked notes that one more is over, and forgets the oldest of too many.
func (m *Memory) overLocked(id string) {
	if m.over = append(m.over, id); len(m.over) > MaxFinished {
		delete(m.all, m.over[0])
		m.over = slices.Delete(m.over, 0, 1)
	}
}

// Change replaces a state; see [Store]. What is over makes room for others when it is the oldest.
func (m *Memory) Change(_ context.Context, id string, change func(State) (State, error)) (State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o, there := m.all[id]
	if !there {
		return State{}, ErrUnknown
	}
	s, err := change(o.State)
	if err != nil {
		return s, err
	}
	if s.Phase.IsOver() && !o.Phase.IsOver() {
		m.overLocked(id)
	}
	m.putLocked(Operation{o.Request, s})
	return s, nil
}

func (m *Memory) putLocked(o Operation) {
	m.all[o.ID] = o
	close(m.changed)
	m.changed = make(chan struct{})
}

// Load returns one; see [Store].
func (m *Memory) Load(_ context.Context, id string) (Operation, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o, there := m.all[id]
	if !there {
		return Operation{}, ErrUnknown
	}
	return o, nil
}

// List returns all; see [Store].
func (m *Memory) List() ([]Operation, error) {
	m.mu.Lock()
	all := make([]Operation, 0, len(m.all))
	for _, o := range m.all {
		all = append(all, o)
	}
	m.mu.Unlock()
	slices.SortFunc(all, newestFirst)
	return all, nil
}

// Changed is closed with the next change; see [Store].
func (m *Memory) Changed() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}
