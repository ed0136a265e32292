package deadset_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/deadset"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/queue"
)

func TestAValueIsShownAsJSONElseAsTextElseInBase64(t *testing.T) {
	const kib64 = 64 << 10
	tests := []struct {
		name, value, shown, encoding string
		cut                          bool
	}{
		{"an object", ` {"a": 1.50} `, `{"a":1.50}`, "json", false},
		{"a large number keeps its digits", `12345678901234567890`, `12345678901234567890`, "json", false},
		{"a text in JSON", `"x"`, `"x"`, "json", false},
		{"an escaped NUL in JSON", `"\u0000"`, `"\u0000"`, "json", false},
		{"two values are no JSON", `{} {}`, `"{} {}"`, "text", false},
		{"a text", "Grüße\n", `"Grüße\n"`, "text", false},
		{"nothing", "", `""`, "text", false},
		{"a NUL", "a\x00b", `"YQBi"`, "base64", false},
		{"no UTF-8", "\xff", `"/w=="`, "base64", false},
		{"JSON as deep as most can read", strings.Repeat("[", 200) + strings.Repeat("]", 200), strings.Repeat("[", 200) + strings.Repeat("]", 200), "json", false},
		{"JSON deeper than that", strings.Repeat("[", 201) + strings.Repeat("]", 201), `"` + strings.Repeat("[", 201) + strings.Repeat("]", 201) + `"`, "text", false},
		{"brackets in a text are not depth", `"` + strings.Repeat("[", 300) + `\""`, `"` + strings.Repeat("[", 300) + `\""`, "json", false},
		{"64 KiB of text", strings.Repeat("x", kib64), `"` + strings.Repeat("x", kib64) + `"`, "text", false},
		{"more text", strings.Repeat("x", kib64+1), `"` + strings.Repeat("x", kib64) + `"`, "text", true},
		{"JSON that is cut is text", `"` + strings.Repeat("x", kib64) + `"`, `"\"` + strings.Repeat("x", kib64-1) + `"`, "text", true},
		{"a rune cut in two is left out", strings.Repeat("x", kib64-1) + "ü", `"` + strings.Repeat("x", kib64-1) + `"`, "text", true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			entry := shown(t, stepwell.Message{Value: []byte(test.value)})
			if string(entry.Value) != test.shown || entry.Encoding != test.encoding || entry.Truncated != test.cut || entry.Size != len(test.value) {
				t.Errorf("shown as %.80s, encoding %s, truncated %t, size %d", entry.Value, entry.Encoding, entry.Truncated, entry.Size)
			}
		})
	}
}

func TestNilAndEmptyAreToldApart(t *testing.T) {
	entry := shown(t, stepwell.Message{Headers: []stepwell.Header{{Key: "nil"}, {Key: "empty", Value: []byte{}}}})
	if string(entry.Value) != "null" || string(entry.Key) != "null" || string(entry.Headers) != `[{"key":"nil","value":null},{"key":"empty","value":"","encoding":"text"}]` {
		t.Errorf("%s, %s, %s", entry.Key, entry.Value, entry.Headers)
	}
	entry = shown(t, stepwell.Message{Key: []byte{}, Value: []byte{}})
	if string(entry.Value) != `""` || string(entry.Key) != `""` {
		t.Errorf("%s, %s", entry.Key, entry.Value)
	}
}

func TestTheNameOfAHeaderThatIsNoTextIsShownWhole(t *testing.T) {
	entry := shown(t, stepwell.Message{Headers: []stepwell.Header{{Key: "\xff\x00"}, {Key: "naïve"}}})
	if string(entry.Headers) != `[{"key":"/wA=","key_encoding":"base64","value":null},{"key":"naïve","value":null}]` {
		t.Errorf("%s", entry.Headers)
	}
}

func TestKeysAndHeadersThatAreCutSaySo(t *testing.T) {
	const kib64 = 64 << 10
	key := strings.Repeat("k", kib64+1)
	e := envelope.Envelope{Message: stepwell.Message{
		ID: "t:0:0", Attempt: 1, Key: []byte(key),
		Headers: []stepwell.Header{{Key: "long", Value: []byte("\xff" + key)}, {Key: "just", Value: []byte(key[:kib64])}, {Key: "short", Value: []byte("v")}},
	}}
	entry := deadset.View(queue.Delivery{Message: e.Encode()})
	if entry.Key != key[:kib64] || !entry.KeyTruncated || entry.KeySize != kib64+1 || entry.Truncated {
		t.Errorf("key of %d bytes, truncated %t, size %d; value truncated %t", len(entry.Key.(string)), entry.KeyTruncated, entry.KeySize, entry.Truncated)
	}
	want := []deadset.Header{
		{Key: "long", Value: base64.StdEncoding.EncodeToString([]byte("\xff" + key[:kib64-1])), Encoding: "base64", Truncated: true, Size: kib64 + 2},
		{Key: "just", Value: key[:kib64], Encoding: "text"},
		{Key: "short", Value: "v", Encoding: "text"},
	}
	if !slices.Equal(entry.Headers, want) {
		t.Errorf("headers shown as %.300v", entry.Headers)
	}
}

func TestAnEntryTellsWhereAMessageCameFromAndWhatBecameOfIt(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	e := envelope.Envelope{
		AttemptsTotal: 8, DiedAt: at.Add(time.Hour), TraceParent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		Failure: envelope.Failure{Reason: stepwell.ReasonExhausted, Error: "no", ErrorType: "*errors.errorString", Stack: "main.go:1", At: at},
		Message: stepwell.Message{
			ID: "t:3:7", Stream: "s", Channel: "c", Key: []byte("k\xff"), Value: []byte("1"), Headers: []stepwell.Header{{Key: "h", Value: []byte("v")}},
			Time: at, Attempt: 4, Replays: 1, FirstFailed: at.Add(time.Minute), Origin: stepwell.Origin{Topic: "t", Partition: 3, Offset: 7},
		},
	}
	got, err := json.Marshal(deadset.View(queue.Delivery{Message: e.Encode()}))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"id":"t:3:7","stream":"s","channel":"c","topic":"t","partition":3,"offset":7,"key":"a/8=","key_encoding":"base64",` +
		`"timestamp":"2026-01-02T03:04:05Z","headers":[{"key":"h","value":"v","encoding":"text"}],"value":1,"encoding":"json","size":1,` +
		`"attempts":4,"attempts_total":8,"replays":1,"first_failed_at":"2026-01-02T03:05:05Z","died_at":"2026-01-02T04:04:05Z",` +
		`"reason":"exhausted","error":"no","error_type":"*errors.errorString","stack":"main.go:1","trace_id":"4bf92f3577b34da6a3ce929d0e0e4736","group":"e06c1cc6dc08"}`
	if string(got) != want {
		t.Errorf("shown as\n%s\nnot\n%s", got, want)
	}
}

func TestAYearThatJSONCannotSayIsLeftOutAndHidesNothingElse(t *testing.T) {
	for _, at := range []time.Time{time.UnixMilli(1_700_000_000_000_000), time.Unix(-1<<40, 0)} { // microseconds; long ago
		e := envelope.Envelope{DiedAt: at, Failure: envelope.Failure{At: at}}
		e.Message = stepwell.Message{ID: "t:3:7", Value: []byte("1"), Time: at, FirstFailed: at, Attempt: 1}
		got, err := json.Marshal(deadset.View(queue.Delivery{Message: e.Encode()}))
		if err != nil || !strings.Contains(string(got), `"id":"t:3:7"`) || strings.Contains(string(got), "timestamp") {
			t.Errorf("of %d: %s, %v", at.Year(), got, err)
		}
	}
}

func TestWithoutATraceOfItsOwnAnEntryNamesThatOfItsRecord(t *testing.T) {
	const own, records = "4bf92f3577b34da6a3ce929d0e0e4736", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	for _, test := range []struct{ name, own, header, want string }{
		{"of its own", "00-" + own + "-00f067aa0ba902b7-01", "00-" + records + "-00f067aa0ba902b7-01", own},
		{"tracing is off", "", "00-" + records + "-00f067aa0ba902b7-01", records},
		{"junk in the record", "", "a-b-c-d", ""},
		{"neither", "", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := stepwell.Message{ID: "t:3:7", Headers: []stepwell.Header{{Key: "traceparent", Value: []byte(test.header)}}, Time: time.Now(), Attempt: 1}
			m.Origin = stepwell.Origin{Topic: "t", Partition: 3, Offset: 7}
			e := envelope.Envelope{TraceParent: test.own, Message: m, AttemptsTotal: 1, DiedAt: time.Now(), Failure: envelope.Failure{Reason: stepwell.ReasonExhausted, At: time.Now()}}
			if got := deadset.View(queue.Delivery{Message: e.Encode()}).TraceID; got != test.want {
				t.Errorf("trace %q, want %q", got, test.want)
			}
		})
	}
}

// raw is an entry as a reader of our JSON sees it.
type raw struct {
	Key, Value, Headers json.RawMessage
	Encoding            string
	Truncated           bool
	Size                int
}

func shown(t *testing.T, m stepwell.Message) (r raw) {
	t.Helper()
	m.ID, m.Attempt = "t:0:0", 1
	e := envelope.Envelope{Message: m}
	b, err := json.Marshal(deadset.View(queue.Delivery{Message: e.Encode()}))
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func FuzzAValueCanBeReadBackFromWhatIsShown(f *testing.F) {
	for _, seed := range []string{``, `{"a":[1,"\u0000",{}]}`, "\xff", "a\x00", "Grüße", `"\ud800"`, " 1e999 ", strings.Repeat("[", 12000)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		r := shown(t, stepwell.Message{Value: value})
		if r.Size != len(value) || r.Truncated != (len(value) > 64<<10) {
			t.Fatalf("size %d, truncated %t of %d", r.Size, r.Truncated, len(value))
		}
		want := value[:min(len(value), 64<<10)]
		switch r.Encoding {
		case "json":
			var compact bytes.Buffer
			if err := json.Compact(&compact, value); err != nil {
				t.Fatal(err)
			}
			var back bytes.Buffer
			json.HTMLEscape(&back, compact.Bytes())
			if !bytes.Equal(back.Bytes(), r.Value) && !bytes.Equal(compact.Bytes(), r.Value) {
				t.Errorf("%q is shown as %s", value, r.Value)
			}
		case "text":
			var back string
			if err := json.Unmarshal(r.Value, &back); err != nil || !strings.HasPrefix(string(want), back) || len(want)-len(back) >= utf8.UTFMax || !r.Truncated && len(want) != len(back) {
				t.Errorf("%q is shown as %s, %v", value, r.Value, err)
			}
		case "base64":
			var back string
			_ = json.Unmarshal(r.Value, &back)
			if decoded, err := base64.StdEncoding.DecodeString(back); err != nil || !slices.Equal(decoded, want) {
				t.Errorf("%q is shown as %s, %v", value, r.Value, err)
			}
		default:
			t.Errorf("encoding %q", r.Encoding)
		}
	})
}
