package console

import (
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Undo is the URL of the page that asks before what was deleted, or edited, is restored; empty:
// there is nothing to restore, and there will not be. What was refused has moved nothing, and an
// edit that failed may have.
func (o operation) Undo() string {
	if o.Action != "delete" && o.Action != "edit" || o.Phase == "refused" || o.IsOver() && !o.moved() || o.KeptUntil().Before(time.Now()) {
		return ""
	}
	at := o.At()
	at.Operation = o.ID
	return at.To("confirm", "action", "restore")
}

// moved says that something that it deletes, or edits, is in the trash, or may be: what was
// cancelled and says why may have done more than is counted.
func (o operation) moved() bool {
	return o.Done > 0 || o.Action == "edit" || o.Phase == "cancelled" && o.Why != ""
}

// some is what the state of an element is called of which there is something to see, or none.
func some(is bool) string {
	if is {
		return "some"
	}
	return "none"
}

// Undoes says whether there is something to undo by now, and Died whether something died once more.
func (o operation) Undoes() string { return some(o.moved()) }
func (o operation) Died() string {
	return some(o.Action == "edit" || o.Outcome != nil && o.Outcome.Died > 0)
}

// undone finds the restore, done or not over, of all that an operation deleted by its end. One of
// some of it, or that was cancelled, has left something to undo.
func (v v1) undone(r *http.Request, o operation) (*operation, error) {
	if !o.IsOver() || o.Undo() == "" {
		return nil, nil
	}
	all, err := v.listed(r, url.Values{"stream": {o.Stream}, "limit": {strconv.Itoa(mostListed)}})
	for _, of := range all {
		whole := of.Action == "restore" && of.Select.Operation == o.ID && len(of.Select.IDs) == 0 && of.CreatedAt.After(o.EndedAt)
		if whole && (!of.IsOver() || of.Phase == "done" && of.Done > 0 && of.Unsorted == 0) {
			return &of, err
		}
	}
	return nil, err
}

// InTrash is the URL of the page that shows what was deleted.
func (o operation) InTrash() string {
	at := o.At()
	at.Operation = o.ID
	return at.To("trash")
}

// KeptUntil is until when all that was deleted is in the trash: what was deleted first is the first
// to go.
func (o operation) KeptUntil() time.Time {
	keep, err := time.ParseDuration(o.Trash)
	if err != nil {
		return time.Time{}
	}
	if o.StartedAt.IsZero() {
		return o.CreatedAt.Add(keep)
	}
	return o.StartedAt.Add(keep)
}
