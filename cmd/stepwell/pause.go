package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// pause is stepwell pause.
type pause struct {
	ID  string `arg:"" help:"The stream-id."`
	App bool   `help:"In all processes of the app, also those that start later, until it is resumed with --app."`
}

// Run pauses the stream in the one process at the address, or in all of its app.
func (c *pause) Run(ctx context.Context, a *actor) error { return a.hold(ctx, c.ID, "pause", c.App) }

// hold pauses or resumes a stream, which differ in the verb alone.
func (a *actor) hold(ctx context.Context, id, verb string, app bool) error {
	var answer struct {
		Message string `json:"message"`
	}
	query := url.Values{}
	if app {
		query.Set("scope", "app")
	}
	if printed, err := a.do(ctx, "POST", "/v1/streams/"+url.PathEscape(id)+"/"+verb, query, &answer); printed || err != nil {
		return err
	}
	_, err := fmt.Fprintln(a.out, a.addressed(plain(answer.Message)))
	return err
}

// pauseState is what holds a stream back.
type pauseState struct {
	Stream string    `json:"stream"` // of a pause that is shown by itself
	Scope  string    `json:"scope"`
	By     string    `json:"by"`
	Since  time.Time `json:"since"`
}

// String says which: "paused in the app by alice since 2026-01-02T15:04:05Z".
func (p pauseState) String() string {
	text := "paused here"
	if p.Scope == "app" {
		text = "paused in the app"
	}
	if p.By != "" {
		text += " by " + p.By
	}
	if !p.Since.IsZero() {
		text += " since " + p.Since.UTC().Format(time.RFC3339)
	}
	return text
}

// noteHeld says on the side that the stream is paused, so that what is replayed is not handled yet.
// It is a note: where the streams cannot be seen, the command goes on, and what it asks for next
// tells why.
func (a *actor) noteHeld(ctx context.Context, stream string) {
	body, err := a.send(ctx, http.MethodGet, "/v1/streams", nil)
	var answer struct {
		Streams []streamState `json:"streams"`
	}
	if err != nil || read(body, &answer) != nil {
		return
	}
	for _, s := range answer.Streams {
		if s.ID != stream || !s.Paused {
			continue
		}
		where := " in this process"
		if slices.ContainsFunc(s.Pauses, func(p pauseState) bool { return p.Scope == "app" }) {
			where = ""
		}
		fmt.Fprintf(a.errs, "%s is %s: nothing is handled%s until it is resumed\n", printable(stream), plain(paused(s.Pauses)), where)
	}
}

// paused says of all of them; an actor from before they were told names none.
func paused(all []pauseState) string {
	if len(all) == 0 {
		return "paused"
	}
	var texts []string
	for _, p := range all {
		texts = append(texts, p.String())
	}
	return strings.Join(texts, ", ")
}
