package embedded_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/embedded"
	"github.com/stepwell/stepwell/internal/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run runs brokers until the test ends.
func run(t *testing.T, o embedded.Options) *embedded.Brokers {
	b := embedded.New(o)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := b.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	return b
}

// group is a member of a consumer group.
func group(t *testing.T, b *embedded.Brokers, topic string) *kgo.Client {
	t.Helper()
	opts, err := b.Kafka(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(append(opts, kgo.ConsumeTopics(topic), kgo.ConsumerGroup("g"), kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func next(t *testing.T, client *kgo.Client) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	fetches := client.PollFetches(ctx)
	if err := fetches.Err(); err != nil {
		t.Fatal(err)
	}
	var all []string
	fetches.EachRecord(func(r *kgo.Record) { all = append(all, string(r.Value)) })
	return strings.Join(all, " ")
}

func produce(t *testing.T, b *embedded.Brokers, topic, value string) {
	t.Helper()
	if err := b.Produce(t.Context(), &kgo.Record{Topic: topic, Value: []byte(value)}); err != nil {
		t.Fatal(err)
	}
}

func TestAGroupAndQueuesLiveThroughADayOnAFalseClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := run(t, embedded.Options{Topics: map[string]int32{"t": 2}, VirtualNetwork: true})
		client := group(t, b, "t")
		produce(t, b, "t", "before")
		if got := next(t, client); got != "before" {
			t.Fatalf("came: %s", got)
		}
		declare(
			t, b, queue.Spec{Name: "delay", Kind: queue.Delay, TTL: 12 * time.Hour, Target: "instant"},
			queue.Spec{Name: "instant", Kind: queue.Instant, Target: "dead"}, queue.Spec{Name: "dead", Kind: queue.DeadSet},
		)
		told := make(chan error, 1)
		b.Queues().Publisher("test").Publish(t.Context(), "delay", queue.Message{ID: "1"}, func(err error) { told <- err })
		if err := <-told; err != nil {
			t.Fatal(err)
		}
		for _, want := range []int{0, 1} {
			depthIs(t, b, "instant", want)
			time.Sleep(12 * time.Hour)
			synctest.Wait()
		}
		began := time.Now()
		produce(t, b, "t", "after")
		if got := next(t, client); got != "after" || time.Since(began) > time.Second {
			t.Errorf("came: %s, after %v", got, time.Since(began))
		}
	})
}

func TestBrokersOnSocketsTakeTopicsThatNobodyNamed(t *testing.T) {
	b := run(t, embedded.Options{Topics: map[string]int32{"named": 1}})
	addresses, err := b.Addresses(t.Context())
	if err != nil || len(addresses) != 1 || !strings.HasPrefix(addresses[0], "127.0.0.1:") {
		t.Errorf("addresses %v, %v", addresses, err)
	}
	for _, topic := range []string{"named", "unnamed"} {
		produce(t, b, topic, topic)
		client := group(t, b, topic)
		if got := next(t, client); got != topic {
			t.Errorf("came: %s", got)
		}
		client.Close()
	}
}

func TestBrokersSayThatNothingSurvives(t *testing.T) {
	if notice := embedded.New(embedded.Options{}).Notice(); !strings.Contains(notice, "nothing") || strings.Contains(notice, "\n") {
		t.Error(notice)
	}
}

func TestBrokersThatDoNotRunAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := embedded.New(embedded.Options{VirtualNetwork: true})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := b.Kafka(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Kafka: %v", err)
		}
		if err := b.Produce(ctx, &kgo.Record{Topic: "t"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Produce: %v", err)
		}
		over, end := context.WithCancel(t.Context())
		end()
		if err := b.Run(over); err != nil {
			t.Errorf("Run: %v", err)
		}
		if err := b.Run(over); err == nil {
			t.Error("Run a second time: no error")
		}
	})
}

func TestWhatNoQueueOfAnExchangeTakesIsAnErrorThatNamesTheBindings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := run(t, embedded.Options{VirtualNetwork: true})
		says := func(ctx context.Context, exchange, key, want string, after time.Duration) {
			t.Helper()
			began := time.Now()
			err := b.PublishToExchange(ctx, exchange, key, stepwell.Message{})
			if err == nil || err.Error() != want || time.Since(began) != after {
				t.Errorf("after %s:\n%v\nwant after %s:\n%s", time.Since(began), err, after, want)
			}
		}
		says(t.Context(), "events", "a", `publish to exchange events with key "a": no queue is bound by a key that takes it; there are no bindings: context deadline exceeded`, 10*time.Second)
		declare(t, b, queue.Spec{Name: "two", Kind: queue.Source, Exchange: "others", Keys: []string{"#"}}, queue.Spec{Name: "one", Kind: queue.Source, Exchange: "events", Keys: []string{"a.*", "b"}})
		const bound = `no queue is bound by a key that takes it; bound are one to exchange events by key a.*, one to exchange events by key b, two to exchange others by key #`
		says(t.Context(), "events", "a", `publish to exchange events with key "a": `+bound+`: context deadline exceeded`, 10*time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		says(ctx, "event", "a.b", `publish to exchange event with key "a.b": `+bound+`: context deadline exceeded`, time.Second)
		depthIs(t, b, "one", 0)
	})
}

func TestWhatIsPublishedToAnExchangeWaitsForItsFirstBinding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := run(t, embedded.Options{VirtualNetwork: true})
		time.AfterFunc(9*time.Second, func() {
			declare(t, b, queue.Spec{Name: "one", Kind: queue.Source, Exchange: "events", Keys: []string{"a", "*"}}, queue.Spec{Name: "two", Kind: queue.Source, Exchange: "events", Keys: []string{"#"}})
		})
		if err := b.PublishToExchange(t.Context(), "events", "a", stepwell.Message{ID: "1"}, stepwell.Message{ID: "2"}); err != nil {
			t.Error(err)
		}
		depthIs(t, b, "one", 2)
		depthIs(t, b, "two", 2)
	})
}

func declare(t *testing.T, b *embedded.Brokers, specs ...queue.Spec) {
	t.Helper()
	if err := b.Queues().Declare(t.Context(), specs); err != nil {
		t.Error(err)
	}
}

func depthIs(t *testing.T, b *embedded.Brokers, name string, want int) {
	t.Helper()
	if n, err := b.Queues().Depth(t.Context(), name); err != nil || n != want {
		t.Errorf("%d messages in %s, not %d; %v", n, name, want, err)
	}
}
