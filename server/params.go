package server

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// params says on which dead set to act, and on how many of its messages.
type params struct {
	stream, channel string
	count           int
	crashLoop       bool // also messages that killed the process
	set             DeadSet
}

// The parameters by the names under which they may be sent; Ziggurat's users say topic-entity.
var aliases = map[string]string{ //nolint:gochecknoglobals // a table that never changes
	"count":        "count",
	"stream":       "stream",
	"topic-entity": "stream",
	"topic_entity": "stream",
	"channel":      "channel",

	crashLoopName: crashLoopName,
}

const crashLoopName = "include_crash_loop"

// wholeNumber is deliberately strict: no sign, no leading zero, no exponent. A count that can be read in two ways is not acted on.
var wholeNumber = regexp.MustCompile(`^(0|[1-9][0-9]{0,8})$`)

// params reads the parameters from query and body. The error of a mistake names it.
func (s *Server) params(w http.ResponseWriter, r *http.Request) (params, error) {
	given := arguments{}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return params{}, mistake("the query cannot be read: %s", clip(err.Error()))
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		for _, value := range query[name] {
			if err := given.add(name, value); err != nil {
				return params{}, err
			}
		}
	}
	body, err := s.body(w, r)
	if err != nil {
		return params{}, err
	}
	if err := given.addJSON(body); err != nil {
		return params{}, err
	}
	return s.resolve(given)
}

// resolve checks what was given and finds the dead set. It collects all mistakes.
func (s *Server) resolve(given arguments) (params, error) {
	p := params{stream: given["stream"], channel: given["channel"]}
	var wrong []string
	var err error
	if p.count, err = count(given); err != nil {
		wrong = append(wrong, err.Error())
	}
	if text := given[crashLoopName]; text != "" && text != "true" && text != "false" {
		wrong = append(wrong, fmt.Sprintf("%s must be true or false, not %q", crashLoopName, clip(text)))
	}
	p.crashLoop = given[crashLoopName] == "true"
	stream, known := s.cfg.Streams[p.stream]
	if !known {
		wrong = append(wrong, s.unknownStream(p.stream))
	}
	p.set = stream.DeadSet
	if known && p.channel != "" {
		if p.set, known = stream.Channels[p.channel]; !known {
			wrong = append(wrong, fmt.Sprintf("stream %s has no channel %q; it has: %s", p.stream, clip(p.channel), names(stream.Channels)))
		}
	}
	if wrong != nil {
		return params{}, mistake("%s", strings.Join(wrong, "; "))
	}
	if p.set == nil {
		return params{}, ErrRetryOff
	}
	return p, nil
}

func (s *Server) unknownStream(id string) string {
	if id == "" {
		return "stream (or topic-entity) is missing; streams are: " + names(s.cfg.Streams)
	}
	return fmt.Sprintf("unknown stream %q; streams are: %s", clip(id), names(s.cfg.Streams))
}

func count(given arguments) (int, error) {
	text, ok := given["count"]
	if !ok || text == "" {
		return 0, fmt.Errorf("count is missing: give a whole number from 1 to %d", MaxCount)
	}
	n, err := strconv.Atoi(text)
	if err != nil || !wholeNumber.MatchString(text) || n < 1 || n > MaxCount {
		return 0, fmt.Errorf("count must be a whole number from 1 to %d, not %q", MaxCount, clip(text))
	}
	return n, nil
}

// arguments are the values that were sent, by parameter.
type arguments map[string]string

// add takes one value. Sent twice, it must be the same. A name we do not know is ignored, unless it is nearly one of ours: a misspelt
// channel must not act on the stream's own dead set.
func (a arguments) add(name, value string) error {
	param, known := aliases[name]
	if !known {
		if near := nearest(name); near != "" {
			return mistake("there is no parameter %q: did you mean %s?", clip(name), near)
		}
		return nil
	}
	if before, twice := a[param]; twice && before != value {
		return mistake("%s is given twice, as %q and as %q", param, clip(before), clip(value))
	}
	a[param] = value
	return nil
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
