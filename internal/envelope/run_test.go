package envelope

import (
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/internal/queue"
)

// tried is the message after one more failure that a program of this version parks.
func tried(t *testing.T, e *Envelope, at time.Time, kind string, r Run) queue.Message {
	t.Helper()
	e.Failure = Failure{Error: "no", ErrorType: kind, At: at, Run: r}
	e.AttemptsTotal++
	e.Message.Attempt++
	e.History = append(e.History, e.last())
	return e.Encode()
}

func runsOf(t *testing.T, q queue.Message) (of []Run, kinds []string) {
	t.Helper()
	e, err := Decode(q)
	if err != nil {
		t.Fatal(err)
	}
	for _, try := range e.History {
		of, kinds = append(of, try.Run), append(kinds, try.ErrorType)
	}
	return of, kinds
}

var began = time.Date(2026, 3, 4, 5, 6, 7, 891_000_000, time.UTC)

const span = "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331"

func TestHowAndWhereTriesWereMadeIsToldOfTheLastTen(t *testing.T) {
	e, want, kinds := hand(), []Run(nil), []string(nil)
	var q queue.Message
	for i := range MaxHistory + 2 {
		r := Run{Took: time.Duration(i+1) * time.Millisecond, By: By("shipping-7d9", "v1.8"), Span: span}
		if i%3 == 2 {
			r = Run{Took: 250 * time.Microsecond, By: By("a/b c%", "")}
		}
		kind := []string{"*url.Error", "*url.Error", "net/http.Error of mine"}[i%3]
		q = tried(t, e, began.Add(time.Duration(i)*time.Second), kind, r)
		want, kinds = append(want, r), append(kinds, kind)
		var err error
		if e, err = Decode(q); err != nil {
			t.Fatal(err)
		}
	}
	of, are := runsOf(t, q)
	if !reflect.DeepEqual(of, want[2:]) || !reflect.DeepEqual(are, kinds[2:]) {
		t.Fatalf("tries were made so: %+v of %q, want %+v of %q", of, are, want[2:], kinds[2:])
	}
	if instance, version := of[0].Process(); instance != "a_b c%" || version != "" {
		t.Fatalf("process %q %q", instance, version)
	}
	if trace, id := of[1].Trace(); trace+"-"+id != span {
		t.Fatalf("trace %q, span %q", trace, id)
	}
}

func TestAReplayKeepsHowTriesWereMade(t *testing.T) {
	e := hand()
	r := Run{Took: time.Second, By: By("i", "v1")}
	tried(t, e, began, "*E", r)
	e.Replay()
	if of, kinds := runsOf(t, e.Encode()); len(of) != 1 || of[0] != r || kinds[0] != "*E" {
		t.Fatalf("after a replay: %+v %q", of, kinds)
	}
}

// A program that does not know runs keeps the word and the header as they are, and adds a try.
func TestAnOlderProgramsTryIsNotTakenForTheOneBefore(t *testing.T) {
	e := hand()
	first, second := Run{Took: time.Second, By: By("i", "v1")}, Run{Took: 2 * time.Second, By: By("j", "v1")}
	tried(t, e, began, "*E", first)
	knows := tried(t, e, began.Add(time.Second), "*E", second)
	older := hand()
	older.History = e.History
	older.AttemptsTotal, older.Message.Attempt = 2, 3
	q := tried(t, older, began.Add(2*time.Second), "*F", Run{})
	q.Headers = maps.Clone(q.Headers)
	q.Headers[hRuns] = knows.Headers[hRuns]
	_, word, _ := strings.Cut(knows.Headers[hHead].(string), " "+wRun+"=")
	q.Headers[hHead] = q.Headers[hHead].(string) + " " + wRun + "=" + word
	of, _ := runsOf(t, q)
	if want := []Run{first, second, {}}; !reflect.DeepEqual(of, want) {
		t.Fatalf("tries were made so: %+v, want %+v", of, want)
	}
}

func FuzzWhatCannotBeReadOfARunBreaksNothing(f *testing.F) {
	f.Add("891/210us/"+span+"/i/v1", "891/1us//i/v1/*E\n892/2us//=/=")
	f.Add("/", "1/1us/")
	f.Add("891/-1us/\x00/", "\n\n=")
	f.Fuzz(func(t *testing.T, word, header string) {
		e := hand()
		q := tried(t, e, began, "*E", Run{})
		if strings.ContainsAny(word, " ") {
			t.Skip("it would be two words")
		}
		q.Headers = maps.Clone(q.Headers)
		q.Headers[hHead] = q.Headers[hHead].(string) + " " + wRun + "=" + word
		q.Headers[hRuns] = header
		if len(word) > maxHead/2 {
			return
		}
		for range 2 { // what was read is written and read again
			back, err := Decode(q)
			if err != nil {
				t.Fatal(err)
			}
			back.Failure.At, back.Failure.ErrorType = began.Add(time.Hour), "" // so that it is in the header
			back.History = append(back.History, back.last())
			q = back.Encode()
			if n := sizeOf(q.Headers); n > MaxHeaders {
				t.Fatalf("%d bytes", n)
			}
		}
	})
}
