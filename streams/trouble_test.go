package streams

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/task"
)

// logbook is a log that can be read while it is written.
type logbook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// count is how many lines have all of the words.
func (l *logbook) count(words ...string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		all := true
		for _, w := range words {
			all = all && strings.Contains(line, w)
		}
		if all {
			n++
		}
	}
	return n
}

func (l *logbook) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// hasEnds waits until the end of each trouble is logged that had a beginning, and there was one.
func (l *logbook) hasEnds(t *testing.T) {
	t.Helper()
	defer func() {
		if t.Failed() {
			l.mu.Lock()
			defer l.mu.Unlock()
			t.Logf("the log:\n%s", &l.text)
		}
	}()
	eventually(t, "the ends are logged", func() bool {
		ended := 0
		for _, of := range []work{reaching, reading, committing} {
			begins, ends := of.said()
			if l.count("level=WARN", begins) > 0 {
				if l.count("level=INFO", ends) == 0 {
					return false
				}
				ended++
			}
		}
		return ended > 0
	})
}

func byKey(key string) string { return key }

func TestATroubleIsLoggedWhenItBeginsAndWhenItEndsAndNotMeanwhile(t *testing.T) {
	t.Parallel()
	tp, other := topicPartition{"orders", 1}, topicPartition{"parcels", 1}
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		meet, end func(*status)
		begins    string
		ends      string
	}{
		"a partition that can be read again": {
			func(s *status) { s.unread(tp, broken, false) }, func(s *status) { s.fetched(tp) },
			"WARN reading from Kafka fails", "INFO reading from Kafka goes on",
		},
		"one that has nothing new": {
			func(s *status) { s.unread(tp, broken, false) }, func(*status) { time.Sleep(troubleLasts + 1) },
			"WARN reading from Kafka fails", "INFO reading from Kafka goes on",
		},
		"a topic that is there again": {
			func(s *status) { s.reached(nil, map[string]error{"orders": broken}) }, func(s *status) { s.reached(nil, nil) },
			"WARN reading from Kafka fails", "INFO reading from Kafka goes on",
		},
		"a cluster that answers again": {
			func(s *status) { s.reached(broken, nil) }, func(s *status) { s.reached(nil, nil) },
			"WARN Kafka cannot be used", "INFO Kafka can be used again",
		},
		"a cluster of which records come": {
			func(s *status) { s.reached(broken, nil) }, func(s *status) { s.polled() },
			"WARN Kafka cannot be used", "INFO Kafka can be used again",
		},
		"commits": {
			func(s *status) { s.committed(broken) }, func(s *status) { s.committed(nil) },
			"WARN a commit failed", "INFO commits are stored again",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var log logbook
				s := newStatus(Config{Stream: "orders", Setting: byKey, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{
					ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
						if a.Key == slog.TimeKey {
							return slog.Attr{}
						}
						return a
					},
				}))})
				says := func(begins, ends int) {
					t.Helper()
					want := func(text string, n int) {
						level, msg, _ := strings.Cut(text, " ")
						if got := log.count("level="+level, msg, "stream=orders"); got != n {
							t.Errorf("%q was logged %d times, not %d:\n%s", text, got, n, &log.text)
						}
					}
					want(c.begins, begins)
					want(c.ends, ends)
				}
				for range 10 {
					c.meet(s)
					time.Sleep(time.Second)
				}
				s.fetched(other)
				s.read()
				says(1, 0)
				if _, text := s.read(); text != "broken" {
					t.Errorf("the status says %q", text)
				}
				c.end(s)
				if _, text := s.read(); text != "" {
					t.Errorf("the status says %q", text)
				}
				says(1, 1)
			})
		})
	}
}

// A broker that hangs is met only each half minute or so: a dial takes its time, and the next one
// waits.
func TestNothingIsSaidToGoOnWhileKafkaCannotBeReached(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log logbook
		s := newStatus(Config{Stream: "orders", Setting: byKey, Logger: log.logger()})
		s.unread(topicPartition{}, errors.New("no answer of the group"), false)
		s.reached(errors.New("no answer of the cluster"), nil)
		time.Sleep(time.Hour)
		if _, text := s.read(); !strings.Contains(text, "of the group") || log.count("goes on") > 0 {
			t.Errorf("it says %q, and the log has %s", text, &log.text)
		}
		s.reached(nil, nil)
		if _, text := s.read(); text != "" || log.count("reading from Kafka goes on") != 1 {
			t.Errorf("it says %q, and the log has %s", text, &log.text)
		}
	})
}

func TestABatchThatTheClientGivesUpIsToldOfUntilThePartitionIsGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, tp := newStatus(Config{Stream: "orders", Setting: byKey, Logger: slog.New(slog.DiscardHandler)}), topicPartition{"orders", 1}
		s.unread(tp, errors.New("too large"), true)
		time.Sleep(time.Hour)
		if _, text := s.read(); text != "too large" {
			t.Errorf("the status says %q", text)
		}
		s.gone([]topicPartition{tp})
		if _, text := s.read(); text != "" {
			t.Errorf("the status says %q", text)
		}
	})
}

func TestTheStatusOfAWholeClusterThatFailsIsShort(t *testing.T) {
	t.Parallel()
	s := newStatus(Config{Stream: "orders", Setting: byKey, Logger: slog.New(slog.DiscardHandler)})
	for id := range int32(1000) {
		s.unread(topicPartition{"orders", id}, s.explain(topicPartition{"orders", id}, errors.New("broken")), false)
	}
	if _, text := s.read(); strings.Count(text, "broken") != maxTold || !strings.Contains(text, "995 more") {
		t.Errorf("it says %s", text)
	}
}

func TestABrokerThatWasWellAndHangsUpIsNotAskedForTLS(t *testing.T) {
	t.Parallel()
	s := newStatus(Config{Stream: "orders", Setting: byKey, Logger: slog.New(slog.DiscardHandler)})
	if text := s.explain(topicPartition{}, io.EOF).Error(); !strings.Contains(text, "kafka.tls.enabled, kafka.sasl.mechanism") {
		t.Errorf("at first: %s", text)
	}
	s.reached(nil, nil)
	if text := s.explain(topicPartition{}, io.EOF).Error(); strings.Contains(text, "TLS") || !strings.Contains(text, "starts again") {
		t.Errorf("later: %s", text)
	}
}

func TestAMissingTopicBesideOneThatIsReadIsToldOfUntilItIsThere(t *testing.T) {
	t.Parallel()
	w, j := fakeWorld(t, 1), newJournal()
	missing := w.topic + "-missing"
	var log logbook
	cfg := w.config()
	cfg.Topics, cfg.Logger = append(cfg.Topics, missing), log.logger()
	r := w.run(cfg, j.settleAll)
	r.says("streams.orders.topics", missing)
	for range 10 {
		w.produce(0, 1)
		n := j.count()
		eventually(t, "it is read", func() bool { return j.count() >= n })
	}
	eventually(t, "all is read", func() bool { return j.count() == 10 })
	r.says(missing)
	if n := log.count("reading from Kafka goes on"); n != 0 {
		t.Error("it is said to be over")
	}
	w.create(missing, 1)
	w.send(&kgo.Record{Topic: missing})
	eventually(t, "the record", func() bool { return j.count() == 11 })
	eventually(t, "the end is logged", func() bool { return log.count("level=INFO", "reading from Kafka goes on", "topic="+missing) == 1 })
	if n := log.count("level=WARN", missing); n != 1 {
		t.Errorf("the beginning was logged %d times", n)
	}
}

func TestAPatternThatMatchesNothingIsToldOfUntilSomethingDoes(t *testing.T) {
	t.Parallel()
	each(t, 1, func(t *testing.T, w *world) {
		cfg, j := w.config(), newJournal()
		cfg.Topics, cfg.Pattern = nil, w.topic+"-later.*"
		r := w.run(cfg, j.settleAll)
		r.says("no topic matches", cfg.Pattern, "streams.orders.topic_pattern")
		later := w.topic + "-later"
		w.create(later, 1)
		t.Cleanup(func() { _, _ = w.admin.DeleteTopics(context.Background(), later) })
		w.send(&kgo.Record{Topic: later})
		eventually(t, "the record", func() bool { return j.count() == 1 })
		eventually(t, "all is well", func() bool { return r.Status().Err == "" })
	})
}

func TestPartitionsThatComeAndGoAreLogged(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 4)
	var log logbook
	cfg := w.config()
	cfg.Logger = log.logger()
	r := w.run(cfg, newJournal().settleAll)
	eventually(t, "it has all", func() bool {
		return log.count("level=INFO", `msg="partitions assigned"`, "stream=orders", "partitions="+w.topic+":0-3") == 1 && log.count("joined the consumer group") == 1
	})
	w.run(w.config(), func(context.Context, *stepwell.Message, task.Ticket) task.Outcome { return task.Settled })
	eventually(t, "half of them go", func() bool { return log.count("level=INFO", `msg="partitions revoked"`, "partitions="+w.topic) == 1 })
	r.rebalances.onLost(t.Context(), nil, map[string][]int32{w.topic: {0, 1, 2, 3}})
	if log.count("level=WARN", `msg="partitions lost"`) != 1 {
		t.Errorf("logged:\n%s", &log.text)
	}
}

func TestPartitionsAreWrittenAsRanges(t *testing.T) {
	t.Parallel()
	for want, parts := range map[string]map[string][]int32{
		"a:0":             {"a": {0}},
		"a:0-2":           {"a": {2, 0, 1}},
		"a:0-2,4,6-7 b:8": {"a": {7, 0, 1, 2, 4, 6}, "b": {8}},
	} {
		if got := ranges(parts); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}
