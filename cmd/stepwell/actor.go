package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// silence is longer than an actor takes, but for much work.
const silence = 15 * time.Second

// Where the actor is, if --address does not say it.
const (
	addressVariable = "STEPWELL_ADDRESS"
	defaultAddress  = "localhost:8010"
)

// actor is the one to talk to.
type actor struct {
	base    *url.URL
	token   string
	address string        // as --address said it; empty: others find it, too
	json    bool          // print answers as JSON
	silence time.Duration // after it somebody is told that there is no answer yet
	ask     asker         // nil: nobody is there
	out     io.Writer
	errs    io.Writer
}

// newActor reads the flags. Its errors are mistakes of the person, and name the flag.
func newActor(c *commands, ask asker, out, errs io.Writer) (*actor, error) {
	address := c.Address
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	base, err := url.Parse(address)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, fmt.Errorf("--address %q is neither host:port nor an http URL", c.Address)
	}
	if base.Hostname() == "" { // :8010, as SERVER_ADDRESS may be
		base.Host = "localhost" + base.Host
	}
	a := &actor{base: base, token: c.Token, json: c.JSON, silence: silence, ask: ask, out: out, errs: errs}
	if c.Address != cmp.Or(os.Getenv(addressVariable), defaultAddress) {
		a.address = c.Address
	}
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

// addressed has the commands that a text names lead to this actor: an operation that somebody means
// to take back is of no other.
func (a *actor) addressed(text string) string {
	if a.address == "" {
		return text
	}
	at := "stepwell --address " + a.address
	return strings.NewReplacer("stepwell dead-set ", at+" dead-set ", "stepwell streams ", at+" streams ", "stepwell pause ", at+" pause ", "stepwell resume ", at+" resume ").Replace(text)
}

// refusal is an answer that says no.
type refusal struct {
	status     int
	text       string
	retryAfter string
	done       int // of what was asked for, before it stopped
}

// Error is the actor's own words.
func (r *refusal) Error() string {
	text := fmt.Sprintf("the actor answers %d %s", r.status, http.StatusText(r.status))
	if r.text != "" {
		text += ": " + r.text
	}
	if r.status == http.StatusNotFound && r.text == "" {
		text += ": is there a stepwell actor at --address, which has host and port and no page?"
	}
	if r.status == http.StatusUnauthorized {
		text += " (this command sends what STEPWELL_TOKEN, --token-file or --token says)"
	}
	if r.retryAfter != "" {
		text += " (try again in " + r.retryAfter + " s)"
	}
	return text
}

// again says whether the same command may succeed later. What the actor refuses without a word of
// when lies in what it is, as a trash that is full, and not in what somebody does; a 503 without
// any word is a proxy's.
func (r *refusal) again() bool {
	return r.retryAfter != "" && r.status == http.StatusConflict || r.status == http.StatusServiceUnavailable && (r.retryAfter != "" || r.text == "")
}

// do sends a request and decodes the answer into v; with --json it prints the answer instead, and
// reports that by printed.
func (a *actor) do(ctx context.Context, method, path string, query url.Values, v any) (printed bool, err error) {
	body, err := a.send(ctx, method, path, query)
	if a.json && json.Valid(body) {
		return true, errors.Join(a.line(body), err)
	}
	if err != nil {
		return false, err
	}
	return false, read(body, v)
}

// get asks for something and decodes the answer into v; with --json it prints an answer that says
// no.
func (a *actor) get(ctx context.Context, path string, query url.Values, v any) error {
	body, err := a.send(ctx, http.MethodGet, path, query)
	if err != nil && a.json && json.Valid(body) {
		return errors.Join(a.line(body), err)
	}
	if err != nil {
		return err
	}
	return read(body, v)
}

// line prints JSON on a line of its own.
func (a *actor) line(object []byte) error {
	if _, err := fmt.Fprintf(a.out, "%s\n", bytes.TrimSpace(object)); err != nil {
		return fmt.Errorf("print the answer: %w", err)
	}
	return nil
}

// wish asks for something in a body and decodes the answer into v.
func (a *actor) wish(ctx context.Context, method, path string, body, v any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	answer, err := a.sendBody(ctx, method, path, nil, text)
	if err != nil {
		return err
	}
	return read(answer, v)
}

// send returns what the actor answered, also beside the error of an answer that says no. There is
// no limit to how long the actor may take: a replay can be long, and Ctrl-C ends it.
func (a *actor) send(ctx context.Context, method, path string, query url.Values) ([]byte, error) {
	return a.sendBody(ctx, method, path, query, nil)
}

// sendBody is send with a body, which is JSON; nil: there is none.
func (a *actor) sendBody(ctx context.Context, method, path string, query url.Values, text []byte) ([]byte, error) {
	resp, err := a.request(ctx, method, path, query, text)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, cutOff{fmt.Errorf("read the actor's answer: %w", err)}
	}
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusAccepted {
		return body, refused(resp, body)
	}
	return body, nil
}

// cutOff is why no whole answer came to a request that was sent: nobody knows what was done.
type cutOff struct{ error }

// Unwrap is that error.
func (e cutOff) Unwrap() error { return e.error }

func isCutOff(err error) bool {
	_, is := errors.AsType[cutOff](err)
	return is
}

// inDoubt says of an act that somebody has to look where it may be done, since its answer was cut
// off, or where it stopped half way.
func inDoubt(err error) error {
	if r, is := errors.AsType[*refusal](err); is && r.done > 0 {
		return fmt.Errorf("%w: the same command takes as many again, and not only what is left (%w)", errLook, err)
	}
	if !isCutOff(err) {
		return err
	}
	return fmt.Errorf("%w: it may be done, or a part of it: look at the dead set before you ask again (%w)", errLook, err)
}

// request sends a request. Whoever calls it closes the answer's body.
func (a *actor) request(ctx context.Context, method, path string, query url.Values, text []byte) (*http.Response, error) {
	u := a.base.JoinPath(path)
	u.RawQuery = query.Encode()
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	req, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if text != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if a.token != "" {
		req.Header.Set("Authorization", "Bearer "+a.token)
	}
	quiet := time.AfterFunc(a.silence, func() {
		_, _ = fmt.Fprintf(a.errs, "no answer yet from %s: it works, or hangs; Ctrl-C ends the waiting\n", a.base.Host)
	})
	defer quiet.Stop()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		err = fmt.Errorf("reach the actor at --address %s: %w", a.base.Host, cause(err))
		if sent.Load() {
			err = cutOff{err}
		}
		return nil, err
	}
	return resp, nil
}

// cause is what went wrong with a request, without the request, which may be long.
func cause(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// read decodes an answer. What is no JSON at all comes from another server, or from a proxy.
func read(body []byte, v any) error {
	if !json.Valid(body) {
		return errors.New("the answer is not JSON: is there a stepwell actor at --address?")
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("read the actor's answer: %w", err)
	}
	return nil
}

// refused makes an error of an answer, with the actor's own words where it has any.
func refused(resp *http.Response, body []byte) error {
	var problem struct {
		Detail string `json:"detail"`
		Done   int    `json:"done"`
	}
	_ = json.Unmarshal(body, &problem) // what is no problem+json has no text for us
	return &refusal{status: resp.StatusCode, text: problem.Detail, retryAfter: resp.Header.Get("Retry-After"), done: problem.Done}
}
