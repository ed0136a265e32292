package errtext

import (
	"errors"
	"fmt"
	"testing"
)

type hostile struct{ thrown any }

func (h *hostile) Error() string {
	if h.thrown != nil {
		panic(h.thrown)
	}
	return "plain"
}

func TestItSaysWhatPackageFmtSays(t *testing.T) {
	var none *hostile
	for _, err := range []error{errors.New("away"), fmt.Errorf("a: %w", errors.New("b")), &hostile{}, &hostile{"no text"}, &hostile{errors.New("inner")}, none, errors.Join(&hostile{}, errors.New("x"))} {
		if got, want := Of(err), fmt.Sprint(err); got != want {
			t.Errorf("%T: %q, want %q", err, got, want)
		}
	}
	if got := Of(none); got != "<nil>" {
		t.Errorf("nil: %q", got)
	}
}

// Of a panic that cannot be printed either nothing can be said: it goes on to who caught the
// handler's, as with package fmt.
func TestAPanicThatCannotBePrintedGoesOn(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("it did not")
		}
	}()
	_ = Of(&hostile{&hostile{"again"}})
}

func BenchmarkOf(b *testing.B) {
	err := errors.New("charge the card: the bank answers 503")
	b.Run("errtext", func(b *testing.B) {
		for b.Loop() {
			_ = Of(err)
		}
	})
	b.Run("fmt", func(b *testing.B) {
		for b.Loop() {
			_ = fmt.Sprint(err)
		}
	})
}
