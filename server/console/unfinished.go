package console

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
)

// mostAtOnce is on how many dead sets of an app operations run at a time; see OPERATIONS.md.
const mostAtOnce = 4

// unfinished are the operations that are not over, and why they are not known; empty: they are.
type unfinished struct {
	Operations []operation
	Unknown    string
}

// unfinished lists those of all dead sets: those that run, then those that wait, in their order,
// then those that are paused. One that somebody lets go on meanwhile may be missing.
func (v v1) unfinished(r *http.Request) ([]operation, error) {
	var all []operation
	// What is queued may run by the time these are asked for, and what runs be paused.
	for _, state := range []string{"queued", "running", "paused"} {
		some, err := v.listed(r, url.Values{"state": {state}, "limit": {strconv.Itoa(mostListed)}})
		if err != nil {
			return nil, err
		}
		slices.Reverse(some) // the first that was asked for is the first to run
		for _, o := range some {
			all = slices.DeleteFunc(all, func(seen operation) bool { return seen.ID == o.ID })
			all = append(all, o)
		}
	}
	slices.SortStableFunc(all, func(a, b operation) int { return cmp.Compare(rank(a), rank(b)) })
	for i := range all {
		all[i].Waits = waits(all[i], all)
	}
	return all, nil
}

// rank orders operations that are not over.
func rank(o operation) int { return slices.Index([]string{"running", "queued", "paused"}, o.Phase) }

// wait is what an operation waits for that is queued: one before it on the same dead set, or that
// fewer than Many run on others.
type wait struct {
	For  *operation
	Many int
}

// waits says what it waits for; nil: it is about to begin, or its why says more. unfinished are in
// the order of their ranks.
func waits(o operation, unfinished []operation) *wait {
	if o.Phase != "queued" || o.Why != "" {
		return nil
	}
	running := 0
	for _, before := range unfinished {
		switch {
		case before.ID == o.ID || before.Phase == "paused":
			return crowd(running)
		case before.Stream == o.Stream && before.Channel == o.Channel:
			return &wait{For: &before}
		case before.Phase == "running":
			running++
		}
	}
	return crowd(running)
}

// crowd is the wait for one of so many that run on other dead sets; nil: there is room for another.
func crowd(running int) *wait {
	if running < mostAtOnce {
		return nil
	}
	return &wait{Many: running}
}

// awaiting tells of each that is queued what it waits for.
func (v v1) awaiting(r *http.Request, all []operation) error {
	if !slices.ContainsFunc(all, func(o operation) bool { return o.Phase == "queued" }) {
		return nil
	}
	unfinished, err := v.unfinished(r)
	for i := range all {
		all[i].Waits = waits(all[i], unfinished)
	}
	return err
}

// unfinishedOf are those of a dead set, whose page is shown also while nobody knows them.
func (v v1) unfinishedOf(r *http.Request, at choice) (unfinished, error) {
	all, err := v.unfinished(r)
	if refused, is := asRefusal(err); is {
		return unfinished{Unknown: refused.Detail}, nil
	}
	return unfinished{Operations: slices.DeleteFunc(all, func(o operation) bool { return o.Stream != at.Stream || o.Channel != at.Channel })}, err
}

// empties says that one of them takes messages of a cause out of the dead set now.
func (u unfinished) empties(group string) bool {
	return slices.ContainsFunc(u.Operations, func(o operation) bool {
		of := func(c cause) bool { return c.Group == group }
		return o.Phase == "running" && (o.Action == "replay" || o.Action == "delete") &&
			(o.Select.All || o.Select.Group == group || slices.ContainsFunc(o.Causes, of))
	})
}
