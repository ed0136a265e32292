package main

import (
	"cmp"
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// groups is stepwell dead-set groups.
type groups struct {
	chosen
	looking
}

// Help explains the table.
func (c *groups) Help() string {
	return "LAST HOUR draws how many died in each five minutes of the hour before the look, the latest last: _ none, then . : o O # up to the most of its row. With ___________# all of them died within the last five minutes."
}

// group is what the table shows of a cause.
type group struct {
	Group      string    `json:"group"`
	Count      int       `json:"count"`
	Reason     string    `json:"reason"`
	Error      string    `json:"error"`
	ErrorType  string    `json:"error_type"`
	FirstDied  time.Time `json:"first_died_at"`
	LastDied   time.Time `json:"last_died_at"`
	Keys       *int      `json:"keys"`
	Replayed   int       `json:"replayed"`
	ExampleID  string    `json:"example_id"`
	PerMinutes []int     `json:"minutes"`
}

// Run prints a row for each cause, the largest first, as the actor has them.
func (c *groups) Run(ctx context.Context, a *actor) error {
	var answer struct {
		span
		Groups []json.RawMessage `json:"groups"`
	}
	unsorted, err := c.look(ctx, a, c.chosen, func() (span, error) {
		answer.Groups = nil // what was decoded before is kept
		err := a.get(ctx, "/v1/dead_set/groups", c.query(), &answer)
		return answer.span, err
	})
	if err != nil {
		return err
	}
	defer answer.note(a)
	rows, err := rowsOf(a, answer.Groups, group.row)
	if err == nil && !a.json {
		err = a.groupTable(rows)
	}
	return cmp.Or(err, unsorted)
}

// groupTable prints rows of causes. The error is last: a long one makes its own row long, and not
// all of them.
func (a *actor) groupTable(rows [][]string) error {
	return a.table([]string{"GROUP", "COUNT", "REASON", "FIRST DIED", "LAST DIED", "LAST HOUR", "KEYS", "REPLAYED", "EXAMPLE", "TYPE", "ERROR"}, rows)
}

// row is the group in a table. The group of all causes that had no room has no name, and shows a
// dash.
func (g group) row() []string {
	name := g.Group
	if name == "" {
		name = "-"
	}
	return []string{
		name, strconv.Itoa(g.Count), g.Reason, when(g.FirstDied), when(g.LastDied), curve(g.PerMinutes),
		keys(g.Keys), strconv.Itoa(g.Replayed), g.ExampleID, g.ErrorType, g.Error,
	}
}

// curve draws how many died in each of twelve five minutes, the most as #.
func curve(minutes []int) string {
	const parts, heights = 12, "_.:oO#"
	sums, most := make([]int, parts), 0
	for i, n := range minutes {
		at := i * parts / len(minutes)
		sums[at] += n
		most = max(most, sums[at])
	}
	var b strings.Builder
	for _, n := range sums {
		height := 0
		if n > 0 {
			height = 1 + (n*(len(heights)-2))/most
		}
		b.WriteByte(heights[height])
	}
	return b.String()
}

// rowsOf are the rows of a table; with --json the objects are printed instead, a line each.
func rowsOf[T any](a *actor, objects []json.RawMessage, row func(T) []string) ([][]string, error) {
	rows := make([][]string, 0, len(objects))
	for _, object := range objects {
		if a.json {
			if err := a.line(object); err != nil {
				return nil, err
			}
			continue
		}
		var v T
		if err := read(object, &v); err != nil {
			return nil, err
		}
		rows = append(rows, row(v))
	}
	return rows, nil
}

// keys is how many keys there are; nil: they are hidden.
func keys(n *int) string {
	if n == nil {
		return "(hidden)"
	}
	return strconv.Itoa(*n)
}
