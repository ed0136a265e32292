package stepwell_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stepwell/stepwell"
)

type payment struct {
	Order  string
	Amount int
}

func ExampleHandler() {
	var h stepwell.Handler = func(ctx context.Context, m *stepwell.Message) error {
		fmt.Printf("%s, attempt %d: %s\n", m.ID, m.Attempt, m.Value)
		return nil
	}
	err := h(context.Background(), &stepwell.Message{ID: "payments:0:7", Attempt: 1, Value: []byte("42")})
	fmt.Println(stepwell.VerdictOf(err).Kind)
	// Output:
	// payments:0:7, attempt 1: 42
	// done
}

func ExampleJSON() {
	h := stepwell.JSON(func(ctx context.Context, p payment, m *stepwell.Message) error {
		fmt.Println("charge", p.Amount, "for", p.Order)
		return nil
	})
	for _, value := range []string{`{"Order": "o-1", "Amount": 42}`, `{"Order": `} {
		err := h(context.Background(), &stepwell.Message{Value: []byte(value)})
		v := stepwell.VerdictOf(err)
		fmt.Printf("%s %q\n", v.Kind, v.Reason)
	}
	// Output:
	// charge 42 for o-1
	// done ""
	// dead "decode"
}

func ExampleDeadLetter() {
	charge := stepwell.JSON(func(ctx context.Context, p payment, m *stepwell.Message) error {
		if p.Amount < 0 {
			return stepwell.DeadLetter(fmt.Errorf("negative amount %d", p.Amount)) // trying again cannot help
		}
		return errors.New("the bank is away") // trying again may help
	})
	for _, value := range []string{`{"Amount": -1}`, `{"Amount": 1}`} {
		err := charge(context.Background(), &stepwell.Message{Value: []byte(value)})
		fmt.Println(stepwell.VerdictOf(err).Kind, "for:", err)
	}
	// Output:
	// dead for: negative amount -1
	// retry for: the bank is away
}

func ExampleRetryAfter() {
	h := func(ctx context.Context, m *stepwell.Message) error {
		// the service answered 429 with Retry-After: 30
		return stepwell.RetryAfter(errors.New("too many requests"), 30*time.Second)
	}
	v := stepwell.VerdictOf(h(context.Background(), &stepwell.Message{}))
	fmt.Println(v.Kind, "after", v.After, "for:", v.Err)
	// Output:
	// retry after 30s for: too many requests
}

func ExampleTo() {
	triage := func(_ context.Context, m *stepwell.Message) error {
		if len(m.Value) > 10 { // large orders take long: they have workers of their own
			return stepwell.To("large")
		}
		return nil
	}
	for _, value := range []string{"book", "four hundred books"} {
		verdict := stepwell.VerdictOf(triage(context.Background(), &stepwell.Message{Value: []byte(value)}))
		fmt.Printf("%s: %s %q\n", value, verdict.Kind, verdict.Channel)
	}
	// Output:
	// book: done ""
	// four hundred books: handed_over "large"
}

func ExampleSnooze() {
	h := func(ctx context.Context, m *stepwell.Message) error {
		if m.Snoozes == 0 { // the order is paid later in the day
			return stepwell.Snooze(time.Hour)
		}
		return nil
	}
	v := stepwell.VerdictOf(h(context.Background(), &stepwell.Message{}))
	fmt.Println(v.Kind, v.After)
	// Output:
	// snoozed 1h0m0s
}

func ExampleClassify() {
	errNoSuchCard := errors.New("no such card")
	h := stepwell.Chain(func(ctx context.Context, m *stepwell.Message) error {
		return errNoSuchCard
	}, stepwell.Classify(func(err error) error {
		if errors.Is(err, errNoSuchCard) {
			return stepwell.DeadLetter(err) // no further try can help
		}
		return err
	}))
	fmt.Println(stepwell.VerdictOf(h(context.Background(), &stepwell.Message{})).Kind)
	// Output:
	// dead
}

func ExampleSkip() {
	charge := stepwell.JSON(func(ctx context.Context, p payment, m *stepwell.Message) error {
		if p.Order == "test" {
			return stepwell.Skip("a test order")
		}
		return nil
	})
	err := charge(context.Background(), &stepwell.Message{Value: []byte(`{"Order": "test"}`)})
	fmt.Println(stepwell.VerdictOf(err).Kind, "since it is", stepwell.VerdictOf(err).Reason)
	// Output: skipped since it is a test order
}

var errUnknownOrder = errors.New("unknown order")

// A middleware that changes a verdict wraps the error: the outermost verdict wins.
func ExampleVerdictOf() {
	giveUp := func(next stepwell.Handler) stepwell.Handler {
		return func(ctx context.Context, m *stepwell.Message) error {
			err := next(ctx, m)
			if stepwell.VerdictOf(err).Kind == stepwell.Retry && errors.Is(err, errUnknownOrder) {
				return stepwell.DeadLetter(err)
			}
			return err
		}
	}
	h := stepwell.Chain(func(context.Context, *stepwell.Message) error {
		return fmt.Errorf("charge: %w", errUnknownOrder)
	}, giveUp)
	err := h(context.Background(), &stepwell.Message{})
	fmt.Println(stepwell.VerdictOf(err).Kind, "for:", err)
	// Output: dead for: charge: unknown order
}
