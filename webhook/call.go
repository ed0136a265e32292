package webhook

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
)

// call is a call as its message has it: checked, with its workflow resolved and all defaults filled
// in, so that what was accepted is what is made, whatever changes meanwhile. Its JSON is what the
// dead set shows.
type call struct {
	ID      string  `json:"id"`
	Request request `json:"request"`
	// Waits are those between tries: one more try than waits.
	Waits     []span   `json:"waits"`
	OnFailure *request `json:"on_failure,omitempty"`
	OnSuccess *request `json:"on_success,omitempty"`
	// Sign names the secrets with which all its requests are signed; empty: they are not.
	Sign string `json:"sign,omitempty"`
	// StopOn are statuses after which no other try of Request helps.
	StopOn []int `json:"stop_on,omitempty"`
	// Step is which of its requests the message is for, Failure why, where that is on_failure.
	Step    step   `json:"step,omitempty"`
	Failure string `json:"failure,omitempty"`
}

// step is which request of a call a message is for.
type step string

// The steps of a call, each a message of its own. A call that was accepted is at stepRequest.
const (
	stepRequest step = ""
	stepFailure step = "on_failure"
	stepSuccess step = "on_success"
)

// request is one HTTP request.
type request struct {
	Method  string      `json:"method"`
	URL     string      `json:"url"`
	Headers http.Header `json:"headers,omitempty"`
	// Body is any JSON; a JSON text is sent as the text it is. Nil: none.
	Body json.RawMessage `json:"body,omitempty"`
}

// span is a duration that is written as people write it, 1m30s.
type span time.Duration

// MarshalText writes it.
func (s span) MarshalText() ([]byte, error) { return []byte(time.Duration(s).String()), nil }

// UnmarshalText reads it.
func (s *span) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	*s = span(d)
	return err
}

// message is the call as it is enqueued. The key is the host, by which a dead set can be asked for
// what failed there.
func (c *call) message() (stepwell.Message, error) {
	var value bytes.Buffer
	e := json.NewEncoder(&value)
	e.SetEscapeHTML(false) // bodies are to be sent as they came
	if err := e.Encode(c); err != nil {
		return stepwell.Message{}, fmt.Errorf("encode call: %w", err)
	}
	return stepwell.Message{ID: c.ID, Key: []byte(c.due().host()), Value: bytes.TrimSpace(value.Bytes())}, nil
}

// decodeCall reads a message. A person may have edited it, and left the method out, or written it
// in small letters, or a body of null, as in a call that is posted. Who replays a call whose
// on_failure died as well wants the call made anew.
func decodeCall(m *stepwell.Message) (*call, error) {
	c := &call{}
	if err := json.Unmarshal(m.Value, c); err != nil {
		return nil, fmt.Errorf("the message is no call: %w", err)
	}
	if c.due() == nil {
		return nil, errors.New("the message is no call: it has no request for its step")
	}
	if c.Step == stepFailure && m.Replays > 0 {
		c.Step = stepRequest
	}
	for _, r := range []*request{&c.Request, c.OnFailure, c.OnSuccess} {
		if r == nil {
			continue
		}
		r.Method = cmp.Or(strings.ToUpper(r.Method), http.MethodPost)
		if string(r.Body) == "null" {
			r.Body = nil
		}
	}
	return c, nil
}

// due is the request to make; nil: there is none, which no call that was accepted has.
func (c *call) due() *request {
	switch c.Step {
	case stepRequest:
		return &c.Request
	case stepFailure:
		return c.OnFailure
	case stepSuccess:
		return c.OnSuccess
	}
	return nil
}

// follow is the call at a later step: it has the same waits, and begins with them anew.
func (c *call) follow(to step, failure string) *call {
	next := *c
	next.Step, next.Failure = to, failure
	return &next
}

// webhookID tells receivers what they have seen. Requests of a call are different things to whom
// they go to the same place, so each has an id of its own.
func (c *call) webhookID() string {
	if c.Step != stepRequest {
		return c.ID + ":" + string(c.Step)
	}
	return c.ID
}

// host is the scheme, name and port by which limits and breakers go. However a URL has them, they
// are written in one way: each spelling would have limits of its own else.
func (r *request) host() string {
	u, err := url.Parse(r.URL)
	if err != nil {
		return ""
	}
	name, port := strings.TrimSuffix(strings.ToLower(u.Hostname()), "."), strings.TrimLeft(u.Port(), "0")
	if addr, err := netip.ParseAddr(name); err == nil {
		name = addr.Unmap().String()
	}
	if port == map[string]string{"http": "80", "https": "443"}[u.Scheme] {
		port = ""
	}
	if strings.Contains(name, ":") {
		name = "[" + name + "]"
	}
	if port != "" {
		name += ":" + port
	}
	return u.Scheme + "://" + name
}

// content is the body as it is sent, and its type where no header has one.
func (r *request) content() (body []byte, contentType string, err error) {
	switch {
	case len(r.Body) == 0:
		return nil, "", nil
	case r.Body[0] != '"':
		return r.Body, "application/json", nil
	}
	var text string
	if err := json.Unmarshal(r.Body, &text); err != nil {
		return nil, "", fmt.Errorf("the request's body: %w", err)
	}
	return []byte(text), "text/plain; charset=utf-8", nil
}
