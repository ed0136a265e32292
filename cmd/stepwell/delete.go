package main

import "context"

// remove is stepwell dead-set delete.
type remove struct{ which }

// Run does it.
func (c *remove) Run(ctx context.Context, a *actor) error {
	var r result
	if printed, err := a.do(ctx, "DELETE", "/v1/dead_set", c.query(), &r); printed || err != nil {
		return err
	}
	return a.printResult(r)
}
