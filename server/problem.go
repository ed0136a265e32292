package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/stepwell/stepwell/internal/operations"
)

// problem is an answer that is an error: RFC 9457, with the text once more as "error" for scripts
// that look there.
type problem struct {
	status     int
	detail     string
	retryAfter int     // seconds; 0: no such header
	result     *result // of a walk that stopped half way
	operation  string  // that stands in the way
	unknown    string  // the parameter that the call does not know; empty: it is something else
}

// Error is what the client reads.
func (p *problem) Error() string { return p.detail }

// somethingWrong is all that a client is told of what is our own fault.
const somethingWrong = "something went wrong inside; the log says what"

// problemJSON is the form of a problem on the wire.
type problemJSON struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Error  string `json:"error"`
	// Operation is the id of the one that runs on the dead set, where that is why.
	Operation string `json:"operation,omitempty"`
	*result
}

// problemOf says what the client is told about err. What is neither the client's fault nor expected
// is logged in full, and the client is told only that it happened: its text may name hosts and
// queues.
func problemOf(log *slog.Logger, r *http.Request, err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	switch {
	case errors.Is(err, ErrBusy):
		return &problem{status: http.StatusConflict, detail: ErrBusy.Error(), retryAfter: 1}
	case errors.Is(err, ErrNoTrash):
		return &problem{status: http.StatusServiceUnavailable, detail: err.Error() + ". With forever=true what is deleted is gone for good"}
	case errors.Is(err, ErrHalfEdited): // no Retry-After: somebody has to look first
		return &problem{status: http.StatusServiceUnavailable, detail: err.Error()}
	case errors.Is(err, ErrUnavailable):
		return &problem{status: http.StatusServiceUnavailable, detail: err.Error(), retryAfter: 5}
	case errors.Is(err, ErrNotFound), errors.Is(err, ErrRetryOff):
		return &problem{status: http.StatusNotFound, detail: err.Error()}
	case errors.Is(err, ErrMoved):
		return &problem{status: http.StatusGone, detail: ErrMoved.Error()}
	case errors.Is(err, ErrTooLarge), errors.Is(err, operations.ErrLarge):
		return &problem{status: http.StatusRequestEntityTooLarge, detail: err.Error()}
	case errors.Is(err, ErrNoEdit), errors.Is(err, ErrReplayOff), errors.Is(err, ErrOthers), errors.Is(err, ErrNoPages), errors.Is(err, ErrNotShared):
		return &problem{status: http.StatusConflict, detail: err.Error()}
	case errors.Is(err, operations.ErrUnknown):
		return &problem{status: http.StatusNotFound, detail: operations.ErrUnknown.Error()}
	case errors.Is(err, operations.ErrOver), errors.Is(err, operations.ErrForeign), errors.Is(err, operations.ErrOtherWish):
		var other operations.OtherWish
		_ = errors.As(err, &other)
		return &problem{status: http.StatusConflict, detail: err.Error(), operation: other.ID}
	case errors.Is(err, operations.ErrFull), errors.Is(err, operations.ErrAway), errors.Is(err, operations.ErrClosed):
		return &problem{status: http.StatusServiceUnavailable, detail: err.Error(), retryAfter: 5}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &problem{status: http.StatusServiceUnavailable, detail: "the request was cancelled or took too long", retryAfter: 5}
	}
	log.Error("HTTP request went wrong", "method", r.Method, "path", r.URL.Path, "error", err)
	if errors.Is(err, ErrRefused) {
		return &problem{status: http.StatusInternalServerError, detail: err.Error()}
	}
	return &problem{status: http.StatusInternalServerError, detail: somethingWrong}
}

func (p *problem) write(w http.ResponseWriter) error {
	if p.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(p.retryAfter))
	}
	if p.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="stepwell"`)
	}
	return writeJSON(w, p.status, "application/problem+json", problemJSON{
		Type: "about:blank", Title: http.StatusText(p.status), Status: p.status, Detail: p.detail, Error: p.detail, Operation: p.operation, result: p.result,
	})
}

// writeJSON writes nothing when v cannot be encoded, so that the caller can still answer with an
// error.
func writeJSON(w http.ResponseWriter, status int, contentType string, v any) error {
	var body bytes.Buffer
	e := json.NewEncoder(&body)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	return write(w, status, contentType, body.Bytes())
}

// write sends a whole answer. Dead messages are data of users: nobody is to keep them, or to guess
// that they are a web page.
func write(w http.ResponseWriter, status int, contentType string, body []byte) error {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body) // an error means that the client is gone
	return nil
}
