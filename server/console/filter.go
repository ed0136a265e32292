package console

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// field is a part of the form that makes a filter.
type field struct {
	// Name is that of the parameter; header, path and is- before them are pairs,
	// which chosenBy makes one parameter of.
	Name, Label, Hint, Value string
	// Options are all values that there are; nil: any text.
	Options []string
	// Inside: it looks at values, keys or headers.
	Inside bool
	// Pattern is what a text has to match, which Hint then says in full; empty: any may do. Number:
	// it is a whole number from 0 on.
	Pattern string
	Number  bool
}

// times are those that a filter takes: so long ago, or a time.
const times = `([0-9.]+(h|m|s|ms))+|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(Z|[+\-][0-9]{2}:[0-9]{2})`

// fields are those of the form, filled in: what is asked for often, and the rest.
func fields(filter map[string]string) (often, rest []field) {
	often = []field{
		{Name: "error", Label: "Error has", Hint: "status 503"},
		{Name: "reason", Label: "Reason", Options: reasons()},
		{Name: "topic", Label: "Topic"},
		{Name: "key", Label: "Key", Inside: true},
		{Name: "died_from", Label: "Died since", Hint: "2h, or 2026-01-31T23:59:59Z", Pattern: times},
		{Name: "died_to", Label: "Died until", Hint: "15m, or 2026-01-31T23:59:59Z", Pattern: times},
	}
	rest = []field{
		{Name: "group", Label: "Cause", Hint: "7f3a91c2b04d"},
		{Name: "id", Label: "Id", Hint: "orders.v1:3:8812"},
		{Name: "error_type", Label: "Error type", Hint: "*url.Error"},
		{Name: "error_re", Label: "Error matches", Hint: "RE2: status 5\\d\\d"},
		{Name: "key_prefix", Label: "Key begins with", Inside: true},
		{Name: "value", Label: "Value has", Inside: true},
		{Name: "partition", Label: "Partition", Number: true},
		{Name: "offset_from", Label: "Offset from", Number: true},
		{Name: "offset_to", Label: "Offset to", Number: true},
		{Name: "attempts_min", Label: "Tries, at least", Number: true},
		{Name: "replays_max", Label: "Replays, at most", Number: true},
		{Name: "replayed_by", Label: "Replayed last by", Hint: "op_…"},
		{Name: "trace_id", Label: "Trace id"},
		{Name: "header", Label: "Header", Hint: "tenant", Inside: true},
		{Name: "is-header", Label: "Header is", Inside: true},
		{Name: "path", Label: "JSON value at", Hint: "order.lines.0.sku", Inside: true},
		{Name: "is-path", Label: "JSON value is", Inside: true},
	}
	left := maps.Clone(filter)
	for _, all := range [][]field{often, rest} {
		for i := range all {
			all[i].Value = left[all[i].Name]
			delete(left, all[i].Name)
		}
	}
	// Headers and places in values, and whatever /v1 knows and this form does not.
	for _, name := range slices.Sorted(maps.Keys(left)) {
		rest = slices.Insert(rest, 0, field{Name: name, Label: clip(name, 60), Value: left[name]})
	}
	return often, rest
}

// Used says that a part of the rest is filled in, but for the cause, which pages name by
// themselves: who comes from it looks for its messages.
func (l looked) Used() bool {
	return slices.ContainsFunc(l.More, func(f field) bool { return f.Value != "" && f.Name != "group" })
}

// reasons are those for which a message dies.
func reasons() []string {
	return []string{"exhausted", "dead_letter", "decode", "undecodable", "too_large", "gone", "crash_loop"}
}

// mistaken shows the form of a filter that /v1 cannot read, as it was filled in.
func (c *Console) mistaken(w http.ResponseWriter, r *http.Request, section string, at choice, err error) error {
	refused, is := asRefusal(err)
	if !is || refused.Status != http.StatusBadRequest || len(at.Filter) == 0 {
		return err
	}
	return c.show(w, r, refused.Status, "mistaken", sheet{Title: at.Who() + ": " + section, Section: section, At: at, Of: struct {
		looked
		Wrong string
	}{lookedAt(r, at, span{}), labelled(refused.Detail)}})
}

// labelled is what /v1 says of the parameters of a filter, each by the label that its field has.
func labelled(detail string) string {
	labels := map[string]string{}
	often, more := fields(nil)
	for _, f := range append(often, more...) {
		labels[f.Name] = f.Label
	}
	parts := strings.Split(detail, "; ")
	for i, part := range parts {
		name, says, _ := strings.Cut(part, " ")
		if label := labels[name]; label != "" {
			parts[i] = `"` + label + `" ` + says
		}
	}
	return strings.Join(parts, "; ")
}
