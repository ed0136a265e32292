package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/embedded"
)

// journal is what happened, in seconds after the message was produced.
type journal struct {
	mu    sync.Mutex
	began time.Time
	calls []float64
	dead  []string
}

func (j *journal) called() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.calls = append(j.calls, time.Since(j.began).Seconds())
	return len(j.calls)
}

// TestEachStreamRetriesAsTheToolDidThatItCameFrom shows what docs/MIGRATING.md says of each: when
// a message is called, and what becomes of it.
func TestEachStreamRetriesAsTheToolDidThatItCameFrom(t *testing.T) {
	away := errors.New("away")
	always := func(int) error { return away }
	for _, test := range []struct {
		name, stream string
		fails        func(call int) error // how that call ends
		calls        []float64            // when, in seconds
		told         int                  // to OnDead
	}{
		{"attempts of Spring: four, with waits of 1, 2 and 4 s", "spring", always, []float64{0, 1, 3, 7}, 1},
		{"an exception that Spring excludes", "spring", func(int) error { return errInvalid }, []float64{0}, 1},
		{"delays of KafkaJS's helper", "node", always, []float64{0, 5, 35, 95}, 0},
		{"waits of River", "jobs", always, []float64{0, 1, 17, 98, 354}, 0},
		{"a snooze of River, and then the first wait", "jobs", func(call int) error {
			if call == 1 {
				return errNotYet
			}
			return away
		}, []float64{0, 600, 601, 617}, 0},
		{"a cancelled job", "jobs", func(int) error { return errInvalid }, []float64{0}, 0},
		{"retries of Watermill, in the process", "watermill", always, []float64{0, .1, .3, .7}, 0},
		{"a loop's handler that fails twice", "loop", func(call int) error {
			if call < 3 {
				return away
			}
			return nil
		}, []float64{0, 5, 10}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := &journal{}
				s := &shop{
					charge: func(context.Context, string) error { return test.fails(j.called()) },
					tell: func(_ context.Context, m *stepwell.Message, err error) error {
						j.dead = append(j.dead, m.ID+": "+err.Error())
						return nil
					},
				}
				last := test.calls[len(test.calls)-1]
				run(t, s, func(brokers *embedded.Brokers) {
					j.began = time.Now()
					s.begin(t, brokers, test.stream)
					time.Sleep(time.Duration((last*1.01 + 2) * float64(time.Second)))
				})
				// A wait that a handler asks for may be a tenth or a second late; others come to
				// the moment, but for the way to Kafka and back.
				same := func(got, want float64) bool { return got >= want-.001 && got <= want*1.1+1 }
				if !slices.EqualFunc(j.calls, test.calls, same) || len(j.dead) != test.told {
					t.Errorf("calls at %v, want %v; told of %q, want %d", j.calls, test.calls, j.dead, test.told)
				}
			})
		})
	}
}

func TestWhatAHandlerForwardsIsThereBeforeItsMessageIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shop{charge: func(context.Context, string) error { return nil }, tell: func(context.Context, *stepwell.Message, error) error { return nil }}
		run(t, s, func(brokers *embedded.Brokers) {
			opts, err := brokers.Kafka(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			client, err := kgo.NewClient(append(opts, kgo.ConsumeTopics("orders.charged"))...)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			s.begin(t, brokers, "watermill")
			fetches := client.PollFetches(t.Context())
			if records := fetches.Records(); len(records) != 1 || string(records[0].Value) != `{"ID":"1"}` {
				t.Errorf("forwarded: %v, %v", records, fetches.Errors())
			}
		})
	})
}

// begin has the stream handle an order, by its topic or by a job.
func (s *shop) begin(t *testing.T, brokers *embedded.Brokers, topic string) {
	t.Helper()
	if topic == "jobs" {
		if err := s.insert(t.Context(), order{"1"}, 0); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err := brokers.Produce(t.Context(), &kgo.Record{Topic: topic, Key: []byte("1"), Value: []byte(`{"ID":"1"}`)}); err != nil {
		t.Fatal(err)
	}
}

// run runs the actor on embedded brokers, where each stream reads the topic of its name.
func run(t *testing.T, s *shop, during func(*embedded.Brokers)) {
	t.Helper()
	environ := []string{"SERVER_ADDRESS=off", "TELEMETRY_DEPTH_INTERVAL=1h"}
	topics := map[string]int32{"orders.charged": 1}
	app := s.app()
	for id, stream := range app.Streams {
		if stream.Enqueued {
			continue
		}
		topics[id] = 1
		environ = append(environ, "STREAMS_"+strings.ToUpper(id)+"_TOPICS="+id)
	}
	brokers := embedded.New(embedded.Options{Topics: topics, VirtualNetwork: true})
	app.Brokers = brokers
	started, start := make(chan struct{}), app.Start
	app.Start = func(ctx context.Context, env *actor.Env) error {
		defer close(started)
		return start(ctx, env)
	}
	cfg, err := actor.Load(app, environ)
	if err != nil {
		t.Fatal(err)
	}
	a, err := actor.New(cfg, app)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	<-started
	time.Sleep(3 * time.Second) // the groups have joined, by the clock of the test
	during(brokers)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
