package server

import (
	"context"
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
	return writeJSON(w, http.StatusOK, jsonType, streamsJSON{append([]string{}, c.cfg.Modes...), all})
}

// pause holds a stream of this process back; resume lets it go on. Both are fine twice.
func (c controls) pause(w http.ResponseWriter, r *http.Request) error {
	return c.hold(w, r, "paused", true, Control.Pause)
}

func (c controls) resume(w http.ResponseWriter, r *http.Request) error {
	return c.hold(w, r, "resumed", false, Control.Resume)
}

// pauseJSON is the answer to both. Scope says how far it reaches: this process alone.
type pauseJSON struct {
	Message string `json:"message"`
	Stream  string `json:"stream"`
	Paused  bool   `json:"paused"`
	Scope   string `json:"scope"`
}

// hold pauses or resumes the stream of the path, in this process, and leaves an audit line.
func (c controls) hold(w http.ResponseWriter, r *http.Request, done string, paused bool, do func(Control)) error {
	id := r.PathValue("id")
	stream, known := c.cfg.Streams[id]
	if !known {
		return &problem{status: http.StatusNotFound, detail: c.unknownStream(id)}
	}
	if slices.Equal(c.cfg.Modes, []string{"api"}) {
		return &problem{status: http.StatusConflict, detail: "this process runs nothing of " + id + " that could be " + done + " (" + c.cfg.Setting("modes") +
			"=api): ask those that do, each of which must have api among its modes, too"}
	}
	do(stream.Control)
	c.audit(r, "audit: stream "+done, nil, slog.String("stream", id))
	return writeJSON(w, http.StatusOK, jsonType, pauseJSON{
		Message: id + " is " + done + " on this instance", Stream: id, Paused: paused, Scope: "instance",
	})
}
