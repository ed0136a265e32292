package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/stepwell/stepwell/internal/filter"
	"github.com/stepwell/stepwell/internal/operations"
)

// operationName is the parameter that says who deleted what is looked for.
const operationName = "operation"

// keptUntil says of what was deleted now, by that name, until when it is kept, and how to have it
// back.
func (q requests) keptUntil(id string, of operations.Target, now time.Time) string {
	return fmt.Sprintf("in the trash until %s: %s brings it back", now.Add(q.cfg.Trash).UTC().Format(time.RFC3339), undo(id, of))
}

// undo is the command that brings back what was deleted by that name. It names the dead set: a
// delete by count leaves no record, and those of others are forgotten one day.
func undo(id string, of operations.Target) string {
	return "stepwell dead-set undo " + id + " " + flags(of)
}

// flags are those with which the command names a dead set.
func flags(of operations.Target) string {
	if of.Channel == "" {
		return "-s " + of.Stream
	}
	return "-s " + of.Stream + " -c " + of.Channel
}

// noTrash is for who asks for what is in a trash, where there is none.
func (q requests) noTrash() error {
	return &problem{status: http.StatusNotFound, detail: "there is no trash (" + q.cfg.Setting("dead_set.trash") + "=0)"}
}

// trash lists what was deleted and is kept.
func (d deadSets) trash(w http.ResponseWriter, r *http.Request) error {
	given, err := d.arguments(w, r, whose(limitName, cursorName, operationName), filter.Known)
	if err != nil {
		return err
	}
	sought, err := d.search(r, given)
	if err != nil {
		return err
	}
	sought.query.MovedBy = given[operationName]
	keep, _, err := d.keeps(r.Context(), sought.query.MovedBy, operations.Target{Stream: given[streamName], Channel: given[channelName]})
	if err != nil {
		return err
	}
	list, err := patiently(r.Context(), d.cfg, func(ctx context.Context) (List, error) { return sought.set.FindTrash(ctx, keep, sought.query) })
	if err != nil {
		return err
	}
	return d.answer(w, d.listed(r, list))
}

// keeps is for how long the trash keeps that has what the operation deleted, and which action that
// was; without one it is that of now. A delete by count has left no record, and those of others are
// forgotten one day: then it is that of now, too.
func (q requests) keeps(ctx context.Context, id string, of operations.Target) (keep time.Duration, action string, err error) {
	keep = q.cfg.Trash
	if id != "" && q.cfg.Operations != nil {
		o, err := q.cfg.Operations.Find(ctx, id)
		switch {
		case errors.Is(err, operations.ErrUnknown):
		case err != nil:
			return 0, "", err
		case o.Action != operations.Delete && o.Action != operations.Edit:
			return 0, "", mistake("operation %s is a %s: only what was deleted is in the trash", clip(id), o.Action)
		case o.Target != of:
			return 0, "", mistake("operation %s is of %s", clip(id), params{stream: o.Stream, channel: o.Channel}.who())
		case o.Forever:
			return 0, "", &problem{status: http.StatusNotFound, detail: "operation " + clip(id) + " has deleted for good: nothing keeps that"}
		default:
			keep, action = time.Duration(o.Trash), o.Action
		}
	}
	if keep == 0 {
		return 0, "", q.noTrash()
	}
	return keep, action, nil
}

// findTrash finds the trash that a restore takes from. Nothing else takes from any.
func (s wishes) findTrash(r *http.Request, a *wish) error {
	switch {
	case a.request.Action == operations.Restore:
	case a.request.Select.Operation != "":
		return mistake("select.operation is for %s", operations.Restore)
	default:
		return nil
	}
	keep, undoes, err := s.keeps(r.Context(), a.request.Select.Operation, a.request.Target)
	a.request.Trash, a.undoes = operations.Wait(keep), undoes
	return err
}

// readDelete reads what becomes of what is deleted.
func (s wishes) readDelete(m *members, forever *bool, a *wish) {
	switch a.request.Forever = is(forever) || s.cfg.Trash == 0; {
	case !a.request.Forever:
		a.request.Trash = operations.Wait(s.cfg.Trash)
	case forever != nil && !*forever:
		// Nothing keeps what is deleted: who asks for that must not believe it was kept.
		m.mistake("forever must be true, or be left out: there is no trash (%s=0), %s", s.cfg.Setting("dead_set.trash"), goneForGood)
	}
}

// becomes says what becomes of what is deleted, and what no restore takes back. begun is the id of
// the operation; empty: it was not begun.
func (s wishes) becomes(a *wish, begun string) string {
	o := &a.request
	switch {
	case a.undoes == operations.Edit:
		return "; it does not take back the edited copy, which was sent to be handled"
	case o.Action != operations.Delete:
		return ""
	case o.Forever:
		return "; " + goneForGood
	case begun == "":
		return "; what is deleted is in the trash for " + hours(time.Duration(o.Trash))
	}
	return "; what is deleted is in the trash for " + hours(time.Duration(o.Trash)) + ": " + undo(begun, o.Target) + " brings it back"
}

// hours is a duration as people say it: 72h, and not 72h0m0s.
func hours(d time.Duration) string {
	switch text := d.String(); {
	case d%time.Hour == 0:
		return strings.TrimSuffix(text, "0m0s")
	case d%time.Minute == 0:
		return strings.TrimSuffix(text, "0s")
	default:
		return text
	}
}
