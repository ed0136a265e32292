package streams

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestOptionsThatWouldBreakAPromiseAreRefusedAtStart(t *testing.T) {
	t.Parallel()
	called := func(context.Context, *kgo.Client, map[string][]int32) {}
	options := map[string]kgo.Opt{
		"SeedBrokers": kgo.SeedBrokers("other:9092"), "ConsumerGroup": kgo.ConsumerGroup("other"), "ShareGroup": kgo.ShareGroup("other"), "GroupProtocol": kgo.GroupProtocol("connect"),
		"Balancers": kgo.Balancers(kgo.RangeBalancer()), "ServerSideBalancer": kgo.ServerSideBalancer(), "InstanceID": kgo.InstanceID("i"),
		"SessionTimeout": kgo.SessionTimeout(20 * time.Second), "RebalanceTimeout": kgo.RebalanceTimeout(30 * time.Second),
		"HeartbeatInterval": kgo.HeartbeatInterval(time.Second), "BlockRebalanceOnPoll": kgo.BlockRebalanceOnPoll(),
		"DisableAutoCommit": kgo.DisableAutoCommit(), "GreedyAutoCommit": kgo.GreedyAutoCommit(), "AutoCommitMarks": kgo.AutoCommitMarks(),
		"AutoCommitInterval":   kgo.AutoCommitInterval(time.Second),
		"AutoCommitCallback":   kgo.AutoCommitCallback(func(*kgo.Client, *kmsg.OffsetCommitRequest, *kmsg.OffsetCommitResponse, error) {}),
		"OnPartitionsAssigned": kgo.OnPartitionsAssigned(called), "OnPartitionsRevoked": kgo.OnPartitionsRevoked(called), "OnPartitionsLost": kgo.OnPartitionsLost(called),
		"OnOffsetsFetched": kgo.OnOffsetsFetched(func(context.Context, *kgo.Client, *kmsg.OffsetFetchResponse) error { return nil }),
		"AdjustFetchOffsetsFn": kgo.AdjustFetchOffsetsFn(func(_ context.Context, at map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
			return at, nil
		}),
		"ConsumeStartOffset": kgo.ConsumeStartOffset(kgo.NewOffset().AtEnd()), "ConsumeResetOffset": kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()),
		"ConsumeTopics": kgo.ConsumeTopics("other"), "ConsumePartitions": kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"other": {0: kgo.NewOffset()}}),
		"ConsumeRegex": kgo.ConsumeRegex(), "ConsumeExcludeTopics": kgo.ConsumeExcludeTopics("other"),
		"FetchIsolationLevel": kgo.FetchIsolationLevel(kgo.ReadCommitted()), "KeepControlRecords": kgo.KeepControlRecords(),
		"KeepRetryableFetchErrors": kgo.KeepRetryableFetchErrors(), "FetchMaxBytes": kgo.FetchMaxBytes(1 << 19), "FetchMaxPartitionBytes": kgo.FetchMaxPartitionBytes(1 << 18),
		"WithPools": kgo.WithPools(&recordPool{}), "ClientID": kgo.ClientID("c"), "TransactionalID": kgo.TransactionalID("t"),
	}
	for _, o := range reservedOptions(byKey) {
		if options[o.Name] == nil {
			t.Errorf("%s is not tried", o.Name)
		}
	}
	for name := range callbacks() {
		if options[name] == nil {
			t.Errorf("%s is not tried", name)
		}
	}
	says := map[string]string{ // by the client itself
		"ShareGroup": "ShareGroup", "ConsumePartitions": "direct-partition", "ConsumeExcludeTopics": "ConsumeExcludeTopics",
	}
	for name, option := range options {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := New(Config{Stream: "orders", Group: Group{ID: "g"}, Topics: []string{"t"}, Kafka: Kafka{Extra: func() []kgo.Opt { return []kgo.Opt{option} }}}, newJournal().settleAll)
			want := says[name]
			if want == "" {
				want = "kgo." + name + " is not to be set: "
				if strings.Count(fmt.Sprint(err), "kgo.") != 1 && name != "TransactionalID" { // with which the client sets DisableAutoCommit
					t.Errorf("others are named: %v", err)
				}
			}
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "stream orders: kafka options") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestAllOptionsThatAreRefusedAreNamedAtOnceWithTheirReasons(t *testing.T) {
	t.Parallel()
	called := func(context.Context, *kgo.Client, map[string][]int32) {}
	for name, test := range map[string]struct {
		opts []kgo.Opt
		want string
	}{
		"callbacks": {[]kgo.Opt{kgo.OnPartitionsRevoked(called), kgo.SessionTimeout(20 * time.Second), kgo.OnPartitionsAssigned(called)},
			"kgo.SessionTimeout is not to be set: there is a setting: kafka.session_timeout\n" +
				"kgo.OnPartitionsAssigned is not to be set: the reader is told of its partitions by it\n" +
				"kgo.OnPartitionsRevoked is not to be set: the reader is told of its partitions by it"},
		"where to begin and where brokers are, as by default": {[]kgo.Opt{kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), kgo.SeedBrokers("127.0.0.1")},
			"kgo.SeedBrokers is not to be set: there is a setting: kafka.brokers, for all streams of a program\n" +
				"kgo.ConsumeStartOffset is not to be set: the reader says where it begins: start"},
		"topics": {[]kgo.Opt{kgo.ConsumeRegex(), kgo.ConsumeTopics("o.*")},
			"kgo.ConsumeTopics is not to be set: the reader says what it reads: its topics or their pattern\n" +
				"kgo.ConsumeRegex is not to be set: the reader says what it reads: its topics or their pattern"},
		"nil":  {[]kgo.Opt{kgo.Rack("r"), nil}, "option 2 of 2 is nil"},
		"none": {[]kgo.Opt{kgo.Rack("r"), kgo.OnPartitionsLost(nil)}, "<nil>"},
	} {
		if got := fmt.Sprint(CheckOptions(byKey, test.opts)); got != test.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, test.want)
		}
	}
}

// written counts requests of the clients that have it.
type written struct{ n atomic.Int64 }

func (w *written) OnBrokerWrite(kgo.BrokerMetadata, int16, int, time.Duration, time.Duration, error) {
	w.n.Add(1)
}

func TestOtherOptionsReachEveryClientAndNothingIsAskedBeforeTheReaderRuns(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 2)
	w.produce(0, 5)
	w.produce(1, 5)
	var made atomic.Int64
	var requests written
	cfg, j, all := w.config(), newJournal(), &fetched{}
	cfg.Kafka.Fetchers = 2
	cfg.Kafka.Extra = func() []kgo.Opt {
		made.Add(1)
		return []kgo.Opt{kgo.WithHooks(all, &requests), kgo.Rack("r"), kgo.DialTimeout(time.Second)}
	}
	reader, err := New(cfg, j.settleAll)
	if err != nil {
		t.Fatal(err)
	}
	if n := requests.n.Load(); n != 0 {
		t.Errorf("%d requests before it runs", n)
	}
	before := made.Load()
	r := w.start(reader)
	eventually(t, "all", func() bool { return j.count() == 10 })
	for _, f := range r.clients.all {
		if rack := f.client.OptValue(kgo.Rack); rack != "r" {
			t.Errorf("the rack of a client is %v", rack)
		}
	}
	if requests.n.Load() == 0 {
		t.Error("the hook sees no requests")
	}
	if n := made.Load() - before; n != 2 || all.records.Load() != 10 {
		t.Errorf("asked %d times for two clients, whose hook saw %d records", n, all.records.Load())
	}
}
