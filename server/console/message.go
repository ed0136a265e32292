package console

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"unicode/utf8"
)

const (
	// maxShown is how much of a value the page of a message shows, and maxHex as
	// hexadecimal digits, which take five times as much. All of it can be saved.
	maxShown = 64 << 10
	maxHex   = 8 << 10
)

// shownValue is a value in one of the ways to look at it.
type shownValue struct {
	// View is json, raw or hex, and Text the value in that way.
	View, Text string
	// Null says that the record has no value, which is not an empty one.
	Null bool
	// First is how many bytes of Size are shown; 0: all.
	First, Size int
	// Why says why there is nothing to see, Note what is not as the view's name says.
	Why, Note string
}

// message shows all that is known of one message.
func (c *Console) message(w http.ResponseWriter, r *http.Request) error {
	given := r.URL.Query()
	at := choice{Stream: given.Get("stream"), Channel: given.Get("channel")}
	id := given.Get("id")
	if id == "" {
		return refuse(http.StatusBadRequest, "the id of the message is missing")
	}
	var of message
	if err := c.api.get(r, "/v1/dead_set/messages/"+url.PathEscape(id), at.where(), &of); err != nil {
		return err
	}
	value := shownValue{Why: "it is hidden from you (" + c.cfg.Setting("dead_set.values") + ")"}
	if !of.Hidden {
		var err error
		if value, err = c.api.value(r, at, of, given.Get("view")); err != nil {
			return err
		}
	}
	return c.show(w, r, http.StatusOK, "message", sheet{Title: id, Section: "messages", At: at, Of: struct {
		message
		Shown shownValue
	}{of, value}})
}

// value reads the value to show; which is how: empty is what fits it best.
func (v v1) value(r *http.Request, at choice, of message, view string) (shownValue, error) {
	switch {
	case of.ValueError != "":
		return shownValue{Why: of.ValueError}, nil
	case of.Encoding == "":
		return shownValue{Null: true}, nil
	case view == "":
		view = map[string]string{"json": "json", "base64": "hex"}[of.Encoding]
	}
	q := at.where()
	q.Set("part", "value")
	first, all, err := v.head(r, "/v1/dead_set/messages/"+url.PathEscape(of.ID), q, maxShown)
	if err != nil {
		return shownValue{}, err
	}
	shown := shownValue{View: view, Size: all}
	switch view {
	case "hex":
		first = first[:min(len(first), maxHex)]
		shown.Text = hex.Dump(first)
	case "json":
		var is bool
		switch shown.Text, is = pretty(first); {
		case is:
		case len(first) < all:
			shown.Note = "What is cut cannot be laid out as JSON: this is as in raw."
		default:
			shown.Note = "This is no JSON: it is shown as in raw."
		}
	default:
		shown.View = "raw"
		// As text it has what is text; the rest is the sign for what is none.
		shown.Text = string(bytes.ToValidUTF8(first, []byte(string(utf8.RuneError))))
	}
	if len(first) < all {
		shown.First = len(first)
	}
	return shown, nil
}

// pretty is JSON over several lines; what is none is as it is, which it tells.
func pretty(text []byte) (shown string, is bool) {
	var b bytes.Buffer
	if err := json.Indent(&b, text, "", "  "); err != nil {
		return string(bytes.ToValidUTF8(text, []byte(string(utf8.RuneError)))), false
	}
	return b.String(), true
}

// save has the browser save a value or a key as it is.
func (v v1) save(w http.ResponseWriter, r *http.Request) error {
	given := r.URL.Query()
	at := choice{Stream: given.Get("stream"), Channel: given.Get("channel")}
	id, q := given.Get("id"), at.where()
	if q.Set("part", given.Get("part")); q.Get("part") == "" || id == "" {
		return refuse(http.StatusBadRequest, "id and part say what to save: part is value or key")
	}
	return v.hand(w, r, "/v1/dead_set/messages/"+url.PathEscape(id), q)
}
