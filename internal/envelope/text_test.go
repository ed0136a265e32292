package envelope

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// What others wrap comes last, and is often what somebody has to know.
func TestOfALongErrorTheBeginningAndTheEndAreKeptWithASignBetween(t *testing.T) {
	for _, of := range []string{strings.Repeat("x", 5000), strings.Repeat("注文", 800), strings.Repeat("\xffx", 400), strings.Repeat("\u202e", 5000)} {
		e := hand()
		e.Failure.Error = "charge the card: " + of + ": connection refused"
		_, back := trip(t, e)
		got := back.Failure.Error
		if len(got) > maxError || !utf8.ValidString(got) || !strings.HasPrefix(got, "charge the card: ") || !strings.Contains(got, " … ") || !strings.HasSuffix(got, ": connection refused") {
			t.Errorf("%d bytes: %q", len(got), got)
		}
		if again := abridged(got, maxError); again != got {
			t.Errorf("cut again it is %q", again)
		}
	}
	const short = "charge the card: connection refused"
	if got := abridged(short, maxError); got != short {
		t.Errorf("a short one became %q", got)
	}
}

func TestEarlierTriesKeepTheEndOfTheirErrors(t *testing.T) {
	line := lines([]Try{{Attempt: 1, Error: "charge the card: " + strings.Repeat("x", 5000) + ": connection refused"}})
	if !strings.Contains(line, " … ") || !strings.HasSuffix(line, ": connection refused") || len(line) > maxShort+64 {
		t.Errorf("%q", line)
	}
}
