package main

import "context"

// resume is stepwell resume.
type resume struct {
	ID  string `arg:"" help:"The stream-id."`
	App bool   `help:"End the pause of the whole app. One of an instance is ended there."`
}

// Run ends what pause began: in the same process, or in all.
func (c *resume) Run(ctx context.Context, a *actor) error { return a.hold(ctx, c.ID, "resume", c.App) }
