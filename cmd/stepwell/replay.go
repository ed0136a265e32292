package main

import (
	"context"
	"errors"
)

// replay is stepwell dead-set replay.
type replay struct {
	acting
	CrashLoop bool `help:"Also messages that killed the process." name:"include-crash-loop"`
	Ahead     *int `help:"Wait while so many messages wait to be handled. Default: 10000."`
}

// Validate is called by kong before Run.
func (c replay) Validate() error {
	switch {
	case c.Ahead != nil && *c.Ahead < 1:
		return errors.New("--ahead must be 1 or more")
	case c.Ahead != nil && c.Count != nil:
		return errors.New("--ahead is for what is chosen, and not for a --count")
	}
	return c.acting.Validate()
}

// Run replays the oldest without asking, since what is replayed and fails again is back in the dead
// set, or what was chosen once a person has said yes.
func (c *replay) Run(ctx context.Context, a *actor) error {
	if c.Count == nil {
		w := c.wish("replay")
		w.CrashLoops, w.Ahead = c.CrashLoop, c.Ahead
		return c.operate(ctx, a, w)
	}
	var r result
	q := c.which().query()
	if c.CrashLoop {
		q.Set("include_crash_loop", "true")
	}
	if printed, err := a.do(ctx, "POST", "/v1/dead_set/replay", q, &r); printed || err != nil {
		return err
	}
	return a.printResult(r)
}
