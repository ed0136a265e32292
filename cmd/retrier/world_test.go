package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/internal/testbroker"
)

// world is one place for the queues, with a name of its own for one test.
type world struct {
	t      *testing.T
	app    string
	rabbit string // URL; empty: embedded
}

var worldNumber atomic.Int64

// everywhere runs the test embedded and with one of the RabbitMQs there are.
func everywhere(t *testing.T, test func(t *testing.T, w *world)) {
	t.Parallel()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		test(t, newWorld(t, ""))
	})
	onRabbitMQ(t, test)
}

// onRabbitMQ runs the test with one of the RabbitMQs there are.
func onRabbitMQ(t *testing.T, test func(t *testing.T, w *world)) {
	for _, node := range testbroker.Sample(t, testbroker.RabbitMQs(t)) {
		t.Run("rabbitmq-"+node.Version, func(t *testing.T) {
			t.Parallel()
			test(t, newWorld(t, node.URL))
		})
	}
}

// place is where queues are: a RabbitMQ, or the process for an empty URL.
type place struct{ name, url string }

// worlds are the places that the test is to see.
func worlds(t *testing.T) []place {
	all := []place{{"embedded", ""}}
	for _, node := range testbroker.Sample(t, testbroker.RabbitMQs(t)) {
		all = append(all, place{"rabbitmq-" + node.Version, node.URL})
	}
	return all
}

func newWorld(t *testing.T, rabbit string) *world {
	w := &world{t: t, rabbit: rabbit, app: fmt.Sprintf("r%d-%d", time.Now().UnixNano()%1e12, worldNumber.Add(1))}
	if rabbit != "" {
		t.Cleanup(w.deleteQueues)
	}
	return w
}

// deleteQueues removes all queues that tests of this world can have made.
func (w *world) deleteQueues() {
	conn, err := amqp.Dial(w.rabbit)
	if err != nil {
		return // the test ended its own broker
	}
	defer conn.Close()
	kinds := []string{"instant", "dead_set"}
	for _, ms := range []int{1000, 5000, 15000, 60000, 300000, 900000, 3600000, 21600000, 86400000} {
		kinds = append(kinds, fmt.Sprintf("delay.%d", ms))
	}
	for _, kind := range kinds {
		ch, err := conn.Channel()
		if err != nil {
			return
		}
		_, _ = ch.QueueDelete(w.app+".calls."+kind, false, false, false) // most are not there
		_ = ch.Close()
	}
	if ch, err := conn.Channel(); err == nil {
		_, _ = ch.QueueDelete(w.app+".records", false, false, false)
	}
}

// environment is what a retrier of this world is configured with.
func (w *world) environment(more ...string) []string {
	env := []string{"APP_NAME=" + w.app, "SERVER_ADDRESS=localhost:0", "APP_HOSTS=localhost"}
	if w.rabbit != "" {
		env = append(env, "RABBITMQ_URL="+w.rabbit)
	}
	return append(env, more...)
}

// running is a retrier that a test started.
type running struct {
	t       *testing.T
	actor   *actor.Actor
	retrier *retrier
}

// start runs a retrier until the test ends.
func (w *world) start(more ...string) *running {
	w.t.Helper()
	r := &retrier{embedded: w.rabbit == ""}
	app := r.app()
	app.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	if testing.Verbose() {
		app.Logger = slog.Default().With("test", w.t.Name())
	}
	cfg, err := actor.Load(app, w.environment(more...))
	if err != nil {
		w.t.Fatal(err)
	}
	a, err := actor.New(cfg, app)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	w.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			w.t.Errorf("Run: %v", err)
		}
	})
	run := &running{t: w.t, actor: a, retrier: r}
	eventually(w.t, "the retrier is ready", func() bool { return a.Address() != "" && run.do("GET", "/readyz", "").status == 200 })
	return run
}

// answer is what came back.
type answer struct {
	status int
	json   map[string]any
}

// do sends a request; headers are given in pairs.
func (r *running) do(method, path, body string, headers ...string) answer {
	r.t.Helper()
	a, err := send(r.t.Context(), method, "http://"+r.actor.Address()+path, body, headers...)
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

func send(ctx context.Context, method, url, body string, headers ...string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader([]byte(body)))
	if err != nil {
		return answer{}, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	a := answer{status: resp.StatusCode}
	text, err := io.ReadAll(resp.Body)
	_ = json.Unmarshal(text, &a.json) // some answers are text
	return a, err
}

// dead are the messages of the dead set.
func (r *running) dead() []map[string]any {
	r.t.Helper()
	a := r.do("GET", "/v1/dead_set?stream=calls&count=100", "")
	if a.status != 200 {
		r.t.Fatalf("peek: %d %v", a.status, a.json)
	}
	all := []map[string]any{}
	for _, m := range a.json["messages"].([]any) {
		all = append(all, m.(map[string]any))
	}
	return all
}

// receiver answers as it is told and keeps what came.
type receiver struct {
	*httptest.Server
	mu  sync.Mutex
	all []received
}

// received is one request.
type received struct {
	at                 time.Time
	method, path, body string
	header             http.Header
}

func newReceiver(t *testing.T, status func(path string, n int) int) *receiver {
	r := &receiver{}
	r.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		r.all = append(r.all, received{time.Now(), req.Method, req.URL.Path, string(body), req.Header})
		n := len(r.all)
		r.mu.Unlock()
		w.WriteHeader(status(req.URL.Path, n))
		_, _ = io.WriteString(w, "the answer to "+req.URL.Path)
	}))
	r.Start()
	t.Cleanup(r.Close)
	return r
}

// url is the receiver by the name that APP_HOSTS has.
func (r *receiver) url(path string) string {
	return fmt.Sprintf("http://localhost:%d%s", r.Listener.Addr().(*net.TCPAddr).Port, path)
}

func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.all)
}

func (r *receiver) requests() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]received(nil), r.all...)
}

// eventually waits for the condition, for as long as a loaded machine may need.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(2 * time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("never came true: %s", what)
		}
	}
}

// snoozed is how often calls were put off.
func (r *running) snoozed() int { return r.ended("snoozed") }

// ended is how many calls of the handler ended with that verdict.
func (r *running) ended(verdict string) int {
	r.t.Helper()
	resp, err := http.Get("http://" + r.actor.Address() + "/metrics")
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	sum := 0
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), "} ")
		if strings.HasPrefix(name, "messaging_process_duration_seconds_count{") && strings.Contains(name, `stepwell_verdict="`+verdict+`"`) {
			n, err := strconv.Atoi(value)
			if err != nil {
				r.t.Fatal(err)
			}
			sum += n
		}
	}
	return sum
}
