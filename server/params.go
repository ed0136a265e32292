package server

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/stepwell/stepwell/internal/filter"
	"github.com/stepwell/stepwell/internal/spelling"
)

// params says on which dead set to act, and on how many of its messages.
type params struct {
	stream    string
	channel   string // empty: that of the stream's own handler
	count     int
	crashLoop bool // also messages that killed the process
	forever   bool // what is deleted is gone
	// undo names what is put into the trash; empty: nothing is.
	undo string
	set  DeadSet
}

// The names under which parameters may be sent; Ziggurat's users say topic-entity.
const (
	countName     = "count"
	streamName    = "stream"
	channelName   = "channel"
	crashLoopName = "include_crash_loop"
	foreverName   = "forever"
)

// meaning returns the parameter that a name stands for.
func meaning(name string) string {
	if name == "topic-entity" || name == "topic_entity" {
		return streamName
	}
	return name
}

// whose are the names that say which dead set is meant. More that a call knows come behind them.
func whose(more ...string) []string {
	return append([]string{streamName, "topic-entity", "topic_entity", channelName}, more...)
}

// which are the names that say which messages of which dead set.
func which(more ...string) []string { return append([]string{countName}, whose(more...)...) }

// wholeNumber is deliberately strict: no sign, no leading zero, no exponent. A count that can be
// read in two ways is not acted on.
var wholeNumber = regexp.MustCompile(`^(0|[1-9][0-9]{0,8})$`)

// requests reads what a request asks for: its parameters, all of which must be known, and the
// stream and dead set that they name.
type requests struct{ cfg *Config }

// params reads which messages are meant; more are the names that this call knows besides.
func (q requests) params(w http.ResponseWriter, r *http.Request, more ...string) (params, error) {
	given, err := q.arguments(w, r, which(more...), nil)
	if err != nil {
		return params{}, err
	}
	return q.resolve(given)
}

// arguments reads query and body. The names of parameters are those that are known, and those of
// which also is true; nil: of none. The error of a mistake names it.
func (q requests) arguments(w http.ResponseWriter, r *http.Request, known []string, also func(string) bool) (map[string]string, error) {
	given := arguments{known, also, map[string]string{}}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, mistake("the query cannot be read: %s", clip(err.Error()))
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		for _, value := range query[name] {
			if err := given.add(name, value); err != nil {
				return nil, err
			}
		}
	}
	body, err := q.body(w, r)
	if err != nil {
		return nil, err
	}
	if err := given.addJSON(body); err != nil {
		return nil, err
	}
	return given.values, nil
}

// bare lets only requests through that have no parameters.
func (q requests) bare(next endpoint) endpoint {
	return func(w http.ResponseWriter, r *http.Request) error {
		if _, err := q.arguments(w, r, nil, nil); err != nil {
			return err
		}
		return next(w, r)
	}
}

// resolve checks what was given and finds the dead set. It collects all mistakes.
func (q requests) resolve(given map[string]string) (params, error) {
	p := params{stream: given[streamName], channel: given[channelName], crashLoop: given[crashLoopName] == "true", forever: given[foreverName] == "true"}
	var wrong []string
	var err error
	if p.count, err = count(given); err != nil {
		wrong = append(wrong, err.Error())
	}
	for _, name := range []string{crashLoopName, foreverName} {
		if text, there := given[name]; there && text != "true" && text != "false" {
			wrong = append(wrong, fmt.Sprintf("%s must be true or false, not %q", name, clip(text)))
		}
	}
	if given[foreverName] == "false" && q.cfg.Trash == 0 {
		wrong = append(wrong, fmt.Sprintf("forever must be true, or be left out: there is no trash (%s=0)", q.cfg.Setting("dead_set.trash")))
	}
	set, mistakes := q.target(given)
	wrong = append(wrong, mistakes...)
	if wrong != nil {
		return params{}, mistake("%s", strings.Join(wrong, "; "))
	}
	if p.set = set; p.set == nil {
		return params{}, ErrRetryOff
	}
	return p, nil
}

// who is the dead set for people.
func (p params) who() string {
	if p.channel == "" {
		return p.stream
	}
	return p.stream + " channel " + p.channel
}

// target finds the dead set that is meant; nil where the stream has none.
func (q requests) target(given map[string]string) (set DeadSet, wrong []string) {
	id, channel := given[streamName], given[channelName]
	stream, known := q.cfg.Streams[id]
	set = stream.DeadSet
	switch of, has := stream.Channels[channel]; {
	case !known:
		wrong = append(wrong, q.unknownStream(id))
	case has:
		set = of
	case channel != "":
		wrong = append(wrong, fmt.Sprintf("stream %s has no channel %q; its channels are: %s", id, clip(channel), names(stream.Channels)))
	}
	return set, wrong
}

func (q requests) unknownStream(id string) string {
	if id == "" {
		return "stream (or topic-entity) is missing; streams are: " + names(q.cfg.Streams)
	}
	return fmt.Sprintf("unknown stream %q; streams are: %s", clip(id), names(q.cfg.Streams))
}

func count(given map[string]string) (int, error) {
	text, ok := given[countName]
	if !ok || text == "" {
		return 0, fmt.Errorf("count is missing: give a whole number from 1 to %d", MaxCount)
	}
	return upTo(MaxCount, countName, text)
}

// upTo reads a whole number from 1 on, by the name of its parameter.
func upTo(most int, name, text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || !wholeNumber.MatchString(text) || n < 1 || n > most {
		return 0, fmt.Errorf("%s must be a whole number from 1 to %d, not %q", name, most, clip(text))
	}
	return n, nil
}

// arguments are the values that were sent, by parameter, of a call that knows these names, and
// those of which also is true.
type arguments struct {
	known  []string
	also   func(name string) bool // nil: of none
	values map[string]string
}

func (a arguments) knows(name string) bool {
	return slices.Contains(a.known, name) || a.also != nil && a.also(name)
}

// add takes one value. Sent twice, it must be the same. A name that the call does not know is
// refused: what somebody wished for and did not get, a dry run or a choice, must not become a
// deletion. Nor must what a script has in a variable that is not set: without its channel a delete
// is one of another dead set. Filters and counts tell of that themselves.
func (a arguments) add(name, value string) error {
	if !a.knows(name) {
		return a.unknown(name)
	}
	param := meaning(name)
	if value == "" && param != countName && !filter.Known(name) {
		return mistake("%s is empty: leave it out, or say what is meant", name)
	}
	if before, twice := a.values[param]; twice && before != value {
		return mistake("%s is given twice, as %q and as %q", param, clip(before), clip(value))
	}
	a.values[param] = value
	return nil
}

func (a arguments) unknown(name string) error {
	all := slices.Clone(a.known)
	if a.also != nil {
		all = append(all, filter.Names()...)
	}
	return &problem{status: http.StatusBadRequest, detail: notKnown("parameter ", name, all), unknown: name}
}

// notKnown says of a name that there is no such thing, and which may have been meant.
func notKnown(thing, name string, known []string) string {
	shown := cmp.Or(strings.Join(known, ", "), "none")
	return "unknown " + thing + clip(name) + "; known: " + shown + spelling.Meant(name, known)
}

func mistake(format string, args ...any) error {
	return &problem{status: http.StatusBadRequest, detail: fmt.Sprintf(format, args...)}
}

// names lists the keys of m for a message.
func names[V any](m map[string]V) string {
	if len(m) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(m)), ", ")
}

// clip bounds what a message repeats of a request.
func clip(text string) string {
	const most = 100
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
