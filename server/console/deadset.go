package console

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// span is how much of a dead set an answer is about.
type span struct {
	Depth    int       `json:"depth"`
	Unsorted int       `json:"unsorted"`
	AsOf     time.Time `json:"as_of"`
}

// Seen is how many messages were looked at.
func (s span) Seen() int { return s.Depth - s.Unsorted }

// group is a cause of death.
type group struct {
	// Group is its fingerprint, which a filter takes; empty for what is left beyond 1000 causes.
	Group  string `json:"group"`
	Count  int    `json:"count"`
	Reason string `json:"reason"`
	// Error is what the errors share.
	Error       string    `json:"error"`
	ErrorType   string    `json:"error_type"`
	FirstDiedAt time.Time `json:"first_died_at"`
	LastDiedAt  time.Time `json:"last_died_at"`
	// Keys is how many different ones there are, Replayed how many died after a replay.
	Keys     *int `json:"keys"` // nil: keys are hidden
	Replayed int  `json:"replayed"`
	// Minutes is how many died in each of the last sixty, oldest first.
	Minutes []int `json:"minutes"`
}

// causes is a table of groups; Act says that something can be done to each, Least that there are
// messages that were not looked at, Here which operations are not over.
type causes struct {
	At     choice
	Groups []group
	Act    bool
	Least  bool
	Here   unfinished
}

// Recent says in words what spark draws. Nobody says that it grows of one message, nor while an
// operation takes messages out: there are fewer then, and what comes back is what it replays.
func (c causes) Recent(g group) string {
	return recent(g.Minutes, g.Count > 1 && !c.Here.empties(g.Group))
}

// looked is what both pages of a dead set show around their tables.
type looked struct {
	span
	Fields, More []field
	Export       string // URL of what matches, as a file
}

// grouped is what /v1 says of the causes in a dead set.
type grouped struct {
	span
	Groups []group `json:"groups"`
}

// causes asks for those of a dead set, or of what matches a filter.
func (v v1) causes(r *http.Request, at choice) (all grouped, err error) {
	err = v.get(r, "/v1/dead_set/groups", at.query(), &all)
	return all, err
}

// groups shows the causes of a dead set, or of what matches a filter.
func (c *Console) groups(w http.ResponseWriter, r *http.Request) error {
	at, moved, err := chosenBy(w, r)
	if err != nil || moved {
		return err
	}
	answer, err := c.api.causes(r, at)
	if err != nil {
		return c.mistaken(w, r, "groups", at, err)
	}
	matched := 0
	for _, g := range answer.Groups {
		matched += g.Count
	}
	return c.showSet(w, r, "groups", sheet{Title: at.Who() + ": causes", Section: "groups", At: at, Of: struct {
		looked
		Groups  []group
		Matched int
	}{lookedAt(r, at, answer.span), answer.Groups, matched}})
}

// list is the page of that name, which lists the messages that match, of the dead set or of its
// trash.
func (c *Console) list(name, path string) page {
	return func(w http.ResponseWriter, r *http.Request) error {
		at, moved, err := chosenBy(w, r)
		if err != nil || moved {
			return err
		}
		// A page that a phone can still scroll; the next one begins behind the last
		// message of this one.
		query := at.query()
		query.Set("limit", "50")
		cursor := r.URL.Query().Get("cursor")
		if cursor != "" {
			query.Set("cursor", cursor)
		}
		if at.Operation != "" && name == "trash" {
			query.Set("operation", at.Operation)
		}
		var answer struct {
			span
			Messages []message `json:"messages"`
			Matched  int       `json:"matched"`
			Next     string    `json:"next"`
		}
		if err := c.api.get(r, path, query, &answer); err != nil {
			return c.mistaken(w, r, name, at, err)
		}
		var cause string // what the errors of one cause share; the look is that of the list
		if at.Filter["group"] != "" && name == "messages" {
			if all, err := c.api.causes(r, at); err == nil && len(all.Groups) > 0 {
				cause = all.Groups[0].Error
			}
		}
		return c.showSet(w, r, name, sheet{Title: at.Who() + ": " + name, Section: name, At: at, Of: struct {
			looked
			Cause    string
			Messages []message
			Matched  int
			Next     string
			Later    bool // this is not the first page
		}{lookedAt(r, at, answer.span), cause, answer.Messages, answer.Matched, answer.Next, cursor != ""}})
	}
}

// export saves what matches.
func (v v1) export(w http.ResponseWriter, r *http.Request) error {
	at, err := choose(r.URL.Query())
	if err != nil {
		return err
	}
	return v.hand(w, r, "/v1/dead_set/export", at.query())
}

// lookedAt is what stands around a table of what was chosen.
func lookedAt(r *http.Request, at choice, of span) looked {
	often, more := fields(at.Filter)
	if !userOf(r).Reads {
		inside := func(f field) bool { return f.Inside }
		often, more = slices.DeleteFunc(often, inside), slices.DeleteFunc(more, inside)
	}
	return looked{of, often, more, at.To("export")}
}

// spark draws the deaths of the last hour, five minutes a character, the highest as the tallest.
func spark(minutes []int) string {
	const steps = "▁▂▃▄▅▆▇█"
	var sums []int
	for part := range slices.Chunk(minutes, 5) {
		sums = append(sums, sum(part))
	}
	most := 0
	for _, n := range sums {
		most = max(most, n)
	}
	if most == 0 {
		return ""
	}
	var b strings.Builder
	for _, n := range sums {
		step := 0
		if n > 0 {
			step = 1 + n*6/most
		}
		b.WriteRune([]rune(steps)[step])
	}
	return b.String()
}

// sum adds counts.
func sum(all []int) (n int) {
	for _, one := range all {
		n += one
	}
	return n
}

// recent says how many died lately; what may grow does where some died in this minute or the one
// before.
func recent(minutes []int, grows bool) string {
	of := func(last int) int { return sum(minutes[max(0, len(minutes)-last):]) }
	hour, last := sum(minutes), of(5)
	switch {
	case grows && of(2) > 0:
		return "grows: " + number(last) + " in the last 5 minutes"
	case last > 0:
		return number(last) + " in the last 5 minutes"
	case hour > 0:
		return number(hour) + " in the last hour"
	}
	return ""
}

// message is a dead message as /v1 shows it, but for its value, which a list does not
// show and the page of a message reads by itself. Texts that were no text are base64,
// as their encoding says.
type message struct {
	ID            string       `json:"id"`
	Topic         string       `json:"topic"`
	Partition     int32        `json:"partition"`
	Offset        int64        `json:"offset"`
	Queue         string       `json:"queue"`
	Exchange      string       `json:"exchange"`
	RoutingKey    string       `json:"routing_key"`
	Key           *string      `json:"key"`
	KeyEncoding   string       `json:"key_encoding"`
	KeySize       int64        `json:"key_size"`
	Timestamp     time.Time    `json:"timestamp"`
	Headers       []headerJSON `json:"headers"`
	Encoding      string       `json:"encoding"`
	ValueError    string       `json:"value_error"`
	Size          int64        `json:"size"`
	Attempts      int          `json:"attempts"`
	AttemptsTotal int          `json:"attempts_total"`
	Replays       int          `json:"replays"`
	FirstFailedAt time.Time    `json:"first_failed_at"`
	DiedAt        time.Time    `json:"died_at"`
	Reason        string       `json:"reason"`
	Error         string       `json:"error"`
	ErrorType     string       `json:"error_type"`
	Stack         string       `json:"stack"`
	TraceID       string       `json:"trace_id"`
	Group         string       `json:"group"`
	Operation     string       `json:"operation"`
	DeletedBy     string       `json:"deleted_by"`
	DeletedAt     time.Time    `json:"deleted_at"`
	ExpiresAt     time.Time    `json:"expires_at"`
	Hidden        bool         `json:"hidden"`
	rest
}

// rest is what only the page of one message shows.
type rest struct {
	Copies int `json:"copies"`
	Tries  []struct {
		Attempt    int       `json:"attempt"`
		At         time.Time `json:"at"`
		Error      string    `json:"error"`
		ErrorType  string    `json:"error_type"`
		DurationMS float64   `json:"duration_ms"`
		Instance   string    `json:"instance"`
		AppVersion string    `json:"app_version"`
		TraceURL   string    `json:"trace_url"`
	} `json:"tries"`
	TraceURL string `json:"trace_url"`
}

// headerJSON is a header of the record; a nil value is null, and not empty.
type headerJSON struct {
	Key         string  `json:"key"`
	KeyEncoding string  `json:"key_encoding"`
	Value       *string `json:"value"`
	Encoding    string  `json:"encoding"`
	Truncated   bool    `json:"truncated"`
	Size        int64   `json:"size"`
}

// From is where the message came from first.
func (m message) From() string {
	switch {
	case m.Queue != "" && m.Exchange != "":
		return fmt.Sprintf("queue %s (exchange %s, routing key %s)", m.Queue, m.Exchange, m.RoutingKey)
	case m.Queue != "":
		return "queue " + m.Queue
	case m.Topic != "":
		return m.Topic + ", partition " + strconv.Itoa(int(m.Partition)) + ", offset " + number(m.Offset)
	}
	return "the program itself, or not known"
}

// To is the URL of a page about the message. It is made whole here: what a template puts
// behind a question mark is one value to it.
func (m message) To(of choice, page string, pairs ...string) string {
	return of.Set(page, append([]string{"id", m.ID}, pairs...)...)
}
