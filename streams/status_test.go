package streams

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// says waits until the reader's status names all of the words.
func (r *running) says(words ...string) {
	r.t.Helper()
	defer func() { r.t.Log(r.Status().Err) }()
	within(r.t, 8*time.Second, "the status says "+strings.Join(words, " and "), func() bool {
		text := r.Status().Err
		for _, w := range words {
			if !strings.Contains(text, w) {
				return false
			}
		}
		return true
	})
}

func TestAnUnreachableBrokerIsNamedInTheStatusAndTheReaderStopsAllTheSame(t *testing.T) {
	t.Parallel()
	r := (&world{t: t}).run(Config{
		Stream: "orders", Group: "g", Topics: []string{"t"}, Kafka: []kgo.Opt{kgo.SeedBrokers("127.0.0.1:1")},
	}, newJournal().settleAll)
	r.says("KAFKA_BROKERS", "refused")
	if r.Status().Joined {
		t.Error("joined")
	}
	began := time.Now()
	if err := r.end(); err != nil || time.Since(began) > 5*time.Second {
		t.Fatalf("ended with %v after %v", err, time.Since(began))
	}
}

func TestAMissingTopicIsNamedInTheStatusUntilItIsThere(t *testing.T) {
	t.Parallel()
	each(t, 1, func(t *testing.T, w *world) {
		cfg, j := w.config(), newJournal()
		cfg.Stream = "late-orders"
		missing := w.topic + "-missing"
		cfg.Topics = []string{missing}
		r := w.run(cfg, j.settleAll)
		r.says("STREAMS_LATE_ORDERS_TOPICS", missing)
		w.create(missing, 1)
		t.Cleanup(func() { _, _ = w.admin.DeleteTopics(t.Context(), missing) })
		w.send(&kgo.Record{Topic: missing})
		eventually(t, "the record", func() bool { return j.count() == 1 })
		eventually(t, "all is well", func() bool { return r.Status().Err == "" })
	})
}

func TestASessionTimeoutThatTheBrokerRefusesEndsTheReader(t *testing.T) {
	t.Parallel()
	each(t, 1, func(t *testing.T, w *world) {
		cfg := w.config()
		cfg.SessionTimeout = time.Second
		r := w.run(cfg, newJournal().settleAll)
		select {
		case <-r.done:
		case <-time.After(20 * time.Second):
			t.Fatalf("it goes on: %+v", r.Status())
		}
		if r.err == nil || !strings.Contains(r.err.Error(), "KAFKA_SESSION_TIMEOUT") {
			t.Fatal(r.err)
		}
	})
}

func TestAGroupThatIsForbiddenIsNamedInTheStatusAndJoinedOnceItIsAllowed(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 1)
	w.produce(0, 1)
	allowed := make(chan struct{})
	w.fake.ControlKey(int16(kmsg.JoinGroup), func(req kmsg.Request) (kmsg.Response, error, bool) {
		select {
		case <-allowed:
			return nil, nil, false
		default:
		}
		w.fake.KeepControl()
		resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
		resp.ErrorCode = kerr.GroupAuthorizationFailed.Code
		return resp, nil, true
	})
	j := newJournal()
	r := w.run(w.config(), j.settleAll)
	r.says("STREAMS_ORDERS_GROUP")
	close(allowed)
	eventually(t, "the record", func() bool { return j.count() == 1 })
	eventually(t, "all is well", func() bool { s := r.Status(); return s.Err == "" && s.Joined })
}

func TestLagIsKnownAlsoWhilePaused(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 1)
	w.produce(0, 10)
	j := newJournal()
	r := w.run(w.config(), j.settleAll)
	eventually(t, "ten", func() bool { return j.count() == 10 })
	r.Pause()
	w.produce(0, 30)
	within(t, 15*time.Second, "lag 30", func() bool { return r.Status().Lag == 30 })
	if s := r.Status(); s.LastProgress.IsZero() || !s.Paused {
		t.Fatalf("status %+v", s)
	}
}

func TestACommitThatHangsStopsNeitherReadingNorHandling(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 1)
	w.produce(0, 10)
	stuck, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	w.fake.ControlKey(int16(kmsg.OffsetCommit), func(kmsg.Request) (kmsg.Response, error, bool) {
		once.Do(func() {
			close(stuck)
			w.fake.SleepControl(func() { <-release })
		})
		return nil, nil, false
	})
	j := newJournal()
	w.run(w.config(), j.settleAll)
	<-stuck
	w.produce(0, 100)
	eventually(t, "110 calls", func() bool { return j.count() == 110 })
	close(release)
	eventually(t, "all is committed", func() bool { return w.committed()[0] == 110 })
}
