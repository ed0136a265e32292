package streams

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/task"
	"github.com/stepwell/stepwell/internal/testbroker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a cluster with a topic and a group of the test's own, and a client that produces and
// looks.
type world struct {
	t            testing.TB
	topic, group string
	seeds        []string
	fake         *kfake.Cluster // nil on a real cluster
	asleep       sync.RWMutex   // read-locked by each request that sleeps in the fake
	client       *kgo.Client
	admin        *kadm.Client
}

var names atomic.Int64

func newWorld(t testing.TB, partitions int32, seeds []string) *world {
	t.Helper()
	name := fmt.Sprintf("streams-%d-%d", time.Now().UnixNano(), names.Add(1))
	w := &world{t: t, topic: name, group: name, seeds: seeds}
	var err error
	w.client, err = kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MetadataMinAge(100*time.Millisecond), kgo.MetadataMaxAge(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.client.Close)
	w.admin = kadm.NewClient(w.client)
	w.create(w.topic, partitions)
	return w
}

// fakeWorld is on an in-process cluster.
func fakeWorld(t testing.TB, partitions int32, opts ...kfake.Opt) *world {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.BrokerConfigs(map[string]string{
		"group.initial.rebalance.delay.ms": "0",
	})}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	var w *world
	t.Cleanup(func() {
		if w != nil {
			w.asleep.Lock() // closed with two asleep, it may wait for one that waits for the other
		}
		c.Close()
	})
	w = newWorld(t, partitions, c.ListenAddrs())
	w.fake = c
	return w
}

// sleep holds back a request that a control function has, until wake is closed or the test ends.
func (w *world) sleep(wake <-chan struct{}) {
	if !w.asleep.TryRLock() {
		return // the cluster is being closed
	}
	defer w.asleep.RUnlock()
	w.fake.SleepControl(func() {
		select {
		case <-wake:
		case <-w.t.Context().Done():
		}
	})
}

// realWorld is on Apache Kafka.
func realWorld(t testing.TB, partitions int32) *world {
	t.Helper()
	w := newWorld(t, partitions, []string{testbroker.Kafka(t)})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_, _ = w.admin.DeleteTopics(ctx, w.topic)
	})
	return w
}

func (w *world) create(topic string, partitions int32) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	defer cancel()
	if err := testbroker.MakeTopic(ctx, w.client, topic, partitions, nil); err != nil {
		w.t.Fatal(err)
	}
}

// remake deletes the topic and makes it anew. All its partitions must have had records.
func (w *world) remake(partitions int32) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
	defer cancel()
	if err := testbroker.RemakeTopic(ctx, w.client, w.topic, partitions); err != nil {
		w.t.Fatal(err)
	}
}

// produce appends n records to a partition of the topic; key and value say their number.
func (w *world) produce(partition int32, n int) {
	w.t.Helper()
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = &kgo.Record{Topic: w.topic, Partition: partition, Key: fmt.Appendf(nil, "key-%d", i), Value: fmt.Appendf(nil, "value-%d", i)}
	}
	w.send(records...)
}

func (w *world) send(records ...*kgo.Record) {
	w.t.Helper()
	for _, r := range records {
		if r.Topic == "" {
			r.Topic = w.topic
		}
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
	defer cancel()
	if err := w.client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		w.t.Fatal(err)
	}
}

// committed returns the group's commits of the topic, by partition.
func (w *world) committed() map[int32]int64 {
	w.t.Helper()
	offsets, err := w.commits()
	if err != nil {
		w.t.Fatal(err)
	}
	return offsets
}

// commits asks until the coordinator is found.
func (w *world) commits() (map[int32]int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for {
		all, err := w.admin.FetchOffsets(ctx, w.group)
		if err == nil {
			err = all.Error()
		}
		if kerr.IsRetriable(err) && task.Sleep(ctx, 50*time.Millisecond) {
			continue
		}
		if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
			return nil, err
		}
		offsets := map[int32]int64{}
		for id, o := range all[w.topic] {
			offsets[id] = o.At
		}
		return offsets, nil
	}
}

// config is that of a reader of this world, which handles the messages of a partition in their
// order.
func (w *world) config() Config {
	return Config{
		Calls:  Calls{Order: OrderPartition},
		Stream: "orders", Group: Group{ID: w.group}, Topics: []string{w.topic},
		Kafka: Kafka{Options: []kgo.Opt{kgo.SeedBrokers(w.seeds...)}},
	}
}

// byKey is config with messages of different keys side by side.
func (w *world) byKey() Config {
	cfg := w.config()
	cfg.Calls.Order = OrderKey
	return cfg
}

// running is a reader that runs.
type running struct {
	*Reader
	t    testing.TB
	stop context.CancelFunc
	kill context.CancelCauseFunc
	done chan struct{}
	err  error
}

// run starts a reader; the end of the test stops it.
func (w *world) run(cfg Config, handle Handle) *running {
	w.t.Helper()
	reader, err := New(cfg, handle)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.start(reader)
}

// start is run for a reader that is made already.
func (w *world) start(reader *Reader) *running {
	stop, cancelStop := context.WithCancel(context.Background())
	work, cancelWork := context.WithCancelCause(context.Background())
	r := &running{Reader: reader, t: w.t, stop: cancelStop, kill: cancelWork, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = reader.Run(stop, work)
	}()
	w.t.Cleanup(func() {
		cancelStop()
		cancelWork(nil)
		<-r.done
	})
	return r
}

// end stops the reader and returns what Run said.
func (r *running) end() error {
	r.t.Helper()
	r.stop()
	select {
	case <-r.done:
	case <-time.After(60 * time.Second):
		r.t.Fatal("the reader does not stop")
	}
	return r.err
}

// journal notes which offsets were handed out, per partition, in order.
type journal struct {
	mu    sync.Mutex
	calls map[int32][]int64
	total int
}

func newJournal() *journal { return &journal{calls: map[int32][]int64{}} }

func (j *journal) note(m *stepwell.Message) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.calls[m.Origin.Partition] = append(j.calls[m.Origin.Partition], m.Origin.Offset)
	j.total++
}

func (j *journal) count() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.total
}

func (j *journal) of(partition int32) []int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.calls[partition])
}

// settleAll is a handle that notes and settles.
func (j *journal) settleAll(_ context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
	j.note(m)
	return task.Settled
}

// eventually waits for what must become true.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	within(t, 40*time.Second, what, ok)
}

func within(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	timeout := time.After(limit)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-timeout:
			t.Fatalf("not within %v: %s", limit, what)
		case <-tick.C:
		}
	}
}

// counter notes what was counted.
type counter struct{ consumed, lost, expired, duplicates atomic.Int64 }

func (c *counter) Consumed(n int64) { c.consumed.Add(n) }
func (c *counter) Lost(n int64)     { c.lost.Add(n) }
func (c *counter) Expired(n int64)  { c.expired.Add(n) }
func (c *counter) Duplicate()       { c.duplicates.Add(1) }

// refuseMetadataOver makes the fake broker refuse longer metadata, as brokers with a lower
// offset.metadata.max.bytes do.
func (w *world) refuseMetadataOver(limit int, refused *atomic.Int32) {
	w.refuseCommits(func(p kmsg.OffsetCommitRequestTopicPartition) *kerr.Error {
		if p.Metadata != nil && len(*p.Metadata) > limit {
			return kerr.OffsetMetadataTooLarge
		}
		return nil
	}, refused)
}

// refuseCommits makes the fake broker answer commits of the group with what why says of each
// partition; where that is nothing of any, it commits.
func (w *world) refuseCommits(why func(kmsg.OffsetCommitRequestTopicPartition) *kerr.Error, refused *atomic.Int32) {
	w.fake.ControlKey(int16(kmsg.OffsetCommit), func(r kmsg.Request) (kmsg.Response, error, bool) {
		w.fake.KeepControl()
		req := r.(*kmsg.OffsetCommitRequest)
		if req.Group != w.group {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
		refuses := false
		for _, t := range req.Topics {
			answer := kmsg.NewOffsetCommitResponseTopic()
			answer.Topic, answer.TopicID = t.Topic, t.TopicID
			for _, p := range t.Partitions {
				part := kmsg.NewOffsetCommitResponseTopicPartition()
				part.Partition = p.Partition
				if err := why(p); err != nil {
					refuses = true
					part.ErrorCode = err.Code
				}
				answer.Partitions = append(answer.Partitions, part)
			}
			resp.Topics = append(resp.Topics, answer)
		}
		if !refuses {
			return nil, nil, false
		}
		refused.Add(1)
		return resp, nil, true
	})
}
