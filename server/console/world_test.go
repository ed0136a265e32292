package console_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/embedded"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is an actor on embedded brokers. Its messages die of what their values say, until it is
// mended.
type world struct {
	t       testing.TB
	base    string
	mended  atomic.Bool
	handled atomic.Int64
	last    atomic.Pointer[stepwell.Message] // that was handled
	brokers *embedded.Brokers
	client  *http.Client // knows no redirects
	stop    func()       // stops the actor, and waits until it has
}

func (w *world) order(_ context.Context, m *stepwell.Message) error {
	switch {
	case w.mended.Load():
		w.last.Store(m)
		w.handled.Add(1)
		return nil
	case strings.HasPrefix(string(m.Key), "slow"):
		return stepwell.To("slow")
	}
	return stepwell.DeadLetter(errors.New(string(m.Value)))
}

func (w *world) slow(context.Context, *stepwell.Message) error {
	return stepwell.DeadLetter(errors.New("the archive is full"))
}

// prefix stands before the names of the actor's variables. unnamed is one that no user could set.
const prefix = "SHOP_"

var unnamed = regexp.MustCompile(`\b(DEAD_SET|RABBITMQ|RETRY|SERVER|STREAMS)_[A-Z_]+`)

// start runs an actor until the test ends. Settings are as environment variables, without their
// prefix.
func start(t testing.TB, settings ...string) *world {
	t.Helper()
	brokers := embedded.New(embedded.Options{Topics: map[string]int32{"orders.v1": 1}})
	return startOn(t, brokers, brokers, settings...)
}

// other runs one more process of the actor, with other settings, until the test ends.
func (w *world) other(settings ...string) *world {
	w.t.Helper()
	return startOn(w.t, w.brokers, shared{w.brokers}, settings...)
}

// shared are brokers that another actor runs.
type shared struct{ *embedded.Brokers }

func (shared) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// startOn runs an actor on these brokers, in the form in which it is to have them.
func startOn(t testing.TB, brokers *embedded.Brokers, run actor.Brokers, settings ...string) *world {
	t.Helper()
	settings = append([]string{"SERVER_ADDRESS=127.0.0.1:0", "STREAMS_ORDERS_TOPICS=orders.v1", "RETRY_COUNT=1", "RETRY_DELAY=100ms", "LOG_LEVEL=error"}, settings...)
	for i, s := range settings {
		settings[i] = prefix + s
	}
	w := &world{
		t: t, brokers: brokers,
		client: &http.Client{Transport: &http.Transport{}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
	t.Cleanup(w.client.CloseIdleConnections)
	app := actor.App{Name: "shipping", EnvPrefix: prefix, Brokers: run, Streams: actor.Streams{
		"orders": {Handler: w.order, Channels: actor.Channels{"slow": {Handler: w.slow}}},
	}}
	cfg, err := actor.Load(app, settings)
	if err != nil {
		t.Fatal(err)
	}
	a, err := actor.New(cfg, app)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	w.stop = sync.OnceFunc(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(w.stop)
	eventually(t, "the server listens", func() bool { return a.Address() != "" })
	w.base = "http://127.0.0.1" + a.Address()[strings.LastIndex(a.Address(), ":"):] // also where it listens on all addresses
	eventually(t, "the actor is ready", func() bool { return w.try("GET", "/readyz", nil).status == http.StatusOK })
	return w
}

// die produces records and waits until so many are dead.
func (w *world) die(dead int, records ...*kgo.Record) {
	w.t.Helper()
	for _, r := range records {
		r.Topic = "orders.v1"
	}
	if err := w.brokers.Produce(w.t.Context(), records...); err != nil {
		w.t.Fatal(err)
	}
	eventually(w.t, fmt.Sprintf("%d are dead", dead), func() bool { return w.dead() == dead })
}

// records are n with this value, each with a key of its own.
func records(n int, value string) []*kgo.Record {
	var all []*kgo.Record
	for i := range n {
		all = append(all, &kgo.Record{Key: fmt.Append(nil, value, i), Value: []byte(value)})
	}
	return all
}

func (w *world) dead() int {
	depth, err := w.brokers.Queues().Depth(w.t.Context(), "shipping.orders.dead_set")
	if err != nil {
		return -1
	}
	return depth
}

type answer struct {
	status int
	header http.Header
	text   string
}

func (w *world) try(method, path string, form url.Values, headers ...string) answer {
	if form == nil {
		return w.send(method, path, "", "", headers...)
	}
	return w.send(method, path, "application/x-www-form-urlencoded", form.Encode(), headers...)
}

// send makes a request with a body of a kind; no kind: without one. Whatever answers names no
// setting without the prefix of the app.
func (w *world) send(method, path, kind, body string, headers ...string) answer {
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.base+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return answer{}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	if named := unnamed.Find(text); named != nil {
		w.t.Errorf("%s %s names %s, and its users know it as %s%[3]s", method, path, named, prefix)
	}
	return answer{resp.StatusCode, resp.Header, string(text)}
}

// get is a page that has to be there.
func (w *world) get(path string, headers ...string) answer {
	w.t.Helper()
	a := w.try("GET", path, nil, headers...)
	if a.status != http.StatusOK {
		w.t.Fatalf("GET %s: %d %s", path, a.status, a.text)
	}
	return a
}

// post sends a form as a browser does, and returns where it leads.
func (w *world) post(path string, form url.Values, headers ...string) string {
	w.t.Helper()
	a := w.try("POST", path, form, append([]string{"Origin", w.base}, headers...)...)
	if a.status != http.StatusSeeOther {
		w.t.Fatalf("POST %s %v: %d %s", path, form, a.status, a.text)
	}
	return a.header.Get("Location")
}

// eventually waits for the condition, for as long as a loaded machine may need.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(30 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("never came true: %s", what)
		}
	}
}
