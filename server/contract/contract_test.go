// Package contract holds the server against its description: the description is valid OpenAPI, and
// what the server really answers is what it says. It is a package of its own so that the server's
// other tests need no OpenAPI library.
package contract_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"

	"github.com/stepwell/stepwell/deadset"
	"github.com/stepwell/stepwell/internal/filter"
	"github.com/stepwell/stepwell/internal/operations"
	"github.com/stepwell/stepwell/server"
)

// scripted is a dead set that says what it is told to.
type scripted struct {
	page   server.Page
	result server.Result
	err    error
}

func (s scripted) Peek(context.Context, int) (server.Page, error)     { return s.page, s.err }
func (s scripted) Replay(context.Context, int) (server.Result, error) { return s.result, s.err }
func (s scripted) ReplayAll(context.Context, int) (server.Result, error) {
	return s.result, s.err
}
func (s scripted) Find(_ context.Context, q server.Query) (server.List, error) {
	if q.After != "" {
		return server.List{}, server.ErrMoved
	}
	return server.List{Page: s.page, Matched: 7, Unsorted: 3, Next: "n", AsOf: time.Now()}, s.err
}
func (s scripted) Groups(context.Context, filter.Filter) (any, error) {
	now := time.Now()
	return deadset.Causes{Span: deadset.Span{Depth: 7, Complete: true, AsOf: now}, Groups: []*deadset.Group{
		{Group: "7f3a91c2b04d", Count: 5, Reason: "exhausted", Error: "status <n>", ErrorType: "*url.Error", ExampleID: "orders.v1:0:7", FirstDiedAt: &now, LastDiedAt: &now, Keys: 2, Replayed: 1, Minutes: make([]int, 60)},
		{Count: 2, Error: "all other causes", Minutes: make([]int, 60)},
	}}, s.err
}
func (s scripted) Export(context.Context, filter.Filter) (server.Export, error) {
	return server.Export{Depth: 3, Unsorted: 1, Matched: 2, Each: func(_ context.Context, do func(any) error) error {
		return errors.Join(do(s.page.Messages[0]), do(s.page.Messages[1]))
	}}, s.err
}
func (s scripted) Message(_ context.Context, id string) (server.Detail, error) {
	if id != "orders.v1:0:7" {
		return server.Detail{}, server.ErrNotFound
	}
	entry, _ := entries().Messages[0].(deadset.Entry)
	at := time.Now()
	return server.Detail{Value: []byte("v"), Message: deadset.Detail{Entry: entry, Copies: 2, TraceURL: "https://traces/0", Tries: []deadset.Try{{
		Attempt: 1, At: &at, Error: "no", ErrorType: "*E", DurationMS: 0.5, Instance: "i", AppVersion: "v1", TraceID: "0", SpanID: "1", TraceURL: "https://traces/0",
	}, {Attempt: 2}}}}, s.err
}
func (s scripted) Delete(context.Context, int) (server.Result, error) { return s.result, s.err }
func (s scripted) Trash(context.Context, time.Duration, string, int) (server.Result, error) {
	return s.result, s.err
}
func (s scripted) FindTrash(ctx context.Context, keep time.Duration, q server.Query) (server.List, error) {
	list, err := s.Find(ctx, q)
	list.Messages = nil
	for _, m := range s.page.Messages {
		if e, is := m.(deadset.Entry); is {
			e.DeletedBy, e.DeletedAt, e.ExpiresAt = "op_1", new(time.Now()), new(time.Now().Add(keep))
			list.Messages = append(list.Messages, e)
		}
	}
	return list, err
}
func (s scripted) Edit(_ context.Context, _ time.Duration, operation, id string, _ server.Edit) (string, error) {
	if id != "orders.v1:0:7" {
		return "", server.ErrNotFound
	}
	return id + "~" + operation, s.err
}

// three are messages that match whatever an operation is asked for; each turn does one.
type three struct{}

func (three) May(context.Context, *operations.Request) error { return nil }
func (three) Sample(_ context.Context, r *operations.Request) (operations.Sample, error) {
	if r.Channel != "" {
		return operations.Sample{}, server.ErrBusy
	}
	return operations.Sample{Room: new(4000), Matched: 3, Bytes: 9, LeftOut: operations.LeftOut{CrashLoop: 1}, Groups: []any{}, Samples: entries().Messages, Depth: 4, Complete: true, AsOf: time.Now()}, nil
}
func (three) Waiting(context.Context) (int, error) { return 0, nil }

func (three) Turn(_ context.Context, enough <-chan struct{}, _ *operations.Request, _ int) (operations.Turn, error) {
	<-enough
	return operations.Turn{Unseen: 7, Begun: 3, Done: 1, More: true}, nil
}

// operating runs operations until the test ends.
func operating(t *testing.T) *operations.Runner {
	t.Helper()
	r := operations.New(operations.Config{Store: operations.NewMemory(), Name: "here", Sets: map[operations.Target]operations.DeadSet{
		{Stream: "orders"}: three{}, {Stream: "orders", Channel: "slow"}: three{},
	}})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return r
}

type idle struct{}

func (idle) Status(context.Context) server.Status {
	return server.Status{Paused: true, Pauses: pausedTwice, Source: server.FromKafka, Joined: true, Partitions: 3, Lag: new(int64(7)), LastProgress: time.Now(), Stuck: true, StuckBecause: "a call has run for 2m", Retry: true, Queues: map[string]int{"shop.orders.instant": 1}, Error: "none",
		Oldest:   &server.Oldest{Topic: "orders.v1", Partition: 2, Offset: 17, Since: time.Now(), AgeSeconds: 0.25, Behind: 6},
		Channels: []server.ChannelStatus{{ID: "fast"}, {ID: "slow", Runs: true, InFlight: 2, Suspect: "x@slow", Stuck: true, StuckBecause: "a call has run for 2m", Queues: map[string]int{"shop.orders.channel.slow.instant": 1}, Error: "none"}}}
}
func (idle) Pause(string)           {}
func (idle) Resume()                {}
func (idle) Pauses() []server.Pause { return pausedTwice }

var pausedTwice = []server.Pause{{Scope: server.ScopeInstance, By: "alice", Since: time.Now()}, {Scope: server.ScopeApp}}

// paused are pauses of the app, each of whose streams says how it is.
type paused struct{}

func (paused) Pause(_ context.Context, stream, _ string) error {
	return map[string]error{"plain": server.ErrNotShared, "away": server.ErrUnavailable}[stream]
}
func (paused) Resume(_ context.Context, stream string) (bool, error) { return stream == "gone", nil }
func (paused) Others() []server.OtherPause {
	return []server.OtherPause{{Stream: "gone", Pause: server.Pause{Scope: server.ScopeApp, By: "alice", Since: time.Now()}}}
}

// entries are dead messages with everything, and with as little as there can be.
func entries() server.Page {
	now := time.Now().UTC()
	return server.Page{Depth: 2, Messages: []any{
		deadset.Entry{
			ID: "orders.v1:0:7@slow", Stream: "orders", Channel: "slow", Topic: "orders.v1", Offset: 7, Key: "k", KeyEncoding: "text", KeyTruncated: true, KeySize: 70000, Timestamp: &now,
			Headers: []deadset.Header{{Key: "h", Value: "v", Encoding: "text", Truncated: true, Size: 70000}, {Key: "nil"}, {Key: "/wA=", KeyEncoding: "base64"}},
			Value:   map[string]any{"id": 1}, Encoding: "json", Truncated: true, Size: 70000, Attempts: 4, AttemptsTotal: 8, Replays: 1,
			FirstFailedAt: &now, DiedAt: &now, Reason: "exhausted", Error: "no", ErrorType: "*errors.errorString", Stack: "main.go:1", TraceID: "4bf92f3577b34da6a3ce929d0e0e4736", Group: "7f3a91c2b04d",
		},
		deadset.Entry{Headers: []deadset.Header{}, Reason: "undecodable", ValueError: "gone"},
	}}
}

func streams() map[string]server.Stream {
	return map[string]server.Stream{
		"orders": {Control: idle{}, DeadSet: scripted{page: entries(), result: server.Result{Requested: 2, Done: 2, Left: 1}},
			Channels: map[string]server.DeadSet{"slow": scripted{page: entries()}}},
		"plain":  {Control: idle{}},
		"half":   {Control: idle{}, DeadSet: scripted{result: server.Result{Requested: 2, Done: 1, Left: 1, Stopped: "connection lost"}}},
		"busy":   {Control: idle{}, DeadSet: scripted{err: server.ErrBusy}},
		"away":   {Control: idle{}, DeadSet: scripted{result: server.Result{Left: -1}, err: server.ErrUnavailable}},
		"broken": {Control: idle{}, DeadSet: scripted{err: errors.New("no")}},
		"left":   {Control: idle{}, DeadSet: scripted{err: server.ErrReplayOff}},
		"full":   {Control: idle{}, DeadSet: scripted{err: server.ErrNoTrash}},
		"torn":   {Control: idle{}, DeadSet: scripted{err: server.ErrHalfEdited}},
	}
}

func TestWhatTheServerAnswersIsWhatItsDescriptionSays(t *testing.T) {
	const which = "?count=2&stream="
	const keyed = "op_g9ac6ad9518fdl9prkrmui0mto" // the operation whose Idempotency-Key is k
	tests := []struct {
		name, method, path, body, token string
		status                          int
	}{
		{"ping", "GET", "/ping", "", "t", 200},
		{"live", "GET", "/livez", "", "t", 200},
		{"ready", "GET", "/readyz?verbose", "", "t", 200},
		{"metrics", "GET", "/metrics", "", "t", 200},
		{"the description", "GET", "/openapi.json", "", "t", 200},
		{"peek", "GET", "/v1/dead_set" + which + "orders", "", "t", 200},
		{"peek of a channel", "GET", "/v1/dead_set" + which + "orders&channel=slow", "", "t", 200},
		{"delete from a channel", "DELETE", "/v1/dead_set", `{"count":2,"stream":"orders","channel":"slow"}`, "t", 200},
		{"unknown channel", "GET", "/v1/dead_set" + which + "orders&channel=fast", "", "t", 400},
		{"list", "GET", "/v1/dead_set?stream=orders&reason=exhausted&limit=2&died_from=2h&partition=0", "", "t", 200},
		{"list of a page that is gone", "GET", "/v1/dead_set?stream=orders&cursor=x", "", "t", 410},
		{"list with a mistake", "GET", "/v1/dead_set?stream=orders&error_re=(", "", "t", 400},
		{"groups", "GET", "/v1/dead_set/groups?stream=orders&error=x", "", "t", 200},
		{"groups while another walks", "GET", "/v1/dead_set/groups?stream=busy", "", "t", 409},
		{"groups without retries", "GET", "/v1/dead_set/groups?stream=plain", "", "t", 404},
		{"export", "GET", "/v1/dead_set/export?stream=orders&reason=exhausted", "", "t", 200},
		{"export with a mistake", "GET", "/v1/dead_set/export?stream=orders&group=x", "", "t", 400},
		{"message", "GET", "/v1/dead_set/messages/orders.v1:0:7?stream=orders", "", "t", 200},
		{"value of a message", "GET", "/v1/dead_set/messages/orders.v1:0:7?stream=orders&part=value", "", "t", 200},
		{"a message that is not there", "GET", "/v1/dead_set/messages/none?stream=orders", "", "t", 404},
		{"an edit", "POST", "/v1/dead_set/messages/orders.v1:0:7/edit", `{"stream":"orders","channel":"slow","value":"{}","key":null,"headers":[{"key":"AA==","key_encoding":"base64","value":null}],"note":"n"}`, "t", 200},
		{"an edit of nothing", "POST", "/v1/dead_set/messages/orders.v1:0:7/edit", `{"stream":"orders"}`, "t", 400},
		{"an edit by who may only look", "POST", "/v1/dead_set/messages/orders.v1:0:7/edit", `{"stream":"orders","value":"x"}`, "v", 403},
		{"an edit of what is not there", "POST", "/v1/dead_set/messages/none/edit", `{"stream":"orders","value":"x"}`, "t", 404},
		{"an edit without retries", "POST", "/v1/dead_set/messages/orders.v1:0:7/edit", `{"stream":"plain","value":"x"}`, "t", 404},
		{"an edit while brokers are away", "POST", "/v1/dead_set/messages/orders.v1:0:7/edit", `{"stream":"away","value":"x"}`, "t", 503},
		{"an edit that may be half done", "POST", "/v1/dead_set/messages/orders.v1:0:7/edit", `{"stream":"torn","value":"x"}`, "t", 503},
		{"an edit that is too large", "POST", "/v1/dead_set/messages/orders.v1:0:7/edit", `{"stream":"orders","value":"` + strings.Repeat("x", 3000) + `"}`, "t", 413},
		{"replay", "POST", "/v1/dead_set/replay", `{"count":"2","topic-entity":"orders"}`, "t", 200},
		{"delete", "DELETE", "/v1/dead_set", `{"count":2,"topic_entity":"orders"}`, "t", 200},
		{"delete for good", "DELETE", "/v1/dead_set", `{"count":2,"topic_entity":"orders","forever":true}`, "t", 200},
		{"trash", "GET", "/v1/dead_set/trash?stream=orders&operation=op_1&limit=2&reason=exhausted", "", "t", 200},
		{"a page of the trash that is gone", "GET", "/v1/dead_set/trash?stream=orders&cursor=x", "", "t", 410},
		{"trash of no stream", "GET", "/v1/dead_set/trash", "", "t", 400},
		{"trash while another walks", "GET", "/v1/dead_set/trash?stream=busy", "", "t", 409},
		{"trash without retries", "GET", "/v1/dead_set/trash?stream=plain", "", "t", 404},
		{"replay that stopped", "POST", "/v1/dead_set/replay" + which + "half", "", "t", 503},
		{"delete that stopped", "DELETE", "/v1/dead_set" + which + "half", "", "t", 503},
		{"replay of what was left before retries were off", "POST", "/v1/dead_set/replay" + which + "left", "", "t", 409},
		{"delete that the trash does not take", "DELETE", "/v1/dead_set" + which + "full", "", "t", 503},
		{"busy", "GET", "/v1/dead_set" + which + "busy", "", "t", 409},
		{"brokers away", "DELETE", "/v1/dead_set" + which + "away", "", "t", 503},
		{"broken", "GET", "/v1/dead_set" + which + "broken", "", "t", 500},
		{"no retries", "GET", "/v1/dead_set" + which + "plain", "", "t", 404},
		{"unknown stream", "GET", "/v1/dead_set" + which + "other", "", "t", 400},
		{"no JSON", "DELETE", "/v1/dead_set", `{`, "t", 400},
		{"an unknown parameter", "DELETE", "/v1/dead_set" + which + "orders&dry_run=true", "", "t", 400},
		{"an unknown parameter of streams", "GET", "/v1/streams?stream=orders", "", "t", 400},
		{"a body for a pause", "POST", "/v1/streams/orders/pause", `{"for":"5m"}`, "t", 400},
		{"too large", "POST", "/v1/dead_set/replay", strings.Repeat(" ", 100_000), "t", 413},
		{"no token", "GET", "/v1/dead_set" + which + "orders", "", "", 401},
		{"wrong token", "GET", "/v1/streams", "", "x", 401},
		{"a dry run", "POST", "/v1/dead_set/operations", `{"action":"delete","stream":"orders","select":{"all":true},"dry_run":true,"rate":"7/m"}`, "t", 200},
		{"a dry run while another walks", "POST", "/v1/dead_set/operations", `{"action":"replay","stream":"orders","channel":"slow","select":{"all":true},"dry_run":true}`, "t", 409},
		{"an operation", "POST", "/v1/dead_set/operations", `{"action":"replay","stream":"orders","select":{"filter":{"error":"x","partition":3}},"expect":3,"before":"2h","rate":"1/m","note":"n","include_crash_loop":true}`, "t", 202},
		{"the operation of a key", "POST", "/v1/dead_set/operations", `{"action":"delete","stream":"orders","channel":"slow","select":{"ids":["a"]},"forever":true}`, "t", 202},
		{"the same again", "POST", "/v1/dead_set/operations", `{"action":"delete","stream":"orders","channel":"slow","select":{"ids":["a"]},"forever":true}`, "t", 200},
		{"another with its key", "POST", "/v1/dead_set/operations", `{"action":"delete","stream":"orders","channel":"slow","select":{"ids":["b"]},"forever":true}`, "t", 409},
		{"an operation on nothing", "POST", "/v1/dead_set/operations", `{"action":"replay","stream":"orders","select":{"filter":{}}}`, "t", 400},
		{"an operation without retries", "POST", "/v1/dead_set/operations", `{"action":"replay","stream":"plain","select":{"all":true}}`, "t", 404},
		{"a restore", "POST", "/v1/dead_set/operations", `{"action":"restore","stream":"orders","select":{"operation":"op_x"},"expect":3}`, "t", 202},
		{"a delete into the trash", "POST", "/v1/dead_set/operations", `{"action":"delete","stream":"orders","select":{"all":true}}`, "t", 202},
		{"operations", "GET", "/v1/dead_set/operations?stream=orders&limit=2", "", "t", 200},
		{"operations of a state that there is not", "GET", "/v1/dead_set/operations?state=x", "", "t", 400},
		{"an operation that there is not", "GET", "/v1/dead_set/operations/op_x", "", "t", 404},
		{"a change", "PATCH", "/v1/dead_set/operations/" + keyed, `{"state":"paused","rate":"5/s"}`, "t", 200},
		{"the end of it", "PATCH", "/v1/dead_set/operations/" + keyed, `{"state":"cancelled"}`, "t", 200},
		{"a change of what is over", "PATCH", "/v1/dead_set/operations/" + keyed, `{"state":"running"}`, "t", 409},
		{"a change of nothing", "PATCH", "/v1/dead_set/operations/" + keyed, `{}`, "t", 400},
		{"one that is over", "GET", "/v1/dead_set/operations/" + keyed, "", "t", 200},
		{"streams", "GET", "/v1/streams", "", "t", 200},
		{"pause", "POST", "/v1/streams/orders/pause", "", "t", 200},
		{"pause of the app", "POST", "/v1/streams/orders/pause?scope=app", "", "t", 200},
		{"resume of the app", "POST", "/v1/streams/orders/resume", `{"scope":"app"}`, "t", 200},
		{"resume of a stream that is gone", "POST", "/v1/streams/gone/resume?scope=app", "", "t", 200},
		{"pause of the app where nothing is shared", "POST", "/v1/streams/plain/pause?scope=app", "", "t", 409},
		{"pause of the app while its queues are away", "POST", "/v1/streams/away/pause?scope=app", "", "t", 503},
		{"pause of an unknown scope", "POST", "/v1/streams/orders/pause?scope=all", "", "t", 400},
		{"resume", "POST", "/v1/streams/orders/resume", "", "t", 200},
		{"pause of an unknown stream", "POST", "/v1/streams/other/pause", "", "t", 404},
	}
	openapi3filter.RegisterBodyDecoder("application/x-ndjson", openapi3filter.FileBodyDecoder)
	address := serve(t, func(*server.Config) {})
	router, _ := description(t, address)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), test.method, "http://"+address+test.path, strings.NewReader(test.body))
			if err != nil {
				t.Fatal(err)
			}
			if test.body != "" {
				req.Header.Set("Content-Type", "application/json")
			}
			if strings.Contains(test.body, `"ids"`) {
				req.Header.Set("Idempotency-Key", "k")
			}
			if test.token != "" {
				req.Header.Set("Authorization", "Bearer "+test.token)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if resp.StatusCode != test.status {
				t.Errorf("status %d, want %d", resp.StatusCode, test.status)
			}
			conforms(t, router, req, resp)
		})
	}
}

func TestWhatAProcessWithoutTheAPIAnswersIsWhatItsDescriptionSays(t *testing.T) {
	address := serve(t, func(c *server.Config) { c.NoAPI = "/v1 is not served by this process" })
	router, api := description(t, address)
	for path, item := range api.Paths.Map() {
		for method := range item.Operations() {
			if !strings.HasPrefix(path, "/v1/") {
				continue
			}
			t.Run(method+" "+path, func(t *testing.T) {
				req, err := http.NewRequestWithContext(t.Context(), method, "http://"+address+strings.ReplaceAll(path, "{id}", "x"), nil)
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Authorization", "Bearer t")
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				if resp.StatusCode != http.StatusNotFound {
					t.Errorf("status %d", resp.StatusCode)
				}
				conforms(t, router, req, resp)
			})
		}
	}
}

// conforms fails the test unless the answer is one that the description has.
func conforms(t *testing.T, router routers.Router, req *http.Request, resp *http.Response) {
	t.Helper()
	route, params, err := router.FindRoute(req)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	err = openapi3filter.ValidateResponse(t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: route},
		Status:                 resp.StatusCode, Header: resp.Header, Body: io.NopCloser(bytes.NewReader(body)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true},
	})
	if err != nil {
		t.Errorf("%v\n%s", err, body)
	}
}

// serve runs a server until the test ends; but changes its configuration.
func serve(t *testing.T, but func(*server.Config)) (address string) {
	t.Helper()
	c := server.Config{
		Address: "127.0.0.1:0", Access: server.Access{Tokens: []server.Token{{Name: "token", Role: server.Operator, Secret: "t"}, {Name: "bob", Role: server.Viewer, Secret: "v"}}}, Streams: streams(), Timeouts: server.Timeouts{PeekWait: time.Millisecond}, Operations: operating(t), Pauses: paused{}, Trash: 72 * time.Hour, EditLimit: 2000,
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }),
	}
	but(&c)
	s, err := server.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- s.Run(ctx) }()
	go func() { ended <- s.Open(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, <-ended); err != nil {
			t.Error(err)
		}
	})
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(30 * time.Second); !open(t, s.Addr()); {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatal("the server did not open")
		}
	}
	return s.Addr()
}

func open(t *testing.T, address string) bool {
	t.Helper()
	if address == "" {
		return false
	}
	resp, err := http.Get("http://" + address + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// description is the one that the server serves, once it is found to be valid.
func description(t *testing.T, address string) (routers.Router, *openapi3.T) {
	t.Helper()
	resp, err := http.Get("http://" + address + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	api, err := openapi3.NewLoader().LoadFromIoReader(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := api.Validate(t.Context()); err != nil {
		t.Fatalf("the description is not valid: %v", err)
	}
	api.Servers = openapi3.Servers{{URL: "http://" + address}}
	router, err := legacy.NewRouter(api)
	if err != nil {
		t.Fatal(err)
	}
	return router, api
}
