package console

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// choice is what a URL of the console says: a dead set, and which messages of it are
// meant. All else that a page needs to know stands beside, under names of the
// console's own.
type choice struct {
	Stream, Channel string
	// Filter has the parameters of a filter of /v1, which knows their names.
	Filter map[string]string
	// Picked are ids that somebody ticked; All says that all messages are meant.
	Picked []string
	All    bool
	// Operation is a delete: what it put into the trash. Beside Picked it is these of it, and where
	// they are Ticked it is never more.
	Operation string
	Ticked    bool
}

// own are the names in a URL, or a form, that are no parameters of a filter. None of
// them may ever be one: what it asked for would be left out, and more be chosen than
// was meant.
func own(name string) bool {
	switch name {
	case "stream", "channel", "cursor", "action", "pick", "all", "before", "expect", "rate", "canary", "stop_at", "note", "typed", "once", "include_crash_loop", "beyond", "operation", "ticked", "forever":
		return true
	}
	return false
}

// choose reads what is meant, of a URL or of a form. A name that is given twice is
// refused: /v1 knows one value of each, and would do with the other what nobody asked
// for.
func choose(given url.Values) (choice, error) {
	c := choice{Stream: given.Get("stream"), Channel: given.Get("channel"), Picked: given["pick"], All: given.Get("all") == "true", Operation: given.Get("operation"), Ticked: given.Get("ticked") == "true", Filter: map[string]string{}}
	for name, texts := range given {
		if name != "pick" && len(texts) > 1 {
			return c, refuse(http.StatusBadRequest, "%s is given twice", clip(name, 60))
		}
		if !own(name) {
			c.Filter[name] = texts[0]
		}
	}
	return c, nil
}

// chosenBy reads what a page's URL means. Forms send what was left empty, and names
// beside their values (header and is-header): then the browser is sent to the URL
// without that, so that it can be kept and passed on.
func chosenBy(w http.ResponseWriter, r *http.Request) (at choice, moved bool, err error) {
	given := r.URL.Query()
	tidy := url.Values{}
	for name, texts := range given {
		of, is := strings.CutPrefix(name, "is-")
		switch {
		case is && given.Get(of) != "":
			tidy.Add(of+"."+given.Get(of), texts[0])
		case is || name == "header" || name == "path":
		default:
			texts = slices.DeleteFunc(slices.Clone(texts), func(t string) bool { return t == "" })
			if len(texts) > 0 {
				tidy[name] = texts
			}
		}
	}
	// A place in a value is value.<path> for /v1.
	for name, texts := range tidy {
		if path, is := strings.CutPrefix(name, "path."); is {
			delete(tidy, name)
			tidy["value."+path] = texts
		}
	}
	// A parameter that is gone, or has another name, makes the number differ: nothing
	// else changes here.
	if len(tidy) != len(given) {
		return at, true, see(w, r, r.URL.Path+"?"+tidy.Encode())
	}
	at, err = choose(given)
	return at, false, err
}

// To is the URL of a page about the same messages. Pairs of names and values come on
// top; an empty value takes one away.
func (c choice) To(page string, pairs ...string) string {
	q := c.query()
	if page == "confirm" {
		q["pick"] = slices.Clone(c.Picked)
		if c.All {
			q.Set("all", "true")
		}
	}
	if c.Operation != "" && (page == "confirm" || page == "trash") {
		q.Set("operation", c.Operation)
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		q.Del(pairs[i])
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	return "/console/" + page + "?" + q.Encode()
}

// Set is the URL of a page about the whole dead set.
func (c choice) Set(page string, pairs ...string) string {
	return choice{Stream: c.Stream, Channel: c.Channel}.To(page, pairs...)
}

// query is the dead set and the filter, as /v1 and the console's own pages call it.
func (c choice) query() url.Values {
	q := c.where()
	for name, text := range c.Filter {
		q.Set(name, text)
	}
	return q
}

// where is the dead set alone.
func (c choice) where() url.Values {
	q := url.Values{"stream": {c.Stream}}
	if c.Channel != "" {
		q.Set("channel", c.Channel)
	}
	return q
}

// Who is the dead set for people.
func (c choice) Who() string {
	if c.Channel == "" {
		return c.Stream
	}
	return c.Stream + " channel " + c.Channel
}

// Pairs are the parameters of the filter in their order.
func (c choice) Pairs() [][2]string {
	var all [][2]string
	for _, name := range slices.Sorted(maps.Keys(c.Filter)) {
		all = append(all, [2]string{name, c.Filter[name]})
	}
	return all
}

// selection is what an operation acts on, as /v1 calls it. Exactly one of its fields is
// set, but for an operation beside ids.
type selection struct {
	IDs       []string          `json:"ids,omitempty"`
	Group     string            `json:"group,omitempty"`
	Filter    map[string]string `json:"filter,omitempty"`
	Operation string            `json:"operation,omitempty"`
	All       bool              `json:"all,omitempty"`
}

// selected is what was chosen. Nothing chosen never means all, and two ways to choose
// are none: /v1 has a rule for each, but it must not be up to what this page left
// out.
func (c choice) selected() (selection, error) {
	ways := 0
	for _, is := range []bool{len(c.Picked) > 0, len(c.Filter) > 0, c.Operation != "" && len(c.Picked) == 0 && !c.Ticked, c.All} {
		if is {
			ways++
		}
	}
	if ways != 1 {
		return selection{}, refuse(http.StatusBadRequest, "which messages are meant? Tick some, choose a cause or a filter, or choose all: one of these")
	}
	if group := c.Filter["group"]; group != "" && len(c.Filter) == 1 {
		return selection{Group: group}, nil
	}
	return selection{IDs: c.Picked, Filter: c.Filter, Operation: c.Operation, All: c.All}, nil
}

// fixed is the choice with times such as 2h as what they are now: what is confirmed
// later is then what is shown now.
func (c choice) fixed(now time.Time) choice {
	c.Filter = maps.Clone(c.Filter)
	for _, name := range []string{"died_from", "died_to"} {
		if ago, err := time.ParseDuration(c.Filter[name]); err == nil && ago >= 0 {
			c.Filter[name] = stamp(now.Add(-ago))
		}
	}
	return c
}

// Words are the selection for people.
func (s selection) Words() string {
	switch {
	case s.All:
		return "all messages"
	case s.Group != "":
		return "those of the cause" // which a page names beside
	case s.Operation != "" && len(s.IDs) > 0:
		operation := s.Operation
		s.Operation = ""
		return s.Words() + ", of what was deleted by " + clip(operation, 60)
	case s.Operation != "":
		return "what was deleted by " + clip(s.Operation, 60)
	case len(s.IDs) == 1:
		return fmt.Sprintf("the message %q", clip(s.IDs[0], 200))
	case len(s.IDs) > 1:
		return fmt.Sprintf("%d messages, by their ids", len(s.IDs))
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(s.Filter)) {
		all = append(all, phrase(name, s.Filter[name]))
	}
	return "those " + strings.Join(all, ", and ")
}

// phrase is one parameter of a filter in words.
func phrase(name, text string) string {
	forms := map[string]string{
		"id": "with the id %q", "group": "of the cause %q", "reason": "that died of %q", "error": "whose error has %q in it",
		"error_re": "whose error matches the expression %q", "error_type": "whose error is a %q", "topic": "of the topic %q",
		"partition": "of partition %q", "offset_from": "from offset %q on", "offset_to": "up to offset %q", "key": "with the key %q",
		"key_prefix": "whose key begins with %q", "died_from": "that died at %q or later", "died_to": "that died at %q or before",
		"attempts_min": "that were tried %q times or more", "replays_max": "that were replayed %q times at most", "replayed_by": "that died once more after the replay %q",
		"trace_id": "of the trace %q", "value": "whose value has %q in it",
	}
	text = clip(text, 500)
	if form, known := forms[name]; known {
		return fmt.Sprintf(form, text)
	}
	if header, is := strings.CutPrefix(name, "header."); is {
		return fmt.Sprintf("whose header %q is %q", header, text)
	}
	if path, is := strings.CutPrefix(name, "value."); is {
		return fmt.Sprintf("whose value has %q at %q", text, path)
	}
	return fmt.Sprintf("whose %s is %q", name, text)
}
