package main

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// peek is stepwell dead-set peek.
type peek struct{ which }

// Run does it.
func (c *peek) Run(ctx context.Context, a *actor) error {
	var answer struct {
		Messages []struct {
			ID       string    `json:"id"`
			Attempts int       `json:"attempts_total"`
			Replays  int       `json:"replays"`
			DiedAt   time.Time `json:"died_at"`
			Reason   string    `json:"reason"`
			Error    string    `json:"error"`
		} `json:"messages"`
		Depth int  `json:"depth"`
		Cut   bool `json:"cut"`
	}
	if printed, err := a.do(ctx, "GET", "/v1/dead_set", c.query(), &answer); printed || err != nil {
		return err
	}
	rows := make([][]string, 0, len(answer.Messages))
	for _, m := range answer.Messages {
		rows = append(rows, []string{m.ID, when(m.DiedAt), strconv.Itoa(m.Attempts), strconv.Itoa(m.Replays), m.Reason, m.Error})
	}
	err := a.table([]string{"ID", "DIED", "TRIES", "REPLAYS", "REASON", "ERROR"}, rows)
	if err == nil && answer.Cut {
		_, err = fmt.Fprintf(a.out, "the oldest %d of %d: one answer shows no more\n", len(rows), answer.Depth)
	}
	return err
}

// when is a time as a table shows it.
func when(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format(time.DateTime)
}
