package main

import (
	"context"
	"fmt"
	"net/url"
)

// pause is stepwell pause.
type pause struct {
	ID string `arg:"" help:"The stream-id."`
}

// Run pauses the stream in the one process at the address, not in the others of its group.
func (c *pause) Run(ctx context.Context, a *actor) error { return a.hold(ctx, c.ID, "pause") }

// hold pauses or resumes a stream, which differ in the verb alone.
func (a *actor) hold(ctx context.Context, id, verb string) error {
	var answer struct {
		Message string `json:"message"`
	}
	if printed, err := a.do(ctx, "POST", "/v1/streams/"+url.PathEscape(id)+"/"+verb, nil, &answer); printed || err != nil {
		return err
	}
	_, err := fmt.Fprintln(a.out, printable(answer.Message))
	return err
}
