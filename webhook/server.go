package webhook

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Server accepts calls over HTTP: it is an actor's App.HTTP, with App.Guard, so that whoever may
// not use /v1 may not have calls made either.
//
// It takes POST /calls and DELETE /calls/{id}, the REST retrier's POST /retry and /retry_workflow,
// lists workflows at GET /retry_workflow and removes one with DELETE /retry_workflow/{name}, and
// describes itself at GET /calls/openapi.json. It is safe for concurrent use.
type Server struct {
	handler *Handler
	// routes are by path, then method, and do not change.
	routes map[string]map[string]endpoint
	// readTimeout is how long a client may take for a body.
	readTimeout time.Duration
}

// endpoint answers a request, or returns the error to answer with.
type endpoint func(w http.ResponseWriter, r *http.Request) error

const (
	// acceptTimeout is how long a call waits for its confirm: for what is younger than that the
	// broker may be choosing a new leader, or be away for a moment.
	acceptTimeout = 30 * time.Second
	// writeTimeout is how long a client may take for an answer, beyond acceptTimeout.
	writeTimeout = 10 * time.Second
)

//go:embed openapi.json
var description []byte

// NewServer makes a server of the calls that h makes.
func NewServer(h *Handler) *Server {
	s := &Server{handler: h, readTimeout: 10 * time.Second}
	s.routes = map[string]map[string]endpoint{
		"/calls":                 {http.MethodPost: s.accept},
		"/calls/openapi.json":    {http.MethodGet: describe, http.MethodHead: describe},
		"/calls/{id}":            {http.MethodDelete: s.cancel},
		"/retry":                 {http.MethodPost: s.retry},
		"/retry_workflow":        {http.MethodPost: s.workflow, http.MethodGet: s.workflows, http.MethodHead: s.workflows},
		"/retry_workflow/{name}": {http.MethodDelete: s.deleteWorkflow},
	}
	return s
}

// ServeHTTP answers a request; each error is a problem+json of RFC 9457.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// The actor's server sets no limits of time for routes that are not its own.
	c, now := http.NewResponseController(w), time.Now()
	// Where there is no body, net/http watches the connection already, and the deadline would end
	// the contexts of this request and of all that come later on the connection.
	if r.Body != http.NoBody {
		_ = c.SetReadDeadline(now.Add(s.readTimeout)) // what has no deadlines is no connection
	}
	_ = c.SetWriteDeadline(now.Add(s.readTimeout + acceptTimeout + writeTimeout))
	if err := s.serve(w, r); err != nil {
		problemOf(err).write(w)
	}
}

// serve finds the route. Answers of net/http's own mux would be plain text.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) error {
	path := s.pattern(r)
	methods := s.routes[path]
	if methods == nil {
		return &problem{status: http.StatusNotFound, detail: "there is nothing at this path; calls are posted to /calls"}
	}
	serve := methods[r.Method]
	if serve == nil {
		allowed := strings.Join(slices.Sorted(maps.Keys(methods)), ", ")
		detail := fmt.Sprintf("%s is not for this path, which takes %s", clip(r.Method), allowed)
		if path == "/calls/{id}" {
			// Whoever asks for a call wants to know what became of it.
			id := r.PathValue("id")
			if len(id) > maxID {
				id = clip(id)
			}
			detail += fmt.Sprintf(" to cancel a call; one that is dead is at /v1/dead_set/messages/%s?stream=%s, and of others there is nothing to ask",
				url.PathEscape(id), url.QueryEscape(s.handler.cfg.Stream))
		}
		return &problem{status: http.StatusMethodNotAllowed, detail: detail, allow: allowed}
	}
	// Those of the REST retrier took any.
	if r.URL.RawQuery != "" && path != "/calls/openapi.json" && (r.Method != http.MethodPost || path == "/calls") {
		return &problem{status: http.StatusBadRequest, detail: r.Method + " " + path + " takes no query parameters"}
	}
	return serve(w, r)
}

// pattern is the key of routes for a request; what stands in braces is then the request's.
func (s *Server) pattern(r *http.Request) string {
	path := r.URL.Path
	if s.routes[path] != nil && (path != "/calls/openapi.json" || r.Method != http.MethodDelete) { // an id may be that, too
		return path
	}
	for before, name := range map[string]string{"/calls/": "id", "/retry_workflow/": "name"} {
		if value, ok := strings.CutPrefix(path, before); ok && value != "" {
			r.SetPathValue(name, value)
			return before + "{" + name + "}"
		}
	}
	return path
}

// describe answers GET /calls/openapi.json.
func describe(w http.ResponseWriter, _ *http.Request) error {
	return write(w, http.StatusOK, "application/json", description)
}

// accept answers POST /calls. A form of a web page is refused by its content-type.
func (s *Server) accept(w http.ResponseWriter, r *http.Request) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" && !strings.HasSuffix(kind, "+json") {
		return &problem{
			status: http.StatusUnsupportedMediaType,
			detail: fmt.Sprintf("the body must be JSON, with content-type: application/json, not %q", clip(r.Header.Get("Content-Type"))),
		}
	}
	body, err := s.body(w, r)
	if err != nil {
		return err
	}
	p := s.handler.parser()
	return s.store(w, r, p, p.call(r.Context(), body))
}

// retry answers POST /retry of the REST retrier, of any content-type, as that took them.
func (s *Server) retry(w http.ResponseWriter, r *http.Request) error {
	body, err := s.body(w, r)
	if err != nil {
		return err
	}
	p := s.handler.parser()
	return s.store(w, r, p, p.retry(r.Context(), body, r.Header.Get("X-Retry-Workflow")))
}

// receipt is the answer to a call that is stored.
type receipt struct {
	ID    string   `json:"id"`
	Notes []string `json:"notes,omitempty"`
}

// store enqueues a call and answers when that is confirmed: 202 before would be a promise that
// nobody keeps. What was not confirmed in time may be stored all the same, and the answer says so.
func (s *Server) store(w http.ResponseWriter, r *http.Request, p *parser, a accepted) error {
	if err := p.problem(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), acceptTimeout)
	defer cancel()
	switch err := s.handler.enqueue(ctx, a.call, a.after); {
	case s.handler.retired(err):
		return &problem{status: http.StatusGone, detail: err.Error()}
	case s.handler.tooLarge(err):
		return &problem{status: http.StatusRequestEntityTooLarge, detail: err.Error()}
	case s.handler.refused(err): // Stream is none that can be enqueued into
		return fmt.Errorf("as this program is made it takes nobody's calls: %w", err)
	case err != nil:
		return &problem{
			status: http.StatusServiceUnavailable, retryAfter: 5,
			detail: fmt.Sprintf("RabbitMQ has not confirmed the call %q, and perhaps stored it: send it again; a receiver knows one that is made twice by its webhook-id: %v", a.call.ID, err),
		}
	}
	return writeJSON(w, http.StatusAccepted, receipt{ID: a.call.ID, Notes: a.notes})
}

// cancel answers DELETE /calls/{id}. Whether there is such a call nobody can say: an id is
// cancelled, and calls that have it are left out from then on.
func (s *Server) cancel(w http.ResponseWriter, r *http.Request) error {
	p, id := s.handler.parser(), r.PathValue("id")
	quoted, err := json.Marshal(id)
	if err != nil {
		return fmt.Errorf("encode id: %w", err)
	}
	p.id("id", quoted)
	if err := p.problem(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), acceptTimeout)
	defer cancel()
	if err := s.handler.cfg.Records.Cancel(ctx, id); err != nil {
		return s.notStored(err)
	}
	return writeJSON(w, http.StatusOK, map[string]any{"id": id, "cancelled": true})
}

// body reads a request's body, within its limits of size and time.
func (s *Server) body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	limit := s.handler.cfg.BodyLimit
	tooLarge := &problem{status: http.StatusRequestEntityTooLarge, detail: fmt.Sprintf("the body is larger than %d bytes, the limit of this service", limit)}
	if e := r.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return nil, &problem{status: http.StatusUnsupportedMediaType, detail: "the body must not be compressed"}
	}
	if r.ContentLength > limit {
		return nil, tooLarge
	}
	body, whole, err := readAll(r.Body, limit)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, &problem{status: http.StatusRequestTimeout, detail: fmt.Sprintf("the body did not come within %s", s.readTimeout)}
	case err != nil:
		return nil, &problem{status: http.StatusBadRequest, detail: "the body could not be read to its end"}
	case !whole:
		return nil, tooLarge
	}
	// The deadline for reading would end the request's context while the confirm is waited for.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	return body, nil
}

// problem is an answer that is an error, in the form that the actor's own routes have.
type problem struct {
	status int
	detail string
	// errors are the mistakes one by one, where the body has some.
	errors []Mistake
	// retryAfter is in seconds; 0: no such header. allow is for 405.
	retryAfter int
	allow      string
}

// Error is what the client reads.
func (p *problem) Error() string { return p.detail }

// problem is what is wrong with what was posted; nil: nothing is. A mistake comes before what could
// not be looked up: the caller can do something about it now.
func (p *parser) problem() error {
	if len(p.mistakes) == 0 {
		if p.unknown != nil {
			return unavailable(p.unknown)
		}
		return nil
	}
	texts := make([]string, 0, len(p.mistakes))
	for _, m := range p.mistakes {
		texts = append(texts, strings.TrimSpace(m.Field+" "+m.Detail))
	}
	return &problem{status: http.StatusBadRequest, detail: strings.Join(texts, "; "), errors: p.mistakes}
}

// unavailable is the answer where records cannot be used. Their error says why: RabbitMQ is away,
// or their queue cannot be read.
func unavailable(err error) error {
	return &problem{status: http.StatusServiceUnavailable, detail: err.Error(), retryAfter: 5}
}

// notStored is the answer where a record was not stored: no other try helps, or one later may.
func (s *Server) notStored(err error) error {
	if errors.Is(err, errFixed) || errors.Is(err, ErrNoRecords) || s.handler.refused(err) {
		return &problem{status: http.StatusConflict, detail: err.Error()}
	}
	return unavailable(err)
}

// problemOf makes an answer of any error.
func problemOf(err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	return &problem{status: http.StatusInternalServerError, detail: err.Error()}
}

// write answers with the problem.
func (p *problem) write(w http.ResponseWriter) {
	if p.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(p.retryAfter))
	}
	if p.allow != "" {
		w.Header().Set("Allow", p.allow)
	}
	answer := struct {
		Type   string    `json:"type"`
		Title  string    `json:"title"`
		Status int       `json:"status"`
		Detail string    `json:"detail"`
		Error  string    `json:"error"`
		Errors []Mistake `json:"errors,omitempty"`
	}{"about:blank", http.StatusText(p.status), p.status, p.detail, p.detail, p.errors}
	body, err := encode(answer)
	if err != nil {
		body = []byte(`{"title":"the error could not be encoded"}`)
	}
	_ = write(w, p.status, "application/problem+json", body) // the client is gone, at worst
}

// writeJSON answers with v; nothing is sent where it cannot be encoded.
func writeJSON(w http.ResponseWriter, status int, v any) error {
	body, err := encode(v)
	if err != nil {
		return err
	}
	return write(w, status, "application/json", body)
}

// encode is v as JSON, in which <, > and & stay as they are: a person reads it.
func encode(v any) ([]byte, error) {
	var body bytes.Buffer
	e := json.NewEncoder(&body)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode answer: %w", err)
	}
	return body.Bytes(), nil
}

// write sends a whole answer, of which nobody is to guess that it is a web page.
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
