package server

import (
	"context"
	"net/http"
	"time"

	"github.com/stepwell/stepwell/server/console"
)

// newConsole makes the console, which asks the routes of /v1 in its own process.
func (s *Server) newConsole() (*console.Console, error) {
	return console.New(console.Config{
		API: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }),
		App: s.cfg.App, Token: s.cfg.Token, Stopping: s.gate.closing, Logger: s.cfg.Logger,
	})
}

// visit lets a person into the console. Host, origin and the right are the guard's; where that is
// the token, the console asks for it before it asks /v1 anything.
func (s *Server) visit(w http.ResponseWriter, r *http.Request) error {
	if s.cfg.NoAPI != "" {
		return &problem{status: http.StatusNotFound, detail: s.cfg.NoAPI}
	}
	by, err := s.guard.approach(r)
	if err != nil {
		told := problemOf(s.cfg.Logger, r, err)
		s.console.Refuse(w, told.status, told.detail)
		return nil
	}
	// A form is read within the time for bodies. After that the deadline would cancel what takes
	// long, as it does for /v1.
	r.Body = http.MaxBytesReader(w, r.Body, s.cfg.BodyLimit)
	if err := r.ParseForm(); err != nil {
		s.console.Refuse(w, http.StatusBadRequest, "the form cannot be read, or is too large")
		return nil
	}
	if err := readUntil(w, time.Time{}); err != nil {
		return err
	}
	s.console.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), whoKey{}, by)))
	return nil
}
