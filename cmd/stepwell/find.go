package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// find is stepwell dead-set list.
type find struct {
	chosen
	looking
	Limit int `help:"How many at most." default:"50" short:"n"`
}

// foundPage is a part of a list.
type foundPage struct {
	span
	Messages []json.RawMessage `json:"messages"`
	Matched  int               `json:"matched"`
	Next     string            `json:"next"`
}

// maxPage is how many messages the actor shows in one answer.
const maxPage = 500

// Validate is called by the parser.
func (c *find) Validate() error {
	if c.Limit < 1 {
		return errors.New("--limit must be 1 or more")
	}
	return c.chosen.Validate()
}

// Run shows what matches.
func (c *find) Run(ctx context.Context, a *actor) error {
	var all []json.RawMessage
	var page foundPage
	unsorted, err := c.look(ctx, a, c.chosen, func() (_ span, err error) {
		all, page, err = pages(ctx, a, "/v1/dead_set", c.query(), c.Limit)
		return page.span, err
	})
	if err != nil {
		return err
	}
	defer page.note(a)
	if len(all) < page.Matched {
		defer fmt.Fprintf(a.errs, "%d of the %d that match\n", len(all), page.Matched)
	}
	rows, err := rowsOf(a, all, dead.row)
	if err == nil && !a.json {
		err = a.deadTable(rows)
	}
	return cmp.Or(err, unsorted)
}
