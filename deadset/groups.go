package deadset

import (
	"cmp"
	"context"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"github.com/stepwell/stepwell/internal/filter"
)

const (
	// maxGroups bounds the groups of an answer; what belongs to none of them is counted as one.
	maxGroups = 1000
	// maxCounted bounds the causes that are told apart while messages are read, oldest first. They
	// are more than are answered, so that the answer has the largest and not those that came first;
	// so many take about 10 MB meanwhile.
	maxCounted = 10 * maxGroups
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
	// others is what came when there were maxCounted causes, and was of none of them.
	others *Group
}

func newGroups() *groups {
	return &groups{all: []*Group{}, by: map[string]*Group{}, others: newGroup()}
}

func newGroup() *Group {
	return &Group{Minutes: make([]int, minutesShown), keys: map[uint64]struct{}{}}
}

// sorted are the largest of them, the largest first; where there are too many the rest is one.
func (in *groups) sorted() []*Group {
	in.sort()
	if len(in.all) > maxGroups {
		rest := in.others
		rest.Error = "all other causes"
		for _, g := range in.all[maxGroups-1:] {
			rest.addAll(g)
		}
		in.all = append(in.all[:maxGroups-1], rest)
		in.sort()
	}
	for _, g := range in.all {
		g.Keys, g.keys = len(g.keys), nil
	}
	return in.all
}

func (in *groups) sort() {
	slices.SortStableFunc(in.all, func(a, b *Group) int { return cmp.Compare(b.Count, a.Count) })
}

// of is the group of the message.
func (in *groups) of(f found) *Group {
	if g := in.by[f.group]; g != nil {
		return g
	}
	if len(in.all) == maxCounted {
		return in.others
	}
	g := newGroup()
	g.Group, g.Reason, g.Error, g.ErrorType = f.group, f.reason, f.pattern, f.errorType
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
	g.widen(died, died, f.id)
	if died == nil {
		return
	}
	// A clock of another process may run ahead: such deaths count as those of the last minute.
	if ago := int(asOf.Sub(*died) / time.Minute); ago < minutesShown {
		g.Minutes[minutesShown-1-max(0, ago)]++
	}
}

// addAll adds what another group has.
func (g *Group) addAll(other *Group) {
	g.Count += other.Count
	g.Replayed += other.Replayed
	maps.Copy(g.keys, other.keys)
	for i, n := range other.Minutes {
		g.Minutes[i] += n
	}
	g.widen(other.FirstDiedAt, other.LastDiedAt, other.ExampleID)
}

// widen takes in deaths from first to last, which is that of id; nil: nobody knows when.
func (g *Group) widen(first, last *time.Time, id string) {
	if first == nil {
		g.ExampleID = cmp.Or(g.ExampleID, id)
		return
	}
	if g.FirstDiedAt == nil || first.Before(*g.FirstDiedAt) {
		g.FirstDiedAt = first
	}
	if g.LastDiedAt == nil || !last.Before(*g.LastDiedAt) {
		g.LastDiedAt, g.ExampleID = last, id
	}
}
