package main

import (
	"context"
	"errors"
	"fmt"
)

// remove is stepwell dead-set delete.
type remove struct {
	acting
	Forever bool `help:"For good, and not into the trash."`
}

var (
	errUnasked = errors.New("nobody can be asked here, nothing was done: --yes does it without asking")
	errNo      = errors.New("nothing was done")
)

// Run deletes the oldest messages, or those that were chosen, once a person has said yes.
func (c *remove) Run(ctx context.Context, a *actor) error {
	if c.Count == nil {
		w := c.wish("delete")
		if c.Forever {
			w.Forever = &c.Forever
		}
		return c.operate(ctx, a, w)
	}
	kept, err := c.confirm(ctx, a)
	if err != nil {
		return err
	}
	var r result
	q := c.which().query()
	switch {
	case c.Forever:
		q.Set("forever", "true")
	case kept: // also where another process answers, which has no trash: it refuses
		q.Set("forever", "false")
	}
	if printed, err := a.do(ctx, "DELETE", "/v1/dead_set", q, &r); printed || err != nil {
		return inDoubt(err)
	}
	return a.printResult(r)
}

// whereTo says what becomes of what is deleted.
func whereTo(kept bool) string {
	if kept {
		return ", into the trash"
	}
	return " for good"
}

// confirm returns an error unless the person says yes, now or by --yes. kept says that they were
// told that it goes to the trash.
func (c *remove) confirm(ctx context.Context, a *actor) (kept bool, err error) {
	switch {
	case c.Yes:
		return false, nil
	case a.ask == nil:
		return false, errUnasked
	}
	var page struct {
		Depth int `json:"depth"`
	}
	// The question names how many there are now. What dies until the answer comes is newer, and not
	// among the oldest that are deleted.
	if err := a.get(ctx, "/v1/dead_set", c.which().query(), &page); err != nil {
		return false, err
	}
	if !c.Forever {
		if kept, err = a.keepsTrash(ctx, c.which()); err != nil {
			return false, err
		}
	}
	return kept, a.ask(fmt.Sprintf("Delete the %d oldest of the %d dead messages of %s%s?", min(*c.Count, page.Depth), page.Depth, printable(c.who()), whereTo(kept)))
}
