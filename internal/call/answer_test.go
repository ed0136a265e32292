package call

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
)

type declined struct{ cause string }

func (d declined) Error() string     { return "no luck" }
func (d declined) DeadGroup() string { return d.cause }

func TestTheCauseIsWhatAnErrorOfTheChainSaysItIs(t *testing.T) {
	named := declined{"card declined"}
	for text, err := range map[string]error{
		"wrapped":           fmt.Errorf("charge order 7: %w", named),
		"beside another":    errors.Join(errors.New("x"), named),
		"around a verdict":  stepwell.DeadLetter(named),
		"with a wait added": stepwell.RetryAfter(named, 1),
	} {
		if got := new(Caller).judge(err).Failure.Group; got != "card declined" {
			t.Errorf("%s: %q", text, got)
		}
	}
	if got := new(Caller).judge(errors.New("card declined")).Failure.Group; got != "" {
		t.Errorf("one that says nothing: %q", got)
	}
	if got := new(Caller).judge(declined{strings.Repeat("x", 9999)}).Failure.Group; len(got) != maxGroup {
		t.Errorf("%d bytes are kept", len(got))
	}
}

// itself is an error that holds itself, many one that holds itself twice.
type (
	itself struct{}
	many   struct{}
)

func (itself) Error() string   { return "itself" }
func (e itself) Unwrap() error { return e }
func (many) Error() string     { return "many" }
func (e many) Unwrap() []error { return []error{e, e} }

// What looks for the last error of these hangs, or has no stack left, which ends the process.
func TestAnErrorThatHoldsItselfIsAFailureLikeOthers(t *testing.T) {
	for _, err := range []error{itself{}, many{}, fmt.Errorf("wrapped: %w", itself{}), stepwell.DeadLetter(many{})} {
		if a := new(Caller).judge(err); !a.Failed() || a.Failure.Group != "" || a.Failure.Text != err.Error() {
			t.Errorf("%v: %+v", err, a.Failure)
		}
	}
}

// The dead set groups panics by the function that panicked, which nothing but the stack says.
func TestAPanicWhileOneOfABatchIsDecodedHasTheTypeAndTheStackOfAPanic(t *testing.T) {
	b := stepwell.NewBatch(&stepwell.Message{Value: []byte("{}")})
	decode := func([]byte) (string, error) { panic("not thought of") }
	err := stepwell.DecodedBatch(decode, func(context.Context, []string, *stepwell.Batch) error { return nil })(t.Context(), b)
	f := new(Caller).judge(b.Verdicts(err)[0]).Failure
	if f.Type != "panic" || f.Text != "decode value: panic: not thought of" || !strings.Contains(f.Stack, t.Name()) {
		t.Errorf("%+v", f)
	}
}

// What others wrap comes last.
func TestOfALongErrorTheEndIsKeptToo(t *testing.T) {
	text := "charge the card: " + strings.Repeat("x", 9999) + ": connection refused"
	for name, got := range map[string]string{"returned": new(Caller).judge(errors.New(text)).Failure.Text, "thrown": thrown(text).Failure.Text} {
		if len(got) != maxText || !strings.Contains(got, "charge the card: ") || !strings.Contains(got, " … ") || !strings.HasSuffix(got, ": connection refused") {
			t.Errorf("%s: %d bytes, %q", name, len(got), got)
		}
	}
}

// selfish is an error that throws itself where somebody prints it.
type selfish struct{}

func (s selfish) Error() string { panic(s) }

func TestAPanicWithWhatPanicsEachTimeThatItIsPrintedIsAFailureLikeOthers(t *testing.T) {
	if f := thrown(selfish{}).Failure; f.Type != "panic" || f.Text != "panic: a call.selfish that cannot be printed" {
		t.Errorf("%s: %q", f.Type, f.Text)
	}
	if a := new(Caller).judged(selfish{}); a.Failure.Type != "panic" {
		t.Errorf("returned: %+v", a.Failure)
	}
}
