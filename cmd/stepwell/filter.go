package main

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"
)

// chosen says which messages of a dead set a command is about; it is part of every command that
// chooses. The actor checks what is given: it knows more than this program may. What is not given
// is nil: a flag that is given empty, by a variable of a script that is not set, must not mean all.
type chosen struct {
	Stream      string   `help:"The stream-id." required:"" short:"s"`
	Channel     *string  `help:"One of the stream's channels; default: the stream itself." short:"c"`
	Group       *string  `help:"Of this cause, as groups shows it."`
	Reason      *string  `help:"Dead for this reason, such as exhausted."`
	Error       *string  `help:"Whose last error has this text."`
	ErrorRE     *string  `name:"error-re" help:"Whose last error matches this RE2 expression."`
	ErrorType   *string  `help:"Whose last error is of this Go type."`
	Topic       *string  `help:"Of this topic."`
	Partition   *string  `help:"Of this partition."`
	OffsetFrom  *string  `help:"From this offset on."`
	OffsetTo    *string  `help:"Up to this offset."`
	Key         *string  `help:"With this key."`
	KeyPrefix   *string  `help:"Whose key begins so."`
	DiedFrom    *string  `help:"Dead since: a time as the tables show it, or RFC 3339, or how long ago, such as 2h."`
	DiedTo      *string  `help:"Dead until, likewise."`
	AttemptsMin *string  `help:"Tried so often at least."`
	ReplaysMax  *string  `help:"Replayed so often at most."`
	ReplayedBy  *string  `help:"That this operation was the last to replay: they died once more."`
	TraceID     *string  `name:"trace-id" help:"Of this trace."`
	Value       *string  `help:"Whose value has this text."`
	Header      []string `help:"Whose header is that: name=text." placeholder:"NAME=TEXT" sep:"none"`
	ValueAt     []string `name:"value-at" help:"Whose JSON value has that at a path: order.lines.0.sku=text." placeholder:"PATH=TEXT" sep:"none"`
}

// Validate is called by kong before Run: what a person wrote without = would ask the actor for
// something else, and what is empty for everything.
func (c chosen) Validate() error {
	given := map[string]bool{}
	for _, pairs := range []struct {
		flag, prefix string
		all          []string
	}{{"--header", "header.", c.Header}, {"--value-at", "value.", c.ValueAt}} {
		for _, pair := range pairs.all {
			name, _, ok := strings.Cut(pair, "=")
			if !ok || name == "" {
				return fmt.Errorf("%s must be NAME=TEXT, not %q", pairs.flag, pair)
			}
			if given[pairs.prefix+name] {
				return fmt.Errorf("%s %s is given twice", pairs.flag, name)
			}
			given[pairs.prefix+name] = true
		}
	}
	if c.Stream == "" {
		return errNoStream
	}
	if c.Channel != nil && *c.Channel == "" {
		return empty("channel")
	}
	parameters := c.parameters()
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		if parameters[name] == "" {
			return empty(name)
		}
	}
	return nil
}

// errNoStream is of a stream-id that is left out, too: kong asks for what is required only after
// Validate.
var errNoStream = errors.New("--stream is missing, or empty: say which, as -s orders; stepwell streams shows them")

// empty is the mistake of a flag, by its parameter's name.
func empty(name string) error {
	return fmt.Errorf("--%s is empty: leave it out, or say what is meant", strings.ReplaceAll(name, "_", "-"))
}

// parameters are those of the filter that is given; none: there is no filter.
func (c chosen) parameters() map[string]string {
	all := map[string]string{}
	for name, text := range map[string]*string{
		"group": c.Group, "reason": c.Reason, "error": c.Error, "error_re": c.ErrorRE, "error_type": c.ErrorType,
		"topic": c.Topic, "partition": c.Partition, "offset_from": c.OffsetFrom, "offset_to": c.OffsetTo,
		"key": c.Key, "key_prefix": c.KeyPrefix, "died_from": c.DiedFrom, "died_to": c.DiedTo,
		"attempts_min": c.AttemptsMin, "replays_max": c.ReplaysMax, "replayed_by": c.ReplayedBy, "trace_id": c.TraceID, "value": c.Value,
	} {
		if text != nil {
			all[name] = shownTime(*text)
		}
	}
	for prefix, pairs := range map[string][]string{"header.": c.Header, "value.": c.ValueAt} {
		for _, pair := range pairs {
			name, text, _ := strings.Cut(pair, "=")
			all[prefix+name] = text
		}
	}
	return all
}

// query is what the actor is asked. Validate has refused names that are given twice, of which a map
// would keep one.
func (c chosen) query() url.Values {
	q := url.Values{"stream": {c.Stream}}
	if c.Channel != nil {
		q.Set("channel", *c.Channel)
	}
	for name, text := range c.parameters() {
		q.Set(name, text)
	}
	return q
}

// who is the dead set for people.
func (c chosen) who() string {
	if c.Channel == nil {
		return c.Stream
	}
	return c.Stream + " channel " + *c.Channel
}

// shownTime is a time as a table shows it, in the form that the actor reads; any other text stays.
func shownTime(text string) string {
	if at, err := time.Parse(shownAs, text); err == nil {
		return at.Format(time.RFC3339)
	}
	return text
}

// span says how much of a dead set an answer is about.
type span struct {
	Depth    int `json:"depth"`
	Unsorted int `json:"unsorted"`
}

// note says so of what was not looked at.
func (s span) note(a *actor) {
	if s.Unsorted > 0 {
		fmt.Fprintf(a.errs, "the oldest %d of %d were looked at\n", s.Depth-s.Unsorted, s.Depth)
	}
}
