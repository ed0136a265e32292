// Package contract holds package webhook's server against its description: the description is valid
// OpenAPI, it has what the server serves, and what the server takes and answers is what it says. It
// is a package of its own so that the other tests need no OpenAPI library.
package contract_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/webhook"
)

var errRefused = errors.New("refused")

func TestWhatTheServerTakesAndAnswersIsWhatItsDescriptionSays(t *testing.T) {
	const call = `{"id":"order-17","request":{"method":"POST","url":"http://localhost/hook","headers":{"a":"1","b":["2"]},"body":{"n":1}},
		"waits":["5s"],"after":"1m","on_failure":{"url":"http://localhost/failed"},"on_success":{"url":"http://localhost/done","body":"text"},"sign":"partner","stop_on":[410]}`
	const retry = `{"message_id":"m","group_id":"g","retry_request":{"request_type":"POST","request_body":{},"url":"http://localhost/x","headers":{"h":["v"]}},
		"retry_failure_request":{"url":"http://localhost/y"}}`
	tests := []struct {
		name, method, path, body string
		status                   int
		good                     bool // what is sent is as described, too
	}{
		{"a call", "POST", "/calls", call, 202, true},
		{"a call of a workflow", "POST", "/calls", `{"request":{"url":"http://localhost/"},"workflow":"default"}`, 202, true},
		{"a call with mistakes", "POST", "/calls", `{"request":{"uri":"x"},"x":1}`, 400, false},
		{"a call with an empty id, method and sign", "POST", "/calls", `{"id":"","request":{"method":"","url":"http://localhost/"},"sign":""}`, 400, false},
		{"a call with an empty method", "POST", "/calls", `{"request":{"method":"","url":"http://localhost/"}}`, 400, false},
		{"a call that is too large", "POST", "/calls", strings.Repeat(" ", 5000), 413, false},
		{"a cancel", "DELETE", "/calls/order-17", "", 200, true},
		{"a cancel of no id", "DELETE", "/calls/" + strings.Repeat("x", 201), "", 400, false},
		{"the description", "GET", "/calls/openapi.json", "", 200, true},
		{"the REST retrier's call", "POST", "/retry", retry, 202, true},
		{"the REST retrier's call with mistakes", "POST", "/retry", "{}", 400, false},
		{"the REST retrier's workflow", "POST", "/retry_workflow", `{"name":"test","retry_delays":[5000,10000]}`, 200, true},
		{"the REST retrier's workflow with mistakes", "POST", "/retry_workflow", "[]", 400, false},
		{"all workflows", "GET", "/retry_workflow", "", 200, true},
		{"a workflow is deleted", "DELETE", "/retry_workflow/test", "", 200, true},
		{"a workflow that is not there is deleted", "DELETE", "/retry_workflow/test", "", 404, true},
		{"a workflow of the configuration is deleted", "DELETE", "/retry_workflow/default", "", 409, true},
	}
	enqueue := func(context.Context, string, stepwell.Message, time.Duration) error { return nil }
	server := serve(t, webhook.Config{Enqueue: enqueue, Records: webhook.NewShared(webhook.Static{"default": {time.Second}}, table{}, table{})})
	router, _ := description(t, server)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			answers(t, router, server, test.method, test.path, test.body, test.status, test.good)
		})
	}
	gone := errors.New("it is retired")
	retired := serve(t, webhook.Config{Retired: gone, Records: webhook.Static{"default": {time.Second}}, Enqueue: func(context.Context, string, stepwell.Message, time.Duration) error { return gone }})
	retiredRouter, _ := description(t, retired)
	t.Run("retired", func(t *testing.T) { answers(t, retiredRouter, retired, "POST", "/calls", call, 410, true) })
	t.Run("retired, for the REST retrier's call", func(t *testing.T) { answers(t, retiredRouter, retired, "POST", "/retry", retry, 410, true) })
	large, mistaken := errors.New("it is too large"), errors.New("there is no such stream")
	for name, test := range map[string]struct {
		why    error
		status int
	}{
		"too large to be stored":         {fmt.Errorf("refused: %w", errors.Join(errRefused, large)), 413},
		"into a stream that there isn't": {fmt.Errorf("refused: %w", errors.Join(errRefused, mistaken)), 500},
	} {
		refusing := serve(t, webhook.Config{
			Refused: errRefused, TooLarge: large, Records: webhook.Static{"default": {time.Second}},
			Enqueue: func(context.Context, string, stepwell.Message, time.Duration) error { return test.why },
		})
		refusingRouter, _ := description(t, refusing)
		t.Run(name, func(t *testing.T) {
			answers(t, refusingRouter, refusing, "POST", "/calls", call, test.status, true)
			answers(t, refusingRouter, refusing, "POST", "/retry", retry, test.status, true)
		})
	}
	away := serve(t, webhook.Config{Enqueue: func(context.Context, string, stepwell.Message, time.Duration) error { return errors.New("away") }})
	awayRouter, _ := description(t, away)
	t.Run("not confirmed", func(t *testing.T) { answers(t, awayRouter, away, "POST", "/calls", call, 503, true) })
	t.Run("no records", func(t *testing.T) { answers(t, awayRouter, away, "DELETE", "/calls/a", "", 409, true) })
}

func TestTheDescriptionHasWhatTheServerServesAndNothingElse(t *testing.T) {
	server := serve(t, webhook.Config{
		Enqueue: func(context.Context, string, stepwell.Message, time.Duration) error { return nil }, Records: webhook.Static{"default": {time.Second}},
	})
	_, api := description(t, server)
	methods := []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
	for _, path := range []string{"/calls", "/calls/{id}", "/calls/openapi.json", "/retry", "/retry_workflow", "/retry_workflow/{name}", "/", "/call", "/openapi.json"} {
		item := api.Paths.Value(path)
		for _, method := range methods {
			req, err := http.NewRequestWithContext(t.Context(), method, server+strings.NewReplacer("{id}", "7", "{name}", "default").Replace(path), nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			served := resp.StatusCode != http.StatusNotFound && resp.StatusCode != http.StatusMethodNotAllowed
			described := item != nil && item.GetOperation(method) != nil
			if method == http.MethodDelete && path == "/calls/openapi.json" { // a call may have that id
				described = api.Paths.Value("/calls/{id}").GetOperation(method) != nil
			}
			if served != described {
				t.Errorf("%s %s: served %v (%d), described %v", method, path, served, resp.StatusCode, described)
			}
		}
	}
	if n := len(api.Paths.Map()); n != 6 {
		t.Errorf("%d paths are described, and the test knows 6", n)
	}
}

// serve runs a server until the test ends and returns its URL.
func serve(t *testing.T, c webhook.Config) string {
	t.Helper()
	c.Hosts, c.BodyLimit = []string{"localhost"}, 4000
	c.Secrets = []string{"partner=whsec_" + strings.Repeat("AAAA", 8)}
	h, err := webhook.NewHandler(c)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(webhook.NewServer(h))
	t.Cleanup(s.Close)
	return s.URL
}

// answers sends a request and fails the test unless it and its answer are as described.
func answers(t *testing.T, router routers.Router, server, method, path, body string, status int, good bool) {
	t.Helper()
	request := func() *http.Request {
		req, err := http.NewRequestWithContext(t.Context(), method, server+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if body != "" {
			req.Header.Set("Content-Type", "application/json")
		}
		return req
	}
	req := request()
	route, params, err := router.FindRoute(req)
	if err != nil {
		t.Fatal(err)
	}
	sent := &openapi3filter.RequestValidationInput{Request: request(), PathParams: params, Route: route}
	if err := openapi3filter.ValidateRequest(t.Context(), sent); good != (err == nil) {
		t.Errorf("what is sent is well: %v, and the description says: %v", good, err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != status {
		t.Errorf("status %d, want %d: %s", resp.StatusCode, status, text)
	}
	err = openapi3filter.ValidateResponse(t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: sent, Status: resp.StatusCode, Header: resp.Header, Body: io.NopCloser(bytes.NewReader(text)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true},
	})
	if err != nil {
		t.Errorf("%v\n%s", err, text)
	}
}

// description is the one that the server serves, once it is found to be valid.
func description(t *testing.T, server string) (routers.Router, *openapi3.T) {
	t.Helper()
	resp, err := http.Get(server + "/calls/openapi.json")
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
	api.Servers = openapi3.Servers{{URL: server}}
	router, err := legacy.NewRouter(api)
	if err != nil {
		t.Fatal(err)
	}
	return router, api
}

// table keeps what is set in this process alone.
type table map[string]json.RawMessage

func (t table) Get(name string) (json.RawMessage, bool, error) {
	value, ok := t[name]
	return value, ok, nil
}

func (t table) Current(name string) (json.RawMessage, bool, error) { return t.Get(name) }

func (t table) Latest(_ context.Context, name string) (json.RawMessage, bool, error) {
	return t.Get(name)
}

func (t table) All(context.Context) (map[string]json.RawMessage, error) { return t, nil }

func (t table) Set(_ context.Context, name string, value json.RawMessage, _ time.Time) error {
	t[name] = value
	if value == nil {
		delete(t, name)
	}
	return nil
}
