package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"
)

// client sends requests, each once, but for those that net/http takes for idempotent: it sends them
// again where a connection that was used before ends without an answer. It follows no redirect,
// asks no proxy, keeps no cookie, and dials no address that hosts does not allow.
type client struct {
	// An http.Client would read where a redirect leads, and take one to what is no URL for no
	// answer.
	http *http.Transport
	// timeout is for a whole request: dialling, sending, and the answer's beginning.
	timeout time.Duration
	secrets secrets
}

const (
	// maxAnswerHeader bounds an answer's head, in bytes; a longer one is no answer.
	maxAnswerHeader = 64 << 10
	// maxDrained is how much of an answer is read at most, so that its connection serves the next
	// call.
	maxDrained = 16 << 10
	// A connection of HTTP/2 may say nothing for a request's time, within shortestQuiet and
	// longestQuiet, before it is asked whether it is there, and may take as long for its answer.
	shortestQuiet = time.Second
	longestQuiet  = 10 * time.Second
)

// newClient makes a client with connections of its own. limit is how many calls a host has at once,
// and so how many connections to it are worth keeping.
func newClient(h *hosts, s secrets, timeout time.Duration, limit int, tlsConfig *tls.Config) *client {
	// A connection of HTTP/2 outlives the requests that are given up on it. Where one leads nowhere
	// any more each further request would be lost on it, until the kernel gives it up, a quarter of
	// an hour later: so one that says nothing for that long is asked, and closed.
	quiet := max(shortestQuiet, min(timeout, longestQuiet))
	transport := &http.Transport{
		Proxy:                  nil, // one would dial for us, and know no hosts
		DialContext:            h.dial(&net.Dialer{Timeout: timeout, KeepAlive: 30 * time.Second}),
		TLSClientConfig:        tlsConfig,
		TLSHandshakeTimeout:    timeout,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: quiet, PingTimeout: quiet},
		DisableCompression:     true, // an answer's beginning is all that is read
		MaxResponseHeaderBytes: maxAnswerHeader,
		MaxIdleConns:           1000,
		MaxIdleConnsPerHost:    limit,
		IdleConnTimeout:        90 * time.Second,
	}
	return &client{timeout: timeout, secrets: s, http: transport}
}

// dial dials only addresses that are allowed. The address is looked at when it has been resolved
// and nothing was sent: a name that points elsewhere the next time gains nothing.
func (h *hosts) dial(d *net.Dialer) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, fmt.Errorf("dial: %w", err)
		}
		var tried atomic.Bool
		one := *d
		one.Control = func(_, resolved string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(resolved)
			if err != nil {
				return fmt.Errorf("%s %w: it is no address", resolved, errNotAllowed)
			}
			if err := h.check(host, to.Addr()); err != nil {
				return err
			}
			tried.Store(true)
			return nil
		}
		conn, err := one.DialContext(ctx, network, addr)
		return conn, dialError(err, tried.Load())
	}
}

// dialError is a dial's error. Where one of the name's addresses was tried the dial was allowed,
// and another time it may come through.
func dialError(err error, tried bool) error {
	if tried && errors.Is(err, errNotAllowed) {
		return fmt.Errorf("dial: %v", err) //nolint:errorlint // the cause must not be found
	}
	return err
}

// do sends one request; signer names the secrets to sign with. It does not return before the
// answer's beginning was read.
func (c *client) do(ctx context.Context, r *request, id, signer string) *answer {
	a := &answer{method: r.Method, host: r.host()}
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, fmt.Errorf("no whole answer within %s", c.timeout))
	defer cancel()
	req, err := c.request(ctx, r, id, signer)
	if err != nil {
		a.err, a.unsent = err, true
		return a
	}
	// HTTP/2 may tell only one of the two of a connection that others use as well.
	var asked atomic.Bool
	trace := &httptrace.ClientTrace{
		GetConn: func(string) { asked.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { asked.Store(true) },
	}
	resp, err := c.http.RoundTrip(req.WithContext(httptrace.WithClientTrace(ctx, trace)))
	if err != nil {
		a.err, a.unsent = bare(ctx, err), !asked.Load() // as a header that was edited, and is none
		return a
	}
	defer resp.Body.Close()
	a.status, a.retryAfter = resp.StatusCode, retryAfter(resp.Header, time.Now())
	if to, err := resp.Location(); err == nil && a.status/100 == 3 {
		place := to.Scheme + "://" + to.Host
		a.redirect = shown([]byte(place[:min(len(place), maxAnswer)]))
	}
	if a.status == http.StatusSwitchingProtocols { // what follows is no body, and ends with no context
		return a
	}
	// The status decides: that the rest of an answer does not come changes nothing.
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	a.text = shown(text)
	_, _ = io.CopyN(io.Discard, resp.Body, maxDrained)
	return a
}

// request is r as it is sent now: the signature has the time of this try. A call that is to be
// signed is never sent without: its receiver would take it for a forgery, or worse, would not.
func (c *client) request(ctx context.Context, r *request, id, signer string) (*http.Request, error) {
	body, contentType, err := r.content()
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, r.URL, bytes.NewReader(body))
	if err != nil {
		return nil, bare(ctx, err)
	}
	for name, values := range r.Headers {
		if why := refusedHeader(name); why != "" { // in an edited call
			return nil, fmt.Errorf("header %q %s", name, why)
		}
		for _, v := range values {
			req.Header.Add(name, v)
		}
	}
	if req.Header.Get("Content-Type") == "" && contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	if _, set := req.Header["User-Agent"]; !set {
		req.Header.Set("User-Agent", "stepwell-webhook")
	}
	if _, set := req.Header[headerID]; !set || signer != "" {
		req.Header.Set(headerID, id)
	}
	if signer != "" {
		keys := c.secrets[signer]
		if len(keys) == 0 {
			return nil, fmt.Errorf("secret %q, by which the call is to be signed, is not known here", signer)
		}
		timestamp, signatures := sign(keys, id, time.Now(), body)
		req.Header.Set(headerTimestamp, timestamp)
		req.Header.Set(headerSignature, signatures)
	}
	return req, nil
}

// bare is an error without the URL, whose query may hold secrets, and with the cause of a time-out.
func bare(ctx context.Context, err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	if cause := context.Cause(ctx); cause != nil && ctx.Err() != nil {
		return cause
	}
	return err
}

// shown is the beginning of an answer on one line, without what no log should have.
func shown(text []byte) string {
	for len(text) > 0 && !utf8.Valid(text) { // a rune that was cut, or bytes of something else
		if r, size := utf8.DecodeLastRune(text); r != utf8.RuneError || size != 1 {
			break
		}
		text = text[:len(text)-1]
	}
	clean := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.IsSpace(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(string(text), "?"))
	return strings.TrimSpace(clean)
}
