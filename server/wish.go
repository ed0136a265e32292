package server

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stepwell/stepwell/internal/filter"
	"github.com/stepwell/stepwell/internal/operations"
)

// wish is what somebody asks for: a request of [operations.Runner], and how to treat it.
type wish struct {
	request operations.Request
	rate    operations.Rate
	key     string // that makes it the same when it is sent again; empty: it is a new one each time
	dryRun  bool
	undoes  string // the action of the operation that a restore undoes; empty: not known
}

// who is the dead set for people.
func (a wish) who() string {
	return params{stream: a.request.Stream, channel: a.request.Channel}.who()
}

// attrs name it in a log, by what is no free text.
func (a wish) attrs() []slog.Attr {
	attrs := []slog.Attr{slog.String("action", a.request.Action), slog.String("stream", a.request.Stream), slog.String("select", chosenBy(a.request.Select))}
	if a.request.Expect != nil {
		attrs = append(attrs, slog.Int("expect", *a.request.Expect))
	}
	if a.request.Channel != "" {
		attrs = append(attrs, slog.String("channel", a.request.Channel))
	}
	return attrs
}

// chosenBy is how messages were chosen; what a filter looks for may be data of users.
func chosenBy(s operations.Selection) string {
	switch {
	case s.All:
		return "all"
	case s.Group != "":
		return "group " + s.Group
	case s.IDs != nil && s.Operation != "":
		return fmt.Sprintf("%d ids, operation %s", len(s.IDs), clip(s.Operation))
	case s.Operation != "":
		return "operation " + clip(s.Operation)
	case s.IDs != nil:
		return fmt.Sprintf("%d ids", len(s.IDs))
	}
	return "filter " + strings.Join(slices.Sorted(maps.Keys(s.Filter)), ",")
}

const (
	// maxNote is how long a note may be, in bytes: each answer and each list repeats it.
	maxNote = 500
	// maxKey is how long an Idempotency-Key may be, in bytes.
	maxKey = 255
)

// readWish reads who asks for an operation. It collects all mistakes.
func (s wishes) readWish(w http.ResponseWriter, r *http.Request) (wish, error) {
	// As many ids as a selection may name must not be too many bytes.
	m, err := s.objectWithin(w, r, max(s.cfg.BodyLimit, operations.MaxRequest))
	if err != nil {
		return wish{}, err
	}
	now := time.Now().UTC()
	a := wish{request: operations.Request{
		Action: m.text("action"), Target: operations.Target{Stream: m.text("stream"), Channel: m.text("channel")},
		Before: now, Expect: m.number("expect", 0, math.MaxInt), Note: m.text("note"), By: who(r), CreatedAt: now,
	}}
	s.readAction(&m, &a)
	a.dryRun = is(m.flag("dry_run"))
	if operations.Sorts(a.request.Action) {
		readSort(&m, &a)
	} else if chosen, there := m.object("select"); there {
		a.request.Select = readSelection(&chosen, now)
	} else if _, given := m.of["select"]; !given {
		m.mistake("select is missing: it says which messages are meant, by ids, group, filter or all")
	}
	if text := m.text("before"); text != "" {
		if a.request.Before, err = filter.Moment(text, now); err != nil {
			m.mistake("before %s", err)
		}
	}
	if text := m.text("rate"); text != "" {
		if a.rate, err = operations.ParseRate(text); err != nil {
			m.mistake("rate %s", err)
		}
	}
	m.note(a.request.Note)
	if a.key, err = idempotencyKey(r); err != nil {
		m.mistake("%s", err)
	}
	if err := s.mayFilter(r, a.request.Select.Filter); err != nil {
		return wish{}, err
	}
	set := s.named(&m, a.request.Target)
	m.rest()
	if err := m.err(); err != nil {
		return wish{}, err
	}
	if set == nil {
		return wish{}, ErrRetryOff
	}
	if a.key != "" {
		a.request.Wish = fingerprint(m.of)
	}
	return a, s.findTrash(r, &a)
}

// named finds the dead set that is meant; nil where there is none. Here a stream has one name:
// those that Ziggurat's users send are for what they had.
func (s wishes) named(m *members, of operations.Target) DeadSet {
	if of.Stream == "" {
		m.mistake("stream is missing; streams are: %s", names(s.cfg.Streams))
		return nil
	}
	set, mistakes := s.target(map[string]string{streamName: of.Stream, channelName: of.Channel})
	*m.wrong = append(*m.wrong, mistakes...)
	return set
}

// note makes a mistake of a note that is too long.
func (m *members) note(text string) {
	if len(text) > maxNote {
		m.mistake("note is %d bytes long, and %d are the limit", len(text), maxNote)
	}
}

// readSort reads what is asked of a sort: it is about all that is there, so nothing is chosen.
func readSort(m *members, a *wish) {
	a.request.Select.All = true
	a.request.Force = is(m.flag("force"))
	for _, name := range []string{"select", "before", "expect"} {
		if _, given := m.has(name); given {
			m.mistake("%s is for replay and delete: %s moves all that is there within the dead set, and no message out of it", name, a.request.Action)
		}
	}
}

// readAction reads the action, and what only one of them knows.
func (s wishes) readAction(m *members, a *wish) {
	forever, crashLoops, ahead := m.flag("forever"), m.flag(crashLoopName), m.number("ahead", 1, math.MaxInt)
	a.request.CrashLoops = is(crashLoops)
	readGuards(m, &a.request)
	switch a.request.Action {
	case operations.Replay:
		if forever != nil {
			m.mistake("forever is for delete")
		}
		if ahead != nil {
			a.request.Ahead = *ahead // from 1 on: with none a replay could never begin
		}
	case operations.Delete:
		s.readDelete(m, forever, a)
		if crashLoops != nil {
			m.mistake("%s is for replay: a delete takes all that is chosen", crashLoopName)
		}
		if ahead != nil {
			m.mistake("ahead is for replay: nobody has to handle what is deleted")
		}
	case operations.Restore, operations.Sort, operations.Unsort:
		if forever != nil || crashLoops != nil || ahead != nil {
			m.mistake("forever, %s and ahead are for replay and delete: %s gives no message to a handler, and loses none", crashLoopName, a.request.Action)
		}
	default:
		m.mistake("action must be %s, %s, %s, %s or %s, not %q",
			operations.Replay, operations.Delete, operations.Restore, operations.Sort, operations.Unsort, clip(a.request.Action))
	}
}

// readSelection reads which messages are meant.
func readSelection(m *members, now time.Time) operations.Selection {
	var chosen operations.Selection
	before := len(*m.wrong)
	chosen.Group, chosen.Operation = m.text("group"), m.text("operation")
	if all := m.flag("all"); all != nil {
		// False would be nothing, or everything else.
		if chosen.All = *all; !*all {
			m.mistake("select.all must be true, or be left out")
		}
	}
	if ids, there := m.has("ids"); there {
		chosen.IDs = readIDs(m, ids)
	}
	if of, there := m.object("filter"); there {
		chosen.Filter = readFilter(&of)
	}
	m.rest()
	if len(*m.wrong) > before {
		return chosen
	}
	if _, err := chosen.Compile(now); err != nil {
		m.mistake("select: %s", err)
	}
	return chosen
}

// readIDs reads the ids of messages.
func readIDs(m *members, given any) []string {
	all, is := given.([]any)
	if !is || len(all) == 0 || len(all) > operations.MaxIDs {
		m.mistake("select.ids must be a list of 1 to %d ids", operations.MaxIDs)
		return nil
	}
	ids := make([]string, 0, len(all))
	for _, one := range all {
		id, is := one.(string)
		if !is || id == "" {
			m.mistake("select.ids must be texts, none of them empty")
			return nil
		}
		ids = append(ids, id)
	}
	return ids
}

// readFilter reads the parameters of a filter, whose values may be texts, numbers, true and false.
func readFilter(m *members) map[string]string {
	parameters := make(map[string]string, len(m.of))
	for _, name := range slices.Sorted(maps.Keys(m.of)) {
		if !filter.Known(name) {
			*m.wrong = append(*m.wrong, notKnown("filter ", name, filter.Names()))
			continue
		}
		switch v := m.of[name].(type) {
		case string:
			parameters[name] = v
		case json.Number:
			parameters[name] = v.String()
		case bool:
			parameters[name] = strconv.FormatBool(v)
		default:
			m.mistake("%s%s must be a text", m.where, name)
		}
	}
	return parameters
}

// readChange reads what is to become of an operation.
func (s wishes) readChange(w http.ResponseWriter, r *http.Request) (operations.Change, error) {
	m, err := s.object(w, r)
	if err != nil {
		return operations.Change{}, err
	}
	c := operations.Change{Phase: operations.Phase(m.text("state"))}
	switch c.Phase {
	case "", operations.Running, operations.Paused, operations.Cancelled:
	default:
		m.mistake("state must be running, paused or cancelled, not %q", clip(string(c.Phase)))
	}
	if text := m.text("rate"); text != "" {
		rate, err := operations.ParseRate(text)
		if err != nil {
			m.mistake("rate %s", err)
		}
		c.Rate = &rate
	}
	m.rest()
	if len(*m.wrong) == 0 && c.Phase == "" && c.Rate == nil {
		m.mistake("state or rate is missing: say what is to change")
	}
	return c, m.err()
}

// object reads the body of a request, which has no parameters beside it.
func (s wishes) object(w http.ResponseWriter, r *http.Request) (members, error) {
	return s.objectWithin(w, r, s.cfg.BodyLimit)
}

// objectWithin reads such a body of at most so many bytes.
func (s wishes) objectWithin(w http.ResponseWriter, r *http.Request, limit int64) (members, error) {
	if r.URL.RawQuery != "" {
		return members{}, mistake("what is wished for stands in the body: there are no parameters in the query")
	}
	body, err := readBody(w, r, limit)
	if err != nil {
		return members{}, err
	}
	return readMembers(body)
}

// idempotencyKey is that of the request; empty: it has none.
func idempotencyKey(r *http.Request) (string, error) {
	given := r.Header.Values("Idempotency-Key")
	if len(given) == 0 {
		return "", nil
	}
	if len(given) > 1 || given[0] == "" || len(given[0]) > maxKey {
		return "", fmt.Errorf("Idempotency-Key must be given once, with 1 to %d bytes, or be left out", maxKey)
	}
	return given[0], nil
}

// fingerprint tells what was sent apart from all else that could have been.
func fingerprint(sent map[string]any) string {
	text, _ := json.Marshal(sent) // it was JSON before; names are sorted
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// is says whether a flag is true; one that is not there is not.
func is(flag *bool) bool { return flag != nil && *flag }
