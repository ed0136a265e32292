package main

import "context"

// replay is stepwell dead-set replay.
type replay struct {
	which
	CrashLoop bool `help:"Also messages that killed the process." name:"include-crash-loop"`
}

// Run replays without asking: what is replayed and fails again is back in the dead set.
func (c *replay) Run(ctx context.Context, a *actor) error {
	var r result
	q := c.query()
	if c.CrashLoop {
		q.Set("include_crash_loop", "true")
	}
	if printed, err := a.do(ctx, "POST", "/v1/dead_set/replay", q, &r); printed || err != nil {
		return err
	}
	return a.printResult(r)
}
