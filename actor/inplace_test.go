package actor_test

import (
	"context"
	"errors"
	"maps"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
)

// scribbler notes each message as it comes, then changes it by scribble and fails.
func scribbler(c *calls, scribble func(m *stepwell.Message)) stepwell.Handler {
	return func(_ context.Context, m *stepwell.Message) error {
		c.add(m.Clone())
		scribble(m)
		return errors.New("no")
	}
}

func TestWhatAHandlerWritesIntoAMessageIsNotWhatIsTriedNext(t *testing.T) {
	record := func() *kgo.Record {
		return &kgo.Record{Partition: 0, Key: []byte("key"), Value: []byte("value"), Headers: []kgo.RecordHeader{
			{Key: "a", Value: []byte("1")}, {Key: "b", Value: []byte("2")},
		}}
	}
	headers := func(m *stepwell.Message) {
		m.Headers[0] = stepwell.Header{Key: "other", Value: []byte("changed")}
		m.Headers = append(m.Headers[:1], stepwell.Header{Key: "more"})
	}
	all := func(m *stepwell.Message) {
		for _, b := range [][]byte{m.Key, m.Value, m.Headers[0].Value, m.Headers[1].Value} {
			b[0] = '#'
		}
		headers(m)
	}
	for name, test := range map[string]struct {
		scribble func(m *stepwell.Message)
		env      settings
	}{
		"the list of headers":             {headers, settings{}},
		"the list of headers, in place":   {headers, settings{"RETRY_ENABLED": "false"}},
		"all bytes with a copy":           {all, settings{"HANDLER_COPY": "true"}},
		"all bytes with a copy, in place": {all, settings{"HANDLER_COPY": "true", "RETRY_ENABLED": "false"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := embeddedWorld(t)
			var c calls
			env := settings{"RETRY_COUNT": "2", "CONCURRENCY": "1"}
			maps.Copy(env, test.env)
			r := w.start(orders(scribbler(&c, test.scribble)), env)
			sent := []*kgo.Record{record(), record()}
			w.produce(sent...)
			eventually(t, "three tries of both", func() bool { return len(c.all()) >= 6 })
			for _, s := range c.all() {
				if diff := differs(sent[s.m.Origin.Offset], &s.m); diff != "" {
					t.Errorf("attempt %d: another %s", s.m.Attempt, diff)
				}
			}
			if test.env["RETRY_ENABLED"] == "" {
				for _, m := range r.deadCount(2) {
					if m["value"] != "value" || m["key"] != "key" {
						t.Errorf("in the dead set: %v", m)
					}
				}
			}
			r.end()
		})
	}
}
