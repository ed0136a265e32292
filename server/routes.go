package server

import (
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/labstack/echo/v4"
)

// This file is the only one that knows echo.

// endpoint answers a request, or returns the error to answer with.
type endpoint func(w http.ResponseWriter, r *http.Request) error

type route struct {
	method, path string
	serve        endpoint
}

// routes are all of the server's own. A GET answers HEAD too.
func (s *Server) routes() []route {
	// The gate before the guard: while the actor starts or stops, 503 is the answer to everybody.
	// Walks have no time for the answer, since a replay takes as long as it takes.
	api := func(e endpoint) endpoint { return s.gated(s.guarded(s.timely(e))) }
	long := func(e endpoint) endpoint { return s.gated(s.guarded(e)) }
	ask := requests{&s.cfg}
	dead, streams, ops := deadSets{ask}, controls{ask}, wishes{ask}
	all := []route{
		{http.MethodGet, "/ping", s.timely(ping)},
		{http.MethodGet, "/livez", s.timely(live)},
		{http.MethodGet, "/readyz", s.timely(s.ready)},
		{http.MethodGet, "/metrics", s.timely(s.metrics)},
		{http.MethodGet, "/openapi.json", s.gated(s.timely(description))},
		{http.MethodGet, "/v1/dead_set", api(dead.look)},
		{http.MethodGet, "/v1/dead_set/groups", api(dead.groups)},
		{http.MethodGet, "/v1/dead_set/export", api(dead.export)},
		{http.MethodGet, "/v1/dead_set/trash", api(dead.trash)},
		{http.MethodGet, "/v1/dead_set/messages/:id", api(dead.message)},
		{http.MethodPost, "/v1/dead_set/messages/:id/edit", api(ops.edit)},
		{http.MethodPost, "/v1/dead_set/replay", long(dead.replay)},
		{http.MethodDelete, "/v1/dead_set", long(dead.remove)},
		{http.MethodPost, "/v1/dead_set/operations", api(ops.ask)},
		{http.MethodGet, "/v1/dead_set/operations", api(ops.list)},
		{http.MethodGet, "/v1/dead_set/operations/:id", api(ops.bare(ops.show))},
		{http.MethodPatch, "/v1/dead_set/operations/:id", api(ops.change)},
		{http.MethodGet, "/v1/streams", api(ask.bare(streams.listStreams))},
		{http.MethodPost, "/v1/streams/:id/pause", api(streams.pause)},
		{http.MethodPost, "/v1/streams/:id/resume", api(streams.resume)},
	}
	if s.console != nil {
		for _, path := range []string{"/console", "/console/*"} {
			all = append(all, route{http.MethodGet, path, s.gated(s.timely(s.visit))}, route{http.MethodPost, path, s.gated(s.timely(s.visit))})
		}
	}
	return all
}

// timely bounds the time for the answer.
func (s *Server) timely(next endpoint) endpoint {
	return func(w http.ResponseWriter, r *http.Request) error {
		writeWithin(w, s.cfg.WriteTimeout)
		return next(w, r)
	}
}

func writeWithin(w http.ResponseWriter, d time.Duration) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(d)) // what has no deadlines is no connection
}

func (s *Server) router() http.Handler {
	e := echo.New()
	e.IPExtractor = echo.ExtractIPDirect() // headers such as X-Forwarded-For are for anyone to write
	e.HTTPErrorHandler = s.answerError
	e.Use(s.recovered, s.others)
	for _, r := range s.routes() {
		e.Add(r.method, r.path, adapt(r.serve))
		if r.method == http.MethodGet {
			e.Add(http.MethodHead, r.path, adapt(r.serve))
		}
	}
	return e
}

// adapt makes an endpoint a handler of echo.
func adapt(serve endpoint) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		for _, name := range c.ParamNames() {
			r.SetPathValue(name, c.Param(name))
		}
		return serve(c.Response(), r)
	}
}

// others gives what matches no path of ours to the user's handler.
func (s *Server) others(next echo.HandlerFunc) echo.HandlerFunc {
	user := s.gated(func(w http.ResponseWriter, r *http.Request) error {
		if s.cfg.User == nil {
			return echo.ErrNotFound
		}
		if s.cfg.GuardUser {
			by, err := s.guard.admit(r)
			if err == nil {
				err = by.may(r)
			}
			if err != nil {
				return err
			}
		}
		if err := readUntil(w, time.Time{}); err != nil {
			return err
		}
		s.cfg.User.ServeHTTP(w, r)
		return nil
	})
	return func(c echo.Context) error {
		if err := readUntil(c.Response(), time.Now().Add(s.cfg.ReadTimeout)); err != nil {
			return err
		}
		// echo knows the route, so that the path is the server's own.
		if c.Path() != "" {
			return next(c)
		}
		return user(c.Response(), c.Request())
	}
}

// readUntil sets the deadline for reading the body; the zero time takes it back. A body that nobody
// wants is read too, by net/http, and must have an end as well.
func readUntil(w http.ResponseWriter, deadline time.Time) error {
	if err := http.NewResponseController(w).SetReadDeadline(deadline); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("set the deadline for reading: %w", err)
	}
	return nil
}

// answerError answers with what a handler returned instead of an answer.
func (s *Server) answerError(err error, c echo.Context) {
	// Something was sent already: an error behind it would spoil it.
	if c.Response().Committed {
		return
	}
	if he, ok := errors.AsType[*echo.HTTPError](err); ok {
		err = &problem{status: he.Code, detail: fmt.Sprintf("%s %s: %s", c.Request().Method, clip(c.Request().URL.Path), http.StatusText(he.Code))}
	}
	if err := problemOf(s.cfg.Logger, c.Request(), err).write(c.Response()); err != nil {
		s.cfg.Logger.Error("HTTP answer could not be encoded", "error", err)
	}
}

// recovered makes an error of a panic, and keeps its stack in the log. It is our own, since echo's
// package of middleware brings modules along that nothing here needs.
func (s *Server) recovered(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		defer func() {
			switch p := recover(); p {
			case nil:
			case http.ErrAbortHandler:
				panic(p) // the handler asks to cut the connection
			default:
				s.cfg.Logger.Error("HTTP handler panicked", "method", c.Request().Method, "path", c.Request().URL.Path,
					"panic", fmt.Sprint(p), "stack", string(debug.Stack()))
				err = &problem{status: http.StatusInternalServerError, detail: somethingWrong}
			}
		}()
		return next(c)
	}
}
