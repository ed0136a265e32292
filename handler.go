package stepwell

import (
	"context"
	"encoding/json"
)

// Handler does the work for one message. A nil error means the message is done; what another error
// means is said by [VerdictOf].
//
// The context ends when the handler's time is up, or when its result is no longer wanted (shutdown,
// partition revoked); what a handler returns after the latter is no verdict: the message runs again
// elsewhere, as if it had not been tried. It ends with the call too, or, where nobody asked for its
// Done, with the last of the fast calls that share it: what is to go on after the call needs a
// context of its own.
type Handler func(ctx context.Context, m *Message) error

// Middleware wraps a handler.
type Middleware func(Handler) Handler

// Chain puts the middleware around the handler, the first one outermost. Around nil, which one of
// them may have returned, there is nothing to put: an actor refuses that at its start.
func Chain(h Handler, use ...Middleware) Handler {
	for i := len(use) - 1; i >= 0 && h != nil; i-- {
		h = use[i](h)
	}
	return h
}

// Classify makes a middleware of a function that knows errors: which of them no further try can
// help ([DeadLetter]), which are for nobody to see ([Skip]), which want their own wait
// ([RetryAfter]). f is asked of each error that a handler returns, and what it returns counts;
// where it returns nil the error stays as it is. Of a nil f it makes nil, which an actor refuses at
// its start.
func Classify(f func(error) error) Middleware {
	if f == nil {
		return nil
	}
	return func(next Handler) Handler {
		return func(ctx context.Context, m *Message) error {
			err := next(ctx, m)
			if err == nil {
				return nil
			}
			if classified := f(err); classified != nil {
				return classified
			}
			return err
		}
	}
}

// JSON makes a handler of a function that wants the value decoded. A value that is no such JSON
// goes to the dead set at once with reason "decode", since trying again cannot help. A tombstone
// (nil value) calls fn with the zero T. Of a nil fn it makes nil, which an actor refuses at its
// start.
func JSON[T any](fn func(ctx context.Context, v T, m *Message) error) Handler {
	return Decoded(func(data []byte) (v T, err error) {
		err = json.Unmarshal(data, &v)
		return v, err
	}, fn)
}

// Decoded is [JSON] for any other format. An error of decode that is a verdict, as [RetryAfter] for
// a registry of schemas that is away, is that and no "decode".
func Decoded[T any](decode func([]byte) (T, error), fn func(ctx context.Context, v T, m *Message) error) Handler {
	if decode == nil || fn == nil {
		return nil
	}
	return func(ctx context.Context, m *Message) error {
		v, err := decoded(decode, m)
		if err != nil {
			return err
		}
		return fn(ctx, v, m)
	}
}
