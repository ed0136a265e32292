package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/operations"
)

// This file has one message edited. Who may do that is asked first, before anything of the request
// is read: what is refused tells nothing of what is there.

// edited is the answer to who edits a message.
type edited struct {
	asked
	// EditedID is the id of the copy that is handled anew.
	EditedID string `json:"edited_id"`
}

// edit replaces one dead message by an edited copy, at once. It leaves a record and an audit line,
// neither of which has anything of what is in the message.
func (s wishes) edit(w http.ResponseWriter, r *http.Request) error {
	runner, err := s.mayEdit(r)
	if err != nil {
		return err
	}
	request, by, set, err := s.readEdit(w, r)
	if err != nil {
		return err
	}
	if id := runner.RunningOn(request.Target); id != "" {
		return inTheWay(id)
	}
	as := ""
	o, err := runner.Note(r.Context(), request, func(ctx context.Context, id string) (operations.Phase, error) {
		// A look that finds another walk under way has done nothing yet.
		as, err = patiently(ctx, s.cfg, func(ctx context.Context) (string, error) {
			return set.Edit(ctx, s.cfg.Trash, id, request.Select.IDs[0], by)
		})
		switch {
		case errors.Is(err, ErrHalfEdited):
			return operations.Failed, err
		case err != nil:
			return operations.Refused, err
		}
		return operations.Done, nil
	})
	// Anew: the walk may have used up the first, and what is half done must be told of.
	writeWithin(w, s.cfg.WriteTimeout)
	who := wish{request: request}.who()
	attrs := []slog.Attr{slog.String("action", request.Action), slog.String("stream", request.Stream)}
	if request.Channel != "" {
		attrs = append(attrs, slog.String("channel", request.Channel))
	}
	attrs = append(attrs, slog.String("id", clip(request.Select.IDs[0])), slog.String("operation", o.ID))
	s.audit(r, tried(err, "audit: message edited", "audit: message edit failed"), err, attrs...)
	if err != nil {
		told := *problemOf(s.cfg.Logger, r, err)
		told.operation = o.ID
		return &told
	}
	message := fmt.Sprintf("edited %s of %s: the copy %s is handled anew; the message itself is %s, and not the copy",
		request.Select.IDs[0], who, as, s.keptUntil(o.ID, request.Target, time.Now()))
	return writeJSON(w, http.StatusOK, jsonType, edited{asked{s.shown(r, o), message}, as})
}

// mayEdit refuses who may not edit anything here, and returns who keeps records of it.
func (s wishes) mayEdit(r *http.Request) (Operations, error) {
	off := func(format string, of ...any) error {
		return &problem{status: http.StatusConflict, detail: fmt.Sprintf(format, of...)}
	}
	switch {
	case s.cfg.EditLimit == 0:
		return nil, off("messages are not edited here: %s=true allows it", s.cfg.Setting("dead_set.edit"))
	case s.cfg.Trash == 0:
		return nil, off("messages are not edited here: there is no trash to keep what was there before (%s=0)", s.cfg.Setting("dead_set.trash"))
	}
	if err := s.seen(r, "who edits a message has to see its value, key and headers"); err != nil {
		return nil, err
	}
	return s.runner()
}

// readEdit reads which message is to become what. It collects all mistakes.
func (s wishes) readEdit(w http.ResponseWriter, r *http.Request) (request operations.Request, by Edit, set DeadSet, err error) {
	id, err := messageID(r)
	if err != nil {
		return request, by, nil, err
	}
	m, err := s.objectWithin(w, r, s.cfg.EditLimit)
	if err != nil {
		return request, by, nil, err
	}
	now := time.Now().UTC()
	request = operations.Request{
		Action: operations.Edit, Target: operations.Target{Stream: m.text(streamName), Channel: m.text(channelName)},
		Select: operations.Selection{IDs: []string{id}}, Before: now, Trash: operations.Wait(s.cfg.Trash), Note: m.text("note"), By: who(r), CreatedAt: now,
	}
	m.note(request.Note)
	// Sent again after an answer that was lost it finds no message with the id, and needs no key.
	if _, given := r.Header["Idempotency-Key"]; given {
		m.mistake("Idempotency-Key is for operations: each edit sends a copy of its own")
	}
	by = Edit{Value: m.part("value", "encoding"), Key: m.part("key", "key_encoding"), Headers: readHeaders(&m)}
	set = s.named(&m, request.Target)
	m.rest()
	if len(*m.wrong) == 0 && by == (Edit{}) {
		m.mistake("value, key or headers is missing: say what is to change")
	}
	if err := m.err(); err != nil {
		return request, by, nil, err
	}
	if set == nil {
		return request, by, nil, ErrRetryOff
	}
	return request, by, set, nil
}

// readHeaders reads all headers that the record is to have, in the form in which they are shown.
// Nil: it keeps those it has.
func readHeaders(m *members) *[]stepwell.Header {
	given, there := m.objects("headers")
	if !there {
		return nil
	}
	all := make([]stepwell.Header, 0, len(given))
	for _, of := range given {
		key, value := of.part("key", "key_encoding"), of.part("value", "encoding")
		of.rest()
		if key == nil || *key == nil || value == nil {
			of.mistake("%skey and value must be there, and key must be a text", of.where)
			return nil
		}
		all = append(all, stepwell.Header{Key: string(*key), Value: *value})
	}
	return &all
}
