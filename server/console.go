package server

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/stepwell/stepwell/server/console"
)

// newConsole makes the console, which asks the routes of /v1 in its own process.
func (s *Server) newConsole() (*console.Console, error) {
	c := console.Config{
		API: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }),
		App: s.cfg.App, Everybody: s.userOf(everybody(""), ""), Enter: s.entering, EditLimit: s.cfg.EditLimit, Trash: s.cfg.Trash, Setting: s.cfg.Setting, Stopping: s.gate.closing, Work: s.gate.work, Logger: s.cfg.Logger,
	}
	for _, t := range s.cfg.Tokens {
		c.Users = append(c.Users, s.userOf(caller{name: t.Name, role: t.Role}, t.Secret))
	}
	return console.New(c)
}

// userOf is somebody as the console knows them.
func (s *Server) userOf(c caller, token string) console.User {
	return console.User{Name: c.name, Token: token, Acts: c.role.has(Operator), Reads: c.role.has(s.cfg.Values)}
}

// entering is a request of the console as one of the user's, whose session it shows.
func (s *Server) entering(r *http.Request, u console.User) (*http.Request, error) {
	by := caller{u.Name, Viewer, bySession}
	if u.Acts {
		by.role = Operator
	}
	by, err := s.guard.named(r, by)
	if err != nil {
		return nil, err
	}
	return by.with(r), nil
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
		s.console.Refuse(w, r, told.status, told.detail)
		return nil
	}
	// A form is read within the time for bodies. After that the deadline would cancel what takes
	// long, as it does for /v1.
	limit, setting := s.console.FormLimit(r, s.cfg.BodyLimit)
	r.Body = http.MaxBytesReader(w, r.Body, limit)
	err = r.ParseForm()
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		s.console.Refuse(w, r, http.StatusRequestEntityTooLarge, fmt.Sprintf("the form is too large, and nothing was done: it may have %d bytes (%s). Go back, and what you typed is still there", limit, s.cfg.Setting(setting)))
		return nil
	}
	if err != nil {
		s.console.Refuse(w, r, http.StatusBadRequest, "the form cannot be read")
		return nil
	}
	if err := readUntil(w, time.Time{}); err != nil {
		return err
	}
	// Who has to show a token is nobody until the console has found a session of theirs.
	if by.right != byToken {
		r = by.with(r)
	}
	s.console.ServeHTTP(w, r)
	return nil
}
