package server

import (
	"context"
	_ "embed" // for the API's description
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	jsonType = "application/json"
	textType = "text/plain; charset=utf-8"
)

// lookTimeout bounds one look at how the actor is doing.
const lookTimeout = 5 * time.Second

//go:embed openapi.json
var openAPI []byte

func ping(w http.ResponseWriter, _ *http.Request) error {
	return write(w, http.StatusOK, textType, []byte("pong\n"))
}

// live says that the process answers, and nothing of brokers: a restart would not mend those.
func live(w http.ResponseWriter, _ *http.Request) error {
	return write(w, http.StatusOK, textType, []byte("alive\n"))
}

// ready says whether the actor can do its work. What is missing is always named; ?verbose names
// what is well too.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), lookTimeout)
	defer cancel()
	checks := s.cfg.Health(ctx)
	switch s.gate.is() { //nolint:exhaustive // opened needs nothing here
	case starting:
		checks = append([]Check{{Name: "actor", Detail: "is starting"}}, checks...)
	case closed:
		checks = append([]Check{{Name: "actor", Detail: "is stopping"}}, checks...)
	}
	status, text := readiness(checks, verbose(r.URL.Query()))
	return write(w, status, textType, []byte(text))
}

// verbose says whether to name what is well, too: ?verbose, with whatever value but false.
func verbose(query url.Values) bool {
	is, err := strconv.ParseBool(query.Get("verbose"))
	return query.Has("verbose") && (err != nil || is)
}

// readiness is the answer for these checks: one line each, "+" well, "-" missing, "!" stuck.
func readiness(checks []Check, verbose bool) (status int, text string) {
	var lines strings.Builder
	status = http.StatusOK
	for _, c := range checks {
		mark := "[+] "
		switch {
		case !c.Ready:
			mark, status = "[-] ", http.StatusServiceUnavailable
		case !verbose:
			continue
		case c.Stuck:
			mark = "[!] "
		}
		lines.WriteString(mark + oneLine(c.Name))
		if c.Detail != "" {
			lines.WriteString(": " + oneLine(c.Detail))
		}
		lines.WriteByte('\n')
	}
	if status == http.StatusOK {
		return status, lines.String() + "ready\n"
	}
	return status, lines.String() + "not ready\n"
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// metrics serves what the actor measures.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) error {
	if s.cfg.Metrics == nil {
		return &problem{status: http.StatusNotFound, detail: "this actor has no metrics"}
	}
	// Without a token, but not for a web page that got here under a name of its own.
	if err := s.guard.local(r); err != nil {
		return err
	}
	s.cfg.Metrics.ServeHTTP(w, r)
	return nil
}

func description(w http.ResponseWriter, _ *http.Request) error {
	return write(w, http.StatusOK, jsonType, openAPI)
}
