package server

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// How far a pause reaches.
const (
	ScopeInstance = "instance" // this process, as long as it lives
	ScopeApp      = "app"      // all processes of the app, also those that start later
)

// Pause says that somebody holds a stream back. A stream may have one of each scope, and goes on
// once it has none.
type Pause struct {
	// Scope is [ScopeInstance] or [ScopeApp].
	Scope string `json:"scope"`
	// By is who paused it, as in the audit line; empty: that is not known.
	By    string    `json:"by,omitempty"`
	Since time.Time `json:"since,omitzero"`
}

// String says it to people: "paused on this instance, by alice, since 2026-01-02T15:04:05Z".
func (p Pause) String() string {
	text := "paused on this instance"
	if p.Scope == ScopeApp {
		text = "paused in all processes of the app"
	}
	if p.By != "" {
		text += ", by " + p.By
	}
	if !p.Since.IsZero() {
		text += ", since " + p.Since.UTC().Format(time.RFC3339)
	}
	return text
}

// OtherPause is a pause of the whole app, of a stream that this process does not have.
type OtherPause struct {
	Stream string `json:"stream"`
	Pause
}

// Pauses hold streams back in all processes of an app. An error of theirs that wraps
// [ErrUnavailable] may pass; after it a change may have been stored, or not.
type Pauses interface {
	// Pause holds a stream back until Resume, also in processes that start later. One that is held
	// back stays so, and it stays who did it and when. Nil: this process has stopped, and others
	// have within about a second.
	Pause(ctx context.Context, stream, by string) error
	// Resume ends a pause; false: there was none.
	Resume(ctx context.Context, stream string) (was bool, err error)
	// Others are those of streams that this process does not have, as far as is known, by stream.
	Others() []OtherPause
}

// ErrNotShared is wrapped where there can be no pause of the whole app (409): what follows it says
// which setting or right is missing.
var ErrNotShared = errors.New("a pause of the whole app is a record that all its processes share, and this one has none. " +
	"Pause each instance by itself (scope instance), or see to it that there are records")

// noPauses is what a server has where nobody gave it any.
type noPauses struct{}

// Pause holds nothing back.
func (noPauses) Pause(context.Context, string, string) error { return ErrNotShared }

// Resume ends nothing.
func (noPauses) Resume(context.Context, string) (bool, error) { return false, ErrNotShared }

// Others are none.
func (noPauses) Others() []OtherPause { return nil }

// remaining says what still holds a stream back, and how to end that; empty: nothing does.
func remaining(stream string, pauses []Pause) (text string) {
	for i, p := range pauses {
		if i > 0 {
			text += "; "
		}
		text += p.String()
	}
	if text != "" {
		command := "stepwell resume " + stream
		if pauses[0].Scope == ScopeApp {
			command += " --app"
		}
		text = fmt.Sprintf(". It is still %s: that ends with a resume of scope %s, %s", text, pauses[0].Scope, command)
	}
	return text
}
