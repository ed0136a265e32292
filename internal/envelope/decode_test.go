package envelope

import (
	"bytes"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/queue"
)

func TestHeadersOfAForeignClientAreReadAsTextOrBytes(t *testing.T) {
	tests := []struct {
		name, header string
		value        any
		read         func(*Envelope) bool
	}{
		{"the head as bytes", hHead, []byte("v2 at=t:1:2"), func(e *Envelope) bool { return e.Message.Origin.Topic == "t" && e.Message.Attempt == 1 }},
		{"bytes as text", hKey, "k", func(e *Envelope) bool { return string(e.Message.Key) == "k" }},
		{"empty bytes as text", hKey, "", func(e *Envelope) bool { return e.Message.Key != nil }},
		{"a nil header is no header", hError, nil, func(e *Envelope) bool { return e.Failure.Error == "" }},
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

func TestAPersonCanReadTheHead(t *testing.T) {
	e := failed()
	e.Of, e.Message.Replays, e.Log, e.Token = 4, 1, 0xbeef, "4Q7K"
	e.DiedAt, e.Message.Channel = e.Failure.At, "slow lane 50%"
	const want = "v2 try=2/4 at=orders.v1:7:123456789 log=beef token=4Q7K replays=1 tries=1 stream=orders channel=slow%20lane%2050%25" +
		" time=2026-03-04T05:06:07.891Z failed=2026-03-04T05:06:07.891Z died=2026-03-04T05:06:07.891Z reason=exhausted" +
		" type=*errors.errorString trace=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 run=767891/210000us//shipping-7d9c5bd6f4-x2x9k/v1.8.0"
	q, _ := trip(t, e)
	if headOf(q) != want {
		t.Errorf("head\n%s, want\n%s", headOf(q), want)
	}
}

func TestWordsOfAHeadMayComeInAnyOrderAndThoseThatAreNotKnownAreKept(t *testing.T) {
	q := hand().Encode()
	q.Headers[hHead] = "v2.7 mood=fine%21 at=a:b:3:4 time=5000 try=3 colour="
	e, err := Decode(q)
	if err != nil {
		t.Fatal(err)
	}
	if m := e.Message; m.Origin != (stepwell.Origin{Topic: "a:b", Partition: 3, Offset: 4}) || m.Attempt != 3 || !m.Time.Equal(time.Unix(5, 0)) {
		t.Errorf("read %+v", m)
	}
	again := headOf(e.Encode())
	if !strings.Contains(again, " mood=fine%21") || !strings.Contains(again, " colour=") {
		t.Errorf("kept %s", again)
	}
}

func TestTheHeadIsBoundedWhateverIsInIt(t *testing.T) {
	wild := strings.Repeat("\xff", 2000)
	e := hand()
	e.Message.Stream, e.Message.Channel, e.TraceParent = wild, wild, wild
	e.Failure.Reason, e.Failure.ErrorType = wild, wild
	e.Message.Origin.Topic = wild[:maxTopic]
	e.words = []string{"w=" + strings.Repeat("x", maxWords-4)}
	if q, _ := trip(t, e); len(headOf(q)) > maxHead {
		t.Errorf("a head of %d bytes", len(headOf(q)))
	}
	q := hand().Encode()
	q.Headers[hHead] = headOf(q) + " w=" + strings.Repeat("x", 1000)
	if e, err := Decode(q); err != nil || len(e.words) != 0 {
		t.Errorf("%d words kept, %v", len(e.words), err)
	}
}

func TestWhatCannotBeReadNamesItsHeaderAndWord(t *testing.T) {
	good := "v2 at=t:1:2"
	tests := []struct {
		name, header string
		value        any
		says         string
	}{
		{"attempt zero", hHead, good + " try=0", "try"},
		{"attempt of a million million", hHead, good + " try=1000000000000", "try"},
		{"a word for a number of tries", hHead, good + " try=1/many", "try"},
		{"no position", hHead, "v2 try=2", "at"},
		{"half a position", hHead, "v2 at=t:1", "at"},
		{"half an offset", hHead, "v2 at=t:1:1.5", "at"},
		{"a word for a partition", hHead, "v2 at=t:seven:1", "at"},
		{"a partition beyond all", hHead, "v2 at=t:4294967296:1", "at"},
		{"a topic longer than any", hHead, "v2 at=" + strings.Repeat("t", 5000) + ":1:2", "at"},
		{"a head longer than any", hHead, good + strings.Repeat(" a=b", 5000), "bytes"},
		{"a date that is none", hHead, good + " time=yesterday", "time"},
		{"half an escape", hHead, good + " stream=%2", "stream"},
		{"no escape", hHead, good + " stream=%zz", "stream"},
		{"no word", hHead, good + " alone", "alone"},
		{"two spaces", hHead, good + "  try=2", "no word"},
		{"an unknown layout", hHead, good + " layout=framed-9", "layout"},
		{"an unknown encoding", hHead, good + " encoding=br", "encoding"},
		{"a size below zero", hHead, good + " pointer=-1", "pointer"},
		{"no gzip", hHead, good + " encoding=gzip", "encoding"},
		{"no frame", hHead, good + " layout=framed", "layout"},
		{"no head", hHead, nil, "missing"},
		{"a number for a head", hHead, int64(2), "int64"},
		{"a list for a key", hKey, []any{"k"}, "bytes"},
		{"a header without a value", hHeaders, []any{"name"}, "list"},
		{"a number as a header's value", hHeaders, []any{"name", int64(1)}, "int64"},
		{"no list", hHeaders, "name", "list"},
		{"half a try", hHistory, "1 2026-01-01T00:00:00Z", "attempt"},
		{"a try at no time", hHistory, "1 now x", "attempt"},
		{"a number for an error", hError, int64(1), "text"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			q := hand().Encode()
			q.Headers[test.header] = test.value
			_, err := Decode(q)
			if !errors.Is(err, ErrUndecodable) || !strings.Contains(err.Error(), "header "+test.header+": ") || !strings.Contains(err.Error(), test.says) {
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
	mine := map[string]any{"sw-of-2.7": "new", "tenant": []byte("a"), "n": int64(3), "list": []any{nil, true}}
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

// Whoever waits for what becomes of what was replayed would not be told.
func TestAMarkIsKeptHoweverLargeKeyAndTraceStateAre(t *testing.T) {
	for n := 56 << 10; n < 66<<10; n += 64 {
		e := failed()
		e.Message.Key, e.TraceState, e.Failure.Group = make([]byte, n), strings.Repeat("a", maxState), strings.Repeat("g", maxShort)
		e.Wait = Wait{Remaining: time.Hour, Whole: LongestWait}
		want := Mark{strings.Repeat("op_0", maxOperation/4), true}
		e.Extra = map[string]any{"tenant": make([]byte, 1<<10)}
		m := Marked(e.Encode(), want)
		read, err := Decode(m)
		if err != nil {
			t.Fatal(err)
		}
		m = read.Encode()
		if back, err := Decode(m); err != nil || back.Mark() != want || len(back.Message.Key) != n || back.TraceState != e.TraceState || sizeOf(m.Headers) > MaxHeaders {
			t.Fatalf("a key of %d bytes: mark %+v, %d bytes of headers, %v", n, back.Mark(), sizeOf(m.Headers), err)
		}
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
	m := queue.Message{ID: "x", Body: []byte{0xff}, Headers: map[string]any{"junk": map[string]any{"a": 1}, hHead: "x", hError: "old", "huge": make([]byte, 100<<10)}}
	maps.Copy(m.Headers, ofTheBroker())
	at := time.Unix(1, 5)
	b := Broken(m, Failure{Reason: "undecodable", Error: "header\nx", At: at})
	if b.ID != "x" || !bytes.Equal(b.Body, m.Body) || b.Headers["junk"] == nil || b.Headers[hHead] != "x" || b.Headers[hError] != "old" || b.Headers["x-death"] != nil {
		t.Errorf("buried %+v", b)
	}
	if size := sizeOf(b.Headers) - fieldSize(hBuried, b.Headers[hBuried]); size > MaxHeaders {
		t.Errorf("%d bytes of headers", size)
	}
	if f := FailureOf(b); f.Reason != "undecodable" || f.Error != "header x" || !f.At.Equal(at) {
		t.Errorf("failure %+v", f)
	}
	waits, _ := Unreadable(b, at)
	b = Broken(waits, Failure{Reason: "in two words", Error: "again", At: at.Add(time.Second)})
	if f := FailureOf(b); f.Reason != "in two words" || f.Error != "again" || !f.At.Equal(at.Add(time.Second)) || b.Headers[hWaits] != nil {
		t.Errorf("buried again: %+v of %v", f, b.Headers)
	}
}

func TestABrokenMessageWhoseHeadersJustFitIsBuriedWithAllOfThem(t *testing.T) {
	e := failed()
	e.Message.Key, e.Failure.Stack = make([]byte, 55<<10), strings.Repeat("stack\n", 3<<10)
	m := e.Encode() // its stack is cut to what there was room for
	b := Broken(m, Failure{Reason: "undecodable", Error: strings.Repeat("why ", 1<<10), At: time.Unix(1, 0)})
	delete(b.Headers, hBuried)
	if !reflect.DeepEqual(b, m) {
		t.Errorf("%d of %d headers", len(b.Headers), len(m.Headers))
	}
	if b := Broken(m, Failure{}); !reflect.DeepEqual(b, m) {
		t.Errorf("without a failure: %d of %d headers", len(b.Headers), len(m.Headers))
	}
}

func TestWhatWasBuriedUnreadIsDeadForAProgramThatCanReadIt(t *testing.T) {
	at := time.Unix(100, 5)
	e, err := Decode(Broken(hand().Encode(), Failure{Reason: "undecodable", Error: "a newer version", At: at}))
	if err != nil || !e.DiedAt.Equal(at) || e.Failure.Reason != "undecodable" || e.Failure.Error != "a newer version" {
		t.Fatalf("%+v, %v", e, err)
	}
	e.Replay()
	if q, back := trip(t, e); q.Headers[hBuried] != nil || !back.DiedAt.IsZero() {
		t.Errorf("replayed it is dead still: %v", q.Headers)
	}
}

func TestADeadMessageSaysOfWhatItDied(t *testing.T) {
	e := failed()
	e.DiedAt = e.Failure.At
	if f := FailureOf(e.Encode()); f.Reason != e.Failure.Reason || f.Error != e.Failure.Error || !f.At.Equal(e.DiedAt) {
		t.Errorf("failure %+v", f)
	}
	if f := FailureOf(queue.Message{}); f != (Failure{}) {
		t.Errorf("of nothing: %+v", f)
	}
}

func TestAMessageOfANewerVersionRemembersSinceWhenItIsSentAround(t *testing.T) {
	start := time.Unix(1000, 7)
	m, since := Unreadable(queue.Message{ID: "x", Headers: map[string]any{hHead: "v3 x", "x-death": "d"}, Body: []byte("b")}, start)
	if !since.Equal(start) || m.Headers["x-death"] != nil || m.Headers[hHead] != "v3 x" {
		t.Errorf("first time: %v %v", since, m)
	}
	if _, since = Unreadable(m, start.Add(time.Minute)); !since.Equal(start) {
		t.Errorf("second time: since %v", since)
	}
}

func FuzzDecodeNeverPanics(f *testing.F) {
	full := failed()
	full.Of, full.Log, full.Message.Replays, full.DiedAt = 4, 7, 1, full.Failure.At
	f.Add("v2 at=t:1:2", []byte("body"), "1", int64(1), []byte("key"), uint8(0))
	f.Add("v2.1 at=t:1:2 layout=framed", frame(&hand().Message), "x", int64(-1), []byte{}, uint8(1))
	f.Add("v2 at=a%20b:1:2 encoding=gzip value=nil", deflate([]byte("x")), "1 2026-01-01T00:00:00Z no", int64(1), []byte(nil), uint8(2))
	f.Add(headOf(full.Encode()), []byte("body"), "undecodable 2026-01-01T00:00:00Z no", int64(1), []byte{0xff}, uint8(3))
	f.Add("v2 at=:0:0 token=%41%zz token=", []byte("x"), "", int64(0), []byte("token"), uint8(5))
	f.Add("v2 at=t:1:2 pointer=7 new=word time=123456789012345678", []byte{}, "", int64(1), []byte("v2 at=::-1:-2 try=1/"), uint8(4))
	f.Fuzz(func(t *testing.T, head string, body []byte, text string, number int64, bin []byte, turn uint8) {
		values := []any{nil, true, number, text, bin, time.Unix(number%1e9, 0), []any{text, bin, text, nil}, []any{number, text, text}, 1.5, map[string]any{text: bin}}
		q := queue.Message{ID: text, Body: body, Headers: map[string]any{text: bin, hHead: head}}
		for i, name := range []string{hKey, hHeaders, hError, hStack, hHistory, hTraceState, hBuried, hWaits} {
			if v := values[(i*7+int(turn))%len(values)]; (i+int(turn))%3 > 0 {
				q.Headers[name] = v
			}
		}
		_ = FailureOf(q)
		if b := Broken(q, Failure{Error: text}); sizeOf(b.Headers)-fieldSize(hBuried, b.Headers[hBuried]) > MaxHeaders {
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
		if sizeOf(again.Headers) > MaxHeaders || len(headOf(again)) > maxHead {
			t.Errorf("%d bytes of headers, %d of the head", sizeOf(again.Headers), len(headOf(again)))
		}
		back, err := Decode(again)
		if err != nil {
			t.Fatalf("what was read cannot be read again: %v", err)
		}
		if !sameBytes(&back.Message, &e.Message) || back.Message.ID != e.Message.ID {
			t.Errorf("the record was %+v, is %+v", e.Message, back.Message)
		}
	})
}

// sameBytes compares what came from Kafka, and what is counted.
func sameBytes(a, b *stepwell.Message) bool {
	return bytes.Equal(a.Value, b.Value) && (a.Value == nil) == (b.Value == nil) && bytes.Equal(a.Key, b.Key) && (a.Key == nil) == (b.Key == nil) &&
		slices.EqualFunc(a.Headers, b.Headers, func(x, y stepwell.Header) bool { return x.Key == y.Key && bytes.Equal(x.Value, y.Value) }) &&
		a.Origin == b.Origin && a.Attempt == b.Attempt && a.Replays == b.Replays && a.Time.Equal(b.Time)
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
