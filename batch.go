package stepwell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
)

// BatchHandler does the work for many messages in one call. A nil error means that all of them are
// done, but for those that were marked by [Batch.Fail]. What another error means is said by
// [VerdictOf], as for a [Handler], and it counts for each message that is not marked.
//
// The context is as a [Handler]'s. A batch spans partitions: it goes on when one of them is
// revoked, and what it did for messages of that one counts no more.
type BatchHandler func(ctx context.Context, b *Batch) error

// Batch is the messages of one call, and what becomes of each. No message is in it twice, and those
// of one key are in the order of their partition. Its methods may be called from several
// goroutines; marks that come after the handler has returned change nothing.
type Batch struct {
	messages []*Message
	list     []*Message // what Messages returns

	mu    sync.Mutex
	index map[*Message]int // made with the first mark
	marks []mark
}

// mark is what a handler said of one message.
type mark struct {
	done bool
	err  error // nil: it did not fail
}

// NewBatch makes a batch of messages: for tests of handlers, and for one handler that calls another
// with a part of its batch.
func NewBatch(messages ...*Message) *Batch {
	return &Batch{messages: messages, list: slices.Clone(messages)}
}

// Messages are those of the batch, at least one. They are the handler's, as a [Handler]'s message
// is, and so is the list: to sort it, say, changes no message's verdict.
func (b *Batch) Messages() []*Message { return b.list }

// Fail marks a message with a verdict of its own: an error without one ([Retry]), [DeadLetter],
// [RetryAfter], [Snooze], [To] or [Skip]. It goes its own way, by itself, whatever the handler
// returns; when it is tried again it is in a batch of one, or, in place, of those that failed with
// it. Later messages of its key may be in the same batch: to keep their order, put these off by
// [Snooze] instead of handling them. A failure cannot be taken back. Of several verdicts on one
// message the one counts that [VerdictOf] finds where they are joined; a nil verdict is a failure
// without words. Fail panics where the message is not one of the batch: its failure would be lost.
func (b *Batch) Fail(m *Message, verdict error) {
	if verdict == nil {
		verdict = errNoWords
	}
	b.mark(m, func(at *mark) {
		if at.err != nil {
			verdict = errors.Join(at.err, verdict)
		}
		at.err = verdict
	})
}

var errNoWords = errors.New("marked as failed, with a nil error")

// Done marks a message as done, which holds whatever the handler returns, and also where it panics
// or is cancelled; but a message that failed stays so. Done panics where the message is none of the
// batch.
func (b *Batch) Done(m *Message) { b.mark(m, func(at *mark) { at.done = true }) }

func (b *Batch) mark(m *Message, with func(*mark)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.index == nil {
		b.marks = make([]mark, len(b.messages))
		b.index = make(map[*Message]int, len(b.messages))
		for i, m := range b.messages {
			b.index[m] = i
		}
	}
	i, ok := b.index[m]
	if !ok {
		panic("stepwell: a message was marked that is none of the batch")
	}
	with(&b.marks[i])
}

// Verdicts tells what becomes of each message, in the order of Messages, where the handler has
// returned err: nil where it is done, the error that it was marked with, or err. Nil: all are done.
func (b *Batch) Verdicts(err error) []error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.marks == nil && err == nil {
		return nil
	}
	verdicts := make([]error, len(b.messages))
	for i := range verdicts {
		if b.marks == nil || !b.marks[i].done && b.marks[i].err == nil {
			verdicts[i] = err
		} else {
			verdicts[i] = b.marks[i].err
		}
	}
	return verdicts
}

// JSONBatch makes a batch handler of a function that wants the values decoded: v[i] is that of
// b.Messages()[i]. What is no such JSON is marked before fn is called, and is not in its batch: it
// goes to the dead set at once, alone, with reason "decode". One whose decoding panics fails alone,
// too. A tombstone (nil value) is the zero T. fn is not called where nothing is left.
func JSONBatch[T any](fn func(ctx context.Context, v []T, b *Batch) error) BatchHandler {
	return DecodedBatch(func(data []byte) (v T, err error) {
		err = json.Unmarshal(data, &v)
		return v, err
	}, fn)
}

// DecodedBatch is [JSONBatch] for any other format. An error of decode that is a verdict is that
// and no "decode", as for [Decoded].
func DecodedBatch[T any](decode func([]byte) (T, error), fn func(ctx context.Context, v []T, b *Batch) error) BatchHandler {
	if decode == nil || fn == nil {
		return nil
	}
	return func(ctx context.Context, b *Batch) error {
		values := make([]T, 0, len(b.messages))
		var left []*Message // nil: all
		for i, m := range b.messages {
			v, err := decodedAlone(decode, m)
			switch {
			case err != nil:
				if left == nil {
					left = append(make([]*Message, 0, len(b.messages)), b.messages[:i]...)
				}
				b.Fail(m, err)
				continue
			case left != nil:
				left = append(left, m)
			}
			values = append(values, v)
		}
		switch {
		case left == nil:
			return fn(ctx, values, b)
		case len(left) == 0:
			return nil
		}
		return b.part(left, func(part *Batch) error { return fn(ctx, values, part) })
	}
}

var errUnmarked = errors.New("not marked")

// part calls a handler with some of the messages, and takes over what it says of them, also where
// it panics.
func (b *Batch) part(messages []*Message, handle func(*Batch) error) error {
	part := NewBatch(messages...)
	defer func() {
		for i, verdict := range part.Verdicts(errUnmarked) {
			switch {
			case verdict == nil:
				b.Done(messages[i])
			case verdict != errUnmarked: //nolint:errorlint // it is what was passed
				b.Fail(messages[i], verdict)
			}
		}
	}()
	return handle(part)
}

// decodedAlone is decoded for a message of a batch: a panic of decode is that message's failure,
// and not one of all.
func decodedAlone[T any](decode func([]byte) (T, error), m *Message) (v T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &panicError{fmt.Sprintf("decode value: panic: %v", p), string(debug.Stack())}
		}
	}()
	return decoded(decode, m)
}

// panicError is a panic that is one message's failure. It is told as one that nobody caught.
type panicError struct{ text, stack string }

func (e *panicError) Error() string { return e.text }

// ErrorType is that of all panics.
func (*panicError) ErrorType() string { return "panic" }

// PanicStack says where.
func (e *panicError) PanicStack() string { return e.stack }

// decoded is the value of a message, or the verdict on one that cannot be decoded.
func decoded[T any](decode func([]byte) (T, error), m *Message) (v T, err error) {
	if m.Value == nil {
		return v, nil
	}
	if v, err = decode(m.Value); err == nil {
		return v, nil
	}
	err = fmt.Errorf("decode value: %w", err)
	if left := maxErrors; outermost(err, &left) != nil { // it has a verdict: what decodes is away, say
		return v, err
	}
	return v, &verdictError{Verdict{Kind: Dead, Reason: ReasonDecode, Err: err}}
}
