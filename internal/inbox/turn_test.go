package inbox

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell/internal/solo"
)

func TestTheTokenIsKeptForACopyThatIsOnItsWayAndNotForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var token solo.Token
		mine, other := newTurn(&token), &solo.Turn{Ready: func() {}}
		if !mine.begin("x") {
			t.Fatal("nobody has the token")
		}
		mine.await(10*s, nil)
		time.Sleep(9 * s)
		if token.Try(other) {
			t.Error("the token was given away while the copy is on its way")
		}
		time.Sleep(2 * s)
		if !token.Try(other) || mine.id != "" {
			t.Error("the token is kept for a copy that another process got")
		}
		if _, kept := mine.resume(); kept {
			t.Error("a copy that comes too late finds the token")
		}
	})
}

func TestACopyThatComesInTimeKeepsTheTokenUntilItsTurnEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var token solo.Token
		mine, other := newTurn(&token), &solo.Turn{Ready: func() {}}
		mine.begin("x")
		mine.await(10*s, nil)
		if _, kept := mine.resume(); !kept {
			t.Fatal("the token was not kept")
		}
		if _, kept := mine.resume(); kept {
			t.Error("two copies have the token")
		}
		time.Sleep(time.Minute)
		if token.Try(other) || mine.id != "x" {
			t.Error("the token was given away while the suspect runs")
		}
		mine.end()
		if !token.Try(other) || mine.id != "" {
			t.Error("the token was not given back")
		}
	})
}

func TestOneTrialIsEnoughForAMessageUntilItHasAnotherDeath(t *testing.T) {
	var last passed
	last.set("x", suspicion{died: []string{"a"}})
	for name, test := range map[string]struct {
		id    string
		died  []string
		tried bool
	}{
		"the same":      {"x", []string{"a"}, true},
		"another death": {"x", []string{"a", "b"}, false},
		"another one":   {"y", []string{"a"}, false},
	} {
		if last.is(test.id, suspicion{died: test.died}) != test.tried {
			t.Errorf("%s: tried %v", name, !test.tried)
		}
	}
}
