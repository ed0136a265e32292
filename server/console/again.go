package console

import (
	"net/http"
	"net/url"
)

// This file has the way back from whatever was refused: a page comes again with what was typed and
// what is wrong with it, and the page of an error leads to where somebody was.

// asked begins what a form asks for. What was confirmed and is refused is asked again, by a new
// look, with what was typed.
func (c acts) asked(w http.ResponseWriter, r *http.Request) error {
	err := c.ask(w, r)
	refused, is := asRefusal(err)
	// Beside an operation nobody knows that nothing was done.
	if !is || refused.Operation != "" || refused.Status >= http.StatusInternalServerError || r.PostForm.Get("action") == "sort" {
		return err
	}
	at, wrong := choose(r.PostForm)
	if wrong != nil {
		return err
	}
	q, wrong := c.question(r, at, r.PostForm)
	if wrong != nil {
		return err
	}
	if refused.retryAfter != "" {
		w.Header().Set("Retry-After", refused.retryAfter)
	}
	q.Wrong = refused.Detail
	return c.put(w, r, refused.Status, q)
}

// put shows the page that asks.
func (c acts) put(w http.ResponseWriter, r *http.Request, status int, q question) error {
	here, err := c.api.unfinishedOf(r, q.At)
	if err != nil {
		return err
	}
	return c.show(w, r, status, "confirm", sheet{Title: q.Action + " of " + q.At.Who(), Section: "confirm", At: q.At, Here: here, Of: q})
}

// take fills the fields with what was typed into them; one that was emptied stays so.
func (q *question) take(given url.Values) {
	for name, field := range map[string]*string{"rate": &q.Rate, "canary": &q.Canary, "stop_at": &q.StopAt, "note": &q.Note} {
		if given.Has(name) {
			*field = given.Get(name)
		}
	}
	q.CrashLoop = given.Get("include_crash_loop") == "true"
}

// failure is what a page of an error shows.
type failure struct {
	Title, Text string
	Away        bool   // the queues are
	Operation   string // whose page says more; empty: none
	// Back is the page that somebody was on, Login where they log in before anything else; empty:
	// not known, and they need not.
	Back, Login string
}

// fail shows an error. What is no refusal is our own fault, and only the log has it.
func (c *Console) fail(w http.ResponseWriter, r *http.Request, err error) {
	refused, is := asRefusal(err)
	if !is {
		c.cfg.Logger.Error("console: a page went wrong", "error", err)
		refused = &refusal{Status: http.StatusInternalServerError, Detail: "something went wrong inside; the log says what"}
	}
	if refused.retryAfter != "" {
		w.Header().Set("Retry-After", refused.retryAfter)
	}
	c.refuse(w, r, refused)
}

// Refuse answers with a page that says why there is no other.
func (c *Console) Refuse(w http.ResponseWriter, r *http.Request, status int, why string) {
	c.refuse(w, r, &refusal{Status: status, Detail: why})
}

func (c *Console) refuse(w http.ResponseWriter, r *http.Request, no *refusal) {
	protect(w.Header())
	title := http.StatusText(no.Status)
	// Beside an operation nobody knows that nothing was done.
	away := no.Status == http.StatusServiceUnavailable && no.Operation == ""
	of := failure{Title: title, Text: no.Detail, Away: away, Operation: no.Operation, Back: back(r)}
	if no.Status == http.StatusUnauthorized {
		of.Login = loginURL(of.Back)
	}
	if err := c.show(w, r, no.Status, "error", sheet{Title: title, Of: of}); err != nil {
		c.cfg.Logger.Error("console: a page went wrong", "error", err)
		send(w, no.Status, "text/plain; charset=utf-8", []byte(no.Detail+"\n"))
	}
}

// back is the page on which somebody was who sent r, as its form says, and else the browser; empty:
// nobody knows.
func back(r *http.Request) string {
	if r.Method == http.MethodPost {
		if to := formerly(r.URL.Path, r.PostForm); to != "" {
			return to
		}
	}
	from, err := url.Parse(r.Referer())
	if err != nil || from.Host != r.Host || from.Path == "/console/login" {
		return ""
	}
	// A page that was posted is none that can be got: these have a query, but for two.
	to := from.RequestURI()
	if next(to) == to && (from.RawQuery != "" || to == "/console/" || to == "/console/operations") {
		return to
	}
	return ""
}

// formerly is the page that had a form, with what was typed where its URL can have that; empty: the
// form does not say.
func formerly(path string, form url.Values) string {
	at, err := choose(form)
	id := form.Get("id")
	switch {
	case err != nil:
	case path == "/console/operation" && id != "":
		return "/console/operation?" + url.Values{"id": {id}}.Encode()
	case path == "/console/edit" && id != "":
		return at.Set("edit", "id", id)
	case path == "/console/operations" && form.Get("action") == "sort":
		return at.Set("groups")
	case path == "/console/operations" && at.Stream != "":
		var typed []string
		for _, name := range []string{"action", "beyond", "forever", "rate", "canary", "stop_at", "note"} {
			typed = append(typed, name, form.Get(name))
		}
		return at.To("confirm", typed...)
	}
	return ""
}
