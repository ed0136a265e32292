package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// This file has the two calls of the REST retrier whose users come here: they work as they stand.

// defaultWorkflow is that of calls which name none.
const defaultWorkflow = "default"

// groupNote is told to whoever gives a group_id: a field that is read and does nothing would look
// like a promise.
const groupNote = "group_id keeps no order here: calls of one group are made at once where they come at once"

// retry reads the body of POST /retry; workflow is that of its header, empty: it has none. The
// first try comes after the workflow's first delay, and each other delay is a wait: as many tries
// as delays. Any status but 2xx is tried again.
func (p *parser) retry(ctx context.Context, raw []byte, workflow string) accepted {
	m := p.body(raw, "message_id", "group_id", "retry_request", "retry_failure_request")
	if m == nil {
		return accepted{}
	}
	a := accepted{call: &call{ID: p.callID(ctx, "message_id", m["message_id"])}}
	if r := p.restRequest("retry_request", m["retry_request"]); r != nil {
		a.call.Request = *r
	} else if m["retry_request"] == nil {
		p.wrong("retry_request", `is required, as {"request_type":"POST","url":"https://example.com/hook","request_body":{},"headers":{"h":["v"]}}`)
	}
	a.call.OnFailure = p.restRequest("retry_failure_request", m["retry_failure_request"])
	if m["group_id"] != nil {
		a.notes = append(a.notes, groupNote)
	}
	delays := p.restWorkflow(ctx, workflow)
	if len(delays) > 0 {
		a.after, a.call.Waits = delays[0], spans(delays[1:])
	}
	return a
}

// noDefault is told to a caller who named no workflow, where nobody has made the one that is taken
// then.
const noDefault = "was not sent, or is empty, so workflow %q is taken, and there is none: make it by POST /retry_workflow with that name, or in the configuration (APP_WORKFLOWS_DEFAULT)"

// restWorkflow looks up the delays of a call; name is that of its header, empty: it has none.
func (p *parser) restWorkflow(ctx context.Context, name string) []time.Duration {
	const header = "x-retry-workflow"
	if name == "" {
		return p.workflow(ctx, header, defaultWorkflow, noDefault)
	}
	return p.workflow(ctx, header, name, "")
}

// restRequest reads a request in the words of the REST retrier; nil: there is none. All that holds
// for requests of /calls holds for it.
func (p *parser) restRequest(at string, raw json.RawMessage) *request {
	if raw == nil {
		return nil
	}
	m := p.object(at, raw, "request_type", "request_body", "url", "headers")
	return &request{
		Method:  p.method(join(at, "request_type"), m["request_type"]),
		URL:     p.url(join(at, "url"), m["url"]),
		Headers: p.headers(join(at, "headers"), m["headers"]),
		Body:    m["request_body"],
	}
}

// retryWorkflow reads the body of POST /retry_workflow: a name, and delays in milliseconds, of
// which there is at least one, since each stands for a try.
func (p *parser) retryWorkflow(raw []byte) (name string, delays []time.Duration) {
	m := p.body(raw, "name", "retry_delays")
	if m == nil {
		return "", nil
	}
	if name = p.text("name", m["name"]); !isName(name) {
		p.wrong("name", "must be of letters, digits, -, _ and full stops, at most %d of them", maxName)
	}
	entries, ok := p.list("retry_delays", m["retry_delays"])
	switch {
	case m["retry_delays"] == nil, ok && len(entries) == 0:
		p.wrong("retry_delays", "must have a delay for each try, in milliseconds, as [5000,10000,15000]")
	case len(entries) > maxWaits:
		p.wrong("retry_delays", "has %d, and %d are the limit", len(entries), maxWaits)
		return name, nil
	}
	for i, entry := range entries {
		delays = append(delays, p.milliseconds(fmt.Sprintf("retry_delays[%d]", i), entry))
	}
	p.sum("retry_delays", delays)
	return name, delays
}
