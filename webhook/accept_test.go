package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/internal/mistakes"
)

const full = `{"id":"order-17","request":{"method":"put","url":"http://localhost:81/hook?a=b","headers":{"X-A":"1","x-b":["2","3"]},"body":{"n":12345678901234567890,"s":"<&>"}},
"waits":["5s","10s","15s"],"after":"1m","on_failure":{"method":"POST","url":"http://localhost:82/failed","body":"text"},"sign":"partner-a","stop_on":[404,400,404]}`

func withSecret(c *Config) { c.Secrets = []string{"partner-a=whsec_" + strings.Repeat("AAAA", 8)} }

func TestACallIsStoredAsItWasPosted(t *testing.T) {
	s := &stored{}
	h := handler(t, s, withSecret)
	code, answer := post(t, h, "/calls", full)
	if code != 202 || answer["id"] != "order-17" {
		t.Fatalf("%d %v", code, answer)
	}
	c := s.calls(t)[0]
	if s.all[0].ID != "order-17" || string(s.all[0].Key) != "http://localhost:81" || s.afters[0] != time.Minute {
		t.Errorf("message %v, key %s, after %s", s.all[0].ID, s.all[0].Key, s.afters[0])
	}
	if strings.Contains(string(s.all[0].Value), "AAAA") {
		t.Errorf("the secret is in the message: %s", s.all[0].Value)
	}
	if c.Request.Method != http.MethodPut || c.Request.Headers.Get("X-A") != "1" || len(c.Request.Headers["X-B"]) != 2 {
		t.Errorf("request %+v", c.Request)
	}
	if body, kind, err := c.Request.content(); string(body) != `{"n":12345678901234567890,"s":"<&>"}` || kind != "application/json" || err != nil {
		t.Errorf("body %s, %s, %v", body, kind, err)
	}
	if body, kind, err := c.OnFailure.content(); string(body) != "text" || !strings.HasPrefix(kind, "text/plain") || err != nil {
		t.Errorf("body of on_failure %s, %s, %v", body, kind, err)
	}
	if !slices.Equal(c.Waits, []span{span(5 * time.Second), span(10 * time.Second), span(15 * time.Second)}) || !slices.Equal(c.StopOn, []int{400, 404}) {
		t.Errorf("waits %v, stop_on %v", c.Waits, c.StopOn)
	}
}

func TestACallWithoutAnIDGetsOneAndStopsOnGone(t *testing.T) {
	s := &stored{}
	h := handler(t, s, nil)
	_, one := post(t, h, "/calls", `{"request":{"url":"http://localhost/"},"waits":[]}`)
	_, two := post(t, h, "/calls", `{"id":null,"request":{"url":"http://localhost/"},"waits":[]}`)
	if one["id"] == two["id"] || len(one["id"].(string)) < 20 {
		t.Errorf("ids %v, %v", one["id"], two["id"])
	}
	if c := s.calls(t)[0]; !slices.Equal(c.StopOn, []int{410}) || c.Request.Method != http.MethodPost {
		t.Errorf("call %+v", c)
	}
}

func TestAHundredRequestsWithBadInputGetAsManyClearAnswers(t *testing.T) {
	s := &stored{}
	h := handler(t, s, func(c *Config) {
		withSecret(c)
		c.Records, c.Hosts = NewShared(nil, table{}, table{}), []string{"localhost"}
	})
	all := mistakes.All()
	if len(all) < 100 {
		t.Fatalf("only %d requests", len(all))
	}
	for _, test := range all {
		code, answer := post(t, h, test.Path, test.Body)
		detail, _ := answer["detail"].(string)
		if code != 400 || !strings.Contains(detail, test.Says) || answer["error"] != detail || answer["errors"] == nil {
			t.Errorf("%s %.120s: %d %.300v, want 400 with %q", test.Path, test.Body, code, answer, test.Says)
		}
	}
	if len(s.all) > 0 {
		t.Errorf("%d of them were stored", len(s.all))
	}
}

func TestAllMistakesOfACallAreToldAtOnce(t *testing.T) {
	h := handler(t, &stored{}, nil)
	code, answer := post(t, h, "/calls", `{"id":7,"request":{"method":"X","url":"ftp://x"},"waits":["a"],"after":"b","sign":"c","stop_on":[1],"d":1}`)
	if all, _ := answer["errors"].([]any); code != 400 || len(all) != 8 {
		t.Errorf("%d with %d mistakes, want 8: %v", code, len(all), answer["detail"])
	}
	_, answer = post(t, h, "/calls", `{"request":{"url":"http://localhost/"},"waits":["banana","-1s","900h"],"workflow":"x"}`)
	var fields []string
	for _, m := range answer["errors"].([]any) {
		fields = append(fields, fmt.Sprint(m.(map[string]any)["field"]))
	}
	if !slices.Equal(fields, []string{"workflow", "workflow", "waits[0]", "waits[1]", "waits[2]"}) {
		t.Errorf("of waits beside a workflow is told %v", answer["detail"])
	}
	_, answer = post(t, h, "/calls", `{"request":{"url":"http://localhost/"},"waits":[`+strings.Repeat(`1,`, 900)+`1]}`)
	if all, _ := answer["errors"].([]any); len(all) != maxMistakes {
		t.Errorf("%d mistakes are told of 901, want %d", len(all), maxMistakes)
	}
}

func TestWhatIsNotAPostOfJSONIsToldWhatWouldBe(t *testing.T) {
	h := handler(t, &stored{}, func(c *Config) { c.BodyLimit = 1000 })
	tests := []struct {
		method, path, body string
		headers            []string
		code               int
		says               string
	}{
		{"GET", "/calls", "", nil, 405, "GET is not for this path, which takes POST"},
		{"POST", "/calls/openapi.json", "", nil, 405, "which takes GET, HEAD"},
		{"PUT", "/retry", "", nil, 405, "PUT is not"},
		{"POST", "/other", "", nil, 404, "/calls"},
		{"GET", "/calls/order-17", "", nil, 405, "GET is not for this path, which takes DELETE to cancel a call; one that is dead is at /v1/dead_set/messages/order-17?stream=calls"},
		{"GET", "/calls/" + strings.Repeat("x", 200), "", nil, 405, strings.Repeat("x", 200) + "?stream=calls"},
		{"GET", "/calls/" + strings.Repeat("x", 201), "", nil, 405, "/" + strings.Repeat("x", 80) + "%E2%80%A6?stream=calls"},
		{"GET", "/calls/a%2Fb%20%3F", "", nil, 405, "at /v1/dead_set/messages/a%2Fb%20%3F?stream=calls"},
		{"POST", "/calls", "a=b", []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, "application/json"},
		{"POST", "/calls", "{}", []string{"Content-Encoding", "gzip"}, 415, "compressed"},
		{"POST", "/calls", strings.Repeat(" ", 1001), nil, 413, "larger than 1000 bytes"},
		{"POST", "/retry", strings.Repeat(" ", 1001), nil, 413, "larger than 1000 bytes"},
		{"DELETE", "/calls/" + strings.Repeat("x", 201), "", nil, 400, "200 are the limit"},
		{"DELETE", "/calls/a", "", nil, 409, "records"},
		{"POST", "/retry_workflow", `{"name":"a","retry_delays":[1000]}`, nil, 409, "records"},
		{"DELETE", "/calls/a?dry_run=true", "", nil, 400, "DELETE /calls/{id} takes no query parameters"},
		{"POST", "/calls?after=5s", "{}", nil, 400, "no query parameters"},
		{"GET", "/calls/openapi.json?v=2", "", nil, 200, ""},
	}
	for _, test := range tests {
		code, answer := ask(t, h, test.method, test.path, test.body, test.headers...)
		if code != test.code || !strings.Contains(fmt.Sprint(answer["detail"]), test.says) {
			t.Errorf("%s %s: %d %v, want %d with %q", test.method, test.path, code, answer, test.code, test.says)
		}
	}
}

func TestACallThatIsNotConfirmedIsNotAccepted(t *testing.T) {
	s := &stored{err: errors.New("RabbitMQ is away")}
	h := handler(t, s, nil)
	code, answer := post(t, h, "/calls", `{"id":"a","request":{"url":"http://localhost/"},"waits":[]}`)
	if code != 503 || !strings.Contains(fmt.Sprint(answer["detail"]), "RabbitMQ is away") {
		t.Errorf("%d %v", code, answer)
	}
}

func TestTheCallsOfTheRESTRetrierAreReadAsTheyStand(t *testing.T) {
	s := &stored{}
	h := handler(t, s, func(c *Config) { c.Records = NewShared(nil, table{}, table{}) })
	if code, answer := post(t, h, "/retry_workflow", `{"name":"test","retry_delays":[5000,10000,15000]}`); code != 200 {
		t.Fatalf("%d %v", code, answer)
	}
	body := `{"message_id":"m","group_id":"g","retry_request":{"request_type":"POST","request_body":{"a":1},"url":"http://localhost:9/x","headers":{"h":["v"]}},
		"retry_failure_request":{"request_type":"PUT","request_body":"failed","url":"http://localhost:9/y","headers":{"h":["v"]}}}`
	code, answer := post(t, h, "/retry", body, "x-retry-workflow", "test", "Content-Type", "text/plain")
	if code != 202 || answer["id"] != "m" || !strings.Contains(fmt.Sprint(answer["notes"]), "group_id") {
		t.Fatalf("%d %v", code, answer)
	}
	c := s.calls(t)[0]
	if s.afters[0] != 5*time.Second || !slices.Equal(c.Waits, []span{span(10 * time.Second), span(15 * time.Second)}) || len(c.StopOn) > 0 {
		t.Errorf("after %s, waits %v, stop_on %v", s.afters[0], c.Waits, c.StopOn)
	}
	if c.Request.Headers.Get("h") != "v" || c.OnFailure.Method != http.MethodPut || c.OnFailure.URL != "http://localhost:9/y" {
		t.Errorf("call %+v", c)
	}
	if code, answer := post(t, h, "/retry", body, "x-retry-workflow", "other"); code != 400 || !strings.Contains(fmt.Sprint(answer["detail"]), `"other"`) {
		t.Errorf("an unknown workflow: %d %v", code, answer)
	}
}

func TestACallThatNamesNoWorkflowHasTheDefaultAndIsToldHowToMakeItWhereThereIsNone(t *testing.T) {
	const body = `{"retry_request":{"url":"http://localhost:81"}}`
	s := &stored{}
	h := handler(t, s, func(c *Config) { c.Records = NewShared(nil, table{}, table{}) })
	code, answer := post(t, h, "/retry", body)
	for _, part := range []string{"x-retry-workflow was not sent", `workflow "default" is taken, and there is none`, "POST /retry_workflow", "APP_WORKFLOWS_DEFAULT"} {
		if code != 400 || !strings.Contains(fmt.Sprint(answer["detail"]), part) {
			t.Errorf("where there is none: %d %v, want 400 with %q", code, answer["detail"], part)
		}
	}
	if code, answer := post(t, h, "/retry", body, "x-retry-workflow", "other"); strings.Contains(fmt.Sprint(answer), "default") {
		t.Errorf("one that names another is told of the default: %d %v", code, answer)
	}
	if code, answer := post(t, h, "/retry_workflow", `{"name":"default","retry_delays":[5000,10000]}`); code != 200 {
		t.Fatalf("%d %v", code, answer)
	}
	if code, answer := post(t, h, "/retry", body); code != 202 {
		t.Fatalf("where it was made: %d %v", code, answer)
	}
	if c := s.calls(t)[0]; s.afters[0] != 5*time.Second || !slices.Equal(c.Waits, []span{span(10 * time.Second)}) {
		t.Errorf("after %s, waits %v", s.afters[0], c.Waits)
	}
}

// FuzzCall: whatever is posted, it is refused with a reason or stored as a call that can be read.
func FuzzCall(f *testing.F) {
	f.Add(full, true)
	f.Add(`{"message_id":"m","retry_request":{"url":"http://localhost"}}`, false)
	for _, bad := range mistakes.All() {
		f.Add(bad.Body, bad.Path == "/calls")
	}
	f.Fuzz(func(t *testing.T, body string, own bool) {
		s := &stored{}
		h := handler(t, s, func(c *Config) { c.Records = Static{"default": {time.Second}} })
		path := "/retry"
		if own {
			path = "/calls"
		}
		switch code, answer := post(t, h, path, body); code {
		case 202:
			c := s.calls(t)[0]
			if _, _, err := c.Request.content(); err != nil {
				t.Errorf("accepted, and cannot be sent: %v", err)
			}
			if _, err := h.client.request(t.Context(), &c.Request, c.webhookID(), ""); err != nil {
				t.Errorf("accepted, and cannot be sent: %v", err)
			}
		case 400, 413:
			if answer["detail"] == "" {
				t.Error("refused without a reason")
			}
		default:
			t.Errorf("%d %v", code, answer)
		}
	})
}

func TestACallWithACancelledIDIsRefusedAndNotTakenInSilence(t *testing.T) {
	s := &stored{}
	h := handler(t, s, func(c *Config) { c.Records = NewShared(nil, table{}, table{}) })
	if code, answer := ask(t, h, "DELETE", "/calls/order-17", ""); code != 200 {
		t.Fatalf("cancel: %d %v", code, answer)
	}
	for path, body := range map[string]string{
		"/calls": `{"id":"order-17","request":{"url":"http://localhost:81"},"waits":[]}`,
		"/retry": `{"message_id":"order-17","retry_request":{"request_type":"POST","url":"http://localhost:81"}}`,
	} {
		code, answer := post(t, h, path, body)
		if code != 400 || !strings.Contains(fmt.Sprint(answer), "id was cancelled") {
			t.Errorf("%s: %d %v", path, code, answer)
		}
		if code, answer := post(t, h, path, strings.Replace(body, "order-17", "order-18", 1)); path == "/calls" && code != 202 {
			t.Errorf("another id: %d %v", code, answer)
		}
	}
	if calls := s.calls(t); len(calls) != 1 {
		t.Errorf("%d calls are stored, want the one of another id", len(calls))
	}
}

// asking are records that note which ids they were asked for.
type asking struct {
	Static
	ids []string
}

func (a *asking) Cancelled(_ context.Context, id string) (bool, error) {
	a.ids = append(a.ids, id)
	return false, nil
}

func TestACallOfAnyIDCanBeCancelled(t *testing.T) {
	for _, id := range []string{"order-17", "openapi.json", "a/b", "a//b", "..", "a?b", "50%", strings.Repeat("x", maxID)} {
		cancelled := table{}
		h := handler(t, &stored{}, func(c *Config) { c.Records = NewShared(nil, table{}, cancelled) })
		if code, answer := ask(t, h, "DELETE", "/calls/"+url.PathEscape(id), ""); code != 200 || answer["id"] != id || cancelled[id] == nil {
			t.Errorf("%q: %d %v", id, code, answer)
		}
	}
}

// Where records are not known at present each question waits up to a second.
func TestNobodyAsksWhetherAnIDThatWasJustDrawnIsCancelled(t *testing.T) {
	s, records := &stored{}, &asking{Static: Static{"default": {time.Minute}}}
	h := handler(t, s, func(c *Config) { c.Records = records })
	for path, bodies := range map[string][]string{
		"/calls": {
			`{"request":{"url":"http://localhost:81"},"waits":[]}`,
			`{"id":"given","request":{"url":"http://localhost:81"},"waits":[]}`,
		},
		"/retry": {
			`{"retry_request":{"request_type":"POST","url":"http://localhost:81"}}`,
			`{"message_id":"","retry_request":{"request_type":"POST","url":"http://localhost:81"}}`,
			`{"message_id":"given","retry_request":{"request_type":"POST","url":"http://localhost:81"}}`,
		},
	} {
		for _, body := range bodies {
			if code, answer := post(t, h, path, body); code < 200 || code > 299 {
				t.Errorf("%s: %d %v", body, code, answer)
			}
		}
		if len(records.ids) != 1 || records.ids[0] != "given" {
			t.Errorf("%s asked for %q, want the one that was given", path, records.ids)
		}
		records.ids = nil
	}
	if calls := s.calls(t); len(calls) != 5 {
		t.Errorf("%d calls are stored, want all", len(calls))
	}
}

// slowRecords take their time for a cancel, and fail.
type slowRecords struct {
	Static
	take time.Duration
}

func (s slowRecords) Cancel(ctx context.Context, _ string) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(s.take):
		return errors.New("not known at present")
	}
}

// net/http ends what reads a connection at its deadline, and with that the contexts of this request
// and of all that come later on the connection.
func TestACancelThatTakesLongSpoilsNoLaterCallOnItsConnection(t *testing.T) {
	const short = 30 * time.Millisecond
	s := NewServer(handler(t, &stored{}, func(c *Config) { c.Records = slowRecords{take: 10 * short} }))
	s.readTimeout = short
	listener := httptest.NewServer(s)
	defer listener.Close()
	send := func(method, path, body string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, listener.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := listener.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	if code, text := send("DELETE", "/calls/a", ""); code != 503 || !strings.Contains(text, "not known at present") {
		t.Errorf("the cancel: %d %s", code, text)
	}
	if code, text := send("POST", "/calls", `{"request":{"url":"http://localhost/"},"waits":[]}`); code != 202 {
		t.Errorf("a call after it: %d %s", code, text)
	}
}
