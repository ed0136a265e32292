package main

import "context"

// resume is stepwell resume.
type resume struct {
	ID string `arg:"" help:"The stream-id."`
}

// Run ends what pause began, in the same process.
func (c *resume) Run(ctx context.Context, a *actor) error { return a.hold(ctx, c.ID, "resume") }
