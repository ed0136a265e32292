package main

import "context"

// replay is stepwell dead-set replay.
type replay struct{ which }

// Run does it.
func (c *replay) Run(ctx context.Context, a *actor) error {
	var r result
	if printed, err := a.do(ctx, "POST", "/v1/dead_set/replay", c.query(), &r); printed || err != nil {
		return err
	}
	return a.printResult(r)
}
