package actor_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
)

// ask sends a request with a Host header and a token of its own; either may be empty.
func (r *running) ask(method, path, host, token string) (status int, text string) {
	r.t.Helper()
	var address string
	eventually(r.t, "the server listens", func() bool { address = r.actor.Address(); return address != "" })
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		r.t.Fatal(err)
	}
	req, err := http.NewRequest(method, "http://127.0.0.1:"+port+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Host = host
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
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
	return resp.StatusCode, string(data)
}

const (
	peekPath   = "/v1/dead_set?count=1&stream=orders"
	replayPath = "/v1/dead_set/replay?count=1&stream=orders"
)

func TestBeyondLoopbackTheAPIIsClosedWithoutATokenAndProbesAnswer(t *testing.T) {
	onOneRabbitMQ(t, func(t *testing.T, w *world) {
		r := w.start(orders(newTally().handler(failsOnce)), settings{"SERVER_ADDRESS": "0.0.0.0:0"})
		r.ready()
		for _, path := range []string{"GET " + peekPath, "POST " + replayPath, "DELETE /v1/dead_set?count=1&stream=orders", "GET /v1/streams", "POST /v1/streams/orders/pause"} {
			method, path, _ := strings.Cut(path, " ")
			status, text := r.ask(method, path, "", "")
			if status != 403 || !strings.Contains(text, "SERVER_TOKEN") {
				t.Errorf("%s %s: %d %s", method, path, status, text)
			}
		}
		for _, path := range []string{"/ping", "/livez", "/readyz", "/metrics"} {
			if status, text := r.ask("GET", path, "example.org", ""); status != 200 {
				t.Errorf("%s: %d %s", path, status, text)
			}
		}
	})
}

func TestWithATokenOnlyWhoHasItComesIn(t *testing.T) {
	onOneRabbitMQ(t, func(t *testing.T, w *world) {
		const token = "the-to-ken-of-the-test"
		app, b := logged(orders(newTally().handler(failsOnce)))
		r := w.start(app, settings{"SERVER_ADDRESS": "0.0.0.0:0", "SERVER_TOKEN": token})
		r.ready()
		for given, want := range map[string]int{token: 200, "": 401, token + "x": 401, token[1:]: 401} {
			if status, text := r.ask("GET", peekPath, "", given); status != want {
				t.Errorf("token %q: %d %s", given, status, text)
			}
		}
		if strings.Contains(b.String(), token) {
			t.Errorf("the token is in the log:\n%s", b)
		}
	})
}

func TestOnLoopbackAForeignHostIsRefused(t *testing.T) {
	onOneRabbitMQ(t, func(t *testing.T, w *world) {
		r := w.start(orders(newTally().handler(failsOnce)), nil)
		r.ready()
		for host, want := range map[string]int{
			"": 200, "localhost": 200, "127.0.0.1:8010": 200, "[::1]:1": 200,
			"evil.example": 403, "localhost.evil.example": 403, "127.0.0.1.evil.example:80": 403, "10.0.0.1": 403,
		} {
			for _, path := range []string{peekPath, "/v1/streams"} {
				if status, text := r.ask("GET", path, host, ""); status != want {
					t.Errorf("Host %q, %s: %d %s", host, path, status, text)
				}
			}
		}
	})
}

func TestNothingThatComesFromOutsideCanForgeALineOfTheLog(t *testing.T) {
	const forged = "\n{\"level\":\"ERROR\",\"msg\":\"forged\"}\r\n\x1b[31m"
	onOneRabbitMQ(t, func(t *testing.T, w *world) {
		app, b := logged(orders(func(_ context.Context, m *stepwell.Message) error {
			if m.Key == nil {
				panic(forged)
			}
			return errors.New("fails " + forged)
		}))
		r := w.start(app, settings{"RETRY_COUNT": "1"})
		r.ready()
		w.produce(&kgo.Record{Key: []byte(forged), Value: []byte(forged), Headers: []kgo.RecordHeader{{Key: forged, Value: []byte(forged)}}},
			&kgo.Record{Value: []byte(forged)})
		r.deadCount(2)
		ch := w.channel()
		m := junk()["attempt is a text"]
		m.MessageId, m.Headers["x-stepwell"] = forged, "v2 at="+forged+":1:2 try="+forged
		if err := ch.Publish("", w.queue("orders", "instant"), true, false, m); err != nil {
			t.Fatal(err)
		}
		r.deadCount(3)
		for _, path := range []string{"/v1/dead_set?count=1&stream=%0a%7b%22msg%22:%22forged%22%7d", "/v1/streams/%0aforged/pause", "/no%0asuch%0apath"} {
			if status, _ := r.ask("POST", path, "", ""); status < 400 {
				t.Errorf("%s: %d", path, status)
			}
		}
		if status, _ := r.ask("POST", "/v1/dead_set/replay?count=3&stream=orders", "", ""); status != 200 {
			t.Errorf("replay: %d", status)
		}
		r.deadCount(3)
		r.end()
		entries := b.lines(t)
		if len(entries) == 0 {
			t.Fatal("no log")
		}
		for _, e := range entries {
			if e["msg"] == "forged" {
				t.Errorf("a forged line: %v", e)
			}
		}
		next := w.start(app, settings{"STREAMS_ORDERS_TOPICS": "", "STREAMS_ORDERS_TOPIC_PATTERN": w.app + ".none\nforged"})
		next.notReady("stream orders", "no topic matches")
		for _, path := range []string{"/readyz?verbose", "/metrics"} {
			_, text := next.ask("GET", path, "", "")
			for line := range strings.Lines(text) {
				if strings.HasPrefix(line, "forged") {
					t.Errorf("%s has a forged line: %s", path, text)
				}
			}
		}
		next.end()
		b.lines(t)
	})
}
