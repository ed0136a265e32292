package envelope

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/queue"
)

func drawBytes(t *rapid.T, name string) []byte {
	switch rapid.IntRange(0, 3).Draw(t, name+" kind") {
	case 0:
		return nil
	case 1:
		return []byte{}
	}
	return rapid.SliceOfN(rapid.Byte(), 1, 200).Draw(t, name)
}

func drawTime(t *rapid.T, name string) time.Time {
	if rapid.Bool().Draw(t, name+" is zero") {
		return time.Time{}
	}
	return time.Unix(rapid.Int64Range(-1<<40, 1<<40).Draw(t, name), 0).Truncate(time.Millisecond)
}

func drawEnvelope(t *rapid.T) *Envelope {
	text := rapid.StringN(0, 20, 60)
	e := &Envelope{
		Message: stepwell.Message{
			Stream: rapid.SampledFrom([]string{"orders", "", "a b%=é"}).Draw(t, "stream"), Channel: rapid.SampledFrom([]string{"", "slow"}).Draw(t, "channel"),
			Key: drawBytes(t, "key"), Value: drawBytes(t, "value"), Time: drawTime(t, "time"), FirstFailed: drawTime(t, "first failed"),
			Attempt: rapid.IntRange(1, 100).Draw(t, "attempt"), Replays: rapid.IntRange(0, 9).Draw(t, "replays"),
			Origin: stepwell.Origin{Topic: rapid.SampledFrom([]string{"orders.v1", "", "a:b c%", "\xff\x00=\n"}).Draw(t, "topic"), Partition: rapid.Int32().Draw(t, "partition"), Offset: rapid.Int64().Draw(t, "offset")},
		},
		Failure:       Failure{Reason: "exhausted", Error: clean(text.Draw(t, "error"), maxError), ErrorType: "*errors.errorString", Group: clean(text.Draw(t, "group"), maxShort), At: drawTime(t, "at")},
		AttemptsTotal: rapid.IntRange(0, 1000).Draw(t, "total"),
		Of:            rapid.IntRange(0, 100).Draw(t, "of"),
		Log:           rapid.Uint32().Draw(t, "log"),
		DiedAt:        drawTime(t, "died"),
		TraceParent:   "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		TraceState:    "a=b",
		Token:         rapid.SampledFrom([]string{"", NewToken(), "a b%="}).Draw(t, "token"),
		Compressed:    rapid.Bool().Draw(t, "compressed"),
	}
	o := e.Message.Origin
	e.Message.ID = ID(o.Topic, o.Partition, o.Offset)
	if rapid.Bool().Draw(t, "an id of its own") {
		e.Message.ID = string(rapid.SliceOfN(rapid.Byte(), 1, 255).Draw(t, "id"))
	}
	for i := range rapid.IntRange(0, 6).Draw(t, "headers") {
		name := string(rapid.SliceOf(rapid.Byte()).Draw(t, "name"))
		e.Message.Headers = append(e.Message.Headers, stepwell.Header{Key: name, Value: drawBytes(t, fmt.Sprint("header ", i))})
	}
	big := rapid.SampledFrom([]int{0, 0, 0, 60 << 10, 200 << 10}).Draw(t, "big key")
	if big > 0 {
		e.Message.Key = bytes.Repeat([]byte{0xff}, big)
	}
	for i := range rapid.IntRange(0, MaxHistory-1).Draw(t, "history") {
		e.History = append(e.History, Try{Attempt: i + 1, At: time.Unix(int64(i), 5), Error: "no"})
	}
	if at := e.Failure.At; !at.IsZero() { // who fails is in the history, and has failed a first time
		e.History = append(e.History, e.last())
		if m := &e.Message; m.FirstFailed.IsZero() {
			m.FirstFailed = at
		}
	}
	return e
}

func sameRecord(a, b *stepwell.Message) bool {
	x, y := *a, *b
	same := x.Time.Equal(y.Time) && x.FirstFailed.Equal(y.FirstFailed)
	x.Time, x.FirstFailed, y.Time, y.FirstFailed = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	return same && reflect.DeepEqual(x, y)
}

func TestEveryByteOfARecordSurvivesManyTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawEnvelope(t)
		e := want
		for range 3 {
			q := e.Encode()
			if n := sizeOf(q.Headers); n > MaxHeaders {
				t.Fatalf("%d bytes of headers", n)
			}
			var err error
			if e, err = Decode(q); err != nil {
				t.Fatal(err)
			}
			if !sameRecord(&want.Message, &e.Message) {
				t.Fatalf("record was %+v, is %+v", want.Message, e.Message)
			}
		}
		if e.AttemptsTotal != want.AttemptsTotal || e.Of != want.Of || e.Log != want.Log || e.Token != want.Token || e.Failure.Reason != want.Failure.Reason || e.Failure.ErrorType != want.Failure.ErrorType || e.Failure.Group != want.Failure.Group || !e.DiedAt.Equal(want.DiedAt) || e.TraceParent != want.TraceParent ||
			e.TraceState != want.TraceState || e.Compressed && !want.Compressed || e.Failure.Error != want.Failure.Error || !e.Failure.At.Equal(want.Failure.At) {
			t.Fatalf("envelope was %+v, is %+v", want, e)
		}
		if !slices.EqualFunc(e.History, want.History, Try.same) {
			t.Fatalf("history was %+v, is %+v", want.History, e.History)
		}
	})
}

func TestWhatOtherHeadersSayIsLeftOut(t *testing.T) {
	first, second := time.Unix(100, 0), time.Unix(200, 0)
	failed := func(tries ...Try) *Envelope {
		e := hand()
		last := tries[len(tries)-1]
		e.Message.Attempt, e.Message.FirstFailed, e.History, e.AttemptsTotal = last.Attempt+1, tries[0].At, tries, last.Attempt
		e.Failure = Failure{Error: last.Error, At: last.At}
		return e
	}
	once := failed(Try{Attempt: 1, At: first, Error: "no"})
	twice := failed(Try{Attempt: 1, At: first, Error: "no"}, Try{Attempt: 2, At: second, Error: "never"})
	dead := failed(Try{Attempt: 1, At: first, Error: "no"}, Try{Attempt: 2, At: second, Error: "never"})
	dead.Message.Attempt, dead.DiedAt = 2, second
	replayed := failed(Try{Attempt: 4, At: second, Error: "no"})
	replayed.Message.Replays, replayed.AttemptsTotal = 1, 8
	for name, test := range map[string]struct {
		envelope *Envelope
		left     []string // in the order below
	}{
		"not failed":                      {hand(), []string{wTries}},
		"failed once":                     {once, nil},
		"failed twice":                    {twice, []string{wFirst, hHistory}},
		"dead":                            {dead, []string{wFirst, hHistory}},
		"replayed, and failed four times": {replayed, []string{wReplays, wTries}},
	} {
		q, back := trip(t, test.envelope)
		var left []string
		for _, word := range []string{wReplays, wTries, wFirst} {
			if strings.Contains(headOf(q), " "+word+"=") {
				left = append(left, word)
			}
		}
		if q.Headers[hHistory] != nil {
			left = append(left, hHistory)
		}
		if !slices.Equal(left, test.left) {
			t.Errorf("%s: %v, want %v", name, left, test.left)
		}
		want := test.envelope
		if !slices.EqualFunc(back.History, want.History, Try.same) || back.AttemptsTotal != want.AttemptsTotal || !sameRecord(&back.Message, &want.Message) {
			t.Errorf("%s: was %+v, is %+v", name, want, back)
		}
	}
}

func TestAHistoryThatHasTheLastFailureTooIsReadAsItIs(t *testing.T) {
	at := time.Unix(100, 0)
	e := hand()
	e.Failure = Failure{Error: "no", At: at}
	q := e.Encode()
	q.Headers[hHistory] = lines([]Try{{Attempt: 1, At: at, Error: "no"}})
	back, err := Decode(q)
	if err != nil || len(back.History) != 1 || !back.History[0].same(Try{Attempt: 1, At: at, Error: "no"}) {
		t.Errorf("%+v, %v", back, err)
	}
}

func TestAHistoryThatIsFullHasRoomForTheLastFailure(t *testing.T) {
	at := time.Unix(100, 0)
	var tries []Try
	for i := range MaxHistory {
		tries = append(tries, Try{Attempt: i + 1, At: at.Add(time.Duration(i-MaxHistory) * time.Second), Error: "no"})
	}
	e := hand()
	e.Failure = Failure{Error: "the last", At: at}
	q := e.Encode()
	q.Headers[hHistory] = lines(tries)
	back, err := Decode(q)
	if err != nil || len(back.History) != MaxHistory || !back.History[0].same(tries[1]) || back.History[MaxHistory-1].Error != "the last" {
		t.Errorf("%+v, %v", back, err)
	}
}

func TestNilAndEmptyKeysValuesAndHeadersStayApart(t *testing.T) {
	kinds := [][]byte{nil, {}}
	for _, key := range kinds {
		for _, value := range kinds {
			for _, compressed := range []bool{false, true} {
				e := hand()
				e.Compressed, e.Message.Key, e.Message.Value = compressed, key, value
				e.Message.Headers = []stepwell.Header{{Key: "nil"}, {Key: "empty", Value: []byte{}}}
				if _, back := trip(t, e); !sameRecord(&e.Message, &back.Message) {
					t.Errorf("compressed %t: record was %#v, is %#v", compressed, e.Message, back.Message)
				}
				e.Message.Headers = nil
				if _, back := trip(t, e); back.Message.Headers != nil {
					t.Errorf("compressed %t: headers appeared: %#v", compressed, back.Message.Headers)
				}
			}
		}
	}
}

func headOf(q queue.Message) string { return q.Headers[hHead].(string) }

func framed(q queue.Message) bool { return strings.Contains(headOf(q), " layout=framed") }

// hand makes an envelope with just what it needs.
func hand() *Envelope {
	return &Envelope{Message: stepwell.Message{
		ID: "orders:1:7", Stream: "orders", Attempt: 2, Value: []byte("v"),
		Origin: stepwell.Origin{Topic: "orders", Partition: 1, Offset: 7},
	}}
}

func trip(t *testing.T, e *Envelope) (queue.Message, *Envelope) {
	t.Helper()
	q := e.Encode()
	back, err := Decode(q)
	if err != nil {
		t.Fatal(err)
	}
	if n := sizeOf(q.Headers); n > MaxHeaders {
		t.Errorf("%d bytes of headers", n)
	}
	return q, back
}

func TestTheBodyIsTheValueUntouched(t *testing.T) {
	e := hand()
	e.Message.Value = []byte(`{"id":1}`)
	if q, _ := trip(t, e); string(q.Body) != `{"id":1}` || q.ID != "orders:1:7" {
		t.Errorf("message %s with body %q", q.ID, q.Body)
	}
}

func TestAHugeKeyAndHugeHeadersTravelInTheBodyAndTheErrorStays(t *testing.T) {
	e := hand()
	e.Message.Key = bytes.Repeat([]byte("k"), 200<<10)
	e.Message.Headers = []stepwell.Header{{Key: "h", Value: bytes.Repeat([]byte{0}, 1<<20)}, {Key: "h"}, {Key: "h", Value: []byte{}}}
	e.Message.Value = nil
	e.Failure = Failure{Error: "no such card", Stack: "main.go:1"}
	e.History = []Try{{Attempt: 1, Error: "no such card"}}
	q, back := trip(t, e)
	if !sameRecord(&e.Message, &back.Message) {
		t.Error("the record changed")
	}
	if back.Failure.Error != "no such card" || back.Failure.Stack == "" || len(back.History) != 1 {
		t.Errorf("failure lost: %+v %v", back.Failure, back.History)
	}
	if !framed(q) {
		t.Error("not framed")
	}
}

func TestManySmallHeadersTravelInTheBodyToo(t *testing.T) {
	e := hand()
	e.Message.Headers = make([]stepwell.Header, 5000)
	if q, back := trip(t, e); !framed(q) || len(back.Message.Headers) != 5000 {
		t.Errorf("%s with %d headers", headOf(q), len(back.Message.Headers))
	}
}

func TestHistoryThenStackThenErrorAreCutBeforeTheRecordMoves(t *testing.T) {
	full := func(key int) *Envelope {
		e := hand()
		e.Message.Key = make([]byte, key)
		e.Failure = Failure{Error: strings.Repeat("e", 500), Stack: strings.Repeat("s", 10<<10)}
		for i := range 20 {
			e.History = append(e.History, Try{Attempt: i + 1, At: time.Unix(1, 0), Error: strings.Repeat("h", 200)})
		}
		return e
	}
	tests := []struct {
		name                string
		key                 int
		tries               [2]int // fewest, most
		stackCut, keyFramed bool
	}{
		{"all fits, the last ten tries are kept", 40 << 10, [2]int{10, 10}, false, false},
		{"some history goes", 52 << 10, [2]int{1, 9}, false, false},
		{"then the stack", 60 << 10, [2]int{0, 0}, true, false},
		{"then the key travels in the body", 64 << 10, [2]int{10, 10}, false, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			q, back := trip(t, full(test.key))
			n, stack := len(back.History), len(back.Failure.Stack)
			if n < test.tries[0] || n > test.tries[1] || (stack < 10<<10) != test.stackCut || framed(q) != test.keyFramed {
				t.Errorf("%d tries, stack of %d, %s", n, stack, headOf(q))
			}
			if len(back.Failure.Error) != 500 || len(back.Message.Key) != test.key {
				t.Errorf("error of %d, key of %d bytes", len(back.Failure.Error), len(back.Message.Key))
			}
			if n > 0 && back.History[n-1].Attempt != 20 {
				t.Error("the newest try was cut before older ones")
			}
		})
	}
}

func TestAPointerSaysWhereTheRecordIs(t *testing.T) {
	e := hand()
	e.Message.Key = make([]byte, 1<<20)
	e.Pointer, e.Size, e.Compressed = true, 99<<20, true
	q, back := trip(t, e)
	if len(q.Body) != 0 || !back.Pointer || back.Size != 99<<20 || back.Message.Origin != e.Message.Origin || back.Message.Value != nil {
		t.Errorf("pointer %+v with %d bytes", back, len(q.Body))
	}
}

func TestErrorTextIsOneCleanLineOfAtMostAKiB(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"line breaks and escapes", "a\r\nb\x1b[31m\x00c\u2028d\u202e", "a  b [31m c d "},
		{"invalid UTF-8", "a\xffb", "a\ufffdb"},
		{"cut at runes", strings.Repeat("a", 767) + strings.Repeat("é", 500), strings.Repeat("a", 767) + " … " + strings.Repeat("é", 125)},
		{"long", strings.Repeat("é", 5000), strings.Repeat("é", 384) + " … " + strings.Repeat("é", 125)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			e := hand()
			e.Failure.Error = test.text
			if _, back := trip(t, e); back.Failure.Error != test.want {
				t.Errorf("error %q", back.Failure.Error)
			}
		})
	}
}

func TestIdentity(t *testing.T) {
	long := strings.Repeat("t", 249)
	tests := []struct {
		name, topic, want string
	}{
		{"readable", "orders", "orders:3:42"},
		{"a long topic is hashed", long, ID(long, 3, 42)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := string(AppendID([]byte("x/"), test.topic, 3, 42))
			if got != "x/"+test.want || len(got) > 202 || !strings.HasSuffix(got, ":3:42") {
				t.Errorf("id %q", got)
			}
		})
	}
	if ID(long, 3, 42) == ID(long+"t", 3, 42) {
		t.Error("two topics, one id")
	}
}

func TestANewerMajorVersionIsToldApartAndANewerMinorOneIsRead(t *testing.T) {
	for v, want := range map[string]error{"v3": ErrVersion, "v3.1": ErrVersion, "v2.9": nil, "v1": ErrUndecodable, "2": ErrUndecodable, "vx": ErrUndecodable, "v0.1": ErrUndecodable} {
		q := hand().Encode()
		q.Headers[hHead] = strings.Replace(headOf(q), "v2", v, 1)
		if _, err := Decode(q); !errors.Is(err, want) {
			t.Errorf("version %v: %v, want %v", v, err, want)
		}
	}
}

func TestABodyIsCompressedOnlyWhereThatMakesItSmaller(t *testing.T) {
	noise := make([]byte, 1<<20)
	_, _ = rand.Read(noise)
	for _, value := range [][]byte{noise, make([]byte, 1<<20), {}, []byte("x")} {
		e := hand()
		e.Message.Value, e.Compressed = value, true
		q, back := trip(t, e)
		if len(q.Body) > len(value) || back.Compressed != (len(q.Body) < len(value)) || !bytes.Equal(back.Message.Value, value) {
			t.Errorf("%d bytes became %d, compressed: %t", len(value), len(q.Body), back.Compressed)
		}
	}
}
