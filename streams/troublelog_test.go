package streams

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// troubled is a status and what it logs.
func troubled() (*status, *logbook) {
	log := &logbook{}
	return newStatus(Config{Stream: "orders", Setting: byKey, Logger: log.logger()}), log
}

// A Kafka that is started again refuses connections at first, and then it may be the login.
func TestATroubleThatBecomesAnotherOneIsLoggedAgainInTimeAndNotEachTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, log := troubled()
		says := func(when string, refused, login int) {
			t.Helper()
			if r, l := log.count("cannot be used", "refused"), log.count("cannot be used", "wrong login"); r != refused || l != login {
				t.Errorf("%s: %d and %d lines, want %d and %d:\n%s", when, r, l, refused, login, &log.text)
			}
		}
		s.reached(errors.New("refused"), nil)
		says("at once", 1, 0)
		time.Sleep(sayAgain)
		s.reached(errors.New("wrong login"), nil)
		says("another one follows within ten seconds", 1, 0)
		if _, text := s.read(); text != "wrong login" {
			t.Errorf("the status says %q", text)
		}
		for range 100 {
			time.Sleep(lookInterval)
			s.reached(errors.New("wrong login"), nil)
		}
		says("it lasts", 1, 1)
		for range 50 {
			s.reached(errors.New("refused"), nil)
			s.reached(errors.New("wrong login"), nil)
			time.Sleep(lookInterval)
		}
		if n := log.count("cannot be used"); n > 2+10 {
			t.Errorf("%d lines in five minutes, of two troubles that take turns", n)
		}
	})
}
