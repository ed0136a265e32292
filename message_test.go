package stepwell_test

import (
	"bytes"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
)

func TestTheLastHeaderOfANameCounts(t *testing.T) {
	m := &stepwell.Message{Headers: []stepwell.Header{{Key: "a", Value: []byte("1")}, {Key: "b"}, {Key: "a", Value: []byte{}}}}
	if v, ok := m.Header("a"); !ok || v == nil || len(v) != 0 {
		t.Errorf("a is %q %v", v, ok)
	}
	if v, ok := m.Header("b"); !ok || v != nil {
		t.Errorf("b is %q %v, want nil, true", v, ok)
	}
	if _, ok := m.Header("A"); ok {
		t.Error("names are told apart by case")
	}
}

func TestALoggedMessageShowsNothingOfWhatIsInIt(t *testing.T) {
	m := &stepwell.Message{
		ID: "orders:0:7", Stream: "orders", Key: []byte("secret-key"), Value: []byte("secret-value"), Attempt: 2, Replays: 1,
		Headers: []stepwell.Header{{Key: "secret-name", Value: []byte("secret-header")}},
	}
	var out bytes.Buffer
	for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(h).Info("failed", "message", m)
	}
	for _, want := range []string{"message.id=orders:0:7", "message.stream=orders", "message.attempt=2", `"replays":1`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in %s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "secret") {
		t.Errorf("payload in the log: %s", out.String())
	}
}

func TestACloneIsTheSameMessageInMemoryOfItsOwn(t *testing.T) {
	m := &stepwell.Message{
		ID: "orders:0:7", Key: []byte{}, Value: []byte("value"), Attempt: 2,
		Headers: []stepwell.Header{{Key: "a", Value: []byte("1")}, {Key: "nil"}, {Key: "empty", Value: []byte{}}},
	}
	c := m.Clone()
	if !reflect.DeepEqual(c, m) {
		t.Fatalf("%+v, want %+v", c, m)
	}
	c.Value[0], c.Headers[0].Value[0], c.Headers[1].Key = '#', '#', "other"
	_ = append(c.Key, "grown"...)
	if string(m.Value) != "value" || string(m.Headers[0].Value) != "1" || m.Headers[1].Key != "nil" || string(c.Value) != "#alue" {
		t.Errorf("a change of the clone %+v reached %+v", c, m)
	}
	if n := (&stepwell.Message{}).Clone(); n.Key != nil || n.Value != nil || n.Headers != nil {
		t.Errorf("nil became %+v", n)
	}
}
