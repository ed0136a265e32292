package console

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const (
	// many messages are replayed slowly, unless somebody wants it otherwise: what the
	// mended cause depends on may just have come back.
	many             = 100
	slowRate, slowly = "200/s", 200
	// fewFirst of them are replayed first, and the rest only if these are handled.
	fewFirst = "10"
)

// acts are the pages that ask before something is done, and do it.
type acts struct{ *Console }

// sample is what an operation would act on, as a dry run of /v1 says: as far as one
// look sees, with the causes among them and the oldest five.
type sample struct {
	span
	Before  time.Time `json:"before"`
	Matched int       `json:"matched"`
	Bytes   int64     `json:"bytes"`
	LeftOut leftOut   `json:"left_out"`
	Room    *int      `json:"room"` // in the trash; nil: nothing goes there
	Groups  []group   `json:"groups"`
	Samples []message `json:"samples"`
}

// question is what is asked before anything is done.
type question struct {
	sample
	At choice
	// Action is replay, delete or restore, and Words what it is about; Cause is which cause, where
	// it is one. Forever: what is deleted is gone.
	Action, Words, Cause string
	Forever              bool
	// Kept is for how long what is deleted is in the trash, if it goes there, and KeptUntil until
	// when if it is deleted now; empty: there is no trash.
	Kept      string
	KeptUntil time.Time
	// Beyond: what matches among messages that were not looked at is meant, too.
	// Expect is how many may be touched.
	Beyond bool
	Expect int
	// Rate, Canary, StopAt and Note are what stands in their fields at first, and CrashLoop whether
	// that is ticked.
	Rate, Canary, StopAt, Note string
	CrashLoop                  bool
	// Wrong says why what was asked for was refused; empty: nothing was yet.
	Wrong string
	// Once makes two presses of one button one wish.
	Once string
	// Held says who holds back what is replayed; empty: nobody does.
	Held string
}

// Verb is the action on a button.
func (q question) Verb() string {
	switch q.Action {
	case "delete":
		return "Delete"
	case "restore":
		return "Restore"
	}
	return "Replay"
}

// Takes is how long it takes at the rate that is proposed, roughly; empty: none is.
func (q question) Takes() string {
	if q.Rate == "" {
		return ""
	}
	return lasting(time.Duration((q.Expect+slowly-1)/slowly) * time.Second)
}

// With is the value of a parameter that says so, for a link that keeps it.
func (question) With(is bool) string {
	if is {
		return "true"
	}
	return ""
}

// Grows says that some died within the last five minutes before the look: more may follow.
func (q question) Grows() bool {
	for _, g := range q.Groups {
		if sum(g.Minutes[max(0, len(g.Minutes)-5):]) > 0 {
			return true
		}
	}
	return false
}

// confirm shows what a replay or a delete would do, and asks. It changes nothing: the
// look is a dry run.
func (c acts) confirm(w http.ResponseWriter, r *http.Request) error {
	at, moved, err := chosenBy(w, r)
	if err != nil || moved {
		return err
	}
	if r.URL.Query().Get("action") == "sort" {
		return c.sort(w, r, at)
	}
	q, err := c.question(r, at, r.URL.Query())
	if err != nil {
		return err
	}
	return c.put(w, r, http.StatusOK, q)
}

// question looks at what was chosen, as it is now, for a page that asks. What is given for its
// fields stands in them.
func (c acts) question(r *http.Request, at choice, given url.Values) (question, error) {
	at = at.fixed(time.Now())
	q := question{At: at, Action: given.Get("action"), Beyond: given.Get("beyond") == "true", Once: rand.Text()}
	selected, err := at.selected()
	if err != nil {
		return q, err
	}
	// A dry run: /v1 counts, and changes nothing. An action that it does not know it refuses.
	wish := map[string]any{"action": q.Action, "stream": at.Stream, "select": selected, "dry_run": true}
	if at.Channel != "" {
		wish["channel"] = at.Channel
	}
	if given.Get("forever") == "true" {
		wish["forever"] = true
	}
	if err := c.api.send(r, http.MethodPost, "/v1/dead_set/operations", wish, &q.sample); err != nil {
		return q, err
	}
	q.seen(selected, c.cfg.Trash)
	if q.Action == "replay" {
		if q.Held, err = c.api.held(r, at); err != nil {
			return q, err
		}
	}
	q.take(given)
	return q, nil
}

// seen makes the question that follows from the look; keep is for how long the trash keeps.
func (q *question) seen(selected selection, keep time.Duration) {
	q.Forever = q.Action == "delete" && q.Room == nil
	if keep > 0 {
		q.Kept, q.KeptUntil = lasting(keep), time.Now().Add(keep)
	}
	// What was seen is what is done: nothing that died after the look.
	if q.AsOf.Before(q.Before) {
		q.Before = q.AsOf
	}
	q.Cause = selected.Group
	if q.Words, q.Expect = selected.Words(), q.Matched; q.Beyond {
		q.Expect += q.Unsorted
	}
	// A delete burdens nobody but RabbitMQ: it is as fast as it can be.
	if q.Action == "replay" && q.Expect > many {
		q.Rate, q.Canary = slowRate, fewFirst
	}
}

// ask begins what a form asks for: a sort, or what was confirmed; once for each form.
func (c acts) ask(w http.ResponseWriter, r *http.Request) error {
	form := r.PostForm
	at, err := choose(form)
	if err != nil {
		return err
	}
	// Of all that is there, whatever filter its page has: nothing leaves the dead set.
	wish := map[string]any{"force": form.Get("force") == "true"}
	if form.Get("action") != "sort" {
		wish, err = confirmed(form, at)
	}
	if err == nil && form.Get("once") == "" {
		err = notOfItsPage()
	}
	if err != nil {
		return err
	}
	wish["action"], wish["stream"] = form.Get("action"), at.Stream
	if at.Channel != "" {
		wish["channel"] = at.Channel
	}
	var begun operation
	if err := c.api.send(r, http.MethodPost, "/v1/dead_set/operations", wish, &begun, "Idempotency-Key", form.Get("once")); err != nil {
		return err
	}
	return see(w, r, "/console/operation?"+url.Values{"id": {begun.ID}}.Encode())
}

// notOfItsPage refuses a form that no page of the console has made.
func notOfItsPage() error {
	return refuse(http.StatusBadRequest, "this form was not asked for by its page: nothing was done. Choose again")
}

// confirmed is what to ask of /v1 for what was confirmed: with the selection, the time of the look
// and the number that the page has shown, so that /v1 refuses where more match by now. The number
// that was typed is compared here, since only a page asks for it.
func confirmed(form url.Values, at choice) (map[string]any, error) {
	selected, err := at.selected()
	if err != nil {
		return nil, err
	}
	expect, err := strconv.Atoi(form.Get("expect"))
	if err != nil || form.Get("before") == "" {
		return nil, notOfItsPage()
	}
	// Exactly what the page had shown: names and values are those of its hidden fields.
	wish := map[string]any{"select": selected, "before": form.Get("before"), "expect": expect}
	if form.Get("action") == "delete" {
		// Whoever saw that it goes to the trash must not delete for good where that is gone by now.
		wish["forever"] = form.Get("forever") == "true"
	}
	if wish["forever"] == true && form.Get("typed") != form.Get("expect") {
		return nil, refuse(http.StatusUnprocessableEntity, "%q was typed, and %d were to be deleted: type the number if you mean it", clip(form.Get("typed"), 20), expect)
	}
	for _, name := range []string{"rate", "note", "stop_at", "canary"} {
		if text := form.Get(name); text != "" {
			wish[name] = text
		}
	}
	if n, err := strconv.Atoi(form.Get("canary")); err == nil { // what is no number /v1 refuses, in its words
		wish["canary"] = n
	}
	if form.Get("include_crash_loop") == "true" {
		wish["include_crash_loop"] = true
	}
	return wish, nil
}
