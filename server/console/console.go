// Package console is the web page of an actor: its streams, its dead sets by cause
// and message by message, and the operations on them.
//
// It is a client of /v1, in the same process: each page is made of answers of /v1,
// and each form becomes one request to it. So it shows and does nothing that curl
// could not, and what /v1 refuses, counts or writes into its log is the same whoever
// asks. The way of a request:
//
//	console.go   headers, who may enter, which page
//	session.go   logging in
//	choice.go    what the URL says: which dead set, which messages
//	streams.go, deadset.go, message.go, operations.go   a page each
//	acting.go    asking before something is replayed or deleted, and doing it
//	sure.go      asking before a sort, and before a pause in all processes
//	filter.go    the form of a filter
//	again.go     a way back from whatever was refused
//	unfinished.go, undo.go   operations that are not over, and what an undo takes back
//	edit.go, part.go   a form for one message, the difference, and the edit
//	events.go    numbers that change while a page is open
//	api.go       a request to /v1
//
// The pages are templates in the directory pages, beside one stylesheet and one
// script. All of them work without the script.
//
// What is shown was written by strangers: keys, headers, errors and values are those
// of records, and names and notes those of people. So four things hold everywhere,
// and tests look at each page for them:
//
//   - Values reach a page by html/template alone, or by the script as the text of an element. None
//     is ever made a part of a template, of an attribute that runs, or of a URL's scheme or host.
//   - Nothing changes by GET. What is posted has an origin, which is the console's own.
//   - Who has no session sees the login, the stylesheet, the script and the icon.
//   - Nothing chosen is an error, and never everything.
package console

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"strconv"
	"time"
)

//go:embed pages
var files embed.FS

// Config is what a console shows, and to whom.
type Config struct {
	// API serves /v1. The console's requests to it have the context of the request
	// that it answers with them, and its address.
	API http.Handler
	// App names the actor, on pages and in the name of the cookie.
	App string
	// Users are those who may log in. None: whoever reaches the console may use it, as Everybody.
	Users     []User
	Everybody User
	// Enter is the request as one of the user's, whose session it shows; its error is for them to
	// read. It is not called where there are no Users.
	Enter func(*http.Request, User) (*http.Request, error)
	// EditLimit is how many bytes the form of an edit may have; 0: nobody may edit anything.
	EditLimit int64
	// Trash is for how long what is deleted is kept; 0: there is no trash.
	Trash time.Duration
	// Setting is how users call a setting, by its key, say "server.token". Nil: by that.
	Setting func(key string) string
	// Stopping ends when the actor stops: pages that are kept up to date end then. Work ends when
	// requests have to, and nothing goes on for whoever has left.
	Stopping, Work context.Context
	// Logger receives audit lines of logins, and what went wrong inside.
	Logger *slog.Logger
}

// Console serves every path from /console on. Whoever calls it has looked at the
// request's Host and origin before.
type Console struct {
	cfg    Config
	pages  *template.Template
	routes *http.ServeMux
	api    v1
	door   door
	live   live
}

// New makes a console.
func New(cfg Config) (*Console, error) {
	if cfg.Setting == nil {
		cfg.Setting = func(key string) string { return key }
	}
	c := &Console{cfg: cfg, routes: http.NewServeMux(), api: v1{cfg.API}, door: door{app: cfg.App, users: cfg.Users, everybody: cfg.Everybody}}
	c.live.api = c.api
	var err error
	if c.pages, err = template.New("").Funcs(functions(cfg.Setting)).ParseFS(files, "pages/*.html"); err != nil {
		return nil, fmt.Errorf("pages of the console: %w", err)
	}
	for pattern, serve := range c.table() {
		c.routes.Handle(pattern, c.answering(serve))
	}
	c.routes.Handle("GET /console/", c.answering(nowhere))
	return c, nil
}

// page answers a request, or returns the error to show instead: a refusal in its own
// words, which are for whoever asks, anything else as our own fault, whose words are
// for the log.
type page func(w http.ResponseWriter, r *http.Request) error

// table is all that there is. Only what is posted changes anything. A URL has the whole of
// what its page shows, so that it can be passed on in the night:
//
//	/console/groups    stream, channel, and the parameters of a filter, as /v1 calls them
//	/console/messages  the same, and cursor, behind which the list goes on
//	/console/trash     as messages, and operation: what that has deleted
//	/console/message   stream, channel, id, and view: json, raw or hex
//	/console/edit      stream, channel, id
//	/console/save      stream, channel, id, and part: key or value
//	/console/export    as groups
//	/console/operations  stream, state
//	/console/operation   id
//	/console/events      id, of an operation that is told of however old it is
//	/console/confirm   action, stream, channel, and what is meant: pick, again and again, or
//	                   the parameters of a filter, or all=true; beyond=true for what lies
//	                   behind the messages of a look; operation for what a restore is about, and
//	                   forever=true for a delete that does not go to the trash; and rate, canary,
//	                   stop_at and note, which are in their fields; of a sort the dead set alone
//	/console/hold      stream, which is to be paused in all processes
//
// A form has the same names, and what its page knew when it was made. That of an edit has value,
// key and headers, of which each is left out that is to stay, value_null, key_null and note. The
// page of the difference sends these as=base64, with was, which tells what it had shown, and do:
// edit, or type to change it further.
func (c *Console) table() map[string]page {
	return map[string]page{
		"GET /console":             home,
		"GET /console/{$}":         c.streams,
		"GET /console/groups":      c.groups,
		"GET /console/messages":    c.list("messages", "/v1/dead_set"),
		"GET /console/trash":       c.list("trash", "/v1/dead_set/trash"),
		"GET /console/message":     c.message,
		"GET /console/edit":        edits{c}.form,
		"GET /console/save":        c.api.save,
		"GET /console/export":      c.api.export,
		"GET /console/operations":  c.operations,
		"GET /console/operation":   c.operation,
		"GET /console/confirm":     acts{c}.confirm,
		"GET /console/hold":        acts{c}.hold,
		"GET /console/events":      c.events,
		"GET /console/login":       c.loginForm,
		"GET /console/console.css": file("console.css", "text/css; charset=utf-8"),
		"GET /console/console.js":  file("console.js", "text/javascript; charset=utf-8"),
		"GET /console/icon.svg":    file("icon.svg", "image/svg+xml"),
		"POST /console/edit":       edits{c}.asked,
		"POST /console/streams":    c.holdStream,
		"POST /console/operations": acts{c}.asked,
		"POST /console/operation":  c.api.change,
		"POST /console/login":      c.login,
		"POST /console/logout":     c.logout,
	}
}

// open says of a path that it is for everybody: what a person needs to log in.
func open(path string) bool {
	switch path {
	case "/console/login", "/console/console.css", "/console/console.js", "/console/icon.svg":
		return true
	}
	return false
}

// ServeHTTP is the only way in.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	protect(w.Header())
	user := c.door.entered(r)
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead && fromNowhere(r):
		// Host and origin were looked at, where there is one; a browser always sends one.
		c.Refuse(w, r, http.StatusForbidden, "a form must say where it comes from (Origin or Sec-Fetch-Site): scripts use /v1")
	case user != nil:
		c.serve(w, r, *user)
	case !open(r.URL.Path):
		c.toLogin(w, r)
	default:
		c.routes.ServeHTTP(w, r)
	}
}

// serve serves a user. What they may do is for /v1 to say, which is asked in their name: pages only
// leave out what would be refused.
func (c *Console) serve(w http.ResponseWriter, r *http.Request, u User) {
	if len(c.cfg.Users) > 0 {
		theirs, err := c.cfg.Enter(r, u)
		if err != nil {
			c.Refuse(w, r, http.StatusBadRequest, err.Error())
			return
		}
		r = theirs
	}
	c.routes.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, u)))
}

// userKey is the key of a request's context under which its user is left.
type userKey struct{}

// userOf is who sent a request; the zero value where it is nobody's.
func userOf(r *http.Request) User {
	u, _ := r.Context().Value(userKey{}).(User)
	return u
}

// protect sets what every answer has. Nothing of another origin is loaded, nothing is
// written into a page that could run, no page is shown within another, and nothing is
// kept.
func protect(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "+
		"form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	// Not no-referrer: with that browsers say "Origin: null" of the console's own
	// forms, and without TLS nothing else that would tell them from others'.
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// fromNowhere says that nothing tells where a form was, which no browser of today sends.
func fromNowhere(r *http.Request) bool {
	return r.Header.Get("Origin") == "" && r.Header.Get("Sec-Fetch-Site") == ""
}

// answering makes a page a handler: its error becomes a page, too.
func (c *Console) answering(serve page) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Nothing was sent by then, or all was: pages are made whole, and files are
		// /v1's to answer.
		if err := serve(w, r); err != nil {
			c.fail(w, r, err)
		}
	})
}

// sheet is what every page knows beside what it shows.
type sheet struct {
	App, Title string
	// Section is the part of the console that the page belongs to, for its navigation.
	Section string
	// In says that they may: who has to log in first is offered nothing else.
	In bool
	// By is who looks at the page, where there is a session, which they could end; what they may is
	// as for a [User], and whether they may edit.
	By                 string
	Acts, Reads, Edits bool
	// Live is the URL that keeps numbers up to date while the page is open; empty: they stay.
	Live string
	// At is the dead set that the page is about, and what was chosen of it; zero: none.
	At choice
	// Here are the operations on that dead set that are not over.
	Here unfinished
	// Of is what the page shows, of a type of its own.
	Of any
}

// show writes a page. It is made before anything is sent, so that half a page is none.
func (c *Console) show(w http.ResponseWriter, r *http.Request, status int, name string, s sheet) error {
	u := userOf(r)
	s.In = len(c.cfg.Users) == 0 || u != User{}
	s.App, s.By, s.Acts, s.Reads, s.Edits = c.cfg.App, u.Name, u.Acts, u.Reads, c.mayEdit(u)
	var body bytes.Buffer
	if err := c.pages.ExecuteTemplate(&body, name+".html", s); err != nil {
		return fmt.Errorf("make page %s: %w", name, err)
	}
	send(w, status, "text/html; charset=utf-8", body.Bytes())
	return nil
}

// showSet writes a page about the dead set that a sheet names, with the operations on it that are
// not over: what one of them takes the others, and what is asked for here, do not find.
func (c *Console) showSet(w http.ResponseWriter, r *http.Request, name string, s sheet) (err error) {
	if s.Here, err = c.api.unfinishedOf(r, s.At); err != nil {
		return err
	}
	return c.show(w, r, http.StatusOK, name, s)
}

// send writes a whole answer. The time for it begins anew: the look that the page shows may
// have used up the first.
func send(w http.ResponseWriter, status int, kind string, body []byte) {
	const most = time.Minute
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(most)) // what has no deadlines is no connection
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // an error means that the client is gone
}

// file serves a file as it is.
func file(name, kind string) page {
	return func(w http.ResponseWriter, _ *http.Request) error {
		body, err := files.ReadFile("pages/" + name)
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		send(w, http.StatusOK, kind, body)
		return nil
	}
}

// home is what somebody writes by hand.
func home(w http.ResponseWriter, r *http.Request) error { return see(w, r, "/console/") }

// nowhere is what has no page.
func nowhere(http.ResponseWriter, *http.Request) error {
	return refuse(http.StatusNotFound, "the console has no such page")
}

// see sends the browser to another page, which it gets.
func see(w http.ResponseWriter, r *http.Request, to string) error {
	http.Redirect(w, r, to, http.StatusSeeOther)
	return nil
}
