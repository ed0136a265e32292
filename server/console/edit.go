package console

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// This file has one message edited, in three steps of which the last alone changes anything: a
// form, the difference, and /v1's edit. The form comes back filled from the difference and from
// whatever /v1 refuses, so that nothing typed is lost.
//
// A form does not keep text as it is: browsers send each end of a line as CR LF, and drop a line
// feed at the beginning of a field. So what comes back is compared with what a browser makes of the
// record's: what is the same was not changed, and is not sent. What no form keeps is not in it, see
// [part]. From the difference on all goes as base64, which no browser touches.

// mayEdit says whether pages offer an edit to a user; whether it is allowed /v1 says.
func (c *Console) mayEdit(u User) bool { return c.cfg.EditLimit > 0 && u.Acts && u.Reads }

// FormLimit is how many bytes the form of a request may have, and which setting says so: usual, but
// for what may be a whole message, of who may edit one.
func (c *Console) FormLimit(r *http.Request, usual int64) (limit int64, setting string) {
	if u := c.door.entered(r); r.URL.Path == "/console/edit" && u != nil && c.mayEdit(*u) {
		return c.cfg.EditLimit, "dead_set.edit_limit"
	}
	return usual, "server.body_limit"
}

// editing is an edit of one message so far.
type editing struct {
	message
	at choice
	// Parts are value, key and headers.
	Parts []*part
	Note  string
	// Wrong says why it goes no further; empty: nothing is wrong.
	Wrong string
	limit formLimit
}

// formLimit is how many bytes the form of an edit may have, and how users call the setting that
// says so.
type formLimit struct {
	bytes   int64
	setting string
}

// edits are the pages of an edit.
type edits struct{ *Console }

// form shows the form, with what the message has.
func (c edits) form(w http.ResponseWriter, r *http.Request) error {
	e, err := c.of(r, r.URL.Query())
	if err != nil {
		return err
	}
	return c.fill(w, r, http.StatusOK, e)
}

// asked takes a form of an edit. What was typed becomes a difference, which asks; what a difference
// has asked about is done, or typed once more. A difference is a page that is posted, since a value
// may be longer than a URL; it changes nothing.
func (c edits) asked(w http.ResponseWriter, r *http.Request) error {
	e, err := c.of(r, r.PostForm)
	if err != nil {
		return err
	}
	wrong := e.take(r.PostForm)
	changes := e.changes()
	switch do := r.PostForm.Get("do"); {
	case do == "type":
		return c.fill(w, r, http.StatusOK, e)
	case wrong == nil && len(changes) == 0:
		wrong = refuse(http.StatusUnprocessableEntity, "nothing was changed")
	case wrong == nil && do == "edit" && r.PostForm.Get("was") != e.digest():
		wrong = refuse(http.StatusConflict, "the message is not the one that this was about: look at the difference again")
	case wrong == nil && do == "edit":
		return c.do(w, r, e)
	}
	if wrong != nil {
		return c.again(w, r, e, wrong)
	}
	return c.show(w, r, http.StatusOK, "difference", sheet{Title: "edit of " + e.ID, Section: "messages", At: e.at, Of: struct {
		*editing
		Changes []change
	}{e, changes}})
}

// of reads what is to be edited, which a URL or a form names, as it is now.
func (c edits) of(r *http.Request, given url.Values) (*editing, error) {
	all, err := choose(given) // refuses what is given twice
	e := &editing{at: choice{Stream: all.Stream, Channel: all.Channel}, limit: formLimit{c.cfg.EditLimit, c.cfg.Setting("dead_set.edit_limit")}}
	switch id := given.Get("id"); {
	case err != nil:
		return e, err
	case id == "":
		return e, refuse(http.StatusBadRequest, "the id of the message is missing")
	default:
		e.ID = id
	}
	// Who may edit is /v1's to say, before anything is shown. To those it says that nothing is
	// given; any other mistake comes back below.
	if err := c.api.send(r, http.MethodPost, e.path()+"/edit", e.wish(), nil); err != nil {
		if refused, is := asRefusal(err); !is || refused.Status != http.StatusBadRequest {
			return e, err
		}
	}
	if err := c.api.get(r, e.path(), e.at.where(), &e.message); err != nil {
		return e, gone(err)
	}
	value, err := c.api.valuePart(r, e)
	e.Parts = []*part{value, e.keyPart(), e.headersPart()}
	return e, err
}

// path is the message's at /v1.
func (e *editing) path() string { return "/v1/dead_set/messages/" + url.PathEscape(e.ID) }

// take fills in what a form has. Its mistakes are told all at once, and what was typed stays in the
// fields beside them.
func (e *editing) take(form url.Values) error {
	var wrong []string
	read := func(name string) string {
		text := form.Get(name)
		if form.Get("as") == "base64" { // a difference carries it along so, which no browser touches
			b, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				wrong = append(wrong, name+" is not as this form had it")
			}
			text = string(b)
		}
		return lines(text)
	}
	e.Note = read("note")
	for _, p := range e.Parts {
		if !form.Has(p.Name) {
			continue // it is not in the form, and stays
		}
		if err := p.take(read(p.Name), form.Get(p.Name+"_null") == "true"); err != nil {
			wrong = append(wrong, err.Error())
		}
	}
	if len(wrong) > 0 {
		return refuse(http.StatusUnprocessableEntity, "%s", strings.Join(wrong, "; "))
	}
	// Said here, where the form is at hand: what is too large to come back is not read at all.
	if size := int64(len(e.Form().Encode())); size > e.limit.bytes {
		return refuse(http.StatusRequestEntityTooLarge, "this form would have %s bytes, and %s are allowed (%s): stepwell dead-set edit and /v1 need fewer for the same",
			number(size), number(e.limit.bytes), e.limit.setting)
	}
	return nil
}

// Form is what a difference carries along, in a form that comes back as it was.
func (e *editing) Form() url.Values {
	form := e.at.where()
	form.Set("id", e.ID)
	form.Set("as", "base64")
	form.Set("was", e.digest())
	encode := func(name, text string) { form.Set(name, base64.StdEncoding.EncodeToString([]byte(text))) }
	encode("note", e.Note)
	for _, p := range e.Parts {
		if p.Why != "" {
			continue
		}
		encode(p.Name, p.Text)
		if p.Null {
			form.Set(p.Name+"_null", "true")
		}
	}
	return form
}

// digest tells what the message has apart from anything else. Ids come back: a topic that was made
// anew gives them to other records, of which nobody has seen a difference.
func (e *editing) digest() string {
	sum := sha256.New()
	for _, p := range e.Parts {
		fmt.Fprintf(sum, "%q %t %t %q\n", p.was, p.wasNull, p.crlf, p.Why)
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// changes are the differences.
func (e *editing) changes() (all []change) {
	for _, p := range e.Parts {
		if p.changed() {
			all = append(all, p.change())
		}
	}
	return all
}

// wish is what /v1 is asked for: what was changed, and nothing of what was not.
func (e *editing) wish() map[string]any {
	wish := map[string]any{"stream": e.at.Stream}
	if e.at.Channel != "" {
		wish["channel"] = e.at.Channel
	}
	if e.Note != "" {
		wish["note"] = e.Note
	}
	for _, p := range e.Parts {
		if !p.changed() {
			continue
		}
		switch {
		case p.Null:
			wish[p.Name] = nil
		case p.Name == "headers":
			wish[p.Name] = json.RawMessage(p.Text)
		default: // base64: any bytes survive that
			wish[p.Name], wish[map[string]string{"value": "encoding", "key": "key_encoding"}[p.Name]] = p.bytes(), "base64"
		}
	}
	return wish
}

// do has /v1 edit the message. Who presses twice, or leaves, does not cut that in half: it ends
// with the actor, and not with the page.
func (c edits) do(w http.ResponseWriter, r *http.Request, e *editing) error {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
	defer cancel(nil)
	defer context.AfterFunc(c.cfg.Work, func() { cancel(context.Cause(c.cfg.Work)) })()
	var done operation
	err := c.api.send(r.WithContext(ctx), http.MethodPost, e.path()+"/edit", e.wish(), &done)
	if err == nil {
		return see(w, r, "/console/operation?"+url.Values{"id": {done.ID}}.Encode())
	}
	refused, is := asRefusal(err)
	if !is {
		return err
	}
	switch refused.Status {
	case http.StatusBadRequest, http.StatusConflict, http.StatusRequestEntityTooLarge:
		return c.again(w, r, e, err)
	case http.StatusServiceUnavailable:
		// Without the time after which to ask again somebody has to look first.
		if refused.retryAfter != "" {
			return c.again(w, r, e, err)
		}
	}
	return gone(err)
}

// gone adds to the refusal of what is not there what may have become of it.
func gone(err error) error {
	if refused, is := asRefusal(err); is && refused.Status == http.StatusNotFound {
		refused.Detail += ". It may have been edited, replayed or deleted meanwhile: the operations say by whom"
	}
	return err
}

// again shows the form with what was typed, and what is wrong with it.
func (c edits) again(w http.ResponseWriter, r *http.Request, e *editing, err error) error {
	refused, is := asRefusal(err)
	if !is {
		return err
	}
	if refused.retryAfter != "" {
		w.Header().Set("Retry-After", refused.retryAfter)
	}
	e.Wrong = refused.Detail
	return c.fill(w, r, refused.Status, e)
}

// fill shows the form, filled with what the edit is so far.
func (c edits) fill(w http.ResponseWriter, r *http.Request, status int, e *editing) error {
	return c.show(w, r, status, "edit", sheet{Title: "edit " + e.ID, Section: "messages", At: e.at, Of: e})
}
