package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// acting says on which messages a replay or a delete acts, and how. With a count it takes the
// oldest and answers when that is done; else it is an operation, which the actor runs.
type acting struct {
	chosen
	Count  *int     `help:"How many, the oldest first, whatever they are." short:"n"`
	ID     []string `help:"With this id, every copy of it; may be given again." sep:"none"`
	All    bool     `help:"All of them."`
	DryRun bool     `help:"Only show how many that would be, and of which causes."`
	Rate   *string  `help:"How fast: messages a second or a minute, such as 200/s or 50/m."`
	Expect *int     `help:"How many they should be; more, and nothing is done. Default: as many as were shown."`
	Note   *string  `help:"A note for who looks at the operation."`
	Detach bool     `help:"Do not watch the operation."`
	Yes    bool     `help:"Do not ask." short:"y"`
}

// Validate is called by kong before Run. Exactly one way to choose has to be there: what is not
// said, or is empty, never means all.
func (c acting) Validate() error {
	if err := c.chosen.Validate(); err != nil {
		return err
	}
	for _, id := range c.ID {
		if id == "" {
			return empty("id")
		}
	}
	for name, text := range map[string]*string{"rate": c.Rate, "note": c.Note} {
		if text != nil && *text == "" {
			return empty(name)
		}
	}
	if c.Count != nil && *c.Count < 1 {
		return errCount
	}
	return c.oneWay()
}

// oneWay returns an error unless exactly one way to choose is given, with what belongs to it.
func (c acting) oneWay() error {
	var ways []string
	for _, way := range []struct {
		name string
		is   bool
	}{{"--count", c.Count != nil}, {"--id", len(c.ID) > 0}, {"--all", c.All}, {"a filter", len(c.parameters()) > 0}} {
		if way.is {
			ways = append(ways, way.name)
		}
	}
	switch {
	case len(ways) == 0:
		return errors.New("which messages are meant? --group, another filter, --id or --all chooses, --count takes the oldest")
	case len(ways) > 1:
		return fmt.Errorf("%s cannot be given together", strings.Join(ways, " and "))
	case c.Count != nil && (c.DryRun || c.Detach || c.Rate != nil || c.Expect != nil || c.Note != nil):
		return errors.New("--dry-run, --rate, --expect, --note and --detach are for what is chosen, and not for a --count; stepwell dead-set peek with that count shows what it takes")
	case c.Expect != nil && *c.Expect < 0:
		return errors.New("--expect must be 0 or more")
	}
	return nil
}

// which are the oldest, by count.
func (c acting) which() which { return which{Stream: c.Stream, Channel: c.Channel, Count: *c.Count} }

// wish is what the actor is asked for, in its words: it refuses a member that it does not know, so
// an older actor never does more than this program asked for.
type wish struct {
	Action  string  `json:"action"`
	Stream  string  `json:"stream"`
	Channel *string `json:"channel,omitempty"`
	// Select has exactly one member; nil for a sort, which chooses nothing.
	Select any `json:"select,omitempty"`
	// Before is when the look began that was shown to the person, and Expect how many it showed:
	// with them the actor does what was seen, and nothing that came later.
	Before     string  `json:"before,omitempty"`
	Expect     *int    `json:"expect,omitempty"`
	DryRun     bool    `json:"dry_run,omitempty"`
	Rate       *string `json:"rate,omitempty"`
	CrashLoops bool    `json:"include_crash_loop,omitempty"`
	Ahead      *int    `json:"ahead,omitempty"`
	Force      bool    `json:"force,omitempty"`
	Forever    *bool   `json:"forever,omitempty"`
	Note       *string `json:"note,omitempty"`
	guards
}

// wish is what to ask the actor for. A group alone is a choice of its own; with other parameters it
// is one of a filter's.
func (c acting) wish(action string) wish {
	w := wish{Action: action, Stream: c.Stream, Channel: c.Channel, Rate: c.Rate, Note: c.Note}
	parameters := c.parameters()
	switch {
	case c.All:
		w.Select = map[string]bool{"all": true}
	case len(c.ID) > 0:
		w.Select = map[string][]string{"ids": c.ID}
	case c.Group != nil && len(parameters) == 1:
		w.Select = map[string]string{"group": *c.Group}
	default:
		w.Select = map[string]map[string]string{"filter": parameters}
	}
	return w
}

const operationsPath = "/v1/dead_set/operations"

// sample is what would be acted on.
type sample struct {
	span
	Matched int       `json:"matched"`
	Bytes   int64     `json:"bytes"`
	LeftOut leftOut   `json:"left_out"`
	Room    *int      `json:"room"` // in the trash; nil: what is deleted is gone, or nothing is
	Groups  []group   `json:"groups"`
	AsOf    time.Time `json:"as_of"`
	// Samples are the oldest of them.
	Samples []struct {
		ID string `json:"id"`
	} `json:"samples"`
	// Seconds is how long it takes at its rate; 0: it has none.
	Seconds float64 `json:"seconds"`
	Message string  `json:"message"`
}

// operate shows what was chosen, asks, lets the actor begin, and watches.
func (c acting) operate(ctx context.Context, a *actor, w wish) error {
	dry := w
	dry.DryRun = true
	var whole json.RawMessage
	if err := a.wish(ctx, "POST", operationsPath, dry, &whole); err != nil {
		return err
	}
	var found sample
	if err := read(whole, &found); err != nil {
		return err
	}
	if c.DryRun && a.json {
		return cmp.Or(a.line(whole), found.gone(w))
	}
	if err := cmp.Or(c.show(a, w.Action, found), found.gone(w)); err != nil || c.DryRun {
		return err
	}
	if found.Matched == 0 {
		return cmp.Or(found.nothing(), found.LeftOut.ofNamed(c.ID), c.unfound(found))
	}
	if err := c.confirmChoice(a, w.Action, found); err != nil {
		return err
	}
	// What was shown is what is done: nothing that died later, and no more. What was not looked at
	// may match, too.
	w.Before = found.AsOf.Format(time.RFC3339Nano)
	if w.Expect = c.Expect; w.Expect == nil {
		most := found.Matched + found.Unsorted
		w.Expect = &most
	}
	if found.Room != nil {
		w.Forever = new(bool) // also where another process answers, which has no trash: it refuses
	}
	o, begun, err := a.begin(ctx, w)
	if err != nil {
		return err
	}
	switch {
	case !c.Detach:
		err = a.follow(ctx, o.ID)
	case a.json:
		err = a.line(begun)
	default:
		_, err = fmt.Fprintf(a.out, "%s\n%s\n", printable(o.ID), plain(o.Message))
	}
	return cmp.Or(err, c.unfound(found))
}

// answerTime is how long the answer to who asks for an operation is waited for after a Ctrl-C.
const answerTime = 2 * time.Second

// begin asks for an operation, and returns it also as it was answered. A Ctrl-C waits for the
// answer: else nobody would know which operation began, or whether. Where none comes, since the
// process that was asked has ended, it may have begun all the same.
func (a *actor) begin(ctx context.Context, w wish) (o operation, begun json.RawMessage, err error) {
	if err := ctx.Err(); err != nil {
		return o, nil, err
	}
	asking, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(answerTime, cut) })()
	err = a.wish(asking, "POST", operationsPath, w, &begun)
	switch {
	case err == nil:
		return o, begun, read(begun, &o)
	case asking.Err() != nil || isCutOff(err):
		err = fmt.Errorf("%w: the operation may have begun; stepwell dead-set operations shows it (%w)", errLook, err)
	}
	return o, nil, err
}

// gone is what an undo ends with that finds nothing to bring back, in the words of the actor; nil:
// it is no undo, or there is something.
func (s sample) gone(w wish) error {
	if w.Action != "restore" || s.Matched > 0 || s.Unsorted > 0 {
		return nil
	}
	return errors.New(s.Message)
}

// nothing is what a command ends with that finds nothing to do: it is done, unless there is more
// than it could see. An operation would see no more, since nothing that it sees would leave.
func (s sample) nothing() error {
	if s.Unsorted == 0 {
		return nil
	}
	return fmt.Errorf("%w: none of the oldest %d messages matches, and %d were not looked at: stepwell dead-set sort makes all of them seen", errLook, s.Depth-s.Unsorted, s.Unsorted)
}

// unfound is what a command ends with where what it names one by one is not there: a slip of the
// pen must not look like what is done. Copies of a message hide as many ids; where not all was
// looked at nobody knows.
func (c acting) unfound(s sample) error {
	const why = "mistyped, or no longer there"
	ids, there := len(slices.Compact(slices.Sorted(slices.Values(c.ID)))), s.Matched+s.LeftOut.sum()
	switch {
	case s.Unsorted > 0:
	case ids > there && there == 0:
		return fmt.Errorf("%w: no message with the id %s was found: %s", errLook, printable(strings.Join(c.ID, ", ")), why)
	case ids > there:
		return fmt.Errorf("%w: of %d ids at least %d was not found: %s", errLook, ids, ids-there, why)
	case c.Group != nil && len(c.parameters()) == 1 && there == 0:
		return fmt.Errorf("%w: no message of the cause %s was found: %s", errLook, printable(*c.Group), why)
	}
	return nil
}

// oldest are the ids of some of them.
func (s sample) oldest() (ids []string) {
	for _, m := range s.Samples {
		ids = append(ids, printable(m.ID))
	}
	return ids
}

// show prints how many were chosen, which are the oldest, and of which causes. With --json,
// what is printed is the operation's end: this goes where notes go.
func (c acting) show(a *actor, action string, found sample) error {
	to := *a
	if !c.DryRun {
		to.out = a.errs
	}
	what := "dead messages of"
	if action == "restore" {
		what = "messages in the trash of"
	}
	size := ""
	if found.Bytes > 0 {
		size = fmt.Sprintf(", %d bytes", found.Bytes)
	}
	fmt.Fprintf(to.out, "%s: %d of the %d %s %s%s\n", action, found.Matched, found.Depth, what, printable(c.who()), size)
	if ids := found.oldest(); len(ids) > 0 {
		fmt.Fprintf(to.out, "the oldest: %s\n", strings.Join(ids, ", "))
	}
	if found.Room != nil {
		fmt.Fprintf(to.out, "the trash has room for about %d\n", *found.Room)
	}
	if text := found.LeftOut.String(); text != "" {
		fmt.Fprintf(to.out, "left out: %s\n", text)
	}
	if found.Seconds > 0 {
		fmt.Fprintf(to.out, "at that rate: %s\n", time.Duration(found.Seconds*float64(time.Second)).Round(time.Second))
	}
	found.note(a)
	rows, more, of := make([][]string, 0, len(found.Groups)), 0, 0
	for i, g := range found.Groups {
		if i >= askedCauses && !c.DryRun {
			more, of = more+1, of+g.Count
			continue
		}
		rows = append(rows, g.row())
	}
	if len(rows) == 0 {
		return nil
	}
	err := to.groupTable(rows)
	if more > 0 {
		fmt.Fprintf(to.out, "and %d more causes, of %d messages: --dry-run shows all\n", more, of)
	}
	return err
}

// askedCauses is how many causes, the largest, are shown above a question: it is to be read with
// them.
const askedCauses = 20

// confirmChoice returns an error unless the person says yes, now or by --yes.
func (c acting) confirmChoice(a *actor, action string, found sample) error {
	switch {
	case c.Yes:
		return nil
	case a.ask == nil:
		return errUnasked
	}
	question := fmt.Sprintf("Replay these %d messages of %s?", found.Matched, printable(c.who()))
	switch action {
	case "delete":
		question = fmt.Sprintf("Delete these %d messages of %s%s?", found.Matched, printable(c.who()), whereTo(found.Room != nil))
	case "restore":
		question = fmt.Sprintf("Move these %d messages back into the dead set of %s?", found.Matched, printable(c.who()))
	}
	if found.Unsorted > 0 {
		question = fmt.Sprintf("And those that match among the %d that were not looked at? ", found.Unsorted) + question
	}
	return a.ask(question)
}
