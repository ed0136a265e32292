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
	ErrUnknown = errors.New("there is no such operation here: it is known in the process that was asked for it, until that ends")
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

// Store keeps operations. A request is written once, its state again and again, so the two are two
// values: a store that outlives the process writes the second alone.
type Store interface {
	// Create keeps a new one. The error is ErrExists or ErrFull.
	Create(ctx context.Context, r Request, s State) error
	// Save replaces its state.
	Save(ctx context.Context, id string, s State) error
	// Load returns one, or ErrUnknown.
	Load(ctx context.Context, id string) (Operation, error)
	// List returns all, the newest first.
	List(ctx context.Context) ([]Operation, error)
}

// Memory is a [Store] that ends with the process. The zero value is empty.
type Memory struct {
	// mu guards the fields below.
	mu  sync.Mutex
	all map[string]Operation
	// over are the ids of those that are, in the order in which they ended.
	over []string
}

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
	if m.all == nil {
		m.all = map[string]Operation{}
	}
	m.all[r.ID] = Operation{r, s}
	return nil
}

// Save replaces its state; see [Store]. What is over makes room for others when it is the oldest.
func (m *Memory) Save(_ context.Context, id string, s State) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	o, there := m.all[id]
	if !there {
		return ErrUnknown
	}
	if s.Phase.IsOver() && !o.Phase.IsOver() {
		m.over = append(m.over, id)
	}
	o.State = s
	m.all[id] = o
	if len(m.over) > MaxFinished {
		delete(m.all, m.over[0])
		m.over = slices.Delete(m.over, 0, 1)
	}
	return nil
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
func (m *Memory) List(context.Context) ([]Operation, error) {
	m.mu.Lock()
	all := make([]Operation, 0, len(m.all))
	for _, o := range m.all {
		all = append(all, o)
	}
	m.mu.Unlock()
	slices.SortFunc(all, func(a, b Operation) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.ID, a.ID))
	})
	return all, nil
}
