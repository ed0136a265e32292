package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// operation is what is shown of one.
type operation struct {
	ID      string `json:"id"`
	Action  string `json:"action"`
	Stream  string `json:"stream"`
	Channel string `json:"channel"`
	Select  struct {
		IDs    []string       `json:"ids"`
		Group  string         `json:"group"`
		Filter map[string]any `json:"filter"`
		// Operation is what a restore takes back.
		Operation string `json:"operation"`
	} `json:"select"`
	// Trash is for how long what a delete deleted is kept; empty: it is gone.
	Trash     string    `json:"trash"`
	By        string    `json:"by"`
	Note      string    `json:"note"`
	CreatedAt time.Time `json:"created_at"`
	State     string    `json:"state"`
	// Why is empty where all is well.
	Why    string `json:"why"`
	Rate   string `json:"rate"`
	Runner string `json:"runner"`
	// Matched counts those that are done, too.
	Matched int     `json:"matched"`
	Done    int     `json:"done"`
	LeftOut leftOut `json:"left_out"`
	// Outcome is what became of what was replayed; nil: it is no replay, or the actor is older.
	Outcome *outcome `json:"outcome"`
	// Unsorted messages were not looked at: an operation that is done while there are some may not
	// have seen all that it was asked for.
	Unsorted int `json:"unsorted"`
	// ETA is in seconds; 0: not known.
	ETA int `json:"eta_seconds"`
	// Message is only there in the answer to who asked for it.
	Message string `json:"message"`
}

// outcome is what became of messages that were replayed.
type outcome struct {
	Handled int `json:"handled"`
	Failed  int `json:"failed"`
	Died    int `json:"died"`
	Unknown int `json:"unknown"`
}

// text says it for people; empty where there is nothing to say.
func (o *outcome) text() string {
	if o == nil || *o == (outcome{}) {
		return ""
	}
	return fmt.Sprintf("; %d handled, %d failed a try, %d died, %d not known yet", o.Handled, o.Failed, o.Died, o.Unknown)
}

// leftOut are messages that match and stay.
type leftOut struct {
	CrashLoop int `json:"crash_loop"`
	TooLarge  int `json:"too_large"`
	Undated   int `json:"undated"`
	Later     int `json:"later"`
}

func (l leftOut) sum() int { return l.CrashLoop + l.TooLarge + l.Undated + l.Later }

// String says why they stay; empty: there are none.
func (l leftOut) String() string {
	var all []string
	for _, one := range []struct {
		n   int
		why string
	}{{l.CrashLoop, "that killed the process (--include-crash-loop takes them, too)"}, {l.TooLarge, "too large"}, {l.Undated, "of which nobody knows when they died"}, {l.Later, "that died later"}} {
		if one.n > 0 {
			all = append(all, fmt.Sprintf("%d %s", one.n, one.why))
		}
	}
	return strings.Join(all, ", ")
}

// ofNamed is an error where messages that were named one by one stay; whoever says all, or gives a
// filter, does not know each of them.
func (l leftOut) ofNamed(ids []string) error {
	if len(ids) == 0 || l == (leftOut{}) {
		return nil
	}
	return fmt.Errorf("%w: of those with these ids were left out: %s", errLook, l)
}

var (
	// errLook is why somebody has to look.
	errLook = errors.New("somebody has to look")
	// errForgotten: the actor that answers does not know the operation any more.
	errForgotten = errors.New("it is another app, or one whose operations end with their process (RABBITMQ_RECORDS=false). What it did is done, nothing is lost")
	// errBegun is errForgotten of an operation that the command itself has begun.
	errBegun = errors.New("the same command again does what is left")
)

// is says what it is about, for people.
func (o operation) is() string {
	who := o.Stream
	if o.Channel != "" {
		who += " channel " + o.Channel
	}
	return o.Action + " of " + who
}

// progress is how far it is.
func (o operation) progress() string {
	text := fmt.Sprintf("%s: %s, %d of %d", o.is(), o.State, o.Done, o.Matched)
	if o.ETA > 0 {
		text += ", about " + (time.Duration(o.ETA) * time.Second).String() + " left"
	}
	text += o.Outcome.text()
	if o.Why != "" {
		text += ": " + o.Why
	}
	return plain(text)
}

// outcome is nil where all is done and well, else what is not. over says whether nothing follows by
// itself.
func (o operation) outcome() (over bool, err error) {
	switch o.State {
	case "queued", "running":
		return false, nil
	case "done":
		if o.Unsorted > 0 {
			return true, fmt.Errorf("%w: %s", errLook, o.Why)
		}
		return true, cmp.Or(o.wentWrong(), o.LeftOut.ofNamed(o.Select.IDs))
	case "paused", "refused":
		return true, fmt.Errorf("%w: the operation is %s: %s", errLook, o.State, o.Why)
	}
	return true, fmt.Errorf("the operation is %s: %s", o.State, o.Why)
}

// wentWrong is an error where it is known of messages that were replayed that a try failed, or that
// they died again.
func (o operation) wentWrong() error {
	if o.Outcome == nil || o.Outcome.Failed+o.Outcome.Died == 0 {
		return nil
	}
	return fmt.Errorf("%w: of what was replayed %d failed a try, and %d died: stepwell dead-set list %s --replayed-by %s shows those that did", errLook, o.Outcome.Failed, o.Outcome.Died, o.where(), o.ID)
}

// where are the flags that name its dead set.
func (o operation) where() string {
	if o.Channel == "" {
		return "-s " + o.Stream
	}
	return "-s " + o.Stream + " -c " + o.Channel
}

// find asks for an operation. A 404 has a meaning of its own: operations end with their process.
func (a *actor) find(ctx context.Context, id string) (o operation, whole json.RawMessage, err error) {
	body, err := a.send(ctx, "GET", operationsPath+"/"+url.PathEscape(id), nil)
	if r, ok := errors.AsType[*refusal](err); ok && r.status == http.StatusNotFound {
		return o, nil, fmt.Errorf("the actor does not know the operation: %s is mistyped, or %w (%w)", printable(id), errForgotten, err)
	}
	if err != nil {
		return o, nil, err
	}
	return o, body, read(body, &o)
}

const (
	// watchEvery is how often a command asks how far an operation is, tellEvery how often it says
	// so.
	watchEvery = 500 * time.Millisecond
	tellEvery  = 5 * time.Second
)

// follow watches an operation that this command has begun.
func (a *actor) follow(ctx context.Context, id string) error {
	err := a.watch(ctx, id, true)
	if errors.Is(err, errForgotten) {
		return fmt.Errorf("%w; %w", err, errBegun)
	}
	return err
}

// watch says how far an operation is until it is over, or rests. When ctx ends, by Ctrl-C or a
// SIGTERM, the operation goes on unwatched: the exit code says so, since a script that was cut off
// must not take it for done. So does one that is known, to who began it or by an answer before,
// once the actor tells no more of it: another process may go on with it.
func (a *actor) watch(ctx context.Context, id string, known bool) error {
	var told string
	var at time.Time
	for {
		o, whole, err := a.find(ctx, id)
		if ctx.Err() != nil {
			return fmt.Errorf("%w: the operation goes on unwatched; stepwell dead-set operations watch %s", errLook, printable(id))
		}
		switch {
		case err != nil && known && !errors.Is(err, errForgotten):
			return fmt.Errorf("%w: the operation may go on, unwatched: stepwell dead-set operations watch %s (%w)", errLook, printable(id), err)
		case err != nil:
			return err
		}
		known = true
		over, end := o.outcome()
		if over {
			return errors.Join(a.printOperation(o, whole), end)
		}
		if text := o.progress(); text != told && time.Since(at) >= tellEvery {
			fmt.Fprintln(a.errs, text)
			told, at = text, time.Now()
		}
		select {
		case <-time.After(watchEvery):
		case <-ctx.Done():
		}
	}
}

// printOperation prints how far it is, or with --json all of it.
func (a *actor) printOperation(o operation, whole json.RawMessage) error {
	if a.json {
		return a.line(whole)
	}
	text := o.progress()
	if left := o.LeftOut.String(); left != "" {
		text += "; left out: " + left
	}
	if (o.Action == "delete" || o.Action == "edit") && o.Trash != "" && o.Done > 0 {
		text += "; in the trash for " + printable(o.Trash) + ": stepwell dead-set undo " + printable(o.ID+" "+o.where()) + " brings it back"
	}
	_, err := fmt.Fprintln(a.out, a.addressed(text))
	return err
}

// row is the operation in a table.
func (o operation) row() []string {
	left := "-"
	if o.ETA > 0 {
		left = (time.Duration(o.ETA) * time.Second).String()
	}
	return []string{o.ID, o.State, o.is(), short(o.chosen(), 60), fmt.Sprintf("%d/%d", o.Done, o.Matched), cmp.Or(o.Rate, "-"), left, o.By, when(o.CreatedAt), o.Note, o.Why}
}

// chosen is what of the dead set it is about.
func (o operation) chosen() string {
	switch {
	case o.Select.Group != "":
		return "group " + o.Select.Group
	case o.Select.Operation != "" && len(o.Select.IDs) > 0:
		return strconv.Itoa(len(o.Select.IDs)) + " ids of what " + o.Select.Operation + " deleted"
	case o.Select.Operation != "":
		return "what " + o.Select.Operation + " deleted"
	case len(o.Select.IDs) > 0:
		return strconv.Itoa(len(o.Select.IDs)) + " ids"
	case len(o.Select.Filter) > 0:
		text, err := json.Marshal(o.Select.Filter)
		if err != nil {
			return "a filter"
		}
		return string(text)
	}
	return "all"
}

// asked is who asked for what, and when.
func (o operation) asked() string {
	text := fmt.Sprintf("asked by %s at %s, of %s", cmp.Or(o.By, "nobody known"), when(o.CreatedAt), o.chosen())
	if o.Rate != "" && o.Rate != "unlimited" {
		text += ", at most " + o.Rate
	}
	if o.Note != "" {
		text += "; note: " + o.Note
	}
	return plain(text)
}
