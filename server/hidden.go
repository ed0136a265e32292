package server

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/stepwell/stepwell/internal/filter"
	"github.com/stepwell/stepwell/internal/operations"
)

// This file keeps values, keys and headers from those who may not see them. They are left out of
// what is shown; and whatever would tell of them all the same is refused, whether it would or not:
// a filter by them, an export, the bytes of one. What is refused is refused before anything is
// looked at, so that a refusal tells nothing either.

// Hider is what shows something of a record, and can do without: dead messages and their causes.
type Hider interface {
	// Hidden is the same without, in the form in which it becomes JSON.
	Hidden() any
}

// hides says whether values, keys and headers are hidden from who sends the request.
func (q requests) hides(r *http.Request) bool { return !callerOf(r).role.has(q.cfg.Values) }

// revealed refuses what shows values, keys and headers to who may not see them.
func (q requests) revealed(r *http.Request, what string) error {
	return q.seen(r, what+" would show values, keys or headers")
}

// seen refuses what is for those alone who see values, keys and headers.
func (q requests) seen(r *http.Request, what string) error {
	if !q.hides(r) {
		return nil
	}
	setting := q.cfg.Setting("dead_set.values") + "=" + string(q.cfg.Values)
	if q.cfg.Values.rank() == 0 {
		return refused(what + ", which nobody sees (" + setting + ")")
	}
	return refused(what + ", and needs the role " + string(q.cfg.Values) + " (" + setting + ")")
}

// mayFilter refuses a filter by what is hidden.
func (q requests) mayFilter(r *http.Request, parameters map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		if filter.Reveals(name) {
			if err := q.revealed(r, "a filter by "+clip(name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// veil is what was found as who sends the request may see it. What cannot do without is not shown.
func (q requests) veil(r *http.Request, found any) any {
	if !q.hides(r) {
		return found
	}
	if h, is := found.(Hider); is {
		return h.Hidden()
	}
	return nil
}

// veilAll does so with each; an answer has a list also where there is nothing in it.
func (q requests) veilAll(r *http.Request, found []any) []any {
	all := make([]any, len(found))
	for i, one := range found {
		all[i] = q.veil(r, one)
	}
	return all
}

// shown is an operation without what is nobody's concern, and without what a filter of it looks for
// in records where that is hidden: the count beside it would tell that it is there.
func (s wishes) shown(r *http.Request, o operations.Operation) operations.Operation {
	o.Wish, o.State = "", o.ForPeople()
	if !s.hides(r) || o.Select.Filter == nil {
		return o
	}
	veiled := maps.Clone(o.Select.Filter)
	for name := range veiled {
		if filter.Reveals(name) {
			// Also the name of a header or of a place in a value is a part of a record.
			delete(veiled, name)
			kind, _, _ := strings.Cut(name, ".")
			veiled[kind] = hiddenText
		}
	}
	o.Select.Filter = veiled
	return o
}

// hiddenText stands for what a filter looks for.
const hiddenText = "(hidden)"
