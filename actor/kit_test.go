package actor_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/testbroker"
)

// onPrivate runs the test on real Kafka with a RabbitMQ that only the test uses, the oldest one or
// the newest one.
func onPrivate(t *testing.T, test func(t *testing.T, w *world, node *testbroker.Rabbit)) {
	onPrivates(t, testbroker.Sample(t, testbroker.Releases()), test)
}

// onEachPrivate is onPrivate with both, for what depends on the release.
func onEachPrivate(t *testing.T, test func(t *testing.T, w *world, node *testbroker.Rabbit)) {
	onPrivates(t, testbroker.Releases(), test)
}

func onPrivates(t *testing.T, releases []string, test func(t *testing.T, w *world, node *testbroker.Rabbit)) {
	t.Parallel()
	for _, release := range releases {
		t.Run(release, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.seeds = testbroker.Kafka(t)
			node := testbroker.StartRabbitMQ(t, release, testbroker.RabbitOptions{})
			w.rabbit = node.URL
			w.connect(kgo.SeedBrokers(w.seeds))
			w.createTopic(w.topic, 4)
			test(t, w, node)
		})
	}
}

// onOneRabbitMQ runs the test on real Kafka with the last of the shared RabbitMQs: for what has
// nothing to do with its version.
func onOneRabbitMQ(t *testing.T, test func(t *testing.T, w *world)) {
	t.Parallel()
	nodes := testbroker.RabbitMQs(t)
	w := newWorld(t)
	w.rabbit, w.seeds = nodes[len(nodes)-1].URL, testbroker.Kafka(t)
	w.connect(kgo.SeedBrokers(w.seeds))
	w.createTopic(w.topic, 4)
	t.Cleanup(w.deleteQueues)
	test(t, w)
}

// health is what the probes say: the status of /livez and of /readyz, and the text of
// /readyz?verbose.
func (r *running) health() (live, ready int, text string) {
	r.t.Helper()
	live, _ = r.do("GET", "/livez", "")
	ready, answer := r.do("GET", "/readyz?verbose", "")
	return live, ready, fmt.Sprint(answer["text"])
}

// notReady waits until the actor lives, is not ready, and says all of the parts.
func (r *running) notReady(parts ...string) {
	r.t.Helper()
	var live, ready int
	var text string
	defer func() {
		if r.t.Failed() {
			r.t.Logf("livez %d, readyz %d: %s", live, ready, text)
		}
	}()
	eventually(r.t, fmt.Sprintf("alive, not ready because of %q", parts), func() bool {
		live, ready, text = r.health()
		return live == 200 && ready == 503 && hasAll(text, parts...)
	})
}

func hasAll(text string, parts ...string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

// always watches for as long as it says whether the condition holds.
func always(t testing.TB, what string, howLong time.Duration, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(howLong)
	for {
		if !ok() {
			t.Fatalf("not so any more: %s", what)
		}
		select {
		case <-tick.C:
		case <-limit:
			return
		}
	}
}

// inFlight is what the API says of the stream.
func (r *running) inFlight() int {
	r.t.Helper()
	_, answer := r.do("GET", "/v1/streams", "")
	return int(answer["streams"].([]any)[0].(map[string]any)["in_flight"].(float64))
}

// status is what the API says of the stream; nil: there is no such stream.
func (r *running) status(stream string) map[string]any {
	r.t.Helper()
	_, answer := r.do("GET", "/v1/streams", "")
	for _, s := range answer["streams"].([]any) {
		if of := s.(map[string]any); of["id"] == stream {
			return of
		}
	}
	return nil
}

// book keeps an actor's log, a JSON object a line.
type book struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *book) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *book) logger() *slog.Logger { return slog.New(slog.NewJSONHandler(b, nil)) }

func (b *book) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// said tells whether one line has all of the parts.
func (b *book) said(parts ...string) bool {
	for line := range strings.Lines(b.String()) {
		if hasAll(line, parts...) {
			return true
		}
	}
	return false
}

// tellTroubles prints what the log has of RabbitMQ and its queues, should the test fail.
func (b *book) tellTroubles(t testing.TB) {
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		for line := range strings.Lines(b.String()) {
			if hasAll(line, "queue") || hasAll(line, "RabbitMQ") {
				t.Log(strings.TrimSpace(line))
			}
		}
	})
}

// lines parses all of the log; a line that is no JSON ends the test.
func (b *book) lines(t testing.TB) []map[string]any {
	t.Helper()
	var all []map[string]any
	for line := range strings.Lines(b.String()) {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatalf("a line of the log is not one entry: %q: %v", line, err)
		}
		all = append(all, entry)
	}
	return all
}

// channel opens a channel to the world's RabbitMQ for what the test does by hand.
func (w *world) channel() *amqp.Channel {
	w.t.Helper()
	conn, err := amqp.Dial(w.rabbit)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = conn.Close() }) // the broker may be gone
	ch, err := conn.Channel()
	if err != nil {
		w.t.Fatal(err)
	}
	return ch
}

// tally counts the tries of each value.
type tally struct {
	mu    sync.Mutex
	tries map[string]int
	done  map[string]int
}

func newTally() *tally { return &tally{tries: map[string]int{}, done: map[string]int{}} }

// handler fails what fails tells, with the number of the attempt.
func (y *tally) handler(fails func(value string, attempt int) error) stepwell.Handler {
	return func(_ context.Context, m *stepwell.Message) error {
		err := fails(string(m.Value), m.Attempt)
		y.mu.Lock()
		defer y.mu.Unlock()
		y.tries[string(m.Value)]++
		if err == nil {
			y.done[string(m.Value)]++
		}
		return err
	}
}

// count is how many values were tried, and done.
func (y *tally) count() (tried, done int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	return len(y.tries), len(y.done)
}

func (y *tally) triesOf(value string) int {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.tries[value]
}

// failsOnce is a first try that fails for values that begin with "bad".
func failsOnce(value string, attempt int) error {
	if strings.HasPrefix(value, "bad") && attempt == 1 {
		return errFlaky
	}
	return nil
}

// several are n records with values of this beginning and keys that spread them.
func several(beginning string, n int) []*kgo.Record {
	var records []*kgo.Record
	for i := range n {
		value := fmt.Sprintf("%s-%d", beginning, i)
		records = append(records, &kgo.Record{Key: []byte(value), Value: []byte(value)})
	}
	return records
}

// ready is how many messages are ready in a queue. A busy RabbitMQ may not know it at once.
func ready(ctx context.Context, b queue.Broker, name string) (n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		if n, err = b.Depth(ctx, name); !errors.Is(err, queue.ErrUnavailable) {
			return n, err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return n, err
		}
	}
}

// built is the program that [program] makes once; TestMain deletes its folder.
var built struct {
	sync.Once
	dir string
	err error
}

// program is this test's program for actors in processes of their own, which kill themselves where
// [failpoint.Variable] says. It is without the race detector, which the tests themselves have: with
// it the start of each takes several times as long, and there are hundreds.
func program(t testing.TB) string {
	t.Helper()
	built.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "actor-test"); built.err != nil {
			return
		}
		out, err := exec.Command("go", "test", "-c", "-tags", "failpoint", "-o", filepath.Join(built.dir, "actor"), ".").CombinedOutput()
		if err != nil {
			built.err = fmt.Errorf("%w: %s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return filepath.Join(built.dir, "actor")
}

// logged is the app with its log in a book.
func logged(app actor.App) (actor.App, *book) {
	b := &book{}
	app.Logger = b.logger()
	return app, b
}
