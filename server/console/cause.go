package console

import "strings"

// cause is what killed some of those that an operation is about.
type cause struct {
	Group string `json:"group"`
	Error string `json:"error"`
	Count int    `json:"count"`
}

// CausesText says what they died of, for a page that is open; empty: not known yet.
func (o operation) CausesText() string {
	all := make([]string, len(o.Causes))
	for i, of := range o.Causes {
		all[i] = number(of.Count) + " of " + brief(of.Error)
	}
	if o.Others() {
		all = append(all, "others")
	}
	return strings.Join(all, "; ")
}

// Others says that some died of what Causes, the largest three, has not.
func (o operation) Others() bool {
	rest := o.Matched
	for _, of := range o.Causes {
		rest -= of.Count
	}
	return len(o.Causes) > 0 && rest > 0
}
