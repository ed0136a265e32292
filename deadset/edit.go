package deadset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/failpoint"
	"github.com/stepwell/stepwell/internal/filter"
	"github.com/stepwell/stepwell/internal/queue"
)

// An edit is a delete of one message into the trash, see trash.go, and between the confirm of that
// and the ack the publish of its edited copy:
//
//	look: one has the id -- lease -- into the trash, confirmed -- copy sent, confirmed -- ack
//
// The trash is first since it is what may be full, missing or forbidden: then nothing was sent. A
// message that is in the trash and in the dead set is a nuisance that passes with time, a copy that
// was sent is handled.

// Errors of an edit. After each but ErrHalfEdited the message is in the dead set as it was.
var (
	// ErrCopies: more than one message has the id.
	ErrCopies = errors.New("more than one dead message has this id: replay or delete all but one")
	// ErrNoEdit: this message cannot be edited; the error around it says why.
	ErrNoEdit = errors.New("the message cannot be edited")
	// ErrHalfEdited: nobody knows whether the edited copy was stored, and whether the message
	// itself is still in the dead set.
	ErrHalfEdited = errors.New("the edited copy may have been sent, and the message itself may still be in the dead set: look there before you edit it again")
)

// Edit is what a record is to have in place of what it has. Nil: that stays. What is pointed to may
// be nil, as a record's value and key may.
type Edit struct {
	Value, Key *[]byte
	Headers    *[]stepwell.Header
}

// Edit replaces the message that has the id: the message goes into the trash, and an edited copy
// with a new id and a full new budget to the instant queue, both with the mark of the operation,
// which no other edit may have. It returns the copy's id.
//
// The message is removed when both are confirmed. A crash before that leaves it in the dead set;
// then in the trash as well; and last of all its edited copy is on its way, too. Another edit after
// that is another operation, and sends another copy.
//
// The error is ErrNotFound, an error of an edit, queue.ErrTooLarge where the copy is larger than
// may be published, or as that of [Choice.Trash].
func (t Trash) Edit(ctx context.Context, operation, id string, by Edit) (as string, err error) {
	t.set.recent.forget()
	defer t.set.recent.forget()
	if as, err = t.edit(ctx, operation, id, by); err != nil {
		return "", fmt.Errorf("edit: %w", err)
	}
	return as, nil
}

func (t Trash) edit(ctx context.Context, operation, id string, by Edit) (as string, err error) {
	died, err := t.from.alone(ctx, id)
	if err != nil {
		return "", err
	}
	// One that died since is another one than that which was counted.
	only := Choice{t.from, Selection{Filter: filter.IDs([]string{id}), Before: died, Undated: true, CrashLoops: true, Operation: operation}}
	for range tries {
		e := editing{trashing: t.into(operation), by: by, begun: make(chan struct{})}
		// For one, whatever the depth is: it does not count what the look may still hold.
		if err := e.filling.prepare(ctx, func(context.Context) (int, error) { return 1, nil }); err != nil {
			return "", err
		}
		did, err := only.turn(ctx, e.one())
		switch {
		case did.Done > 0:
			return e.as, nil
		case e.sending.Load() && did.LeftOut.TooLarge == 0 && err != nil:
			return "", fmt.Errorf("%w: %w", ErrHalfEdited, err)
		case e.sending.Load() && did.LeftOut.TooLarge == 0:
			return "", ErrHalfEdited
		case err != nil:
			return "", err
		case did.LeftOut.TooLarge > 0:
			return "", cmp.Or(e.refused, queue.ErrTooLarge)
		case !did.More:
			return "", ErrNotFound
		}
	}
	return "", fmt.Errorf("%w: others fill the pages of the trash as they are made", queue.ErrLeased)
}

// alone looks whether one message has the id, as far as a look sees, and says when it died.
func (s *Set) alone(ctx context.Context, id string) (died time.Time, err error) {
	s.recent.forget() // a look of its own: others act, too
	copies := 0
	span, err := s.survey(ctx, func([]found) []int { return nil }, func(f found, _ time.Time) {
		if f.id == id {
			copies++
			died = f.died
		}
	})
	switch {
	case err != nil:
		return died, err
	case copies == 0:
		return died, span.notFound()
	case copies > 1:
		return died, ErrCopies
	}
	return died, nil
}

// editing is an edit while its message is in hand.
type editing struct {
	*trashing
	by Edit
	// as is the id of the edited copy, refused why it cannot be sent for its size. The goroutine of
	// the walk writes both.
	as      string
	refused error
	// begun is closed when there is a message in hand: no other is taken.
	begun chan struct{}
	// sending: the edited copy may be on its way.
	sending atomic.Bool
}

// one is the errand of a trash for one message, whose edited copy is sent in between.
func (e *editing) one() errand {
	of := e.errand(1, e.begun)
	takesNo, put := of.full, of.act
	of.full = func(h *held) bool { return isClosed(e.begun) || takesNo(h) }
	of.act = func(ctx context.Context, h *held, done func(error)) {
		close(e.begun)
		out, err := e.by.of(h.found(), e.operation)
		if err == nil {
			e.refused = e.fits(out)
			err = e.refused
		}
		if err != nil {
			done(err)
			return
		}
		e.as = out.ID
		// Into the trash first: where it does not come there, nothing was sent.
		put(ctx, h, func(err error) {
			if err != nil {
				done(err)
				return
			}
			failpoint.Hit("edit kept")
			e.sending.Store(true)
			e.from.publisher.Publish(ctx, e.from.cfg.Instant, out, done)
		})
	}
	return of
}

// fits says why the edited copy may not be sent for its size. No pointer can stand for it: one that
// just fits would find no place with its first failure, and be tried for ever.
func (e *editing) fits(out queue.Message) error {
	cfg := &e.from.cfg
	if size := out.Size(); cfg.MaxEdited > 0 && size > cfg.MaxEdited {
		return fmt.Errorf("%w: the copy has %d bytes, and may have %d, %d less than %s: its failures need that room",
			queue.ErrTooLarge, size, cfg.MaxEdited, envelope.MaxHeaders, cfg.Setting("rabbitmq.max_message_size"))
	}
	return nil
}

// of is the edited copy of a message.
func (by Edit) of(f *found, operation string) (queue.Message, error) {
	if !f.readable {
		return queue.Message{}, fmt.Errorf("%w: it cannot be read as a message of a stream", ErrNoEdit)
	}
	whole := *f.envelope
	m := &whole.Message
	if whole.Pointer && (by.Value == nil || by.Key == nil || by.Headers == nil) {
		return queue.Message{}, fmt.Errorf("%w in part: its record is only in Kafka, so value, key and headers all have to be given", ErrNoEdit)
	}
	whole.Pointer, whole.Size = false, 0
	if by.Value != nil {
		m.Value = *by.Value
	}
	if by.Key != nil {
		m.Key = *by.Key
	}
	if by.Headers != nil {
		m.Headers = *by.Headers
	}
	m.ID = envelope.Edited(f.id, operation)
	whole.Replay()
	return envelope.Marked(whole.Encode(), envelope.Mark{Operation: operation}), nil
}
