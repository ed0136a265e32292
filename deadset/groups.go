package deadset

import (
	"cmp"
	"context"
	"hash/fnv"
	"slices"
	"time"

	"github.com/stepwell/stepwell/internal/filter"
)

const (
	// maxGroups bounds the groups of an answer; what belongs to none of them is counted as one.
	maxGroups = 1000
	// minutesShown is for how long before the look the deaths of a group are counted by minutes.
	minutesShown = 60
)

// Group is a cause of death and what died of it.
type Group struct {
	// Group is the cause's fingerprint; empty for what is left when there are more than 1000.
	Group  string `json:"group"`
	Count  int    `json:"count"`
	Reason string `json:"reason"`
	// Error is what the errors of the group share: what varies is <n>.
	Error     string `json:"error"`
	ErrorType string `json:"error_type,omitempty"`
	// ExampleID is the message that died last.
	ExampleID   string     `json:"example_id"`
	FirstDiedAt *time.Time `json:"first_died_at,omitempty"`
	LastDiedAt  *time.Time `json:"last_died_at,omitempty"`
	// Keys is how many different keys they have, Replayed how many of them were replayed before.
	Keys     int `json:"keys"`
	Replayed int `json:"replayed"`
	// Minutes is how many died in each of the last sixty minutes before the look, oldest first.
	Minutes []int `json:"minutes"`

	// keys are hashes of the different keys while messages are counted; nil after that.
	keys map[uint64]struct{}
}

// Hidden is the group without how many keys it has: with a filter that chooses two messages that
// would tell whether theirs are the same.
func (g *Group) Hidden() any {
	return struct {
		*Group
		Keys *int `json:"keys"` // that of the group is behind it
	}{Group: g}
}

// Causes are the groups of a dead set, the largest first.
type Causes struct {
	Span
	Groups []*Group `json:"groups"`
}

// Hidden are the causes for those who may not see what is in records.
func (c Causes) Hidden() any {
	of := struct {
		Span
		Groups []any `json:"groups"`
	}{c.Span, make([]any, 0, len(c.Groups))}
	for _, g := range c.Groups {
		of.Groups = append(of.Groups, g.Hidden())
	}
	return of
}

// Groups counts the messages for which the filter is true by what killed them. It looks at as much
// as a look sees, which the Span says. The error is as that of Peek.
func (s *Set) Groups(ctx context.Context, of filter.Filter) (Causes, error) {
	in := newGroups()
	span, err := s.survey(ctx, reading(of, func([]found) []int { return nil }), func(f found, asOf time.Time) {
		if f.isTrue(of) {
			in.of(f).add(f, asOf)
		}
	})
	if err != nil {
		return Causes{}, err
	}
	return Causes{span, in.sorted()}, nil
}

// groups are those of an answer while messages are counted.
type groups struct {
	all []*Group
	by  map[string]*Group
}

func newGroups() *groups { return &groups{all: []*Group{}, by: map[string]*Group{}} }

// sorted are all of them, the largest first.
func (in *groups) sorted() []*Group {
	for _, g := range in.all {
		g.Keys, g.keys = len(g.keys), nil
	}
	slices.SortStableFunc(in.all, func(a, b *Group) int { return cmp.Compare(b.Count, a.Count) })
	return in.all
}

// of is the group of the message; the last one that there may be is that of all others.
func (in *groups) of(f found) *Group {
	if g := in.by[f.group]; g != nil {
		return g
	}
	if len(in.all) == maxGroups {
		return in.all[maxGroups-1]
	}
	g := &Group{Minutes: make([]int, minutesShown), keys: map[uint64]struct{}{}}
	if len(in.all) < maxGroups-1 {
		g.Group, g.Reason, g.Error, g.ErrorType = f.group, f.reason, f.pattern, f.errorType
	} else {
		g.Error = "all other causes"
	}
	in.all = append(in.all, g)
	in.by[f.group] = g
	return g
}

// hashOf stands for a key: keys may be large. It is 0 where there is none.
func hashOf(key []byte) uint64 {
	if key == nil {
		return 0
	}
	sum := fnv.New64a()
	_, _ = sum.Write(key)
	return max(1, sum.Sum64())
}

func (g *Group) add(f found, asOf time.Time) {
	g.Count++
	if f.keyHash != 0 {
		g.keys[f.keyHash] = struct{}{}
	}
	if f.replays > 0 {
		g.Replayed++
	}
	died := instant(f.died)
	if died == nil {
		g.ExampleID = cmp.Or(g.ExampleID, f.id)
		return
	}
	if g.FirstDiedAt == nil || died.Before(*g.FirstDiedAt) {
		g.FirstDiedAt = died
	}
	if g.LastDiedAt == nil || !died.Before(*g.LastDiedAt) {
		g.LastDiedAt, g.ExampleID = died, f.id
	}
	// A clock of another process may run ahead: such deaths count as those of the last minute.
	if ago := int(asOf.Sub(*died) / time.Minute); ago < minutesShown {
		g.Minutes[minutesShown-1-max(0, ago)]++
	}
}
