package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// peek is stepwell dead-set peek.
type peek struct{ which }

// dead is what the table shows of a message.
type dead struct {
	ID          string          `json:"id"`
	Topic       string          `json:"topic"`
	Queue       string          `json:"queue"`
	Exchange    string          `json:"exchange"`
	RoutingKey  string          `json:"routing_key"`
	Key         *string         `json:"key"`
	KeyEncoding string          `json:"key_encoding"`
	Value       json.RawMessage `json:"value"`
	Encoding    string          `json:"encoding"`
	Hidden      bool            `json:"hidden"`
	Attempts    int             `json:"attempts_total"`
	Replays     int             `json:"replays"`
	DiedAt      time.Time       `json:"died_at"`
	Reason      string          `json:"reason"`
	Error       string          `json:"error"`
}

// Run prints a table, or with --json each message as the actor sent it.
func (c *peek) Run(ctx context.Context, a *actor) error {
	var page struct {
		Messages []json.RawMessage `json:"messages"`
		Depth    int               `json:"depth"`
		Cut      bool              `json:"cut"`
	}
	if err := a.get(ctx, "/v1/dead_set", c.query(), &page); err != nil {
		return err
	}
	// To standard error: what is piped on has messages alone.
	if page.Cut {
		defer fmt.Fprintf(a.errs, "the oldest %d of %d: one answer shows no more\n", len(page.Messages), page.Depth)
	}
	rows, err := rowsOf(a, page.Messages, dead.row)
	if err != nil || a.json {
		return err
	}
	return a.deadTable(rows)
}

// deadTable prints rows of dead messages.
func (a *actor) deadTable(rows [][]string) error {
	return a.table([]string{"ID", "DIED", "TRIES", "REPLAYS", "REASON", "FROM", "KEY", "VALUE", "ERROR"}, rows)
}

// keyColumn is where the key stands in it.
const keyColumn = 6

// row is the message in a table, with key and value cut to a few words.
func (m dead) row() []string {
	const keyShown, valueShown = 24, 60
	key := "-"
	if m.Key != nil {
		key = encoded(short(*m.Key, keyShown), m.KeyEncoding)
	}
	value := string(m.Value)
	if m.Encoding != "json" {
		var text *string
		if err := json.Unmarshal(m.Value, &text); err == nil && text != nil {
			value = *text
		}
	}
	if m.Hidden {
		key, value = "(hidden)", "(hidden)"
	}
	return []string{
		m.ID, when(m.DiedAt), strconv.Itoa(m.Attempts), strconv.Itoa(m.Replays), m.Reason, m.from(),
		key, encoded(short(value, valueShown), m.Encoding), m.Error,
	}
}

// from is the topic that the message came from; or the exchange, with its routing key, since the
// queue is the same for all of a stream; or a queue.
func (m dead) from() string {
	switch {
	case m.Exchange != "":
		return m.Exchange + " " + m.RoutingKey
	case m.Queue != "":
		return m.Queue
	}
	return cmp.Or(m.Topic, "-")
}

// encoded is a key or a value as a table shows it: one that is no text says that it is encoded.
func encoded(shown, encoding string) string {
	if encoding == "base64" {
		return "base64:" + shown
	}
	return shown
}

// shownAs is how a table shows a time: in UTC, as the actor's log and its answers have it.
const shownAs = "2006-01-02 15:04:05Z"

// when is a time as a table shows it.
func when(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(shownAs)
}
