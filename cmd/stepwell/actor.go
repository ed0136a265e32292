package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
)

// actor is the one to talk to.
type actor struct {
	base  *url.URL
	token string
	json  bool // print answers as they come
	out   io.Writer
}

func newActor(c *commands, out io.Writer) (*actor, error) {
	address := c.Address
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	base, err := url.Parse(address)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, fmt.Errorf("--address %q is neither host:port nor an http URL", c.Address)
	}
	a := &actor{base: base, token: c.Token, json: c.JSON, out: out}
	if c.TokenFile != "" {
		token, err := os.ReadFile(c.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("--token-file: %w", err)
		}
		if a.token = strings.TrimSpace(string(token)); a.token == "" {
			return nil, fmt.Errorf("--token-file %s is empty", c.TokenFile)
		}
	}
	return a, nil
}

// refusal is an answer that says no.
type refusal struct {
	status     int
	text       string
	retryAfter string
}

// Error is the actor's own words.
func (r *refusal) Error() string {
	text := fmt.Sprintf("the actor answers %d %s", r.status, http.StatusText(r.status))
	if r.text != "" {
		text += ": " + r.text
	}
	if r.retryAfter != "" {
		text += " (try again in " + r.retryAfter + " s)"
	}
	return text
}

// again says whether the same command may succeed later.
func (r *refusal) again() bool {
	return r.status == http.StatusConflict || r.status == http.StatusServiceUnavailable
}

// do sends a request and decodes the answer into v; with --json it prints the answer instead, and reports that by printed. There is no
// limit to how long the actor may take: a replay can be long, and Ctrl-C ends it.
func (a *actor) do(ctx context.Context, method, path string, query url.Values, v any) (printed bool, err error) {
	u := a.base.JoinPath(path)
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, method, u.String(), nil)
	if err != nil {
		return false, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if a.token != "" {
		req.Header.Set("Authorization", "Bearer "+a.token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false, fmt.Errorf("reach the actor: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return false, fmt.Errorf("read the actor's answer: %w", err)
	}
	isJSON := json.Valid(body)
	if a.json && isJSON {
		if _, err := a.out.Write(body); err != nil {
			return true, fmt.Errorf("print the answer: %w", err)
		}
	}
	if resp.StatusCode != http.StatusOK {
		return a.json, refused(resp, body)
	}
	if !isJSON {
		return false, errors.New("the answer is not JSON: is there a stepwell actor at --address?")
	}
	if a.json {
		return true, nil
	}
	if err := json.Unmarshal(body, v); err != nil {
		return false, fmt.Errorf("read the actor's answer: %w", err)
	}
	return false, nil
}

func refused(resp *http.Response, body []byte) error {
	var problem struct {
		Detail string `json:"detail"`
	}
	_ = json.Unmarshal(body, &problem) // what is no problem+json has no text for us
	return &refusal{status: resp.StatusCode, text: problem.Detail, retryAfter: resp.Header.Get("Retry-After")}
}
