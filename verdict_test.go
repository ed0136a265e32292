package stepwell_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
)

var errCard = errors.New("no such card")

func TestAVerdictIsFoundThroughAnyWrapping(t *testing.T) {
	tests := []struct {
		name   string
		err    error
		kind   stepwell.Kind
		reason string
		inside error
	}{
		{"nil is done", nil, stepwell.Done, "", nil},
		{"any error is a retry", errCard, stepwell.Retry, "", errCard},
		{"a dead letter", stepwell.DeadLetter(errCard), stepwell.Dead, stepwell.ReasonDeadLetter, errCard},
		{"a dead letter around nil", stepwell.DeadLetter(nil), stepwell.Dead, stepwell.ReasonDeadLetter, nil},
		{"a skip", stepwell.Skip("a test order"), stepwell.Skipped, "a test order", nil},
		{"wrapped", fmt.Errorf("charge: %w", stepwell.DeadLetter(errCard)), stepwell.Dead, stepwell.ReasonDeadLetter, errCard},
		{"joined", errors.Join(errors.New("audit"), stepwell.Skip("a test order")), stepwell.Skipped, "a test order", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			v := stepwell.VerdictOf(test.err)
			if v.Kind != test.kind || v.Reason != test.reason || v.Err != test.inside {
				t.Errorf("verdict %+v", v)
			}
		})
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
		"no such card": stepwell.DeadLetter(errCard), "dead letter": stepwell.DeadLetter(nil), "skipped: a test order": stepwell.Skip("a test order"),
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
