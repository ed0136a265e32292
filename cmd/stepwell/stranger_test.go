package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A page of another server is no file of dead messages.
func TestWhatIsNoActorExportsNothing(t *testing.T) {
	stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>hello</html>") }))
	defer stranger.Close()
	for _, args := range []string{"export", "groups"} {
		out, errs, code := command(t, stranger.URL, "dead-set", args, "-s", "orders")
		if code != exitFailed || out != "" || !strings.Contains(errs, "is there a stepwell actor at --address?") {
			t.Errorf("%s: exit %d, %q, %q", args, code, out, errs)
		}
	}
}

// So answers the console of an actor with routes of its own, and many another server.
func TestWhatIsNotFoundWithoutAWordIsNoActor(t *testing.T) {
	stranger := httptest.NewServer(http.NotFoundHandler())
	defer stranger.Close()
	if _, errs, code := command(t, stranger.URL+"/console", "streams"); code != exitFailed || !strings.Contains(errs, "is there a stepwell actor at --address") {
		t.Errorf("exit %d, %q", code, errs)
	}
}

// told passes on what is written.
type told chan string

func (t told) Write(text []byte) (int, error) { t <- string(text); return len(text), nil }

func TestThePauseOfAnotherStreamIsNoNews(t *testing.T) {
	for answer, want := range map[string]string{
		`{"streams":[{"id":"other","paused":true},{"id":"orders"}]}`: "",
		`{"streams":[{"id":"other"},{"id":"orders","paused":true}]}`: "orders is paused: nothing is handled in this process until it is resumed\n", // an old actor's
		`no answer of an actor`: "",
	} {
		stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) }))
		var errs strings.Builder
		a, err := newActor(&commands{Address: stranger.URL}, nil, io.Discard, &errs)
		if err != nil {
			t.Fatal(err)
		}
		a.noteHeld(t.Context(), "orders")
		stranger.Close()
		if errs.String() != want {
			t.Errorf("%s: %q", answer, errs.String())
		}
	}
}

func TestOneThatDoesNotAnswerIsNotWaitedForInSilence(t *testing.T) {
	errs := make(told)
	stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if text := <-errs; !strings.Contains(text, "no answer yet from 127.0.0.1:") || !strings.Contains(text, "Ctrl-C") {
			t.Errorf("it says %q", text)
		}
		_, _ = io.WriteString(w, `{"streams":[]}`)
	}))
	defer stranger.Close()
	a, err := newActor(&commands{Address: stranger.URL}, nil, io.Discard, errs)
	if err != nil {
		t.Fatal(err)
	}
	a.silence = time.Millisecond
	if _, err := a.send(t.Context(), "GET", "/v1/streams", nil); err != nil {
		t.Error(err)
	}
}

// A flag that is there twice, as in a line out of the history that was added to, would otherwise
// act on the last one alone, without a word of the first.
func TestNothingIsDoneWhereAFlagIsGivenTwice(t *testing.T) {
	address, dead := serve(t, "")
	left := dead.left
	for args, flag := range map[string]string{
		"dead-set delete --stream search --stream orders --count 1 --yes": "--stream",
		"dead-set delete --stream search -n 1 -s orders --yes":            "--stream",
		"dead-set replay -s orders --count 1 -n 2":                        "--count",
		"dead-set peek -s orders -c fast --channel slow -n 1":             "--channel",
	} {
		out, errs, code := command(t, address, strings.Fields(args)...)
		if code != exitUsage || out != "" || !strings.Contains(errs, flag+" is given twice") || dead.left != left {
			t.Errorf("%s: %d, %q, %q", args, code, out, errs)
		}
	}
}
