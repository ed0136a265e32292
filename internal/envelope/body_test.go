package envelope

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/queue"
)

// inTheBody is an envelope whose key and headers do not fit AMQP headers.
func inTheBody() *Envelope {
	e := hand()
	e.Message.Key = bytes.Repeat([]byte("k"), MaxHeaders)
	e.Message.Headers = []stepwell.Header{{Key: "a", Value: []byte("1")}, {Key: "b"}}
	return e
}

func TestARecordThatTravelsInTheBodyKeepsItsValue(t *testing.T) {
	for _, value := range [][]byte{[]byte("v"), {}, nil} {
		e := inTheBody()
		e.Message.Value = value
		if q, back := trip(t, e); !framed(q) || !sameRecord(&e.Message, &back.Message) {
			t.Errorf("framed: %t; the value %#v is %#v", framed(q), value, back.Message.Value)
		}
	}
}

// What is cut short must be buried: read as a smaller record it would be handled, and be gone.
func TestABodyThatWasCutShortIsUndecodableAndNoSmallerRecord(t *testing.T) {
	short := &stepwell.Message{Key: []byte("key"), Headers: []stepwell.Header{{Key: "name", Value: []byte("value")}, {Key: "n"}}}
	whole := frame(short) // its value, which may end anywhere, is empty
	for n := range len(whole) {
		if m := (stepwell.Message{}); unframe(&m, whole[:n]) == nil {
			t.Errorf("%d of %d bytes of a frame are %+v", n, len(whole), m)
		}
	}
	e := hand()
	e.Message.Value, e.Compressed = make([]byte, 1<<10), true
	q := e.Encode()
	for _, n := range []int{0, 5, len(q.Body) - 1} {
		if back, err := Decode(queue.Message{ID: q.ID, Headers: q.Headers, Body: q.Body[:n]}); !errors.Is(err, ErrUndecodable) {
			t.Errorf("%d of %d compressed bytes: %v, %v", n, len(q.Body), back, err)
		}
	}
}

func TestABodyOfZerosIsCompressed(t *testing.T) {
	e := hand()
	e.Message.Value, e.Compressed = make([]byte, 1<<20), true
	if q, back := trip(t, e); len(q.Body) > 1<<16 || !back.Compressed {
		t.Errorf("%d bytes, compressed: %t", len(q.Body), back.Compressed)
	}
}

func TestAnEmptyBodyIsAnEmptyValueHoweverTheClientSaysIt(t *testing.T) {
	e := hand()
	e.Message.Value = []byte{}
	for _, body := range [][]byte{nil, {}} {
		q := e.Encode()
		q.Body = body
		if back, err := Decode(q); err != nil || back.Message.Value == nil || len(back.Message.Value) > 0 {
			t.Errorf("%#v: %v, %v", body, back, err)
		}
	}
}

func TestWhatItsSourceSaidOfAMessageAndItsSnoozesTravel(t *testing.T) {
	e := hand()
	e.Message.Snoozes = 3
	e.Message.Origin = stepwell.Origin{Queue: &stepwell.QueueOrigin{Name: "their queue", Exchange: "ex=1", RoutingKey: "a.b%"}}
	_, back := trip(t, e)
	if back.Message.Snoozes != 3 || !reflect.DeepEqual(back.Message.Origin, e.Message.Origin) {
		t.Errorf("snoozes %d, %+v", back.Message.Snoozes, back.Message.Origin.Queue)
	}
}

func TestAReplayBeginsAnewWithAFullBudget(t *testing.T) {
	e := failed()
	e.Message.Attempt, e.Message.Replays, e.AttemptsTotal, e.Wait = 4, 1, 7, Wait{Remaining: 1, Whole: 1}
	e.DiedAt = e.Failure.At
	e.Replay()
	if e.Message.Attempt != 1 || e.Message.Replays != 2 || e.Failure != (Failure{}) || !e.DiedAt.IsZero() || e.Wait != (Wait{}) || e.AttemptsTotal != 7 {
		t.Errorf("%+v", e)
	}
}

// A broker gives back numbers in the width that it likes, and a frame that is too large costs the
// connection.
func TestForeignHeadersOfManyKindsAreKeptAsFarAsThereIsRoom(t *testing.T) {
	q := hand().Encode()
	for name, v := range map[string]any{"int32": int32(1), "int16": int16(1), "float32": float32(1), "int": 1} {
		q.Headers[name] = v
	}
	e, err := Decode(q)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"int32", "int16", "int"} {
		if v := e.Encode().Headers[name]; v != int64(1) {
			t.Errorf("%s is %T %v", name, v, v)
		}
	}
	if v := e.Encode().Headers["float32"]; v != float64(1) {
		t.Errorf("float32 is %T %v", v, v)
	}
	long := strings.Repeat("n", 200)
	for i := range 1000 {
		e.Extra[fmt.Sprint(long, i)] = "x"
	}
	bytes := 0
	for name, v := range e.Encode().Headers {
		bytes += len(name)
		if text, ok := v.(string); ok {
			bytes += len(text)
		}
	}
	if bytes > MaxHeaders || bytes < MaxHeaders/2 {
		t.Errorf("%d bytes of names and texts", bytes)
	}
}
