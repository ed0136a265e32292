package actor_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/config"
	"github.com/stepwell/stepwell/embedded"
	"github.com/stepwell/stepwell/embedded/memory"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/rabbit"
	"github.com/stepwell/stepwell/internal/testbroker"
)

// world is one pair of brokers with names of its own for one test.
type world struct {
	t       testing.TB
	app     string
	topic   string
	rabbit  string // URL; empty: embedded
	brokers *embedded.Brokers
	seeds   string
	client  *kgo.Client
}

// largest is the largest record of any test, in bytes, with room to spare.
const largest = 4 << 20

var worldNumber atomic.Int64

// everywhere runs the test on the embedded brokers, and on real Kafka with one of the RabbitMQs
// there are.
func everywhere(t *testing.T, test func(t *testing.T, w *world)) {
	t.Parallel()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		test(t, embeddedWorld(t))
	})
	onBrokers(t, test)
}

// embeddedWorld is on brokers in the process.
func embeddedWorld(t testing.TB) *world { return embeddedIn(t, embedded.Options{}) }

// embeddedIn is embeddedWorld with options: a bubble needs VirtualNetwork, and SERVER_ADDRESS=off.
func embeddedIn(t testing.TB, o embedded.Options) *world {
	w := newWorld(t)
	w.brokers = embedded.New(o)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.brokers.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("embedded brokers: %v", err)
		}
	})
	opts, err := w.brokers.Kafka(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.connect(opts...)
	w.createTopic(w.topic, 4)
	return w
}

// onBrokers runs the test on real Kafka with one of the RabbitMQs there are.
func onBrokers(t *testing.T, test func(t *testing.T, w *world)) {
	on(t, testbroker.Sample(t, testbroker.RabbitMQs(t)), test)
}

// onEachBroker is onBrokers with each RabbitMQ, for what depends on its release.
func onEachBroker(t *testing.T, test func(t *testing.T, w *world)) {
	on(t, testbroker.RabbitMQs(t), test)
}

func on(t *testing.T, nodes []testbroker.Node, test func(t *testing.T, w *world)) {
	for _, node := range nodes {
		t.Run("rabbitmq-"+node.Version, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.rabbit, w.seeds = node.URL, testbroker.Kafka(t)
			w.connect(kgo.SeedBrokers(w.seeds))
			w.createTopic(w.topic, 4)
			t.Cleanup(w.deleteQueues)
			test(t, w)
		})
	}
}

func newWorld(t testing.TB) *world {
	name := fmt.Sprintf("t%d-%d", time.Now().UnixNano()%1e12, worldNumber.Add(1))
	return &world{t: t, app: name, topic: name + ".v1"}
}

func (w *world) connect(opts ...kgo.Opt) {
	client, err := kgo.NewClient(append(opts, kgo.ProducerBatchMaxBytes(largest))...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.client = client
	w.t.Cleanup(client.Close)
}

func (w *world) createTopic(topic string, partitions int32) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
	defer cancel()
	if err := testbroker.MakeTopic(ctx, w.client, topic, partitions, map[string]*string{"max.message.bytes": new(fmt.Sprint(largest))}); err != nil {
		w.t.Fatal(err)
	}
}

// produce writes the records to the world's topic where they name no other.
func (w *world) produce(records ...*kgo.Record) {
	w.t.Helper()
	for _, r := range records {
		if r.Topic == "" {
			r.Topic = w.topic
		}
	}
	if err := w.client.ProduceSync(context.Background(), records...).FirstErr(); err != nil {
		w.t.Fatalf("produce: %v", err)
	}
}

func values(vs ...string) []*kgo.Record {
	var records []*kgo.Record
	for _, v := range vs {
		records = append(records, &kgo.Record{Key: []byte("k"), Value: []byte(v)})
	}
	return records
}

func (w *world) queue(stream, kind string) string { return w.app + "." + stream + "." + kind }

// deleteQueues removes all queues that tests of this world can have made.
func (w *world) deleteQueues() {
	conn, err := amqp.Dial(w.rabbit)
	if err != nil {
		return // the test ended its own broker
	}
	defer conn.Close()
	kinds := []string{"instant", "source", "dead_set", "dead_set.page.0", "dead_set.page.1", "dead_set.trash.259200.0"}
	for _, ms := range []int{50, 100, 150, 200, 300, 400, 500, 600, 1000, 2000, 5000, 15000, 60000, 3600000} {
		kinds = append(kinds, fmt.Sprintf("delay.%d", ms))
	}
	kinds = append(kinds, "delay.3600000.2", "delay.3600000.3")
	for _, stream := range []string{"orders", "parcels", "jobs", "orders.channel.slow", "jobs.channel.slow"} {
		for _, kind := range kinds {
			ch, err := conn.Channel()
			if err != nil {
				return
			}
			_, _ = ch.QueueDelete(w.queue(stream, kind), false, false, false) // most are not there
			_ = ch.Close()
		}
	}
	if ch, err := conn.Channel(); err == nil {
		_, _ = ch.QueueDelete(w.app+".records", false, false, false)
	}
}

// deleteQueue removes one, as an operator might.
func (w *world) deleteQueue(name string) {
	w.t.Helper()
	if w.brokers != nil {
		w.brokers.Queues().(*memory.Broker).Delete(name)
		return
	}
	if _, err := w.channel().QueueDelete(name, false, false, false); err != nil {
		w.t.Fatal(err)
	}
}

// broker is the world's queues for what a test does by hand.
func (w *world) broker() queue.Broker {
	w.t.Helper()
	if w.brokers != nil {
		return w.brokers.Queues()
	}
	b := rabbit.New(rabbit.Config{URLs: []string{w.rabbit}, ConnectionName: "by hand", Logger: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Errorf("rabbit: %v", err)
		}
	})
	return b
}

// running is an actor that a test started.
type running struct {
	t     testing.TB
	actor *actor.Actor
	stop  context.CancelFunc
	ended chan struct{}
	err   error
}

// settings are environment variables; the world adds its brokers and quick waits.
type settings map[string]string

func (w *world) config(app actor.App, env settings) *config.Config {
	w.t.Helper()
	all := settings{
		"APP_NAME": w.app, "SERVER_ADDRESS": "localhost:0", "RETRY_DELAY": "100ms",
		"TELEMETRY_DEPTH_INTERVAL": "100ms",
	}
	if w.brokers == nil {
		all["KAFKA_BROKERS"], all["RABBITMQ_URL"] = w.seeds, w.rabbit
	}
	for id := range app.Streams {
		if id == "orders" {
			all["STREAMS_ORDERS_TOPICS"] = w.topic
		}
	}
	maps.Copy(all, env)
	var environ []string
	for k, v := range all {
		environ = append(environ, k+"="+v)
	}
	slices.Sort(environ)
	cfg, err := actor.Load(app, environ)
	if err != nil {
		w.t.Fatal(err)
	}
	return cfg
}

// start runs the app until the test ends.
func (w *world) start(app actor.App, env settings) *running {
	w.t.Helper()
	if w.brokers != nil && app.Brokers == nil {
		app.Brokers = shared{w.brokers}
	}
	if app.Logger == nil {
		app.Logger = slog.New(slog.NewTextHandler(logWriter{w.t}, nil))
	}
	a, err := actor.New(w.config(app, env), app)
	if err != nil {
		w.t.Fatal(err)
	}
	return run(w.t, a)
}

// run runs an actor until the test ends.
func run(t testing.TB, a *actor.Actor) *running {
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{t: t, actor: a, stop: cancel, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		r.err = a.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-r.ended
	})
	return r
}

// shared are brokers that several actors of one test use and none ends.
type shared struct{ *embedded.Brokers }

func (shared) Run(ctx context.Context) error { <-ctx.Done(); return nil }

type logWriter struct{ t testing.TB }

func (l logWriter) Write(p []byte) (int, error) {
	if testing.Verbose() {
		fmt.Print(l.t.Name(), " ", string(p))
	}
	return len(p), nil
}

// end stops the actor and fails the test if that was no clean stop.
func (r *running) end() {
	r.t.Helper()
	r.stop()
	<-r.ended
	if r.err != nil {
		r.t.Errorf("Run: %v", r.err)
	}
}

// do sends a request and decodes the answer.
func (r *running) do(method, path, body string) (status int, answer map[string]any) {
	r.t.Helper()
	var address string
	eventually(r.t, "the server listens", func() bool { address = r.actor.Address(); return address != "" })
	req, err := http.NewRequest(method, "http://"+address+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(&answer); err != nil {
		answer = map[string]any{"text": string(data)}
	}
	return resp.StatusCode, answer
}

func (r *running) ready() {
	r.t.Helper()
	eventually(r.t, "the actor is ready", func() bool { s, _ := r.do("GET", "/readyz", ""); return s == 200 })
}

// dead returns the dead set's messages, oldest first.
func (r *running) dead(count int) []map[string]any {
	r.t.Helper()
	all, status := r.peek(count)
	if status != 200 {
		r.t.Fatalf("peek: %d", status)
	}
	return all
}

func (r *running) peek(count int) (all []map[string]any, status int) {
	r.t.Helper()
	status, answer := r.do("GET", fmt.Sprintf("/v1/dead_set?count=%d&topic-entity=orders", count), "")
	if status != 200 {
		r.t.Logf("peek: %d %v", status, answer)
		return nil, status
	}
	for _, m := range answer["messages"].([]any) {
		all = append(all, m.(map[string]any))
	}
	return all, status
}

// deadCount waits until the dead set has n messages and returns them. Just after a start it may not
// be there yet.
func (r *running) deadCount(n int) (all []map[string]any) {
	r.t.Helper()
	eventually(r.t, fmt.Sprintf("%d messages in the dead set", n), func() bool {
		var status int
		if all, status = r.peek(1000); status != 200 && status != 503 {
			r.t.Fatalf("peek: %d", status)
		}
		return status == 200 && len(all) == n
	})
	return all
}

// depths returns how many messages are ready in each queue of the stream.
func (r *running) depths() map[string]int {
	r.t.Helper()
	_, answer := r.do("GET", "/v1/streams", "")
	found := map[string]int{}
	for _, s := range answer["streams"].([]any) {
		if queues, ok := s.(map[string]any)["queues"].(map[string]any); ok {
			for name, depth := range queues {
				found[name] = int(depth.(float64))
			}
		}
	}
	return found
}

func (r *running) queuesEmpty() {
	r.t.Helper()
	eventually(r.t, "all queues empty", func() bool {
		for _, n := range r.depths() {
			if n != 0 {
				return false
			}
		}
		return true
	})
}

// eventually waits for the condition, for as long as a loaded machine may need.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	within(t, 60*time.Second, what, ok)
}

func within(t testing.TB, most time.Duration, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(most)
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("not within %v: %s", most, what)
		}
	}
}
