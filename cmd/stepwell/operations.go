package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
)

// operationCommands are stepwell dead-set operations.
type operationCommands struct {
	Ls     listOperations  `cmd:"" default:"withargs" help:"List them, the newest first."`
	Show   showOperation   `cmd:"" help:"Show one."`
	Watch  watchOperation  `cmd:"" help:"Watch one until it is over; Ctrl-C ends the watching."`
	Pause  pauseOperation  `cmd:"" help:"Hold one back; fine twice."`
	Resume resumeOperation `cmd:"" help:"Let one go on; fine twice."`
	Cancel cancelOperation `cmd:"" help:"End one; what it did is done."`
	Rate   rateOperation   `cmd:"" help:"Change how fast one is."`
}

// named names an operation.
type named struct {
	ID string `arg:"" help:"The operation's id."`
}

// Validate is called by kong before Run: an empty id would ask for something else.
func (c named) Validate() error {
	if c.ID == "" {
		return errors.New("the id of the operation is empty")
	}
	return nil
}

type (
	showOperation   struct{ named }
	watchOperation  struct{ named }
	pauseOperation  struct{ named }
	resumeOperation struct{ named }
	cancelOperation struct{ named }
	rateOperation   struct {
		named
		Rate string `arg:"" help:"Messages a second or a minute, such as 200/s or 50/m, or unlimited."`
	}
	listOperations struct {
		Stream *string `help:"Of this stream." short:"s"`
		State  *string `help:"In this state, such as running."`
		Limit  int     `help:"How many at most." default:"50" short:"n"`
	}
)

// Run lists operations.
func (c *listOperations) Run(ctx context.Context, a *actor) error {
	q := url.Values{"limit": {strconv.Itoa(c.Limit)}}
	for name, text := range map[string]*string{"stream": c.Stream, "state": c.State} {
		if text != nil {
			q.Set(name, *text) // an empty one is refused
		}
	}
	var answer struct {
		Operations []json.RawMessage `json:"operations"`
	}
	if err := a.get(ctx, operationsPath, q, &answer); err != nil {
		return err
	}
	rows, err := rowsOf(a, answer.Operations, operation.row)
	if err != nil || a.json {
		return err
	}
	return a.table([]string{"ID", "STATE", "WHAT", "CHOSEN", "DONE", "RATE", "LEFT", "BY", "ASKED", "NOTE", "WHY"}, rows)
}

// Run shows one.
func (c *showOperation) Run(ctx context.Context, a *actor) error {
	o, whole, err := a.find(ctx, c.ID)
	if err != nil {
		return err
	}
	if err := a.printOperation(o, whole); err != nil || a.json {
		return err
	}
	_, err = fmt.Fprintln(a.out, o.asked())
	return err
}

// Run watches one.
func (c *watchOperation) Run(ctx context.Context, a *actor) error { return a.watch(ctx, c.ID, false) }

// Run holds one back.
func (c *pauseOperation) Run(ctx context.Context, a *actor) error {
	return a.change(ctx, c.ID, map[string]string{"state": "paused"})
}

// Run lets one go on.
func (c *resumeOperation) Run(ctx context.Context, a *actor) error {
	return a.change(ctx, c.ID, map[string]string{"state": "running"})
}

// Run ends one.
func (c *cancelOperation) Run(ctx context.Context, a *actor) error {
	return a.change(ctx, c.ID, map[string]string{"state": "cancelled"})
}

// Run changes its rate.
func (c *rateOperation) Run(ctx context.Context, a *actor) error {
	return a.change(ctx, c.ID, map[string]string{"rate": c.Rate})
}

// change changes an operation and prints it as it is then.
func (a *actor) change(ctx context.Context, id string, wish map[string]string) error {
	var whole json.RawMessage
	if err := a.wish(ctx, "PATCH", operationsPath+"/"+url.PathEscape(id), wish, &whole); err != nil {
		return err
	}
	var o operation
	if err := read(whole, &o); err != nil {
		return err
	}
	return a.printOperation(o, whole)
}
