package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Records are what each process of an app must be able to look up: workflows, and which calls are
// cancelled. An error of any of them says that it is not known at present; nothing is made up then.
type Records interface {
	// Workflow returns the waits of that name; false: there is none.
	Workflow(ctx context.Context, name string) ([]time.Duration, bool, error)
	// SetWorkflow stores a workflow, or replaces it; nil: each process finds it from here on.
	SetWorkflow(ctx context.Context, name string, waits []time.Duration) error
	// DeleteWorkflow removes a workflow: calls that are accepted from here on, in other processes
	// some milliseconds later, find none. False: there is none of that name.
	DeleteWorkflow(ctx context.Context, name string) (bool, error)
	// Workflows returns all workflows there are, sorted by name.
	Workflows(ctx context.Context) ([]Workflow, error)
	// Cancelled says whether the call with that id is cancelled. It is asked before each try.
	Cancelled(ctx context.Context, id string) (bool, error)
	// Cancel stores that tries of the call which begin from here on are left out.
	Cancel(ctx context.Context, id string) error
}

// ErrNoRecords is the error of what needs a place that all processes share, where there is none.
var ErrNoRecords = errors.New("workflows at run time and cancels need records that all processes share, which this program does not have")

// errFixed is the error of a workflow that only an operator can change.
var errFixed = errors.New("is in the configuration")

// Static are workflows that do not change: those of the configuration. It cancels nothing.
type Static map[string][]time.Duration

// Workflow looks a workflow up.
func (s Static) Workflow(_ context.Context, name string) ([]time.Duration, bool, error) {
	waits, ok := s[name]
	return waits, ok, nil
}

// known says for a person which workflows there are.
func (s Static) known() string {
	const most = 10
	names := slices.Sorted(maps.Keys(s))
	if len(names) == 0 {
		return "the configuration has none"
	}
	all := "the configuration has "
	for i, name := range names[:min(most, len(names))] {
		if i > 0 {
			all += ", "
		}
		all += clip(name)
	}
	if more := len(names) - most; more > 0 {
		all += fmt.Sprintf(" and %d more", more)
	}
	return all
}

// SetWorkflow returns [ErrNoRecords], unless the workflow is there already, the same.
func (s Static) SetWorkflow(_ context.Context, name string, waits []time.Duration) error {
	if old, ok := s[name]; ok && slices.Equal(old, waits) {
		return nil
	}
	return fmt.Errorf("workflow %q: %w: put it into the configuration", name, ErrNoRecords)
}

// DeleteWorkflow deletes nothing: what there is is in the configuration.
func (s Static) DeleteWorkflow(_ context.Context, name string) (bool, error) {
	if _, ok := s[name]; ok {
		return false, fixedError(name)
	}
	return false, nil
}

// fixedError is the error of who would change a workflow of the configuration.
func fixedError(name string) error {
	return fmt.Errorf("workflow %q %w: change it there", name, errFixed)
}

// Workflows returns those of the configuration.
func (s Static) Workflows(context.Context) ([]Workflow, error) {
	all := make([]Workflow, 0, len(s))
	for _, name := range slices.Sorted(maps.Keys(s)) {
		all = append(all, Workflow{Name: name, Waits: s[name], Configured: true})
	}
	return all, nil
}

// Cancelled says that nothing is.
func (s Static) Cancelled(context.Context, string) (bool, error) { return false, nil }

// Cancel returns [ErrNoRecords].
func (s Static) Cancel(context.Context, string) error { return ErrNoRecords }

// Table has values by name that all processes share; actor.Shared is one.
type Table interface {
	// Current returns a value as it was some milliseconds ago, without waiting; an error where this
	// process cannot read at present what others set.
	Current(name string) (value json.RawMessage, ok bool, err error)
	// Latest returns a value as it is now.
	Latest(ctx context.Context, name string) (value json.RawMessage, ok bool, err error)
	// All returns all values by name as they are now.
	All(ctx context.Context) (map[string]json.RawMessage, error)
	// Set stores a value until a time; zero: for ever. A nil value removes it.
	Set(ctx context.Context, name string, value json.RawMessage, until time.Time) error
}

// Shared are records in tables, beside workflows that do not change.
type Shared struct {
	fixed                Static
	workflows, cancelled Table
}

// cancelledFor is how long a cancel is kept: the longest a call can take, twice.
const cancelledFor = 60 * 24 * time.Hour

// NewShared makes records of workflows of the configuration, which cannot be changed, and of two
// tables that belong to nobody else.
func NewShared(fixed Static, workflows, cancelled Table) *Shared {
	return &Shared{fixed: fixed, workflows: workflows, cancelled: cancelled}
}

// Workflow looks a workflow up, as it was some milliseconds ago. One that is not known it looks for
// in what others have just set, and in what is being read after a start, or when RabbitMQ is back.
func (s *Shared) Workflow(ctx context.Context, name string) (waits []time.Duration, ok bool, err error) {
	if waits, ok := s.fixed[name]; ok {
		return waits, true, nil
	}
	value, ok, err := s.workflows.Current(name)
	if err != nil || !ok {
		value, ok, err = s.workflows.Latest(ctx, name)
	}
	if err != nil || !ok {
		return nil, false, err
	}
	waits, err = decodeWaits(name, value)
	return waits, err == nil, err
}

// decodeWaits reads what SetWorkflow stored.
func decodeWaits(name string, value json.RawMessage) (waits []time.Duration, err error) {
	var delays []int64
	if err := json.Unmarshal(value, &delays); err != nil {
		return nil, fmt.Errorf("workflow %q: %w", name, err)
	}
	for _, ms := range delays {
		waits = append(waits, time.Duration(ms)*time.Millisecond)
	}
	return waits, nil
}

// known says for a person which workflows there are in the configuration, and how others come
// about.
func (s *Shared) known() string {
	return s.fixed.known() + ", and POST /retry_workflow has made none of that name"
}

// SetWorkflow stores a workflow, unless the configuration has another of that name.
func (s *Shared) SetWorkflow(ctx context.Context, name string, waits []time.Duration) error {
	if old, ok := s.fixed[name]; ok {
		if slices.Equal(old, waits) {
			return nil
		}
		return fixedError(name)
	}
	delays := make([]int64, len(waits))
	for i, w := range waits {
		delays[i] = w.Milliseconds()
	}
	value, err := json.Marshal(delays)
	if err == nil {
		err = s.workflows.Set(ctx, name, value, time.Time{})
	}
	if err != nil {
		return fmt.Errorf("workflow %q: %w", name, err)
	}
	return nil
}

// DeleteWorkflow removes a workflow that was made at run time.
func (s *Shared) DeleteWorkflow(ctx context.Context, name string) (bool, error) {
	if _, ok := s.fixed[name]; ok {
		return false, fixedError(name)
	}
	_, ok, err := s.workflows.Latest(ctx, name)
	if err == nil && ok {
		err = s.workflows.Set(ctx, name, nil, time.Time{})
	}
	if err != nil {
		return false, fmt.Errorf("workflow %q: %w", name, err)
	}
	return ok, nil
}

// Workflows returns those of the configuration and those that were made at run time, but for one of
// a name that the configuration has too: it is out of use.
func (s *Shared) Workflows(ctx context.Context) ([]Workflow, error) {
	all, _ := s.fixed.Workflows(ctx) // it never fails
	made, err := s.workflows.All(ctx)
	if err != nil {
		return nil, fmt.Errorf("workflows: %w", err)
	}
	for name, value := range made {
		if _, ok := s.fixed[name]; ok {
			continue
		}
		waits, err := decodeWaits(name, value)
		if err != nil {
			return nil, err
		}
		all = append(all, Workflow{Name: name, Waits: waits})
	}
	slices.SortFunc(all, func(a, b Workflow) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// Cancelled says whether the call is cancelled, as it was some milliseconds ago. What is being read
// after a start, or when RabbitMQ is back, it waits for, a second at most: a call that is put off
// loses more.
func (s *Shared) Cancelled(ctx context.Context, id string) (bool, error) {
	_, ok, err := s.cancelled.Current(id)
	if err == nil {
		return ok, nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, ok, err = s.cancelled.Latest(ctx, id)
	return ok, err
}

// Cancel cancels the call with that id for 60 days.
func (s *Shared) Cancel(ctx context.Context, id string) error {
	if err := s.cancelled.Set(ctx, id, json.RawMessage("true"), time.Now().Add(cancelledFor)); err != nil {
		return fmt.Errorf("cancel %q: %w", id, err)
	}
	return nil
}
