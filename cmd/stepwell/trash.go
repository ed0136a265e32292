package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// trash is stepwell dead-set trash.
type trash struct {
	chosen
	Operation *string `help:"What this operation deleted, or this undo of a delete by count."`
	Limit     int     `help:"How many at most." default:"50" short:"n"`
}

// thrown is what the table shows of a message in the trash.
type thrown struct {
	dead
	DeletedBy string    `json:"deleted_by"`
	DeletedAt time.Time `json:"deleted_at"`
	ExpiresAt time.Time `json:"expires_at"`
}

// Validate is called by the parser.
func (c *trash) Validate() error {
	switch {
	case c.Limit < 1:
		return errors.New("--limit must be 1 or more")
	case c.Operation != nil && *c.Operation == "":
		return empty("operation")
	}
	return c.chosen.Validate()
}

// Run shows what was deleted and is kept.
func (c *trash) Run(ctx context.Context, a *actor) error {
	q := c.query()
	if c.Operation != nil {
		q.Set("operation", *c.Operation)
	}
	all, page, err := pages(ctx, a, trashPath, q, c.Limit)
	if err != nil {
		return err
	}
	defer page.note(a)
	if len(all) < page.Matched {
		defer fmt.Fprintf(a.errs, "%d of the %d that match\n", len(all), page.Matched)
	}
	rows, err := rowsOf(a, all, thrown.row)
	if err != nil || a.json {
		return err
	}
	return a.table([]string{"ID", "DELETED", "BY", "KEPT UNTIL", "DIED", "REASON", "FROM", "ERROR"}, rows)
}

const trashPath = "/v1/dead_set/trash"

// row is the message in a table.
func (m thrown) row() []string {
	return []string{m.ID, when(m.DeletedAt), m.DeletedBy, when(m.ExpiresAt), when(m.DiedAt), m.Reason, m.from(), m.Error}
}

// undo is stepwell dead-set undo.
type undo struct {
	named
	Stream  *string `help:"The stream-id, where the actor does not know the operation, as that of a delete by count." short:"s"`
	Channel *string `help:"One of its channels." short:"c"`
	Note    *string `help:"A note for who looks at the operation."`
	DryRun  bool    `help:"Only show how many that would be, and of which causes."`
	Detach  bool    `help:"Do not watch the operation."`
	Yes     bool    `help:"Do not ask." short:"y"`
}

// Validate is called by kong before Run.
func (c undo) Validate() error {
	for name, text := range map[string]*string{"stream": c.Stream, "channel": c.Channel, "note": c.Note} {
		if text != nil && *text == "" {
			return empty(name)
		}
	}
	return c.named.Validate()
}

// Run restores what the operation has deleted, once a person has said yes.
func (c *undo) Run(ctx context.Context, a *actor) error {
	what := acting{DryRun: c.DryRun, Detach: c.Detach, Yes: c.Yes, Note: c.Note}
	o, _, err := a.find(ctx, c.ID)
	switch {
	case err == nil:
		what.Stream = o.Stream
		if o.Channel != "" {
			what.Channel = &o.Channel
		}
	case errors.Is(err, errForgotten) && c.Stream != nil:
		what.Stream, what.Channel = *c.Stream, c.Channel
	case errors.Is(err, errForgotten):
		return fmt.Errorf("the actor has no record of %s: if it is the undo of a delete by count, say its stream with --stream", printable(c.ID))
	default:
		return err
	}
	if o.Action == "edit" {
		fmt.Fprintln(a.errs, "the edited copy was sent to be handled: no undo takes that back")
	}
	w := wish{Action: "restore", Stream: what.Stream, Channel: what.Channel, Note: c.Note, Select: map[string]string{"operation": c.ID}}
	return what.operate(ctx, a, w)
}

// keepsTrash says whether what is deleted of a dead set goes to its trash: an actor that has none,
// or knows none, answers 404.
func (a *actor) keepsTrash(ctx context.Context, of which) (bool, error) {
	q := of.query()
	q.Del("count")
	q.Set("limit", "1")
	var answer json.RawMessage
	err := a.get(ctx, trashPath, q, &answer)
	if r, ok := errors.AsType[*refusal](err); ok && r.status == http.StatusNotFound {
		return false, nil
	}
	return err == nil, err
}

// pages asks for one part of a list after another until the limit is reached or nothing more
// matches.
func pages(ctx context.Context, a *actor, path string, q url.Values, limit int) (all []json.RawMessage, page foundPage, err error) {
	// The actor forgets a look after a second, and then looks anew: the cursor names the last
	// message shown, and is refused where that is gone.
	for ; ; q.Set("cursor", page.Next) {
		q.Set("limit", strconv.Itoa(min(maxPage, limit-len(all))))
		page = foundPage{} // what was decoded before is kept
		if err := a.get(ctx, path, q, &page); err != nil {
			return nil, page, err
		}
		all = append(all, page.Messages...)
		if page.Next == "" || len(all) >= limit {
			return all, page, nil
		}
	}
}
