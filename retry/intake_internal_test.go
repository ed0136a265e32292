package retry

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/queue"
)

// payments is the owner of a queue of that name.
func payments(t *testing.T) stranger {
	t.Helper()
	topology, err := NewTopology("app", "jobs", nil, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	return stranger{&parking{topology: topology}, "payments", "jobs"}
}

// A classic queue counts no returns, so that a message that kills the process would end each one
// that takes it: what came back is called from a queue that counts.
func TestWhatCameBackToAQueueOfSomebodyElsesGoesToTheInstantQueueAndNothingElseDoes(t *testing.T) {
	const sure = 64 << 10
	for name, test := range map[string]struct {
		redelivered bool
		bytes       int
		compressed  bool
	}{
		"its first time":                     {false, 10, false},
		"it came back":                       {true, 10, false},
		"it came back, and fits for certain": {true, sure, false},
		"it came back, and might not fit":    {true, sure + 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := payments(t)
			value := bytes.Repeat([]byte("x"), test.bytes)
			to, m, came := s.divert(t.Context(), queue.Delivery{
				Message: queue.Message{ID: "p-1", Body: value}, Redelivered: test.redelivered, Foreign: &queue.Foreign{RoutingKey: "payments"},
			})
			if came != test.redelivered {
				t.Fatalf("moved: %t", came)
			}
			if !came {
				return
			}
			e, err := envelope.Decode(m)
			if err != nil {
				t.Fatal(err)
			}
			if to != s.topology.Instant || e.Message.Attempt != 1 || e.Message.ID != "p-1" || !bytes.Equal(e.Message.Value, value) || e.Message.Origin.Queue == nil || e.Message.Origin.Queue.Name != "payments" {
				t.Errorf("%s is sent to %s, attempt %d, from %+v", e.Message.ID, to, e.Message.Attempt, e.Message.Origin)
			}
			if e.Compressed != test.compressed || (len(m.Body) < test.bytes) != test.compressed {
				t.Errorf("compressed: %t, with %d bytes of %d", e.Compressed, len(m.Body), test.bytes)
			}
		})
	}
}

func TestWhatAStrangerLeavesOutOfItsMessageIsFilledIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := payments(t)
		year := func(y int) time.Time { return time.Date(y, 12, 31, 23, 0, 0, 0, time.UTC) }
		for name, test := range map[string]struct{ says, want time.Time }{
			"no time":              {time.Time{}, time.Now()},
			"an ordinary time":     {year(2026), year(2026)},
			"the first year":       {year(0), year(0)},
			"one before it":        {year(-1), time.Now()},
			"the last year":        {year(9999), year(9999)},
			"one that no text has": {year(10000), time.Now()},
		} {
			e := s.read(queue.Delivery{Message: queue.Message{ID: "p-1"}, Foreign: &queue.Foreign{Time: test.says}})
			if !e.Message.Time.Equal(test.want) {
				t.Errorf("%s: %s, want %s", name, e.Message.Time, test.want)
			}
			if e.Message.Value == nil || len(e.Message.Value) > 0 || e.Message.ID != "p-1" || e.Token != "" {
				t.Errorf("%s: value %v, id %s, token %q", name, e.Message.Value, e.Message.ID, e.Token)
			}
		}
	})
}

// Two without an id are two, however alike they are.
func TestMessagesOfAStrangerWithoutAnIDAreToldApart(t *testing.T) {
	s := payments(t)
	ids := map[string]bool{}
	for range 100 {
		e := s.read(queue.Delivery{Message: queue.Message{Body: []byte("x")}, Foreign: &queue.Foreign{}})
		if rest, ok := strings.CutPrefix(e.Message.ID, "payments:"); !ok || rest != e.Token || len(rest) < 20 {
			t.Fatalf("id %s, token %s", e.Message.ID, e.Token)
		}
		ids[e.Message.ID] = true
	}
	if len(ids) != 100 {
		t.Errorf("%d ids of 100 messages", len(ids))
	}
}

func TestPropertiesOfAStrangersMessageAreHeadersAheadOfItsOwn(t *testing.T) {
	of := func(headers map[string]any) []stepwell.Header {
		return payments(t).read(queue.Delivery{
			Message: queue.Message{ID: "p-1", Headers: headers},
			Foreign: &queue.Foreign{Properties: []queue.Property{{Name: "user-id", Value: "shop"}, {Name: "expiration", Value: "60000"}}},
		}).Message.Headers
	}
	header := func(key, value string) stepwell.Header { return stepwell.Header{Key: key, Value: []byte(value)} }
	properties := []stepwell.Header{header("user-id", "shop"), header("expiration", "60000")}
	for name, test := range map[string]struct {
		headers map[string]any
		want    []stepwell.Header
	}{
		"none":                  {nil, nil},
		"in the order of names": {map[string]any{"b": "2", "a": []byte("1"), "c": int64(3)}, []stepwell.Header{header("a", "1"), header("b", "2"), header("c", "3")}},
		"one without a value":   {map[string]any{"a": nil}, []stepwell.Header{{Key: "a"}}},
		"what JSON cannot say":  {map[string]any{"a": math.Inf(1)}, []stepwell.Header{header("a", "+Inf")}},
		"a table":               {map[string]any{"a": map[string]any{"b": true}}, []stepwell.Header{header("a", `{"b":true}`)}},
	} {
		got := of(test.headers)
		want := append(slices.Clone(properties), test.want...)
		if !slices.EqualFunc(got, want, func(a, b stepwell.Header) bool {
			return a.Key == b.Key && bytes.Equal(a.Value, b.Value) && (a.Value == nil) == (b.Value == nil)
		}) {
			t.Errorf("%s: %q", name, got)
		}
	}
}
