package stepwell_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stepwell/stepwell"
)

var errCard = errors.New("no such card")

func TestAVerdictIsFoundThroughAnyWrapping(t *testing.T) {
	dead, skip := stepwell.DeadLetter(errCard), stepwell.Skip("a test order")
	tests := []struct {
		name   string
		err    error
		kind   stepwell.Kind
		reason string
	}{
		{"nil is done", nil, stepwell.Done, ""},
		{"any error is a retry", errCard, stepwell.Retry, ""},
		{"a dead letter", dead, stepwell.Dead, stepwell.ReasonDeadLetter},
		{"a dead letter around nil", stepwell.DeadLetter(nil), stepwell.Dead, stepwell.ReasonDeadLetter},
		{"a skip", skip, stepwell.Skipped, "a test order"},
		{"wrapped", fmt.Errorf("charge: %w", dead), stepwell.Dead, stepwell.ReasonDeadLetter},
		{"a failure with a wait of its own", stepwell.RetryAfter(errCard, time.Minute), stepwell.Retry, ""},
		{"the same beside a failure without", errors.Join(errCard, stepwell.RetryAfter(errCard, time.Minute)), stepwell.Retry, ""},
		{"a snooze", stepwell.Snooze(time.Minute), stepwell.Snoozed, ""},
		{"a snooze beside a skip is put off", errors.Join(skip, stepwell.Snooze(time.Minute)), stepwell.Snoozed, ""},
		{"a snooze beside a failure is a failure", errors.Join(stepwell.Snooze(time.Minute), errCard), stepwell.Retry, ""},
		{"a hand-over", stepwell.To("slow"), stepwell.HandedOver, ""},
		{"a hand-over beside a skip", errors.Join(skip, stepwell.To("slow")), stepwell.HandedOver, ""},
		{"a hand-over beside a snooze is put off", errors.Join(stepwell.To("slow"), stepwell.Snooze(time.Minute)), stepwell.Snoozed, ""},
		{"a hand-over beside a failure is a failure", errors.Join(stepwell.To("slow"), errCard), stepwell.Retry, ""},
		{"a hand-over beside a dead letter", errors.Join(stepwell.To("slow"), dead), stepwell.Dead, stepwell.ReasonDeadLetter},
		{"a snooze beside a dead letter", errors.Join(stepwell.Snooze(time.Minute), dead), stepwell.Dead, stepwell.ReasonDeadLetter},
		{"a dead letter beside a failure", errors.Join(errors.New("audit"), dead), stepwell.Dead, stepwell.ReasonDeadLetter},
		{"a dead letter beside a skip", errors.Join(skip, dead), stepwell.Dead, stepwell.ReasonDeadLetter},
		{"a failure beside a skip is a failure", errors.Join(errors.New("audit"), skip), stepwell.Retry, ""},
		{"wherever it stands", fmt.Errorf("%w, %w", skip, fmt.Errorf("audit: %w", errCard)), stepwell.Retry, ""},
		{"a skip beside nothing but skips", errors.Join(skip, errors.Join(nil, stepwell.Skip("two"))), stepwell.Skipped, "a test order"},
		{"a dead letter around a skip and a failure", stepwell.DeadLetter(errors.Join(skip, errCard)), stepwell.Dead, stepwell.ReasonDeadLetter},
		{"said by an As method", says{dead}, stepwell.Dead, stepwell.ReasonDeadLetter},
		{"joined with nothing", joined{}, stepwell.Retry, ""},
		{"joined with itself, without end", endless{}, stepwell.Retry, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			v := stepwell.VerdictOf(test.err)
			if v.Kind != test.kind || v.Reason != test.reason || test.err == nil != (v.Err == nil) {
				t.Errorf("verdict %+v", v)
			}
		})
	}
}

func TestEveryKindHasANameOfItsOwn(t *testing.T) {
	names := map[string]stepwell.Kind{}
	for k := stepwell.Done; k < stepwell.Kinds; k++ {
		if other, taken := names[k.String()]; taken || strings.HasPrefix(k.String(), "kind(") {
			t.Errorf("kind %d is called %v, as %d", int(k), k, int(other))
		}
		names[k.String()] = k
	}
}

type joined []error

func (joined) Error() string     { return "joined" }
func (j joined) Unwrap() []error { return j }

type says struct{ error }

func (s says) As(target any) bool { return errors.As(s.error, target) }

type endless struct{}

func (endless) Error() string     { return "endless" }
func (e endless) Unwrap() []error { return []error{e, e} }

func TestAVerdictKeepsAllThatWasSaidAroundIt(t *testing.T) {
	for want, err := range map[string]error{
		"outer: no such card":  fmt.Errorf("outer: %w", stepwell.DeadLetter(errCard)),
		"outer: dead letter":   fmt.Errorf("outer: %w", stepwell.DeadLetter(nil)),
		"no such card\nwhy":    errors.Join(errCard, stepwell.DeadLetter(errors.New("why"))),
		"outer: skipped: test": fmt.Errorf("outer: %w", stepwell.Skip("test")),
	} {
		if got := stepwell.VerdictOf(err).Err; got == nil || got.Error() != want {
			t.Errorf("error %q, want %q", got, want)
		}
	}
}

// In any tree of errors: what is dropped has no failure in it that no verdict covers, and what is
// tried again has no dead letter.
func TestOfATreeOfErrorsDeadComesBeforeRetryBeforeSkip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want, err := drawTree(t, 4)
		if v := stepwell.VerdictOf(err); v.Kind != want || v.Err != err {
			t.Fatalf("%v is %v, want %v", err, v.Kind, want)
		}
	})
}

// drawTree draws an error and says what it means.
func drawTree(t *rapid.T, depth int) (kind stepwell.Kind, err error) {
	shape := rapid.IntRange(0, 2).Draw(t, "leaf")
	if depth > 0 {
		shape = rapid.IntRange(0, 5).Draw(t, "shape")
	}
	switch shape {
	case 0:
		return stepwell.Retry, errCard
	case 1:
		return stepwell.Skipped, stepwell.Skip("a test")
	case 2:
		return stepwell.Dead, stepwell.DeadLetter(nil)
	case 3:
		kind, inner := drawTree(t, depth-1)
		return kind, fmt.Errorf("around: %w", inner)
	case 4:
		_, inner := drawTree(t, depth-1)
		return stepwell.Dead, stepwell.DeadLetter(inner)
	}
	order := []stepwell.Kind{stepwell.Skipped, stepwell.Retry, stepwell.Dead} // the later one wins
	all, worst := []error{}, 0
	for range rapid.IntRange(1, 3).Draw(t, "branches") {
		of, branch := drawTree(t, depth-1)
		all, worst = append(all, branch), max(worst, slices.Index(order, of))
	}
	return order[worst], errors.Join(all...)
}

// A kind that nobody ranks would count as a skip does, and its message be dropped.
func TestAKindBesideASkipIsNeverDropped(t *testing.T) {
	for k := stepwell.Retry; k < stepwell.Kinds; k++ {
		said := stepwell.DeadLetter(nil)
		reflect.ValueOf(said).Elem().FieldByName("Kind").SetInt(int64(k))
		skip := stepwell.Skip("a test order")
		for _, both := range []error{errors.Join(skip, said), errors.Join(said, skip)} {
			if v := stepwell.VerdictOf(both); v.Kind != k {
				t.Errorf("%v beside a skip is %v", k, v.Kind)
			}
		}
	}
}

func TestTheOutermostVerdictWins(t *testing.T) {
	skip := stepwell.Skip("not ours")
	v := stepwell.VerdictOf(fmt.Errorf("middleware: %w", stepwell.DeadLetter(fmt.Errorf("inner: %w", skip))))
	if v.Kind != stepwell.Dead || !errors.Is(v.Err, skip) {
		t.Errorf("verdict %+v", v)
	}
}

func TestAVerdictReadsLikeTheErrorInside(t *testing.T) {
	for want, err := range map[string]error{
		"no such card": stepwell.DeadLetter(errCard), "dead letter": stepwell.DeadLetter(nil), "retry after 1m0s": stepwell.RetryAfter(nil, time.Minute), "retry": stepwell.RetryAfter(nil, 0), "skipped: a test order": stepwell.Skip("a test order"),
	} {
		if err.Error() != want {
			t.Errorf("error %q, want %q", err, want)
		}
	}
	if !errors.Is(stepwell.DeadLetter(errCard), errCard) {
		t.Error("the error inside is hidden")
	}
}

func TestKindsHaveNames(t *testing.T) {
	for kind, want := range map[stepwell.Kind]string{
		stepwell.Done: "done", stepwell.Retry: "retry", stepwell.Dead: "dead", stepwell.Skipped: "skipped", 0: "kind(0)",
	} {
		if got := kind.String(); !strings.EqualFold(got, want) {
			t.Errorf("kind %d is %q, want %q", int(kind), got, want)
		}
	}
}

func TestOfWaitsTheLongestCountsWithinWhatThereMayBe(t *testing.T) {
	err := errors.New("away")
	for _, test := range []struct {
		name string
		err  error
		want time.Duration
	}{
		{"as said", stepwell.RetryAfter(err, time.Minute), time.Minute},
		{"none", stepwell.RetryAfter(err, -time.Minute), 0},
		{"longer than there may be", stepwell.RetryAfter(err, 1<<62), stepwell.LongestWait},
		{"a snooze of nothing", stepwell.Snooze(0), stepwell.ShortestSnooze},
		{"a snooze without end", stepwell.Snooze(1 << 62), stepwell.LongestWait},
		{"of two the longer", errors.Join(stepwell.RetryAfter(err, time.Minute), stepwell.RetryAfter(err, time.Hour)), time.Hour},
		{"that of the failure, not of the snooze", errors.Join(stepwell.Snooze(time.Hour), stepwell.RetryAfter(err, time.Minute)), time.Minute},
	} {
		if got := stepwell.VerdictOf(test.err).After; got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

func TestClassifyIsAskedOfErrorsAloneAndNeverLosesOne(t *testing.T) {
	errAway := errors.New("away")
	for _, answer := range []error{nil, errAway, stepwell.DeadLetter(errAway), stepwell.Skip("known")} {
		h := stepwell.Chain(func(context.Context, *stepwell.Message) error { return errAway },
			stepwell.Classify(func(error) error { return answer }))
		want := answer
		if answer == nil {
			want = errAway // to say nothing of an error is not to settle its message
		}
		if got := h(t.Context(), &stepwell.Message{}); got != want {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	h := stepwell.Chain(func(context.Context, *stepwell.Message) error { return nil },
		stepwell.Classify(func(error) error { t.Error("asked of no error"); return errAway }))
	if err := h(t.Context(), &stepwell.Message{}); err != nil {
		t.Error(err)
	}
}

func TestAnErrorOfADecoderThatIsAVerdictIsThatAndAnyOtherIsDecode(t *testing.T) {
	away := errors.New("the registry is away")
	for _, test := range []struct {
		err    error
		kind   stepwell.Kind
		reason string
		after  time.Duration
	}{
		{away, stepwell.Dead, stepwell.ReasonDecode, 0},
		{stepwell.RetryAfter(away, time.Minute), stepwell.Retry, "", time.Minute},
		{fmt.Errorf("schema 7: %w", stepwell.Skip("test data")), stepwell.Skipped, "test data", 0},
	} {
		h := stepwell.Decoded(func([]byte) (int, error) { return 0, test.err }, func(context.Context, int, *stepwell.Message) error {
			t.Error("called")
			return nil
		})
		v := stepwell.VerdictOf(h(t.Context(), &stepwell.Message{Value: []byte{1}}))
		if v.Kind != test.kind || v.Reason != test.reason || v.After != test.after {
			t.Errorf("%v: %+v", test.err, v)
		}
	}
}

func TestAHandOverSaysToWhichChannel(t *testing.T) {
	for name, err := range map[string]error{
		"alone":                    stepwell.To("slow"),
		"wrapped":                  fmt.Errorf("for later: %w", stepwell.To("slow")),
		"the first of two":         errors.Join(stepwell.Skip("no"), stepwell.To("slow"), stepwell.To("fast")),
		"the outermost of a chain": fmt.Errorf("a: %w", stepwell.To("slow")),
	} {
		if v := stepwell.VerdictOf(err); v.Kind != stepwell.HandedOver || v.Channel != "slow" {
			t.Errorf("%s: %s %q", name, v.Kind, v.Channel)
		}
	}
	if text := stepwell.To("slow").Error(); text != `handed over to channel "slow"` {
		t.Error(text)
	}
}
