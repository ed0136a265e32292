package console

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// operation is a replay, a delete or a sort, as /v1 shows it.
type operation struct {
	ID      string    `json:"id"`
	Action  string    `json:"action"`
	Stream  string    `json:"stream"`
	Channel string    `json:"channel"`
	Select  selection `json:"select"`
	// Trash is for how long what was deleted is kept; empty: it is gone.
	Trash string `json:"trash"`
	// Before leaves out what died later, ActsBefore, where there is one, yet more. Expect is how
	// many may be touched; nil: nobody said.
	Before     time.Time `json:"before"`
	ActsBefore time.Time `json:"acts_before"`
	Expect     *int      `json:"expect"`
	Note       string    `json:"note"`
	By         string    `json:"by"`
	CreatedAt  time.Time `json:"created_at"`
	// Phase is how far it is, Why why it waits or ended so.
	Phase  string `json:"state"`
	Why    string `json:"why"`
	Rate   string `json:"rate"`
	Runner string `json:"runner"`
	// Matched is how many were found to match, Done how many of them are gone.
	Matched    int       `json:"matched"`
	Done       int       `json:"done"`
	LeftOut    leftOut   `json:"left_out"`
	Causes     []cause   `json:"causes"`
	Outcome    *outcome  `json:"outcome"`
	Canary     int       `json:"canary"`
	CanaryOver bool      `json:"canary_over"` // nobody waits for it any more
	StopAt     string    `json:"stop_at"`
	Unsorted   int       `json:"unsorted"`
	ETA        int       `json:"eta_seconds"`
	StartedAt  time.Time `json:"started_at"`
	UpdatedAt  time.Time `json:"updated_at"`
	EndedAt    time.Time `json:"ended_at"`
	// Waits is what it waits for while it is queued; nil: not known, or it is about to begin.
	// Undone is the restore that takes back all of what it did; nil: none is known.
	Waits  *wait      `json:"-"`
	Undone *operation `json:"-"`
	// Held says who holds back what it replays.
	Held string `json:"-"`
}

// outcome is what became of what was replayed.
type outcome struct {
	Handled int `json:"handled"`
	Failed  int `json:"failed"`
	Died    int `json:"died"`
	Unknown int `json:"unknown"`
}

// OutcomeText says it in words; empty: nothing was replayed.
func (o operation) OutcomeText() string {
	if o.Outcome == nil || o.Gone() == 0 {
		return ""
	}
	of := o.Outcome
	return number(of.Handled) + " handled, " + number(of.Failed) + " failed a try, " + number(of.Died) + " died, " + number(of.Unknown) + " not known yet"
}

// leftOut counts what matches and stays.
type leftOut struct {
	CrashLoop int `json:"crash_loop"`
	TooLarge  int `json:"too_large"`
	Undated   int `json:"undated"`
	Later     int `json:"later"`
}

// Words says what stays, and why; empty: nothing.
func (l leftOut) Words() string {
	var all []string
	for _, of := range []struct {
		count int
		why   string
	}{
		{l.CrashLoop, "that killed the process before"},
		{l.TooLarge, "larger than may be published"},
		{l.Undated, "of which nobody knows when they died: choose them by their ids"},
		{l.Later, "that died after the look"},
	} {
		if of.count > 0 {
			all = append(all, number(of.count)+" "+of.why)
		}
	}
	return strings.Join(all, "; ")
}

// LeftOutText says it of an operation; empty: nothing stays.
func (o operation) LeftOutText() string {
	if words := o.LeftOut.Words(); words != "" {
		return "Matches, and stays: " + words
	}
	return ""
}

// State is how far it is in a word, which for what ended with nothing is none of a success.
func (o operation) State() string {
	if o.Phase == "done" && chooses(o.Action) && o.Gone() == 0 {
		return "nothing done"
	}
	return o.Phase
}

// chooses says that an action is about messages that were chosen: others may have taken some.
func chooses(action string) bool {
	return action == "replay" || action == "delete" || action == "restore"
}

// MissingText says of what is done that it is fewer than were confirmed; empty: it is not. What was
// found to be too large was there. Of messages that nobody had looked at not all need match, where
// it is not said which they are.
func (o operation) MissingText() string {
	if o.Phase != "done" || !chooses(o.Action) || o.Unsorted > 0 {
		return ""
	}
	var confirmed int
	if o.Expect != nil {
		confirmed = *o.Expect
	}
	text, missing := "", confirmed-o.Gone()-o.LeftOut.TooLarge
	if o.Gone() == 0 && o.LeftOut == (leftOut{}) {
		text = "Nothing matched any more. "
	}
	if missing <= 0 {
		return text
	}
	text += number(missing) + " of the " + number(confirmed) + " that were confirmed were no longer there"
	if o.LeftOut == (leftOut{}) {
		text += ": another operation or another person had taken them"
	} else {
		text += ", or were left out where nobody had looked"
	}
	if o.Action == "restore" {
		text += ", or the trash kept them no longer"
	}
	if o.Select.Group != "" || o.Select.Filter != nil {
		text += ". Where not all had been looked at, some may never have matched"
	}
	return text + "."
}

// UnsortedText says what it does not know of; empty: it looked at all.
func (o operation) UnsortedText() string {
	if o.Unsorted == 0 {
		return ""
	}
	return number(o.Unsorted) + " messages lay behind the oldest and were not looked at."
}

// Began says when it began, and where.
func (o operation) Began() string {
	switch {
	case o.StartedAt.IsZero():
		return "not yet"
	case o.Runner == "":
		return when(o.StartedAt)
	}
	return when(o.StartedAt) + " on " + o.Runner
}

// Ended says when it ended.
func (o operation) Ended() string {
	if o.EndedAt.IsZero() {
		return "not yet"
	}
	return when(o.EndedAt)
}

// DiedBefore is the time of death from which on messages are not touched; zero: it is not about
// what died. A restore is about what was deleted, a sort about all that there was.
func (o operation) DiedBefore() time.Time {
	switch {
	case o.Action != "replay" && o.Action != "delete":
		return time.Time{}
	case !o.ActsBefore.IsZero():
		return o.ActsBefore
	}
	return o.Before
}

// At is the dead set that it acts on.
func (o operation) At() choice { return choice{Stream: o.Stream, Channel: o.Channel} }

// Key names a number of it for those who keep it up to date.
func (o operation) Key(number string) string { return "operation " + o.ID + " " + number }

// HeldKey names what Held says for those who keep it up to date.
func (o operation) HeldKey() string { return row{At: o.At()}.Key("held") }

// Left is how long it takes about, in words; empty: not known, as how long it waits for its canary.
func (o operation) Left() string {
	if o.ETA == 0 || o.Phase != "running" || o.Canary > 0 && !o.CanaryOver {
		return ""
	}
	return "about " + lasting(time.Duration(o.ETA)*time.Second) + " left"
}

// Gone is how many are gone: Done is counted a turn at a time, and what was handled meanwhile is
// known before.
func (o operation) Gone() int {
	if o.Outcome == nil {
		return o.Done
	}
	return max(o.Done, o.Outcome.Handled)
}

// Progress is how many are gone of those that matched, which is not known at first.
func (o operation) Progress() string {
	if o.Matched == 0 && o.Expect != nil && !o.IsOver() {
		return number(o.Gone()) + " of at most " + number(*o.Expect)
	}
	return number(o.Gone()) + " of " + number(o.Matched)
}

// IsOver says that nothing can be changed any more.
func (o operation) IsOver() bool {
	switch o.Phase {
	case "queued", "running", "paused":
		return false
	}
	return true
}

// RateText is how fast it may be.
func (o operation) RateText() string {
	if o.Rate == "" {
		return "unlimited"
	}
	return o.Rate
}

// listed asks for operations, the newest first.
func (v v1) listed(r *http.Request, query url.Values) ([]operation, error) {
	var answer struct {
		Operations []operation `json:"operations"`
	}
	err := v.get(r, "/v1/dead_set/operations", query, &answer)
	if refused, is := asRefusal(err); is && refused.Status == http.StatusNotFound {
		return nil, nil // nobody runs any here
	}
	return answer.Operations, err
}

// mostListed is how many operations a page shows: as many as /v1 lists at once.
const mostListed = 500

// operations lists them.
func (c *Console) operations(w http.ResponseWriter, r *http.Request) error {
	query := url.Values{"limit": {strconv.Itoa(mostListed)}}
	for _, name := range []string{"stream", "state"} {
		if text := r.URL.Query().Get(name); text != "" {
			query.Set(name, text)
		}
	}
	all, err := c.api.listed(r, query)
	if err != nil {
		return err
	}
	if err := c.api.awaiting(r, all); err != nil {
		return err
	}
	return c.show(w, r, http.StatusOK, "operations", sheet{Title: "Operations", Section: "operations", Live: liveURL, Of: struct {
		Operations []operation
		More       bool
		State      string
		States     []string
	}{all, len(all) == mostListed, query.Get("state"), []string{"queued", "running", "paused", "done", "cancelled", "refused", "failed"}}})
}

// operationOf reads the one that the URL names.
func (v v1) operationOf(r *http.Request) (o operation, err error) {
	err = v.get(r, "/v1/dead_set/operations/"+url.PathEscape(r.URL.Query().Get("id")), nil, &o)
	return o, err
}

// operation shows one.
func (c *Console) operation(w http.ResponseWriter, r *http.Request) error {
	o, err := c.api.operationOf(r)
	if err != nil {
		// A trash names who deleted, and not how.
		if refused, is := asRefusal(err); is && refused.Status == http.StatusNotFound {
			refused.Detail += ". A delete by count leaves none, and those of long ago are forgotten; what they deleted is in the trash of its stream"
		}
		return err
	}
	if o.Action == "replay" && !o.IsOver() {
		if o.Held, err = c.api.held(r, o.At()); err != nil {
			return err
		}
	}
	if o.Undone, err = c.api.undone(r, o); err != nil {
		return err
	}
	one := []operation{o}
	if err := c.api.awaiting(r, one); err != nil {
		return err
	}
	return c.show(w, r, http.StatusOK, "operation", sheet{Title: o.Action + " of " + o.At().Who(), Section: "operations", Live: liveURL + "?" + url.Values{"id": {o.ID}}.Encode(), Of: one[0]})
}

// change pauses, resumes or cancels an operation, or gives it another rate. Whether
// that goes is for /v1 to say: the page may be older than what it shows.
func (v v1) change(w http.ResponseWriter, r *http.Request) error {
	id := r.PostFormValue("id")
	wish := map[string]string{}
	for _, name := range []string{"state", "rate"} {
		if text := r.PostFormValue(name); text != "" {
			wish[name] = text
		}
	}
	if err := v.send(r, http.MethodPatch, "/v1/dead_set/operations/"+url.PathEscape(id), wish, nil); err != nil {
		return err
	}
	return see(w, r, "/console/operation?"+url.Values{"id": {id}}.Encode())
}
