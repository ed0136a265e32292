package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/stepwell/stepwell/internal/filter"
)

// The names of parameters that say how much of what was found to show. Those that say what to find
// are those of [filter.Parse].
const (
	limitName  = "limit"
	cursorName = "cursor"
	partName   = "part"
)

const (
	defaultLimit = 50
	maxLimit     = 500
)

// search is what somebody looks for.
type search struct {
	set   DeadSet
	query Query
}

// listed is a [List] on the wire: what a peek answers, and how the list goes on.
type listed struct {
	peeked
	Matched  int       `json:"matched"`
	Next     string    `json:"next,omitempty"`
	Complete bool      `json:"complete"`
	Unsorted int       `json:"unsorted"`
	AsOf     time.Time `json:"as_of"`
}

// look is a peek where only a count is given, else a list of what the filter is true of.
func (d deadSets) look(w http.ResponseWriter, r *http.Request) error {
	given, err := d.arguments(w, r, which(limitName, cursorName), filter.Known)
	if err != nil {
		return err
	}
	if !asksForList(given) {
		p, err := d.resolve(given)
		if err != nil {
			return err
		}
		return d.peek(w, r, p)
	}
	sought, err := d.search(r, given)
	if err != nil {
		return err
	}
	list, err := patiently(r.Context(), d.cfg, func(ctx context.Context) (List, error) { return sought.set.Find(ctx, sought.query) })
	if err != nil {
		return err
	}
	return d.answer(w, d.listed(r, list))
}

// listed is a list as who sends the request may see it.
func (d deadSets) listed(r *http.Request, list List) listed {
	return listed{
		peeked:  peeked{Messages: d.veilAll(r, list.Messages), Depth: list.Depth, Cut: list.Next != ""},
		Matched: list.Matched, Next: list.Next, Complete: list.Unsorted == 0, Unsorted: list.Unsorted, AsOf: list.AsOf,
	}
}

// asksForList says that more is given than a peek knows.
func asksForList(given map[string]string) bool {
	for name := range given {
		if name == limitName || name == cursorName || filter.Known(name) {
			return true
		}
	}
	return false
}

// search reads what a list is to show. It collects all mistakes.
func (q requests) search(r *http.Request, given map[string]string) (search, error) {
	if err := q.mayFilter(r, given); err != nil {
		return search{}, err
	}
	sought := search{query: Query{Limit: defaultLimit, After: given[cursorName]}}
	var wrong []string
	if _, twice := given[countName]; twice {
		wrong = append(wrong, "count is for a peek at the oldest: with a filter, limit says how many to show")
	}
	var err error
	if text, ok := given[limitName]; ok {
		if sought.query.Limit, err = upTo(maxLimit, limitName, text); err != nil {
			wrong = append(wrong, err.Error())
		}
	}
	if sought.query.Filter, err = filterOf(given); err != nil {
		wrong = append(wrong, err.Error())
	}
	return q.within(sought, given, wrong)
}

// within completes a search by the dead set that it is about.
func (q requests) within(sought search, given map[string]string, wrong []string) (search, error) {
	set, mistakes := q.target(given)
	if wrong = append(wrong, mistakes...); wrong != nil {
		return search{}, mistake("%s", strings.Join(wrong, "; "))
	}
	if sought.set = set; sought.set == nil {
		return search{}, ErrRetryOff
	}
	return sought, nil
}

// filterOf makes the filter of what was given.
func filterOf(given map[string]string) (filter.Filter, error) {
	parameters := map[string]string{}
	for name, text := range given {
		if filter.Known(name) {
			parameters[name] = text
		}
	}
	return filter.Parse(parameters, time.Now())
}

// chosen reads which messages of which dead set a filter is to choose; none: all.
func (d deadSets) chosen(w http.ResponseWriter, r *http.Request) (search, error) {
	given, err := d.arguments(w, r, whose(), filter.Known)
	if err != nil {
		return search{}, err
	}
	if err := d.mayFilter(r, given); err != nil {
		return search{}, err
	}
	of, err := filterOf(given)
	var wrong []string
	if err != nil {
		wrong = append(wrong, err.Error())
	}
	return d.within(search{query: Query{Filter: of}}, given, wrong)
}

// groups counts the dead messages by what killed them.
func (d deadSets) groups(w http.ResponseWriter, r *http.Request) error {
	sought, err := d.chosen(w, r)
	if err != nil {
		return err
	}
	causes, err := patiently(r.Context(), d.cfg, func(ctx context.Context) (any, error) { return sought.set.Groups(ctx, sought.query.Filter) })
	if err != nil {
		return err
	}
	return d.answer(w, d.veil(r, causes))
}

// message shows one dead message, or a part of it as it is.
func (d deadSets) message(w http.ResponseWriter, r *http.Request) error {
	given, err := d.arguments(w, r, whose(partName), nil)
	if err != nil {
		return err
	}
	part := given[partName]
	if part != "" {
		if err := d.revealed(r, "the "+clip(part)); err != nil {
			return err
		}
	}
	var wrong []string
	if part != "" && part != "key" && part != "value" {
		wrong = append(wrong, fmt.Sprintf("part must be key or value, not %q", clip(part)))
	}
	sought, err := d.within(search{}, given, wrong)
	if err != nil {
		return err
	}
	id, err := messageID(r)
	if err != nil {
		return err
	}
	one, err := patiently(r.Context(), d.cfg, func(ctx context.Context) (Detail, error) { return sought.set.Message(ctx, id) })
	if err != nil {
		return err
	}
	if part == "" {
		return d.answer(w, d.veil(r, one.Message))
	}
	return d.attach(w, id, part, one)
}

// messageID is the id of a message that the path names.
func messageID(r *http.Request) (string, error) {
	id := r.PathValue("id")
	if r.URL.RawPath != "" { // it has something escaped
		var err error
		if id, err = url.PathUnescape(id); err != nil {
			return "", mistake("the id cannot be read: %s", clip(err.Error()))
		}
	}
	if id == "" {
		return "", mistake("the path names no message: its id is empty")
	}
	return id, nil
}

// attach answers with bytes that a browser saves and never shows: they may be anybody's.
func (d deadSets) attach(w http.ResponseWriter, id, part string, one Detail) error {
	if one.Missing != "" {
		return &problem{status: http.StatusNotFound, detail: one.Missing}
	}
	body := one.Value
	if part == "key" {
		body = one.Key
	}
	if body == nil {
		return &problem{status: http.StatusNotFound, detail: "the record's " + part + " is null"}
	}
	w.Header().Set("Content-Disposition", `attachment; filename="`+fileName(id)+"."+part+`.bin"`)
	w.Header().Set("Content-Security-Policy", "sandbox; default-src 'none'")
	writeWithin(w, d.cfg.WriteTimeout)
	return write(w, http.StatusOK, "application/octet-stream", body)
}

// fileName is an id as a part of a file's name, wherever that is kept: of ASCII, without a dot at
// its beginning, of 100 bytes at most.
func fileName(id string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '.', r == '-', r == '~':
			return r
		}
		return '_'
	}, id)
	const most = 100
	return cmp.Or(strings.TrimLeft(name[max(0, len(name)-most):], "."), "message")
}

// answer writes what a look found.
func (d deadSets) answer(w http.ResponseWriter, v any) error {
	writeWithin(w, d.cfg.WriteTimeout) // anew: the walk may have used up the first
	return writeJSON(w, http.StatusOK, jsonType, v)
}

// patiently looks, and waits for a walk that is under way, up to PeekWait.
func patiently[T any](ctx context.Context, cfg *Config, look func(context.Context) (T, error)) (T, error) {
	const again = 100 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, cfg.WriteTimeout)
	defer cancel()
	began := time.Now()
	for {
		found, err := look(ctx)
		if !errors.Is(err, ErrBusy) || time.Since(began)+again > cfg.PeekWait {
			return found, err
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return found, err
		}
	}
}
