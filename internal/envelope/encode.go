package envelope

import (
	"bytes"
	"compress/gzip"
	"maps"
	"strconv"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/queue"
)

// smallHeaders is more than a group, a wait and a [Mark] take, with what is added to the head.
const smallHeaders = 1 << 10

// Encode lays the envelope out. Its headers are at most [MaxHeaders]: where they would be more, the
// record's own key and headers move into the body if they are too many beside the error, the trace
// state and what is always small; then the history is cut, then the stack, then the error, then
// Extra. What came from a stranger's queue gets its Token here, the first time.
func (e *Envelope) Encode() queue.Message {
	m := &e.Message
	if m.Origin.Queue != nil && e.Token == "" {
		e.Token = NewToken()
	}
	// No size is given: those of nearly all messages fit into the small map that Go makes first.
	h := map[string]any{}
	head := e.appendHead(make([]byte, 0, 320))
	addOwn(h, m)
	problem := abridged(e.Failure.Error, maxError)
	// The size is estimated first, which is cheap and says no for almost every message.
	framed := recordSize(m) > MaxHeaders/2 && len(head)+sizeOf(h)+len(problem)+min(len(e.TraceState), maxState)+smallHeaders > MaxHeaders
	if framed {
		// Key and headers go into the body, so that they are not in h twice.
		clear(h)
	}
	body := m.Value
	switch {
	case e.Pointer: // key and headers that do not fit are left out too: they rest with the value
		head, body = appendNumber(head, wPointer, e.Size), nil
	case framed:
		head, body = append(appendName(head, wLayout), layoutFramed...), frame(m)
	}
	if m.Value == nil {
		head = append(appendName(head, wValue), valueNil...)
	}
	// Last of all, since it is what is done with the body as it stands; what inflate would refuse
	// is not compressed, and what has no air in it would only become larger.
	if e.Compressed && !e.Pointer && len(body) <= maxInflated {
		if small := deflate(body); len(small) < len(body) {
			head, body = append(appendName(head, wEncoding), encodingGzip...), small
		}
	}
	h[hHead] = string(head)
	if e.Wait.Remaining > 0 {
		h[hWait] = e.Wait.text()
	}
	e.addFailure(h, problem)
	// After our own headers, so that a foreign one counts only for what is left of the room.
	extra := extras(e.Extra)
	maps.Copy(h, extra)
	if sizeOf(h) > MaxHeaders {
		e.shrink(h)
		fit(h, extra)
	}
	return queue.Message{ID: e.id(), Headers: h, Body: body}
}

// addOwn adds the record's key and headers. A missing key has no header; a missing value of a
// header is nil in the list, and comes back as nil.
func addOwn(h map[string]any, m *stepwell.Message) {
	if m.Key != nil {
		h[hKey] = m.Key
	}
	if len(m.Headers) == 0 {
		return
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
}

// addFailure adds what may be cut, and the trace state, of which a part would be worth nothing.
func (e *Envelope) addFailure(h map[string]any, problem string) {
	if problem != "" {
		h[hError] = problem
	}
	if e.Failure.Stack != "" {
		h[hStack] = cleanKeeping(e.Failure.Stack, maxStack, "\n\t")
	}
	if e.Failure.Group != "" {
		h[hGroup] = clean(e.Failure.Group, maxShort)
	}
	if history := e.earlier(); len(history) > 0 {
		h[hHistory] = lines(history)
		if runs := runs(history); runs != "" {
			h[hRuns] = runs
		}
	}
	if e.TraceState != "" && len(e.TraceState) <= maxState {
		h[hTraceState] = e.TraceState
	}
}

// lines are tries as text, a line each.
func lines(history []Try) string {
	b := make([]byte, 0, 64*len(history))
	for i, t := range history {
		if i > 0 {
			b = append(b, '\n')
		}
		b = append(appendInstant(append(strconv.AppendInt(b, int64(t.Attempt), 10), ' '), t.At), ' ')
		b = append(b, abridged(t.Error, maxShort)...)
	}
	return string(b)
}

// earlier are the last tries but the one that the other headers tell of.
func (e *Envelope) earlier() []Try {
	// Of a longer history the oldest go.
	history := e.History[max(0, len(e.History)-MaxHistory):]
	n := len(history) - 1
	if n >= 0 && !e.Failure.At.IsZero() && history[n].same(e.last()) {
		return history[:n]
	}
	return history
}

// shrink cuts what explains the failure until the headers fit: how earlier tries were made, the
// oldest tries, then the stack, then the error.
func (e *Envelope) shrink(h map[string]any) {
	delete(h, hRuns)
	for sizeOf(h) > MaxHeaders {
		history, _ := h[hHistory].(string)
		_, later, more := strings.Cut(history, "\n")
		if !more {
			delete(h, hHistory)
			break
		}
		h[hHistory] = later
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

// id is the AMQP message-id. Without a position there is nothing to name a message by but its
// token: topic:partition:offset would be one id for all of these.
func (e *Envelope) id() string {
	if id := e.Message.ID; id != "" && len(id) <= maxName {
		return id
	}
	if !e.HasPosition() && e.Token != "" && len(e.Token) <= maxName {
		return e.Token
	}
	o := e.Message.Origin
	return ID(o.Topic, o.Partition, o.Offset)
}

// deflate compresses at the fastest level: the body only has to get below the broker's limit.
func deflate(body []byte) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed) // the level is valid
	_, _ = w.Write(body)                            // a buffer takes everything
	_ = w.Close()
	return b.Bytes()
}
