package protobuf_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/codec/protobuf"
)

func ExampleHandler() {
	h := protobuf.Handler(func(ctx context.Context, v *wrapperspb.StringValue, m *stepwell.Message) error {
		fmt.Println(v.GetValue(), "of", m.ID)
		return nil
	})
	value, err := proto.Marshal(wrapperspb.String("an order"))
	if err != nil {
		panic(err)
	}
	fmt.Println(h(context.Background(), &stepwell.Message{ID: "orders:0:7", Value: value}))
	// Output:
	// an order of orders:0:7
	// <nil>
}

func TestAValueThatCannotBeDecodedIsDeadAtOnceAndTheHandlerIsNotCalled(t *testing.T) {
	h := protobuf.Handler(func(context.Context, *wrapperspb.StringValue, *stepwell.Message) error {
		t.Error("called")
		return nil
	})
	value := []byte{0x0a, 0xff}
	m := &stepwell.Message{Value: value}
	v := stepwell.VerdictOf(h(t.Context(), m))
	if v.Kind != stepwell.Dead || v.Reason != stepwell.ReasonDecode || string(m.Value) != string(value) {
		t.Errorf("%s %q, value %x", v.Kind, v.Reason, m.Value)
	}
}

func TestATombstoneIsANilMessage(t *testing.T) {
	called := errors.New("called")
	h := protobuf.Handler(func(_ context.Context, v *wrapperspb.StringValue, _ *stepwell.Message) error {
		if v != nil || v.GetValue() != "" {
			t.Errorf("got %v", v)
		}
		return called
	})
	if err := h(t.Context(), &stepwell.Message{}); !errors.Is(err, called) {
		t.Error(err)
	}
}

func TestEachCallHasAMessageOfItsOwn(t *testing.T) {
	var seen []*wrapperspb.StringValue
	h := protobuf.Handler(func(_ context.Context, v *wrapperspb.StringValue, _ *stepwell.Message) error {
		seen = append(seen, v)
		return nil
	})
	for _, text := range []string{"one", "two"} {
		value, err := proto.Marshal(wrapperspb.String(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := h(t.Context(), &stepwell.Message{Value: value}); err != nil {
			t.Fatal(err)
		}
	}
	if seen[0] == seen[1] || seen[0].GetValue() != "one" || seen[1].GetValue() != "two" {
		t.Errorf("saw %v", seen)
	}
}

func TestOfAMissingFunctionOrOfAnyMessageThereIsNoHandlerThatAnActorWouldTake(t *testing.T) {
	if protobuf.Handler[*wrapperspb.StringValue](nil) != nil {
		t.Error("of a nil function there is a handler")
	}
	if protobuf.Handler(func(context.Context, proto.Message, *stepwell.Message) error { return nil }) != nil {
		t.Error("of an interface there is a handler, which would not know what to decode into")
	}
	if protobuf.Handler(func(context.Context, *dynamicpb.Message, *stepwell.Message) error { return nil }) != nil {
		t.Error("of a message whose type is known while it runs there is a handler, which would panic at each value")
	}
}
