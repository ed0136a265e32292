package webhook

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Records are what each process of an app must be able to look up: workflows, and which calls are
// cancelled. An error of any of them says that it is not known at present; nothing is made up then.
type Records interface {
	// Workflow returns the waits of that name; false: there is none.
	Workflow(ctx context.Context, name string) ([]time.Duration, bool, error)
	// SetWorkflow stores a workflow, or replaces it; nil: each process finds it from here on.
	SetWorkflow(ctx context.Context, name string, waits []time.Duration) error
	// Cancelled says whether the call with that id is cancelled. It is asked before each try.
	Cancelled(ctx context.Context, id string) (bool, error)
	// Cancel stores that tries of the call which begin from here on are left out.
	Cancel(ctx context.Context, id string) error
}

// ErrNoRecords is the error of what needs a place that all processes share, where there is none.
var ErrNoRecords = errors.New("workflows at run time and cancels need records that all processes share, which this program does not have")

// Static are workflows that do not change: those of the configuration. It cancels nothing.
type Static map[string][]time.Duration

// Workflow looks a workflow up.
func (s Static) Workflow(_ context.Context, name string) ([]time.Duration, bool, error) {
	waits, ok := s[name]
	return waits, ok, nil
}

// SetWorkflow returns [ErrNoRecords], unless the workflow is there already, the same.
func (s Static) SetWorkflow(_ context.Context, name string, waits []time.Duration) error {
	if old, ok := s[name]; ok && fmt.Sprint(old) == fmt.Sprint(waits) {
		return nil
	}
	return fmt.Errorf("workflow %q: %w: put it into the configuration", name, ErrNoRecords)
}

// Cancelled says that nothing is.
func (s Static) Cancelled(context.Context, string) (bool, error) { return false, nil }

// Cancel returns [ErrNoRecords].
func (s Static) Cancel(context.Context, string) error { return ErrNoRecords }

// Memory are records of one process, which end with it: for brokers that do so, too.
type Memory struct {
	mu        sync.Mutex
	workflows map[string][]time.Duration
	cancelled map[string]bool
}

// maxRecords is how many of each kind there are at most; more are refused.
const maxRecords = 10_000

// NewMemory makes records that begin with the given workflows.
func NewMemory(workflows map[string][]time.Duration) *Memory {
	m := &Memory{workflows: map[string][]time.Duration{}, cancelled: map[string]bool{}}
	for name, waits := range workflows {
		m.workflows[name] = waits
	}
	return m
}

// Workflow looks a workflow up.
func (m *Memory) Workflow(_ context.Context, name string) ([]time.Duration, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	waits, ok := m.workflows[name]
	return waits, ok, nil
}

// SetWorkflow stores a workflow.
func (m *Memory) SetWorkflow(_ context.Context, name string, waits []time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.workflows[name]; !known && len(m.workflows) >= maxRecords {
		return fmt.Errorf("there are %d workflows, and no room for another", maxRecords)
	}
	m.workflows[name] = waits
	return nil
}

// Cancelled says whether a call is.
func (m *Memory) Cancelled(_ context.Context, id string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cancelled[id], nil
}

// Cancel cancels a call.
func (m *Memory) Cancel(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.cancelled) >= maxRecords && !m.cancelled[id] {
		return fmt.Errorf("%d calls are cancelled, and there is no room for another", maxRecords)
	}
	m.cancelled[id] = true
	return nil
}
