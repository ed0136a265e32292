package stepwell_test

import (
	"context"
	"slices"
	"strconv"
	"testing"

	"github.com/stepwell/stepwell"
)

func TestTheFirstMiddlewareIsOutermost(t *testing.T) {
	var order []string
	note := func(name string) stepwell.Middleware {
		return func(next stepwell.Handler) stepwell.Handler {
			return func(ctx context.Context, m *stepwell.Message) error {
				order = append(order, name)
				return next(ctx, m)
			}
		}
	}
	h := stepwell.Chain(func(context.Context, *stepwell.Message) error {
		order = append(order, "handler")
		return errCard
	}, note("first"), note("second"))
	if err := h(t.Context(), &stepwell.Message{}); err != errCard {
		t.Errorf("error %v", err)
	}
	if want := []string{"first", "second", "handler"}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
}

type order struct{ ID string }

func TestAJSONHandlerSeesTheValueAndAZeroOneForATombstone(t *testing.T) {
	tests := []struct {
		name  string
		value []byte
		want  order
	}{
		{"a value", []byte(`{"ID":"7"}`), order{"7"}},
		{"a tombstone", nil, order{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			calls := 0
			h := stepwell.JSON(func(_ context.Context, o order, m *stepwell.Message) error {
				calls++
				if o != test.want || (m.Value == nil) != (test.value == nil) {
					t.Errorf("called with %+v and value %q", o, m.Value)
				}
				return nil
			})
			if err := h(t.Context(), &stepwell.Message{Value: test.value}); err != nil || calls != 1 {
				t.Errorf("%d calls, error %v", calls, err)
			}
		})
	}
}

func TestWhatCannotBeDecodedDiesUncalledWithItsReason(t *testing.T) {
	for _, value := range []string{"", "{nonsense", "[]", `{"ID":7}`, `{} {}`} {
		h := stepwell.JSON(func(context.Context, order, *stepwell.Message) error {
			t.Errorf("called for %q", value)
			return nil
		})
		v := stepwell.VerdictOf(h(t.Context(), &stepwell.Message{Value: []byte(value)}))
		if v.Kind != stepwell.Dead || v.Reason != stepwell.ReasonDecode || v.Err == nil {
			t.Errorf("value %q: verdict %+v", value, v)
		}
	}
}

func TestTheErrorOfATypedHandlerIsItsOwn(t *testing.T) {
	h := stepwell.Decoded(func(b []byte) (int, error) { return strconv.Atoi(string(b)) },
		func(_ context.Context, n int, _ *stepwell.Message) error {
			if n != 42 {
				t.Errorf("called with %d", n)
			}
			return errCard
		})
	if err := h(t.Context(), &stepwell.Message{Value: []byte("42")}); err != errCard {
		t.Errorf("error %v", err)
	}
}

func TestOfAMissingFunctionThereIsNoHandlerThatAnActorWouldTake(t *testing.T) {
	decode := func([]byte) (order, error) { return order{}, nil }
	handlers := map[string]stepwell.Handler{
		"JSON":                 stepwell.JSON[order](nil),
		"Decoded without fn":   stepwell.Decoded(decode, nil),
		"Decoded without code": stepwell.Decoded(nil, func(context.Context, order, *stepwell.Message) error { return nil }),
		"Chain":                stepwell.Chain(stepwell.JSON[order](nil), stepwell.Classify(func(err error) error { return err })),
		"Chain, a middleware that returns none": stepwell.Chain(func(context.Context, *stepwell.Message) error { return nil },
			stepwell.Classify(func(err error) error { return err }), func(stepwell.Handler) stepwell.Handler { return nil }),
	}
	for name, h := range handlers {
		if h != nil {
			t.Errorf("%s of nothing is a handler", name)
		}
	}
	batches := map[string]stepwell.BatchHandler{
		"JSONBatch":                 stepwell.JSONBatch[order](nil),
		"DecodedBatch without fn":   stepwell.DecodedBatch(decode, nil),
		"DecodedBatch without code": stepwell.DecodedBatch(nil, func(context.Context, []order, *stepwell.Batch) error { return nil }),
	}
	for name, h := range batches {
		if h != nil {
			t.Errorf("%s of nothing is a handler", name)
		}
	}
	if stepwell.Classify(nil) != nil {
		t.Error("Classify of nothing is a middleware")
	}
}
