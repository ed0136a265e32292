package streams

import (
	"context"
	"math/rand/v2"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Each of these was measured: with the client's own a dead process is replaced after 42 s and not
// 9, a hung broker costs 20 s and not 11, and a committed offset that expired may skip all that is
// left.
func TestTheClientHasTheOptionsForAQuickRecoveryAndNoLossOfItsOwn(t *testing.T) {
	t.Parallel()
	clientOf := func(cfg Config) *kgo.Client {
		cfg.Stream, cfg.Group.ID, cfg.Topics = "orders", "g", []string{"t"}
		r, err := New(cfg, newJournal().settleAll)
		if err != nil {
			t.Fatal(err)
		}
		client, err := kgo.NewClient(r.options(context.Background())...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		return client
	}
	is := func(client *kgo.Client, name string, option, want any) {
		t.Helper()
		if got := client.OptValue(option); !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %v, not %v", name, got, want)
		}
	}
	start := kgo.NewOffset().AtStart()
	c := clientOf(Config{})
	is(c, "the session time-out", kgo.SessionTimeout, 10*time.Second)
	is(c, "the heartbeat interval", kgo.HeartbeatInterval, 3*time.Second)
	is(c, "the rebalance time-out", kgo.RebalanceTimeout, time.Minute)
	is(c, "the dial time-out", kgo.DialTimeout, 3*time.Second)
	is(c, "what a request may take beyond its own time-out", kgo.RequestTimeoutOverhead, 2*time.Second)
	is(c, "the least age of metadata", kgo.MetadataMinAge, time.Second)
	is(c, "the greatest age of metadata", kgo.MetadataMaxAge, 10*time.Second)
	is(c, "the longest wait of a fetch", kgo.FetchMaxWait, 500*time.Millisecond)
	is(c, "no commits by the client", kgo.DisableAutoCommit, true)
	is(c, "commits of marks by the client", kgo.AutoCommitMarks, false)
	is(c, "where it begins without a commit", kgo.ConsumeStartOffset, start)
	is(c, "where it goes on when the offset is gone", kgo.ConsumeResetOffset, start)
	is(c, "a rebalance that waits for polls, which stops heartbeats", kgo.BlockRebalanceOnPoll, false)
	is(c, "KIP-848", kgo.ServerSideBalancer, false)
	for _, failures := range []int{0, 1, 5, 100} {
		if wait := c.OptValue(kgo.RetryBackoffFn).(func(int) time.Duration)(failures); wait <= 0 || wait > time.Second {
			t.Errorf("after %d failures it waits %v", failures, wait)
		}
	}
	c = clientOf(Config{
		Group: Group{Protocol: "consumer", SessionTimeout: 6 * time.Second, RebalanceTimeout: 20 * time.Second},
		Kafka: Kafka{Options: []kgo.Opt{kgo.DialTimeout(time.Second), kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd())}},
	})
	is(c, "KIP-848, asked for", kgo.ServerSideBalancer, true)
	is(c, "another session time-out", kgo.SessionTimeout, 6*time.Second)
	is(c, "the heartbeat interval of a shorter session", kgo.HeartbeatInterval, 2*time.Second)
	is(c, "another rebalance time-out", kgo.RebalanceTimeout, 20*time.Second)
	is(c, "the dial time-out of who knows the cluster", kgo.DialTimeout, time.Second)
	is(c, "where it goes on when the offset is gone, whoever wants it otherwise", kgo.ConsumeResetOffset, start)
}

func TestFetchesAskForLessOfWhatIsCompressedAHundredfoldAndForMoreOfWhatIsLarge(t *testing.T) {
	t.Parallel()
	random := make([]byte, 200<<10)
	for i := range random {
		random[i] = byte(rand.Uint32()) //nolint:gosec // any bytes that cannot be compressed
	}
	for name, c := range map[string]struct {
		value  []byte
		window int
		fits   func(whole, partition int32) bool
	}{
		"compressed": {make([]byte, 200<<10), 2 << 20, func(whole, partition int32) bool { return whole < firstFetch/4 && partition <= whole }},
		"large":      {random, 16 << 20, func(whole, partition int32) bool { return whole > 4*firstFetch && partition > 2*firstFetch }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := fakeWorld(t, 1)
			var first, whole, partition atomic.Int32
			w.fake.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
				w.fake.KeepControl()
				fetch := req.(*kmsg.FetchRequest)
				first.CompareAndSwap(0, fetch.MaxBytes)
				for _, topic := range fetch.Topics {
					for _, p := range topic.Partitions {
						whole.Store(fetch.MaxBytes)
						partition.Store(p.PartitionMaxBytes)
					}
				}
				return nil, nil, false
			})
			for range 30 {
				w.send(&kgo.Record{Value: c.value})
			}
			cfg, j := w.config(), newJournal()
			cfg.Window.Bytes = c.window
			w.run(cfg, j.settleAll)
			eventually(t, "all", func() bool { return j.count() == 30 })
			if first.Load() != firstFetch/2 { // of two clients
				t.Errorf("the first fetch asks for %d bytes", first.Load())
			}
			eventually(t, "fetches of another size", func() bool { return c.fits(whole.Load(), partition.Load()) })
		})
	}
}
