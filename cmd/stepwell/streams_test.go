package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// shaky is an actor of which every look sees another lag: the second finds nobody, the third one
// that is starting, and in the fifth somebody presses Ctrl-C.
func shaky(t *testing.T, ctrlC func()) (address string) {
	t.Helper()
	var looks atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch n := looks.Add(1); n {
		case 2:
			panic(http.ErrAbortHandler) // the connection ends without an answer
		case 3:
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, `{"detail":"the actor is starting"}`)
		case 5:
			ctrlC()
			<-r.Context().Done()
		default:
			fmt.Fprintf(w, `{"streams":[{"id":"orders","reads":true,"joined":true,"source":"kafka","lag":%d00}]}`, n)
		}
	}))
	s.Config.SetKeepAlivesEnabled(false) // the client would try again by itself, which new ones are not
	t.Cleanup(s.Close)
	return s.URL
}

func TestAWatchShowsStreamsAnewThroughAnOutageUntilCtrlC(t *testing.T) {
	const clear = "\x1b[H\x1b[2J"
	for _, test := range []struct {
		name         string
		json, screen bool
		heads, clear int // how often the head of a table comes, and the screen is cleared
		lines        int // on what is not standard error
		refusal      bool
	}{
		{name: "into a file", heads: 2, lines: 4},
		{name: "on a screen", screen: true, heads: 2, clear: 2, lines: 4},
		{name: "as JSON", json: true, lines: 3, refusal: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var out, errs bytes.Buffer
			a, err := newActor(&commands{Address: shaky(t, cancel), JSON: test.json}, nil, &out, &errs)
			if err != nil {
				t.Fatal(err)
			}
			if err := a.watchStreams(ctx, time.Millisecond, test.screen); err != nil {
				t.Errorf("Ctrl-C is an error: %v", err)
			}
			text := out.String()
			if strings.Count(text, "STREAM") != test.heads || strings.Count(text, clear) != test.clear || strings.Count(text, "\x1b") != 2*test.clear || strings.Count(text, "\n") != test.lines {
				t.Errorf("%q", text)
			}
			if first, last := strings.Index(text, "100"), strings.Index(text, "400"); first < 0 || last < first || strings.Contains(text, "is starting") != test.refusal {
				t.Errorf("%q", text)
			}
			if told := errs.String(); strings.Count(told, "\n") != 2 || !strings.Contains(told, "stepwell: reach the actor at --address 127.0.0.1:") || !strings.Contains(told, "503 Service Unavailable: the actor is starting") {
				t.Errorf("%q", told)
			}
		})
	}
}

// untilShown is the output of a command that does not end by itself: Ctrl-C comes a moment after
// text was shown.
type untilShown struct {
	shown bytes.Buffer
	text  string
	ctrlC func()
}

func (u *untilShown) Write(p []byte) (int, error) {
	n, err := u.shown.Write(p)
	if strings.Contains(u.shown.String(), u.text) {
		time.AfterFunc(100*time.Millisecond, u.ctrlC)
	}
	return n, err
}

func TestAWatchEndsWithZeroByCtrlCAndNotWithoutIt(t *testing.T) {
	address, _ := serve(t, "")
	ctx, ctrlC := context.WithCancel(t.Context())
	defer ctrlC()
	out := untilShown{text: "STREAM", ctrlC: ctrlC}
	var errs bytes.Buffer
	code := run(ctx, []string{"streams", "--watch", "--address", address}, nil, &out, &errs)
	if code != exitOK || ctx.Err() == nil || !strings.Contains(out.shown.String(), "STREAM") || errs.Len() > 0 {
		t.Errorf("exit %d, %q, %q", code, &out.shown, &errs)
	}
}

// fullDisk is where nothing more can be written.
type fullDisk struct{}

var errFull = errors.New("no space left on device")

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

func TestAWatchThatNobodyCanReadEnds(t *testing.T) {
	address, _ := serve(t, "")
	a, err := newActor(&commands{Address: address}, nil, fullDisk{}, new(bytes.Buffer))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.watchStreams(t.Context(), time.Millisecond, false); !errors.Is(err, errFull) {
		t.Errorf("%v", err)
	}
}

// A process that reads no topics has a lag of 0 for each, whoever is behind by how much.
func TestTheLagOfAStreamThatOthersReadIsNotCalledNone(t *testing.T) {
	for _, test := range []struct{ reads, lag, want string }{
		{"true", "0", "orders paused kafka 0 0 3 - -"}, {"false", "0", "orders paused kafka - - 3 - -"},
		{"true", "null", "orders paused kafka 0 - 3 - -"}, // nobody knows it
	} {
		actor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"streams":[{"id":"orders","source":"kafka","paused":true,"in_flight":3,"lag":`+test.lag+`,"reads":`+test.reads+`}]}`)
		}))
		defer actor.Close()
		out, errs, code := command(t, actor.URL, "streams")
		if table := strings.Join(strings.Fields(out), " "); code != exitOK || !strings.HasSuffix(table, test.want) {
			t.Errorf("%+v: %d, %q, %s", test, code, table, errs)
		}
	}
}
