package server

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
)

// streamJSON is a stream on the wire.
type streamJSON struct {
	ID string `json:"id"`
	Status
}

// streamsJSON is all that runs in this process.
type streamsJSON struct {
	Modes   []string     `json:"modes"`
	Streams []streamJSON `json:"streams"`
	// OtherPauses are those of the whole app, of streams that are not among these.
	OtherPauses []OtherPause `json:"other_pauses,omitempty"`
}

// controls shows the streams of this process, and holds them back.
type controls struct{ requests }

// listStreams shows what runs and how it is doing.
func (c controls) listStreams(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), lookTimeout)
	defer cancel()
	all := make([]streamJSON, 0, len(c.cfg.Streams))
	for _, id := range slices.Sorted(maps.Keys(c.cfg.Streams)) {
		all = append(all, streamJSON{id, c.cfg.Streams[id].Control.Status(ctx)})
	}
	return writeJSON(w, http.StatusOK, jsonType, streamsJSON{append([]string{}, c.cfg.Modes...), all, c.cfg.Pauses.Others()})
}

// pause holds a stream back; resume lets it go on. Both are fine twice.
func (c controls) pause(w http.ResponseWriter, r *http.Request) error {
	return c.hold(w, r, holding{verb: "pause", done: "paused", here: func(s Control) { s.Pause(who(r)) }, app: func(id string) error {
		return c.cfg.Pauses.Pause(r.Context(), id, who(r))
	}})
}

func (c controls) resume(w http.ResponseWriter, r *http.Request) error {
	return c.hold(w, r, holding{verb: "resume", done: "resumed", here: Control.Resume, app: func(id string) error {
		was, err := c.cfg.Pauses.Resume(r.Context(), id)
		// What no process here has may be left of a release that had it.
		if _, known := c.cfg.Streams[id]; err == nil && !was && !known {
			return &problem{status: http.StatusNotFound, detail: c.unknownStream(id) + ", and no pause of the app has this name"}
		}
		return err
	}})
}

// holding is a pause or a resume, by its scope.
type holding struct {
	verb string // "pause"
	done string // "paused"
	here func(Control)
	app  func(id string) error
}

// pauseJSON is the answer to both. Scope says how far it reaches, and Paused whether the stream is
// held back in this process now, by whichever scope.
type pauseJSON struct {
	Message string `json:"message"`
	Stream  string `json:"stream"`
	Paused  bool   `json:"paused"`
	Scope   string `json:"scope"`
}

// hold pauses or resumes the stream of the path, and leaves an audit line.
func (c controls) hold(w http.ResponseWriter, r *http.Request, h holding) error {
	scope, err := c.scope(w, r)
	if err != nil {
		return err
	}
	id := r.PathValue("id")
	stream, known := c.cfg.Streams[id]
	where := "on this instance"
	switch {
	case !known && (scope == ScopeInstance || h.done == "paused"):
		return &problem{status: http.StatusNotFound, detail: c.unknownStream(id)}
	case scope == ScopeApp:
		where = "in all processes of the app"
		err = h.app(id)
	case slices.Equal(c.cfg.Modes, []string{"api"}):
		return &problem{status: http.StatusConflict, detail: "this process runs nothing of " + id + " that could be " + h.done + " (" + c.cfg.Setting("modes") +
			"=api): ask those that do, each of which must have api among its modes, too, or all of them at once (scope app)"}
	default:
		h.here(stream.Control)
	}
	if p, unknown := errors.AsType[*problem](err); unknown {
		return p
	}
	c.audit(r, tried(err, "audit: stream "+h.done, "audit: stream "+h.verb+" failed"), err, slog.String("stream", clip(id)), slog.String("scope", scope))
	if err != nil {
		return err
	}
	answer := pauseJSON{Message: id + " is " + h.done + " " + where, Stream: id, Scope: scope}
	if known {
		still := stream.Control.Pauses()
		if answer.Paused = len(still) > 0; h.done == "resumed" {
			answer.Message += remaining(id, still)
		}
	}
	return writeJSON(w, http.StatusOK, jsonType, answer)
}

// scope reads how far a pause is to reach.
func (c controls) scope(w http.ResponseWriter, r *http.Request) (string, error) {
	const name = "scope"
	given, err := c.arguments(w, r, []string{name}, nil)
	if err != nil {
		return "", err
	}
	switch scope, there := given[name]; {
	case !there:
		return ScopeInstance, nil
	case scope == ScopeInstance, scope == ScopeApp:
		return scope, nil
	default:
		return "", mistake("%s must be %s or %s, not %q", name, ScopeInstance, ScopeApp, clip(scope))
	}
}
