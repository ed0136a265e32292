package envelope

import (
	"bytes"
	"compress/gzip"
	"maps"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/queue"
)

// Encode lays the envelope out. Its headers are at most [MaxHeaders]: where they would be more, the record's own key and headers
// move into the body if they and the error alone are too many; then the history is cut, then the stack, then the error, then Extra.
func (e *Envelope) Encode() queue.Message {
	m := &e.Message
	h := e.base()
	problem := clean(e.Failure.Error, maxError)
	framed := recordSize(m) > MaxHeaders/2 && sizeOf(h)+sizeOf(addOwn(map[string]any{}, m))+fieldSize(hError, problem) > MaxHeaders
	if !framed {
		addOwn(h, m)
	}
	var body []byte
	switch {
	case e.Pointer: // key and headers that do not fit are left out too: they rest with the value
		h[hPointer], h[hSize] = true, e.Size
	case framed:
		h[hLayout], body = layoutFramed, frame(m)
	default:
		body = m.Value
	}
	if m.Value == nil {
		h[hNilValue] = true
	}
	if e.Compressed && !e.Pointer && len(body) <= maxInflated {
		h[hEncoding], body = encodingGzip, deflate(body)
	}
	extra := extras(e.Extra)
	maps.Copy(h, extra)
	e.addFailure(h, problem)
	if over := sizeOf(h) - MaxHeaders; over > 0 {
		e.shrink(h)
		fit(h, MaxHeaders, extra)
	}
	return queue.Message{ID: e.id(), Headers: h, Body: body}
}

// base are the headers whose size has a small bound.
func (e *Envelope) base() map[string]any {
	m := &e.Message
	const most = 32 // headers, but for Extra
	h := make(map[string]any, most)
	h[hVersion] = version
	h[hTopic], h[hPartition], h[hOffset] = m.Origin.Topic, int64(m.Origin.Partition), m.Origin.Offset
	h[hAttempt] = int64(m.Attempt)
	if m.Replays != 0 {
		h[hReplays] = int64(m.Replays)
	}
	if e.AttemptsTotal != e.made() {
		h[hAttemptsTotal] = int64(e.AttemptsTotal)
	}
	texts := [...]struct {
		name, text string
		max        int
	}{
		{hStream, m.Stream, maxShort}, {hChannel, m.Channel, maxShort},
		{hReason, e.Failure.Reason, maxShort}, {hErrorType, e.Failure.ErrorType, maxShort},
		{hTraceParent, e.TraceParent, maxShort},
	}
	for _, t := range texts {
		if t.text != "" {
			h[t.name] = clean(t.text, t.max)
		}
	}
	if e.TraceState != "" && len(e.TraceState) <= maxState { // a part of it would be worth nothing
		h[hTraceState] = e.TraceState
	}
	first := m.FirstFailed
	if first.Equal(e.Failure.At) {
		first = time.Time{}
	}
	times := [...]struct {
		name string
		at   time.Time
	}{{hTimestamp, m.Time}, {hFirstFailed, first}, {hFailedAt, e.Failure.At}, {hDiedAt, e.DiedAt}}
	for _, t := range times {
		if !t.at.IsZero() {
			h[t.name] = timeValue(t.at)
		}
	}
	return h
}

// addOwn adds the record's key and headers.
func addOwn(h map[string]any, m *stepwell.Message) map[string]any {
	if m.Key != nil {
		h[hKey] = m.Key
	}
	if len(m.Headers) == 0 {
		return h
	}
	flat := make([]any, 0, 2*len(m.Headers))
	for _, header := range m.Headers {
		if header.Value == nil {
			flat = append(flat, header.Key, nil)
			continue
		}
		flat = append(flat, header.Key, header.Value)
	}
	h[hHeaders] = flat
	return h
}

// addFailure adds the headers that may be cut.
func (e *Envelope) addFailure(h map[string]any, problem string) {
	if problem != "" {
		h[hError] = problem
	}
	if e.Failure.Stack != "" {
		h[hStack] = cleanLines(e.Failure.Stack, maxStack)
	}
	if history := e.earlier(); len(history) > 0 {
		flat := make([]any, 0, 3*len(history))
		for _, t := range history {
			flat = append(flat, int64(t.Attempt), timeValue(t.At), clean(t.Error, maxShort))
		}
		h[hHistory] = flat
	}
}

// earlier are the last tries but the one that the other headers tell of.
func (e *Envelope) earlier() []Try {
	history := e.History[max(0, len(e.History)-MaxHistory):]
	n := len(history) - 1
	if n >= 0 && !e.Failure.At.IsZero() && history[n].same(e.last()) {
		return history[:n]
	}
	return history
}

// shrink cuts what explains the failure until the headers fit: the oldest tries, then the stack, then the error.
func (e *Envelope) shrink(h map[string]any) {
	for sizeOf(h) > MaxHeaders {
		history, _ := h[hHistory].([]any)
		if len(history) <= 3 {
			delete(h, hHistory)
			break
		}
		h[hHistory] = history[3:]
	}
	for _, name := range []string{hStack, hError} {
		over := sizeOf(h) - MaxHeaders
		text, _ := h[name].(string)
		if over <= 0 || text == "" {
			continue
		}
		if h[name] = cut(text, max(0, len(text)-over)); h[name] == "" {
			delete(h, name)
		}
	}
}

// id is the AMQP message-id.
func (e *Envelope) id() string {
	if id := e.Message.ID; id != "" && len(id) <= maxName {
		return id
	}
	o := e.Message.Origin
	return ID(o.Topic, o.Partition, o.Offset)
}

func deflate(body []byte) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed) // the level is valid
	_, _ = w.Write(body)                            // a buffer takes everything
	_ = w.Close()
	return b.Bytes()
}
