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
	guards
}

// guards hold a replay back of which messages fail again.
type guards struct {
	Canary     *int    `json:"canary,omitempty" help:"Replay so many first, and go on only if all of them are handled."`
	CanaryWait *string `json:"canary_wait,omitempty" help:"How long to wait for the canary, or with --stop-at for word of what is out. Default: 2m."`
	StopAt     *string `json:"stop_at,omitempty" help:"Pause once a try of so many messages failed, such as 20, or of such a share, such as 5%; no more than 20 fail, or ten beyond the share (and fewer than 60 at first). No more are out at a time than may still fail, so it is slower."`
}

// Validate is called by kong before Run.
func (g guards) Validate() error {
	switch {
	case g.Canary != nil && *g.Canary < 1:
		return errors.New("--canary must be 1 or more")
	case g.CanaryWait != nil && g.Canary == nil && g.StopAt == nil:
		return errors.New("--canary-wait is for a --canary or a --stop-at")
	case g.CanaryWait != nil && *g.CanaryWait == "":
		return empty("canary-wait")
	case g.StopAt != nil && *g.StopAt == "":
		return empty("stop-at")
	}
	return nil
}

// Validate is called by kong before Run.
func (c replay) Validate() error {
	switch {
	case c.Ahead != nil && *c.Ahead < 1:
		return errors.New("--ahead must be 1 or more")
	case c.Count != nil && c.guards != (guards{}):
		return errors.New("--canary, --canary-wait and --stop-at are for what is chosen, and not for a --count")
	case c.Ahead != nil && c.Count != nil:
		return errors.New("--ahead is for what is chosen, and not for a --count")
	}
	if err := c.guards.Validate(); err != nil {
		return err
	}
	return c.acting.Validate()
}

// Run replays the oldest without asking, since what is replayed and fails again is back in the dead
// set, or what was chosen once a person has said yes.
func (c *replay) Run(ctx context.Context, a *actor) error {
	a.noteHeld(ctx, c.Stream)
	if c.Count == nil {
		w := c.wish("replay")
		w.CrashLoops, w.Ahead, w.guards = c.CrashLoop, c.Ahead, c.guards
		return c.operate(ctx, a, w)
	}
	var r result
	q := c.which().query()
	if c.CrashLoop {
		q.Set("include_crash_loop", "true")
	}
	if printed, err := a.do(ctx, "POST", "/v1/dead_set/replay", q, &r); printed || err != nil {
		return inDoubt(err)
	}
	return a.printResult(r)
}
