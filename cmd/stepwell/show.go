package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// show is stepwell dead-set show.
type show struct {
	ID      string  `arg:"" help:"The message's id."`
	Stream  string  `help:"The stream-id." required:"" short:"s"`
	Channel *string `help:"One of the stream's channels; default: the stream itself." short:"c"`
	Part    string  `help:"Write only the bytes of the record's key or value, as they are." enum:",key,value" default:"" placeholder:"key|value"`
}

// one is all that is shown of a message.
type one struct {
	dead
	Partition int32           `json:"partition"`
	Offset    int64           `json:"offset"`
	Headers   json.RawMessage `json:"headers"`
	Group     string          `json:"group"`
	ErrorType string          `json:"error_type"`
	Stack     string          `json:"stack"`
	TraceID   string          `json:"trace_id"`
	Missing   string          `json:"value_error"`
	Truncated bool            `json:"truncated"`
	Size      int64           `json:"size"`
	Copies    int             `json:"copies"`
	Tries     []try           `json:"tries"`
	TraceURL  string          `json:"trace_url"`
}

// try is a try that failed.
type try struct {
	Attempt    int       `json:"attempt"`
	At         time.Time `json:"at"`
	Error      string    `json:"error"`
	ErrorType  string    `json:"error_type"`
	DurationMS float64   `json:"duration_ms"`
	Instance   string    `json:"instance"`
	AppVersion string    `json:"app_version"`
	TraceID    string    `json:"trace_id"`
	TraceURL   string    `json:"trace_url"`
}

// text is all that is known of it, in a line.
func (t try) text() string {
	words := []string{when(t.At)}
	if t.DurationMS > 0 {
		words = append(words, strconv.FormatFloat(t.DurationMS, 'f', -1, 64)+" ms")
	}
	if process := strings.TrimSpace(t.Instance + " " + t.AppVersion); process != "" {
		words = append(words, process)
	}
	if trace := cmp.Or(t.TraceURL, t.TraceID); trace != "" {
		words = append(words, trace)
	}
	return strings.Join(append(words, strings.TrimSpace(t.ErrorType+"  "+t.Error)), "  ")
}

// Validate is called by kong before Run.
func (c *show) Validate() error {
	if c.Channel != nil && *c.Channel == "" {
		return empty("channel")
	}
	return nil
}

// Run prints one message for a person, or with --part the bytes of its key or value, for a file.
func (c *show) Run(ctx context.Context, a *actor) error {
	path, q := "/v1/dead_set/messages/"+url.PathEscape(c.ID), url.Values{"stream": {c.Stream}}
	if c.Channel != nil {
		q.Set("channel", *c.Channel)
	}
	if c.Part != "" {
		q.Set("part", c.Part)
		part, err := a.send(ctx, "GET", path, q)
		if err != nil {
			return err
		}
		return a.write(part)
	}
	var whole json.RawMessage
	if err := a.get(ctx, path, q, &whole); err != nil {
		return err
	}
	if a.json {
		return a.line(whole)
	}
	var m one
	if err := read(whole, &m); err != nil {
		return err
	}
	return a.write([]byte(m.text()))
}

// write writes bytes as they are.
func (a *actor) write(b []byte) error {
	if _, err := a.out.Write(b); err != nil {
		return fmt.Errorf("print the message: %w", err)
	}
	return nil
}

// text is the message for a person: a line for each thing that is known, the value and the stack
// below.
func (m *one) text() string {
	row := m.row()
	lines := [][2]string{
		{"id", m.ID}, {"record", m.record()}, {"queue", m.source()},
		{"key", row[keyColumn]}, {"headers", string(m.Headers)}, {"cause", m.Group},
		{"died", when(m.DiedAt)}, {"reason", m.Reason}, {"error", m.Error}, {"type", m.ErrorType}, {"trace", cmp.Or(m.TraceURL, m.TraceID)},
		{"tries", strconv.Itoa(m.Attempts)}, {"replays", strconv.Itoa(m.Replays)}, {"copies", strconv.Itoa(m.Copies)},
	}
	for _, t := range m.Tries {
		lines = append(lines, [2]string{"try " + strconv.Itoa(t.Attempt), t.text()})
	}
	lines = append(lines, [2]string{"value", m.about()})
	var b strings.Builder
	for _, line := range lines {
		if line[1] != "" && line[1] != "[]" {
			fmt.Fprintf(&b, "%-8s %s\n", line[0], harmless(strings.ReplaceAll(line[1], "\n", " ")))
		}
	}
	for _, block := range []string{m.whole(), m.Stack} {
		if block != "" {
			fmt.Fprintf(&b, "\n%s\n", harmless(strings.TrimRight(block, "\n")))
		}
	}
	return b.String()
}

// record is where Kafka has it; empty: it did not come from there.
func (m *one) record() string {
	if m.Topic == "" {
		return ""
	}
	return fmt.Sprintf("%s, partition %d, offset %d", m.Topic, m.Partition, m.Offset)
}

// source is the queue of RabbitMQ that it came from, and how it got there; empty: from none.
func (m *one) source() string {
	switch {
	case m.Queue == "":
		return ""
	case m.Exchange == "": // RabbitMQ's own: the key is the queue
		return m.Queue
	}
	return fmt.Sprintf("%s, exchange %s, routing key %s", m.Queue, m.Exchange, m.RoutingKey)
}

// about says what the value below is.
func (m *one) about() string {
	switch {
	case m.Hidden:
		return "hidden from you, as key and headers are (DEAD_SET_VALUES)"
	case m.Missing != "":
		return m.Missing
	case m.Encoding == "":
		return "null"
	case m.Truncated:
		return fmt.Sprintf("%d bytes, %s, cut: --part value writes all", m.Size, m.Encoding)
	}
	return fmt.Sprintf("%d bytes, %s", m.Size, m.Encoding)
}

// whole is the value as far as the actor shows it.
func (m *one) whole() string {
	if m.Encoding == "json" {
		var pretty bytes.Buffer
		if json.Indent(&pretty, m.Value, "", "  ") == nil {
			return pretty.String()
		}
	}
	var text *string
	if json.Unmarshal(m.Value, &text) != nil || text == nil {
		return ""
	}
	return *text
}

// harmless is text without what a terminal would obey.
func harmless(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) && r != '\n' && r != '\t' {
			return ' '
		}
		return r
	}, text)
}
