// Package protobuf makes handlers for values that are Protocol Buffers. A program that does not
// import it does not link it.
package protobuf

import (
	"context"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/stepwell/stepwell"
)

// Handler makes a handler of a function that wants the value decoded as an M, which is a pointer to
// a generated struct. A value that is none goes to the dead set at once, as it is, with the reason
// "decode", since trying again cannot help; unknown fields are kept. A tombstone (nil value) calls
// fn with a nil M, of which getters give zeros. Of a nil fn, or where M says nothing of a type (an
// interface, a [dynamicpb.Message]), it makes nil, which an actor refuses at its start.
func Handler[M proto.Message](fn func(ctx context.Context, v M, m *stepwell.Message) error) stepwell.Handler {
	var zero M
	switch proto.Message(zero).(type) {
	case nil, *dynamicpb.Message: // the nil of an interface, and of what gets its type while it runs
		return nil
	}
	if fn == nil {
		return nil
	}
	return stepwell.Decoded(decode[M], fn)
}

func decode[M proto.Message](value []byte) (v M, err error) {
	v, _ = v.ProtoReflect().New().Interface().(M) // what New makes is of the same type
	return v, proto.Unmarshal(value, v)
}
