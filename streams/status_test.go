package streams

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
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
		Stream: "orders", Group: Group{ID: "g"}, Topics: []string{"t"}, Kafka: Kafka{Options: []kgo.Opt{kgo.SeedBrokers("127.0.0.1:1")}},
	}, newJournal().settleAll)
	r.says("kafka.brokers", "refused")
	if r.Status().Joined {
		t.Error("joined")
	}
	began := time.Now()
	if err := r.end(); err != nil || time.Since(began) > 5*time.Second {
		t.Fatalf("ended with %v after %v", err, time.Since(began))
	}
}

func TestAKafkaThatTakesConnectionsAndSaysNothingIsNotTakenForATroubleOfNames(t *testing.T) {
	t.Parallel()
	hangs, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer hangs.Close()
	for host, silent := range map[string]bool{hangs.Addr().String(): true, "127.0.0.1:1": false} {
		client, err := kgo.NewClient(kgo.SeedBrokers(host), kgo.RequestTimeoutOverhead(500*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if err = Ping(ctx, client); err == nil || strings.HasPrefix(err.Error(), "no answer in time: ") != silent {
			t.Errorf("%s: %v", host, err)
		}
		cancel()
		client.Close()
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
		r.says("streams.late-orders.topics", missing)
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
		cfg.Group.SessionTimeout = time.Second
		r := w.run(cfg, newJournal().settleAll)
		select {
		case <-r.done:
		case <-time.After(20 * time.Second):
			t.Fatalf("it goes on: %+v", r.Status())
		}
		if r.err == nil || !strings.Contains(r.err.Error(), "kafka.session_timeout") {
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
	r.says("streams.orders.group")
	close(allowed)
	eventually(t, "the record", func() bool { return j.count() == 1 })
	eventually(t, "all is well", func() bool { s := r.Status(); return s.Err == "" && s.Joined })
}

// A broker that refuses fetches does so at once: without a rest the reader would ask thousands of
// times a second.
func TestFetchesThatFailAgainAndAgainAreNamedOnceTriedSeldomAndGoOnOnceTheyCan(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  *kerr.Error
		says string
	}{
		{kerr.TopicAuthorizationFailed, "streams.orders.topics"},
		{kerr.UnknownServerError, "partition 0"},
	} {
		t.Run(c.err.Message, func(t *testing.T) {
			t.Parallel()
			w := fakeWorld(t, 1)
			w.produce(0, 1)
			var fetches atomic.Int64
			allowed := make(chan struct{})
			w.fake.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
				w.fake.KeepControl()
				select {
				case <-allowed:
					return nil, nil, false
				default:
				}
				if fetches.Add(1); len(req.(*kmsg.FetchRequest).Topics) == 0 {
					return nil, nil, false
				}
				return refusal(req.(*kmsg.FetchRequest), c.err), nil, true
			})
			var log bytes.Buffer
			cfg, j := w.config(), newJournal()
			cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
			began := time.Now()
			r := w.run(cfg, j.settleAll)
			r.says(c.says, c.err.Message)
			eventually(t, "the eighth attempt", func() bool { return fetches.Load() >= 8 })
			if took := time.Since(began); took < 2*time.Second {
				t.Errorf("eight attempts within %v", took)
			}
			close(allowed)
			within(t, 10*time.Second, "the record", func() bool { return j.count() == 1 })
			eventually(t, "all is well", func() bool { return r.Status().Err == "" })
			if err := r.end(); err != nil {
				t.Error(err)
			}
			if n := strings.Count(log.String(), "reading from Kafka fails"); n != 1 {
				t.Errorf("logged %d times:\n%s", n, log.String())
			}
		})
	}
}

// refusal answers a fetch with the same error for each partition.
func refusal(req *kmsg.FetchRequest, why *kerr.Error) *kmsg.FetchResponse {
	resp := req.ResponseKind().(*kmsg.FetchResponse)
	for _, t := range req.Topics {
		topic := kmsg.NewFetchResponseTopic()
		topic.Topic, topic.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			part := kmsg.NewFetchResponseTopicPartition()
			part.Partition, part.ErrorCode = p.Partition, why.Code
			topic.Partitions = append(topic.Partitions, part)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp
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
	stuck, release := w.hangCommit()
	j := newJournal()
	w.run(w.config(), j.settleAll)
	<-stuck
	w.produce(0, 100)
	eventually(t, "110 calls", func() bool { return j.count() == 110 })
	close(release)
	eventually(t, "all is committed", func() bool { return w.committed()[0] == 110 })
}

func TestALastCommitThatHangsHoldsAStopUpForTheTimeToLeaveAlone(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 1)
	w.produce(0, 10)
	stuck, release := w.hangCommit()
	cfg, j := w.config(), newJournal()
	cfg.Group.LeaveTimeout = 10 * time.Millisecond
	r := w.run(cfg, j.settleAll)
	<-stuck // the last commit waits for this one
	r.stop()
	r.kill(nil)
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	close(release) // only now
}

func TestAStopDoesNotWaitForAFetcherThatIsToForgetATopic(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 2)
	cfg := w.config()
	cfg.Kafka.Fetchers = 2
	cfg.Kafka.Options = append(cfg.Kafka.Options, kgo.RequestTimeoutOverhead(10*time.Minute)) // or it gives up by itself
	r := w.run(cfg, newJournal().settleAll)
	eventually(t, "it is a member", func() bool { return r.Status().Partitions == 2 })
	asked, release := make(chan struct{}, 1000), make(chan struct{})
	w.fake.ControlKey(int16(kmsg.Metadata), func(kmsg.Request) (kmsg.Response, error, bool) {
		w.fake.KeepControl()
		asked <- struct{}{}
		w.sleep(release)
		return nil, nil, false
	})
	other := r.clients.all[1]
	other.mu.Lock()
	other.idle["gone"] = time.Now().Add(-time.Hour)
	other.mu.Unlock()
	other.client.ForceMetadataRefresh()
	<-asked
	eventually(t, "it is told to forget the topic", func() bool {
		other.mu.Lock()
		defer other.mu.Unlock()
		return len(other.idle) == 0
	})
	if err := r.end(); err != nil {
		t.Error(err)
	}
	close(release) // only now
}

// hangCommit makes the fake broker answer the first commit when release is closed; stuck is closed
// when it has come.
func (w *world) hangCommit() (stuck, release chan struct{}) {
	stuck, release = make(chan struct{}), make(chan struct{})
	var once sync.Once
	w.fake.ControlKey(int16(kmsg.OffsetCommit), func(kmsg.Request) (kmsg.Response, error, bool) {
		once.Do(func() {
			close(stuck)
			w.sleep(release)
		})
		return nil, nil, false
	})
	return stuck, release
}
