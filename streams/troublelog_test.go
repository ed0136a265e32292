package streams

import (
	"errors"
	"log/slog"
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

func TestTheLogNamesWhatATroubleIsAboutAndHowLongItTook(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		meet, end func(*status)
		about     []string
		not       string
	}{
		"all of Kafka": {
			func(s *status) { s.reached(broken, nil) }, func(s *status) { s.reached(nil, nil) }, nil, "topic=",
		},
		"a topic": {
			func(s *status) { s.reached(nil, map[string]error{"orders": broken}) }, func(s *status) { s.reached(nil, nil) },
			[]string{"topic=orders"}, "partition=",
		},
		"the first partition of one": {
			func(s *status) { s.unread(topicPartition{"orders", 0}, broken, true) }, func(s *status) { s.fetched(topicPartition{"orders", 0}) },
			[]string{"topic=orders", "partition=0"}, "none",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, log := troubled()
				c.meet(s)
				time.Sleep(time.Minute)
				c.meet(s)
				time.Sleep(30*time.Second + time.Millisecond)
				c.end(s)
				begins, ends := append(c.about, "level=WARN", "error=broken"), append(c.about, "level=INFO", "after=1m30s")
				if log.count(begins...) != 1 || log.count(ends...) != 1 || log.count(c.not) != 0 {
					t.Errorf("logged:\n%s", &log.text)
				}
			})
		})
	}
}

func TestWhatEndsOneTroubleLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	one, two, other := topicPartition{"orders", 1}, topicPartition{"orders", 2}, topicPartition{"parcels", 1}
	for name, c := range map[string]struct {
		happens func(*status)
		left    string
	}{
		"records came":                       {(*status).polled, "of orders; of orders 1; of orders 2; of parcels 1; of a commit"},
		"a fetch of a partition went well":   {func(s *status) { s.fetched(one) }, "of kafka; of all; of orders 2; of parcels 1; of a commit"},
		"a fetch of another topic went well": {func(s *status) { s.fetched(other) }, "of kafka; of all; of orders; of orders 1; of orders 2; and 1 more"},
		"a commit was stored":                {func(s *status) { s.committed(nil) }, "of kafka; of all; of orders; of orders 1; of orders 2; and 1 more"},
		"the cluster is well": {
			func(s *status) { s.reached(nil, nil) }, "of all; of orders 1; of orders 2; of parcels 1; of a commit",
		},
		"the cluster is well, and the topic is not": {
			func(s *status) { s.reached(nil, map[string]error{"orders": errors.New("of orders")}) },
			"of all; of orders; of orders 1; of orders 2; of parcels 1; and 1 more",
		},
		"a partition is not ours any more": {
			func(s *status) { s.gone([]topicPartition{two}) }, "of kafka; of all; of orders; of orders 1; of parcels 1; and 1 more",
		},
		"time passes": {func(*status) { time.Sleep(time.Hour) }, "of kafka; of all; of orders; of orders 1; of orders 2; and 2 more"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, _ := troubled()
				s.committed(errors.New("of a commit"))
				for text, tp := range map[string]topicPartition{"of parcels 1": other, "of orders 2": two, "of orders 1": one} {
					s.unread(tp, errors.New(text), false)
				}
				s.reached(nil, map[string]error{"orders": errors.New("of orders")})
				s.unread(topicPartition{}, errors.New("of all"), false)
				s.note(matter{of: reaching}, errors.New("of kafka"), true)
				c.happens(s)
				if _, text := s.read(); text != c.left {
					t.Errorf("left: %s", text)
				}
			})
		})
	}
}

// A look costs the brokers something, and tells what polling does not.
func TestTheClusterIsAskedHowItIsWhereNothingElseTells(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	well := func(s *status) { s.joined(); s.reached(nil, nil) }
	for name, c := range map[string]struct {
		happens func(*status)
		asks    bool
	}{
		"nothing is known yet":               {func(*status) {}, true},
		"it was well just now":               {well, false},
		"it was well for as long as counts":  {func(s *status) { well(s); time.Sleep(idleAfter) }, false},
		"nothing was heard for longer":       {func(s *status) { well(s); time.Sleep(idleAfter + 1) }, true},
		"records came since":                 {func(s *status) { well(s); time.Sleep(idleAfter); s.polled(); time.Sleep(idleAfter) }, false},
		"we are no member yet":               {func(s *status) { s.reached(nil, nil) }, true},
		"we are no member any more":          {func(s *status) { well(s); s.left(); s.reached(nil, nil) }, true},
		"it could not be asked":              {func(s *status) { well(s); s.reached(broken, nil) }, true},
		"a topic is missing":                 {func(s *status) { well(s); s.reached(nil, map[string]error{"orders": broken}); s.polled() }, true},
		"a partition cannot be read":         {func(s *status) { well(s); s.unread(topicPartition{"orders", 0}, broken, true) }, false},
		"a commit failed":                    {func(s *status) { well(s); s.committed(broken) }, false},
		"a topic was missing and is there":   {func(s *status) { s.reached(nil, map[string]error{"orders": broken}); well(s) }, false},
		"it could not be asked, and now can": {func(s *status) { s.reached(broken, nil); well(s) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, _ := troubled()
				if c.happens(s); s.wantsLook() != c.asks {
					t.Errorf("it is asked: %v, want %v", !c.asks, c.asks)
				}
			})
		})
	}
}

func TestThatWeAreAMemberIsToldAgainAfterALossAndNotOfEachRebalance(t *testing.T) {
	t.Parallel()
	s, log := troubled()
	for _, happens := range []func(){s.joined, s.joined, s.left, s.joined} {
		happens()
		s.moved(slog.LevelInfo, "partitions assigned", nil)
	}
	if n := log.count("level=INFO", "joined the consumer group"); n != 2 || log.count("partitions") != 0 {
		t.Errorf("logged:\n%s", &log.text)
	}
	s.left()
	if joined, _ := s.read(); joined {
		t.Error("it is still a member")
	}
}
