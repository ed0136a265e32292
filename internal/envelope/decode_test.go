package envelope

import (
	"bytes"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/internal/queue"
)

func TestHeadersOfAForeignClientAreReadWhateverTheirType(t *testing.T) {
	tests := []struct {
		name, header string
		value        any
		read         func(*Envelope) bool
	}{
		{"a short integer", hPartition, int16(9), func(e *Envelope) bool { return e.Message.Origin.Partition == 9 }},
		{"an integer as text", hOffset, "123", func(e *Envelope) bool { return e.Message.Origin.Offset == 123 }},
		{"an integer as a float", hAttempt, float64(4), func(e *Envelope) bool { return e.Message.Attempt == 4 }},
		{"a float of half the width", hReplays, float32(2), func(e *Envelope) bool { return e.Message.Replays == 2 }},
		{"text as bytes", hTopic, []byte("t"), func(e *Envelope) bool { return e.Message.Origin.Topic == "t" }},
		{"bytes as text", hKey, "k", func(e *Envelope) bool { return string(e.Message.Key) == "k" }},
		{"empty bytes as text", hKey, "", func(e *Envelope) bool { return e.Message.Key != nil }},
		{"a nil header is no header", hAttempt, nil, func(e *Envelope) bool { return e.Message.Attempt == 1 }},
		{"an AMQP timestamp", hTimestamp, time.Unix(5, 0), func(e *Envelope) bool { return e.Message.Time.Equal(time.Unix(5, 0)) }},
		{"milliseconds", hTimestamp, int64(5000), func(e *Envelope) bool { return e.Message.Time.Equal(time.Unix(5, 0)) }},
		{"a date", hTimestamp, "1970-01-01T00:00:05.000000007Z", func(e *Envelope) bool { return e.Message.Time.Equal(time.Unix(5, 7)) }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			q := hand().Encode()
			q.Headers[test.header] = test.value
			e, err := Decode(q)
			if err != nil {
				t.Fatal(err)
			}
			if !test.read(e) {
				t.Errorf("read %+v", e.Message)
			}
		})
	}
}

func TestWhatCannotBeReadNamesItsHeader(t *testing.T) {
	tests := []struct {
		name, header string
		value        any
	}{
		{"attempt zero", hAttempt, int64(0)},
		{"attempt of a million million", hAttempt, int64(1e12)},
		{"half an offset", hOffset, 1.5},
		{"a word for a number", hPartition, "seven"},
		{"a number for a text", hTopic, int64(1)},
		{"a topic longer than any", hTopic, strings.Repeat("t", 5000)},
		{"a list for a key", hKey, []any{"k"}},
		{"a text for a flag", hNilValue, "yes"},
		{"a date that is none", hTimestamp, "yesterday"},
		{"a header without a value", hHeaders, []any{"name"}},
		{"a number as a header's value", hHeaders, []any{"name", int64(1)}},
		{"no list", hHeaders, "name"},
		{"half a try", hHistory, []any{int64(1), "x"}},
		{"a try at no time", hHistory, []any{int64(1), true, "x"}},
		{"an unknown layout", hLayout, "framed-9"},
		{"an unknown encoding", hEncoding, "br"},
		{"no gzip", hEncoding, encodingGzip},
		{"no frame", hLayout, layoutFramed},
		{"no version", hVersion, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			q := hand().Encode()
			q.Headers[test.header] = test.value
			_, err := Decode(q)
			if !errors.Is(err, ErrUndecodable) || !strings.Contains(err.Error(), test.header) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestAMessageWithoutIdentityIsNamedByItsPosition(t *testing.T) {
	q := hand().Encode()
	q.ID = ""
	if e, err := Decode(q); err != nil || e.Message.ID != "orders:1:7" {
		t.Errorf("%v %v", e, err)
	}
	delete(q.Headers, hOffset)
	if _, err := Decode(q); !errors.Is(err, ErrUndecodable) || !strings.Contains(err.Error(), hOffset) {
		t.Errorf("error %v", err)
	}
}

// ofTheBroker are headers that a broker adds.
func ofTheBroker() map[string]any {
	return map[string]any{
		"x-death": []any{map[string]any{"count": int64(1)}}, "x-death-count": int64(1), "x-first-death-queue": "q", "x-last-death-reason": "expired",
		"x-delivery-count": int64(9), "x-acquired-count": int64(9), "CC": []any{"other"}, "BCC": []any{"other"},
	}
}

func TestUnknownHeadersAreKeptAndThoseOfTheBrokerAreNot(t *testing.T) {
	q := hand().Encode()
	maps.Copy(q.Headers, ofTheBroker())
	mine := map[string]any{"x-stepwell-of-1.7": "new", "tenant": []byte("a"), "n": int64(3), "list": []any{nil, true}}
	maps.Copy(q.Headers, mine)
	q.Headers["nested"] = map[string]any{"a": 1}
	e, err := Decode(q)
	if err != nil {
		t.Fatal(err)
	}
	again := e.Encode()
	for name := range mine {
		if again.Headers[name] == nil {
			t.Errorf("%s is lost", name)
		}
	}
	for name := range ofTheBroker() {
		if again.Headers[name] != nil {
			t.Errorf("%s is published again", name)
		}
	}
	if again.Headers["nested"] != nil {
		t.Error("a table is no header of ours")
	}
}

func TestUnknownHeadersThatDoNotFitGoLargestFirst(t *testing.T) {
	e := hand()
	e.Extra = map[string]any{"large": make([]byte, 50<<10), "larger": make([]byte, 60<<10), "small": "s"}
	q, back := trip(t, e)
	if q.Headers["small"] == nil || q.Headers["larger"] != nil || back.Extra["large"] == nil {
		t.Errorf("kept %d headers", len(back.Extra))
	}
}

func TestABrokenMessageIsBuriedAsItIsWithItsReason(t *testing.T) {
	m := queue.Message{ID: "x", Body: []byte{0xff}, Headers: map[string]any{"junk": map[string]any{"a": 1}, hAttempt: "x", hReason: "old", "huge": make([]byte, 100<<10)}}
	maps.Copy(m.Headers, ofTheBroker())
	at := time.Unix(1, 5)
	b := Broken(m, Failure{Reason: "undecodable", Error: "header\nx", At: at})
	if b.ID != "x" || !bytes.Equal(b.Body, m.Body) || b.Headers["junk"] == nil || b.Headers[hAttempt] != "x" || b.Headers["x-death"] != nil {
		t.Errorf("buried %+v", b)
	}
	if sizeOf(b.Headers) > MaxHeaders {
		t.Errorf("%d bytes of headers", sizeOf(b.Headers))
	}
	if f := FailureOf(b); f.Reason != "undecodable" || f.Error != "header x" || !f.At.Equal(at) {
		t.Errorf("failure %+v", f)
	}
}

func TestAMessageOfANewerVersionRemembersSinceWhenItIsSentAround(t *testing.T) {
	start := time.Unix(1000, 7)
	m, since := Unreadable(queue.Message{ID: "x", Headers: map[string]any{hVersion: "2.0", "x-death": "d"}, Body: []byte("b")}, start)
	if !since.Equal(start) || m.Headers["x-death"] != nil || m.Headers[hVersion] != "2.0" {
		t.Errorf("first time: %v %v", since, m)
	}
	if _, since = Unreadable(m, start.Add(time.Minute)); !since.Equal(start) {
		t.Errorf("second time: since %v", since)
	}
}

func FuzzDecodeNeverPanics(f *testing.F) {
	f.Add("1.0", []byte("body"), "1", int64(1), []byte("key"), layoutFramed, "", uint8(0))
	f.Add("1", frame(&hand().Message), "x", int64(-1), []byte{}, layoutFramed, "", uint8(1))
	f.Add("2", deflate([]byte("x")), "2026-01-01T00:00:00Z", int64(1), []byte(nil), "", encodingGzip, uint8(2))
	f.Fuzz(func(t *testing.T, version string, body []byte, text string, number int64, bin []byte, layout, encoding string, turn uint8) {
		values := []any{nil, true, number, text, bin, time.Unix(number%1e9, 0), []any{text, bin, number}, []any{number, text, text}, 1.5, map[string]any{text: bin}}
		q := queue.Message{ID: text, Body: body, Headers: map[string]any{hVersion: version, text: bin}}
		for i, name := range []string{hStream, hTopic, hPartition, hOffset, hKey, hNilValue, hTimestamp, hHeaders, hAttempt, hReplays,
			hAttemptsTotal, hFirstFailed, hDiedAt, hReason, hError, hStack, hHistory, hPointer, hSize, hUnreadable} {
			if v := values[(i*7+int(turn))%len(values)]; (i+int(turn))%3 > 0 {
				q.Headers[name] = v
			}
		}
		if layout != "" {
			q.Headers[hLayout] = layout
		}
		if encoding != "" {
			q.Headers[hEncoding] = encoding
		}
		if b := Broken(q, Failure{Error: text}); sizeOf(b.Headers) > MaxHeaders {
			t.Errorf("%d bytes of headers of a broken message", sizeOf(b.Headers))
		}
		e, err := Decode(q)
		if err != nil {
			if !errors.Is(err, ErrUndecodable) && !errors.Is(err, ErrVersion) {
				t.Errorf("error %v is of no kind", err)
			}
			return
		}
		again := e.Encode()
		if sizeOf(again.Headers) > MaxHeaders {
			t.Errorf("%d bytes of headers", sizeOf(again.Headers))
		}
		back, err := Decode(again)
		if err != nil {
			t.Fatalf("what was read cannot be read again: %v", err)
		}
		if !bytes.Equal(back.Message.Value, e.Message.Value) || !bytes.Equal(back.Message.Key, e.Message.Key) {
			t.Error("the record changed")
		}
	})
}

func FuzzUnframeReadsOnlyWhatFrameWrote(f *testing.F) {
	f.Add(frame(&hand().Message))
	f.Add([]byte("SWF1\x00\xff\xff\xff\xff\xff\xff\xff\xff\x7f"))
	f.Fuzz(func(t *testing.T, body []byte) {
		m := hand().Message
		if unframe(&m, body) != nil {
			return
		}
		again := hand().Message
		if err := unframe(&again, frame(&m)); err != nil || !sameRecord(&m, &again) {
			t.Errorf("%v: %+v is not %+v", err, again, m)
		}
	})
}
