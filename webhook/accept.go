package webhook

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
)

// Bounds of a call. Each is said where it is broken. With those of a body they keep what is
// enqueued below what a broker takes.
const (
	// maxID is in bytes: a longer ID of a message would be hashed, and nobody would find it.
	maxID = 200
	// maxWaits is as many as a stream can have tries after the first.
	maxWaits = 1000
	// maxHeaders are those of a request, and the values of one; maxHeaderLen is of a value, in
	// bytes, as servers take them.
	maxHeaders   = 100
	maxHeaderLen = 8 << 10
	// maxURL is in bytes: longer ones are refused by most servers.
	maxURL = 8 << 10
)

// accepted is a call that may be stored, to be made after a time.
type accepted struct {
	call  *call
	after time.Duration
	// notes are for whoever posted it: what the call asks for and does not get.
	notes []string
}

// parser reads one posted call. It goes through all of it, whatever it meets, and its form has what
// is wrong; what it returns is of use only where nothing is.
type parser struct {
	form
	hosts   *hosts
	secrets secrets
	records Records
	// unknown is why workflows cannot be looked up at present.
	unknown error
}

// call reads the body of POST /calls. The call it returns needs nothing more to be looked up: what
// stands in the settings by name, waits, is resolved, and what is a secret stays a name.
func (p *parser) call(ctx context.Context, raw []byte) accepted {
	m := p.body(raw, "id", "request", "waits", "workflow", "after", "on_failure", "on_success", "sign", "stop_on")
	if m == nil {
		return accepted{}
	}
	// Whoever means to give one knows no other by which to cancel the call, or to post it again.
	p.notEmpty("id", m["id"], "a random one")
	c := &call{ID: p.callID(ctx, "id", m["id"]), Sign: p.signer(m["sign"]), StopOn: p.stopOn(m["stop_on"])}
	if r := p.request("request", m["request"]); r != nil {
		c.Request = *r
	} else if m["request"] == nil {
		p.wrong("request", `is required, as in {"request":{"method":"POST","url":"https://example.com/hook"}}`)
	}
	c.OnFailure, c.OnSuccess = p.request("on_failure", m["on_failure"]), p.request("on_success", m["on_success"])
	c.Waits = p.waitsOrWorkflow(ctx, m["waits"], m["workflow"])
	if c.Sign != "" && strings.Contains(c.ID, ".") {
		p.wrong("id", "must have no full stop where the call is signed: what is signed is id.timestamp.body")
	}
	return accepted{call: c, after: p.duration("after", m["after"])}
}

// callID reads the id of a new call; one that has none, or an empty one as a call of the REST
// retrier may, gets a random one. An id that is cancelled is refused: the call would be taken, and
// never made. Where that is not known at present the call is taken: it waits until it is.
func (p *parser) callID(ctx context.Context, at string, raw json.RawMessage) string {
	id := p.id(at, raw)
	if id == "" { // nobody can have cancelled what is just drawn
		return rand.Text()
	}
	if cancelled, err := p.records.Cancelled(ctx, id); err == nil && cancelled {
		p.wrong(at, "was cancelled, for 60 days: a call of that id would not be made; take another")
	}
	return id
}

// id reads an id; empty: there is none, or not a good one.
func (p *parser) id(at string, raw json.RawMessage) string {
	id := p.text(at, raw)
	for i := range len(id) {
		if id[i] < ' ' || id[i] > '~' {
			p.wrong(at, "must be of printable ASCII: it goes into a header")
			return ""
		}
	}
	switch {
	case len(id) > maxID:
		p.wrong(at, "has %d bytes, and %d are the limit", len(id), maxID)
	case strings.TrimSpace(id) != id:
		p.wrong(at, "must not begin or end with a space")
	}
	return id
}

// signer reads the name of a secret. One that is not known now would be a call that can never be
// sent, and one that is empty a call that is sent unsigned.
func (p *parser) signer(raw json.RawMessage) string {
	p.notEmpty("sign", raw, "a call that is not signed")
	name := p.text("sign", raw)
	if name != "" && len(p.secrets[name]) == 0 {
		p.wrong("sign", "%q is no secret that is configured", clip(name))
	}
	return name
}

// stopOn reads the statuses after which no try helps. Where nobody says any it is 410, Gone, by
// which Standard Webhooks has a receiver say that it wants no more. An empty list is none.
func (p *parser) stopOn(raw json.RawMessage) []int {
	entries, ok := p.list("stop_on", raw)
	if !ok {
		return []int{http.StatusGone}
	}
	codes := []int{}
	for i, entry := range entries {
		at := fmt.Sprintf("stop_on[%d]", i)
		n, err := strconv.Atoi(string(entry))
		switch {
		case kind(entry) != "a number":
			p.wrong(at, "must be a number, not %s", kind(entry))
		case err != nil || n < 300 || n > 599:
			p.wrong(at, "%s is no status within 300 to 599", clip(string(entry)))
		}
		codes = append(codes, n)
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}

// waitsOrWorkflow are a call's waits, its own or those of a workflow. Neither is a mistake: who
// forgot them would have a call that is tried once.
func (p *parser) waitsOrWorkflow(ctx context.Context, waits, workflow json.RawMessage) []span {
	var all []time.Duration
	switch {
	case waits == nil && workflow == nil:
		p.wrong("waits", `is required, or workflow: as ["5s","1m","1h"]; [] is for a single try`)
	case waits != nil && workflow != nil: // what is wrong in each of them is told, too
		p.wrong("workflow", "stands beside waits: keep one")
	}
	if workflow != nil {
		all = p.workflow(ctx, "workflow", p.text("workflow", workflow), "")
	}
	if waits != nil {
		all = p.waits(waits)
	}
	return spans(all)
}

// waits reads a call's own waits.
func (p *parser) waits(raw json.RawMessage) []time.Duration {
	entries, _ := p.list("waits", raw)
	if len(entries) > maxWaits {
		p.wrong("waits", "has %d, and %d are the limit", len(entries), maxWaits)
		return nil
	}
	all := make([]time.Duration, 0, len(entries))
	for i, entry := range entries {
		all = append(all, p.duration(fmt.Sprintf("waits[%d]", i), entry))
	}
	p.sum("waits", all)
	return all
}

// sum refuses waits that are too long together.
func (p *parser) sum(at string, waits []time.Duration) {
	sum := time.Duration(0)
	for _, w := range waits {
		sum += w
	}
	if sum > stepwell.LongestWait {
		p.wrong(at, "are %s together, and %s are the limit", sum, brief(stepwell.LongestWait))
	}
}

// workflow looks up the waits of a name. That there is none is the caller's mistake, and missing
// says so, empty: with what there is; that nobody knows is not.
func (p *parser) workflow(ctx context.Context, at, name, missing string) []time.Duration {
	waits, ok, err := p.records.Workflow(ctx, name)
	switch {
	case err != nil:
		p.unknown = err
	case !ok && missing == "":
		p.wrong(at, "%q is not there%s", clip(name), p.workflows())
	case !ok:
		p.wrong(at, missing, clip(name))
	}
	return waits
}

// workflows lists those that there are, for whoever named another one; empty where the records
// cannot tell.
func (p *parser) workflows() string {
	if r, ok := p.records.(interface{ known() string }); ok {
		return ": " + r.known()
	}
	return ""
}

// spans are waits as a call has them.
func spans(waits []time.Duration) []span {
	all := make([]span, 0, len(waits))
	for _, w := range waits {
		all = append(all, span(w))
	}
	return all
}

// request reads a request; nil: there is none. What is wrong in it is in the form.
func (p *parser) request(at string, raw json.RawMessage) *request {
	if raw == nil {
		return nil
	}
	m := p.object(at, raw, "method", "url", "headers", "body")
	p.notEmpty(join(at, "method"), m["method"], http.MethodPost)
	return &request{
		Method:  p.method(join(at, "method"), m["method"]),
		URL:     p.url(join(at, "url"), m["url"]),
		Headers: p.headers(join(at, "headers"), m["headers"]),
		Body:    m["body"],
	}
}

// method reads how a request is made, in any case of letters. CONNECT and TRACE are left out: they
// are for proxies, and show what a proxy has added.
func (p *parser) method(at string, raw json.RawMessage) string {
	methods := []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions}
	method := strings.ToUpper(p.text(at, raw))
	if method != "" && !slices.Contains(methods, method) {
		p.wrong(at, "%q is none of %s", clip(method), strings.Join(methods, ", "))
	}
	return cmp.Or(method, http.MethodPost)
}

// url reads where a request goes. What is in no URL that can be called is refused here, and what
// its host may not be.
func (p *parser) url(at string, raw json.RawMessage) string {
	text := p.text(at, raw)
	u, err := url.Parse(text)
	switch {
	case text == "":
		p.wrong(at, "is required, as \"https://example.com/hook\"")
	case len(text) > maxURL:
		p.wrong(at, "has %d bytes, and %d are the limit", len(text), maxURL)
	case err != nil:
		p.wrong(at, "is no URL as https://example.com/hook")
	case u.Scheme != "http" && u.Scheme != "https", u.Opaque != "", u.Hostname() == "":
		p.wrong(at, "must begin with https:// or http:// and a host")
	case u.User != nil:
		p.wrong(at, "must have no user and password: put them into a header, Authorization")
	case !validHost(u):
		p.wrong(at, "has a host or port that cannot be dialled; a name that is not ASCII is written with xn--")
	default:
		if err := p.hosts.early(u.Hostname()); err != nil {
			p.wrong(at, "%v; hosts that may be called are a setting of this service", err)
		}
	}
	return text
}

// validHost says whether the host can be dialled: it is an address or a name of the DNS, with a
// port or without.
func validHost(u *url.URL) bool {
	if port := u.Port(); port != "" || strings.HasSuffix(u.Host, ":") {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return false
		}
	}
	if _, err := netip.ParseAddr(u.Hostname()); err == nil {
		return true
	}
	return isHostName(strings.TrimSuffix(strings.ToLower(u.Hostname()), "."))
}

// headers reads header fields, each with a text or a list of texts. What would end a field and
// begin another is refused.
func (p *parser) headers(at string, raw json.RawMessage) http.Header {
	if raw == nil {
		return nil
	}
	all := http.Header{}
	members := p.object(at, raw)
	if len(members) > maxHeaders {
		p.wrong(at, "has %d, and %d are the limit", len(members), maxHeaders)
		return nil
	}
	for name, value := range members {
		field := join(at, clip(name))
		if why := refusedHeader(name); why != "" {
			p.wrong(field, "%s", why)
			continue
		}
		values := []json.RawMessage{value}
		if kind(value) == "a list" {
			values, _ = p.list(field, value)
		}
		if len(values) > maxHeaders {
			p.wrong(field, "has %d values, and %d are the limit", len(values), maxHeaders)
			continue
		}
		for _, v := range values {
			text := p.text(field, v)
			if len(text) > maxHeaderLen || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
				p.wrong(field, "must be of at most %d bytes, without line breaks and other control characters", maxHeaderLen)
			}
			all.Add(name, text)
		}
	}
	return all
}

// refusedHeader says why a header cannot be sent; empty: it can. Those of the connection would let
// a caller send two requests where one is seen, or have the body read in another way.
func refusedHeader(name string) string {
	if name == "" || strings.Trim(name, "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
		return "is no name that a header can have"
	}
	switch http.CanonicalHeaderKey(name) {
	case "Host":
		return "is the URL's host, and nothing else"
	case "Connection", "Content-Length", "Expect", "Keep-Alive", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return "is about a connection, which is not the caller's to say"
	case headerTimestamp, headerSignature:
		return "is made by sign"
	}
	return ""
}
