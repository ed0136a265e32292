package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell/deadset"
	"github.com/stepwell/stepwell/internal/operations"
	"github.com/stepwell/stepwell/internal/outcomes"
)

// pile is a dead set as operations see it: so many match whatever is asked for.
type pile struct {
	mu             sync.Mutex
	match, unseen  int
	causes         int   // beside the first, of one message each
	slow, whole    bool  // turns do nothing; nothing is left out
	more           int   // come between a dry run and what follows
	refused        error // what is to begin
	became         outcomes.Tally
	sampled, asked []operations.Request
}

func (p *pile) May(context.Context, *operations.Request) error { return p.refused }

func (p *pile) Sample(_ context.Context, r *operations.Request) (operations.Sample, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sampled = append(p.sampled, *r)
	groups := []any{&deadset.Group{Group: "7f3a91c2b04d", Count: p.match, Reason: "exhausted", Error: "status \x1b<n>", Minutes: make([]int, 60)}}
	for range p.causes {
		groups = append(groups, &deadset.Group{Group: "0c0ffee0c0ff", Count: 1, Minutes: make([]int, 60)})
	}
	var room *int
	if r.Trash > 0 && r.Action == operations.Delete {
		room = new(4000)
	}
	samples := []any{map[string]any{"id": "orders/v1:0:7"}, map[string]any{"id": "orders/v1:0:8\x1b"}}
	s := operations.Sample{
		Room: room, Matched: p.match, Bytes: int64(p.match) * 300, Groups: groups, Samples: samples[:min(p.match, 2)], Depth: 9 + p.unseen, Unsorted: p.unseen, Complete: p.unseen == 0,
		AsOf: time.Date(2026, 7, 1, 3, 4, 5, 678, time.UTC), LeftOut: operations.LeftOut{CrashLoop: map[bool]int{false: 2}[p.whole]},
	}
	p.match += p.more
	p.more = 0
	return s, nil
}

func (p *pile) Waiting(context.Context) (int, error) { return 0, nil }

func (p *pile) Turn(_ context.Context, enough <-chan struct{}, r *operations.Request, most int) (operations.Turn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, *r)
	if p.slow {
		p.mu.Unlock()
		<-enough
		p.mu.Lock()
		return operations.Turn{Begun: p.match, More: true}, nil
	}
	t := operations.Turn{Begun: p.match, Done: min(most, p.match), Unseen: p.unseen}
	p.match -= t.Done
	return t, nil
}

// Of is what became of the messages of each operation.
func (p *pile) Of(operations ...string) (map[string]outcomes.Tally, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := map[string]outcomes.Tally{}
	for _, id := range operations {
		all[id] = p.became
	}
	return all, nil
}

func (p *pile) set(match int, slow bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.match, p.slow, p.unseen, p.sampled, p.asked, p.became = match, slow, 0, nil, nil, outcomes.Tally{}
}

// last are the requests of the last operation that began, and how often something was asked.
func (p *pile) last(t *testing.T) operations.Request {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.asked) == 0 {
		t.Fatal("no operation has begun")
	}
	return p.asked[len(p.asked)-1]
}

// operating runs operations on the dead set of orders until the test ends.
func operating(t *testing.T, p *pile) *operations.Runner {
	t.Helper()
	r := operations.New(operations.Config{Store: operations.NewMemory(), Name: "here", Outcomes: p, Sets: map[operations.Target]operations.DeadSet{{Stream: "orders"}: p, {Stream: "orders", Channel: "slow"}: p}})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return r
}

func TestWhatIsChosenIsShownAskedAboutDoneAndWatched(t *testing.T) {
	address, dead := serve(t, "")
	known := map[string]string{"replay": "0 handled, 0 failed a try, 0 died, 5 not known yet; ", "delete": ""}
	for _, step := range []struct{ action, flags, question, chosen string }{
		{"replay", "--group 7f3a91c2b04d --include-crash-loop", "Replay these 5 messages of orders?", "{[] 7f3a91c2b04d map[]  false}"},
		{"delete", "--error away --died-from 2h", "Delete these 5 messages of orders for good?", "{[]  map[died_from:2h error:away]  false}"},
		{"delete", "--group 7f3a91c2b04d --topic t", "Delete these 5 messages of orders for good?", "{[]  map[group:7f3a91c2b04d topic:t]  false}"},
		{"replay", "--id a,b --id c -c slow", "Replay these 5 messages of orders channel slow?", "{[a,b c]  map[]  false}"},
		{"replay", "--all --note mended --rate 100000/s --ahead 7", "Replay these 5 messages of orders?", "{[]  map[]  true}"},
	} {
		dead.pile.set(5, false)
		var out, errs bytes.Buffer
		var asked string
		args := slices.Concat([]string{"dead-set", step.action, "-s", "orders", "--address", address}, strings.Fields(step.flags))
		code := run(t.Context(), args, func(question string) error { asked = question; return nil }, &out, &errs)
		want := exitOK
		if strings.Contains(step.flags, "--id") { // two of them are left out
			want = exitLook
		}
		if code != want || asked != step.question || !strings.Contains(out.String(), "done, 5 of 5; "+known[step.action]+"left out: 2 that killed the process") {
			t.Errorf("%s: exit %d, asked %q, %q, %q", step.flags, code, asked, &out, &errs)
		}
		for _, want := range []string{step.action + ": 5 of the 9 dead messages of orders", "7f3a91c2b04d  5", "left out: 2 that killed the process"} {
			if !strings.Contains(errs.String(), want) || strings.Contains(errs.String(), "\x1b") {
				t.Errorf("%s: %q is not in %q", step.flags, want, &errs)
			}
		}
		r := dead.pile.last(t)
		if fmt.Sprint(r.Select) != step.chosen || r.Expect == nil || *r.Expect != 5 || r.Before.Format(time.RFC3339Nano) != "2026-07-01T03:04:05.000000678Z" || r.CrashLoops != strings.Contains(step.flags, "crash") {
			t.Errorf("%s: %+v", step.flags, r)
		}
	}
	if r := dead.pile.last(t); r.Note != "mended" || r.Ahead != 7 {
		t.Errorf("%+v", r)
	}
}

func TestWithoutAYesNothingThatIsChosenIsTouched(t *testing.T) {
	address, dead := serve(t, "")
	for name, step := range map[string]struct {
		flags string
		ask   asker
		code  int
	}{
		"no": {"", func(string) error { return errNo }, exitFailed}, "nobody": {"", nil, exitUsage}, "a dry run": {"--dry-run", nil, exitOK},
		"a dry run as JSON": {"--dry-run --json --rate 1/s", nil, exitOK}, "a wrong rate": {"--rate fast --yes", nil, exitFailed}, "more than expected": {"--expect 4 --yes", nil, exitLook},
	} {
		dead.pile.set(5, false)
		for _, action := range []string{"replay", "delete"} {
			var out, errs bytes.Buffer
			args := slices.Concat([]string{"dead-set", action, "-s", "orders", "--all", "--address", address}, strings.Fields(step.flags))
			if code := run(t.Context(), args, step.ask, &out, &errs); code != step.code || len(dead.pile.asked) > 0 {
				t.Errorf("%s: exit %d, %q, %q", name, code, &out, &errs)
			}
			if strings.Contains(step.flags, "--json") && !strings.Contains(out.String(), `"seconds":5`) || step.flags == "--dry-run" && !strings.Contains(out.String(), "7f3a91c2b04d  5") {
				t.Errorf("%s: %q", name, &out)
			}
		}
	}
}

func TestADryRunShowsHowLargeItIsTheOldestOfItAndWhatTheTrashHasRoomFor(t *testing.T) {
	address, dead := serveKeeping(t, threeDays, "")
	const sized, oldest, room = "5 of the 9 dead messages of orders, 1500 bytes\n", "the oldest: orders/v1:0:7, orders/v1:0:8 \n", "the trash has room for about 4000\n"
	for flags, want := range map[string][]string{
		"replay -s orders --all": {sized, oldest}, "delete -s orders --all": {sized, oldest, room}, "delete -s orders --all --forever": {sized, oldest}, "undo op_1 -s orders": {"of orders, 1500 bytes\n", oldest},
	} {
		dead.pile.set(5, false)
		out, errs, code := command(t, address, strings.Fields("dead-set "+flags+" --dry-run")...)
		if code != exitOK || strings.Contains(out, room) != slices.Contains(want, room) || len(dead.pile.asked) > 0 {
			t.Errorf("%s: exit %d, %q, %q", flags, code, out, errs)
		}
		for _, text := range want {
			if !strings.Contains(out, text) {
				t.Errorf("%s: %q is not in %q", flags, text, out)
			}
		}
	}
	dead.pile.set(0, false)
	if out, _, code := command(t, address, strings.Fields("dead-set replay -s orders --all --dry-run")...); code != exitOK || strings.Contains(out, "bytes") || strings.Contains(out, "oldest") {
		t.Errorf("of nothing: exit %d, %q", code, out)
	}
}

func TestAboveAQuestionAreNoMoreCausesThanAPersonReads(t *testing.T) {
	address, dead := serve(t, "")
	for flags, want := range map[string]int{"": askedCauses - 1, "--dry-run": 30} {
		dead.pile.set(5, false)
		dead.pile.causes = 30
		var out, errs bytes.Buffer
		args := slices.Concat([]string{"dead-set", "delete", "-s", "orders", "--all", "--address", address}, strings.Fields(flags))
		run(t.Context(), args, func(string) error { return errNo }, &out, &errs)
		shown := out.String() + errs.String()
		if n := strings.Count(shown, "0c0ffee0c0ff"); n != want || strings.Contains(shown, "and 11 more causes, of 11 messages: --dry-run shows all\n") != (flags == "") {
			t.Errorf("%q: %d causes, %s", flags, n, shown)
		}
	}
}

func TestWhatDiesBetweenTheQuestionAndTheAnswerIsNotTouched(t *testing.T) {
	address, dead := serve(t, "")
	dead.pile.set(5, false)
	dead.pile.more = 1
	if out, errs, code := command(t, address, "dead-set", "delete", "-s", "orders", "--all", "--yes"); code != exitLook || !strings.Contains(errs, "6 match, and 5 were expected") || len(dead.pile.asked) > 0 {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
}

func TestWhereNotAllWasSeenThatIsSaidAndTheCommandDoesNotCallItDone(t *testing.T) {
	address, dead := serve(t, "")
	dead.pile.set(5, false)
	dead.pile.unseen = 100
	var out, errs bytes.Buffer
	var asked string
	code := run(t.Context(), []string{"dead-set", "replay", "-s", "orders", "--error", "x", "--address", address}, func(question string) error { asked = question; return nil }, &out, &errs)
	if code != exitLook || !strings.Contains(asked, "the 100 that were not looked at") || !strings.Contains(errs.String(), "the oldest 9 of 109 were looked at") || !strings.Contains(out.String(), "100 messages lie behind") {
		t.Errorf("exit %d, asked %q, %q, %q", code, asked, &out, &errs)
	}
	if r := dead.pile.last(t); *r.Expect != 105 {
		t.Errorf("expects %d", *r.Expect)
	}
}

func TestWhereNothingMatchesNothingIsAskedFor(t *testing.T) {
	address, dead := serve(t, "")
	for unseen, want := range map[int]int{0: exitOK, 100: exitLook} {
		dead.pile.set(0, false)
		dead.pile.unseen = unseen
		_, errs, code := command(t, address, "dead-set", "delete", "-s", "orders", "--error", "x")
		if code != want || len(dead.pile.asked) > 0 || unseen > 0 && !strings.Contains(errs, "none of the oldest 9 messages matches, and 100 were not looked at") {
			t.Errorf("exit %d, %q", code, errs)
		}
	}
}

// A variable of a script that is not set is an empty text.
func TestAnEmptyFlagIsRefusedAndNeverMeansAll(t *testing.T) {
	address, dead := serve(t, "")
	dead.pile.set(5, false)
	var flags []string
	for _, name := range []string{
		"stream", "channel", "group", "reason", "error", "error-re", "error-type", "topic", "partition", "offset-from", "offset-to", "key", "key-prefix", "died-from", "died-to",
		"attempts-min", "replays-max", "trace-id", "value", "header", "value-at",
	} {
		flags = append(flags, "--"+name)
	}
	for _, of := range []string{"list", "groups", "export", "replay --all --yes", "delete --all --yes", "replay -n 1", "delete -n 1 --yes"} {
		for _, flag := range flags {
			for _, empty := range [][]string{{flag, ""}, {flag + "="}} {
				args := slices.Concat([]string{"dead-set"}, strings.Fields(of), empty)
				if flag != "--stream" {
					args = append(args, "-s", "orders")
				}
				if out, errs, code := command(t, address, args...); code != exitUsage || !strings.Contains(errs, flag) || out != "" {
					t.Errorf("%q: exit %d, %q, %q", args, code, out, errs)
				}
			}
		}
	}
	for _, args := range [][]string{
		{"replay", "--id", ""}, {"replay", "--id", "a", "--id="}, {"delete", "--all", "--rate", ""}, {"delete", "--all", "--note", ""}, {"peek", "-n", "1", "-c", ""}, {"show", "x", "-c", ""},
		{"list", "--header", "x="}, {"replay", "--header", "x=", "--yes"}, {"delete", "--header", "x=1", "--header", "x=2", "--yes"},
		{"replay", "--all", "--ahead", "0", "--yes"}, {"replay", "-n", "1", "--ahead", "5"}, {"delete", "--all", "--ahead", "5", "--yes"},
	} {
		if out, errs, code := command(t, address, slices.Concat([]string{"dead-set"}, args, []string{"-s", "orders"})...); code != exitUsage || out != "" {
			t.Errorf("%q: exit %d, %q, %q", args, code, out, errs)
		}
	}
	if len(dead.pile.asked)+len(dead.pile.sampled) > 0 || dead.left != 3 {
		t.Errorf("%d asked, %d left", len(dead.pile.asked), dead.left)
	}
}

func TestExactlyOneWayToChooseIsGiven(t *testing.T) {
	address, dead := serve(t, "")
	for flags, says := range map[string]string{
		"": "which messages are meant?", "--yes": "which messages are meant?", "--dry-run": "which messages are meant?", "--all -n 1": "cannot be given together", "--all --error x": "cannot be given together", "--id a --all": "cannot be given together",
		"--id a --group 7f3a91c2b04d": "cannot be given together", "-n 1 --group 7f3a91c2b04d": "cannot be given together", "-n 1 --rate 1/s": "not for a --count", "-n 1 --dry-run": "not for a --count",
		"-n 1 --expect 1": "not for a --count", "--all --expect -1": "--expect", "-n 0": "--count must be 1 or more", "-n -1": "",
	} {
		for _, action := range []string{"replay", "delete"} {
			args := slices.Concat([]string{"dead-set", action, "-s", "orders"}, strings.Fields(flags))
			if _, errs, code := command(t, address, args...); code != exitUsage || !strings.Contains(errs, says) {
				t.Errorf("%q: exit %d, %q", args, code, errs)
			}
		}
	}
	if dead.left != 3 {
		t.Errorf("%d left", dead.left)
	}
}

func TestAnOperationIsListedShownHeldBackAndEnded(t *testing.T) {
	address, dead := serve(t, "")
	dead.pile.set(5, true)
	out, errs, code := command(t, address, "dead-set", "replay", "-s", "orders", "--error", "away", "--rate", "3/m", "--note", "the \x1b fix", "--detach", "--yes")
	id := regexp.MustCompile(`(?m)^op_[0-9a-v]+$`).FindString(out)
	if code != exitOK || id == "" || !strings.Contains(out, "replay of orders is queued") {
		t.Fatalf("exit %d, %q, %q", code, out, errs)
	}
	const ops = "dead-set operations "
	for _, step := range []struct {
		args string
		code int
		says []string
	}{
		{ops, exitOK, []string{"ID", id, `\{"error":"away"\}`, "0/5", "3/m", "loopback", "the   fix"}},
		{ops + "ls -s orders --state done", exitOK, []string{"none"}},
		{ops + "rate " + id + " 30/m", exitOK, []string{"replay of orders: (queued|running)"}},
		{ops + "pause " + id, exitOK, []string{"replay of orders: paused, [0-5] of 5"}},
		{ops + "watch " + id, exitLook, []string{"paused"}},
		{ops + "resume " + id, exitOK, []string{"replay of orders: (queued|running)"}},
		{ops + "show " + id, exitOK, []string{"replay of orders", "\nasked by [^ ]+ at 20[^ ]+.*, of \\{\"error\":\"away\"\\}, at most 30/m; note: the   fix"}},
		{ops + "cancel " + id, exitOK, []string{"cancelled"}},
		{ops + "watch " + id, exitFailed, []string{"cancelled"}},
		{ops + "pause " + id, exitFailed, []string{}},
		{ops + "show op_none", exitFailed, []string{}},
		{ops + "watch op_none", exitFailed, []string{}},
		{ops + "pause op_none", exitFailed, []string{}},
		{ops + "show " + id + " --json", exitOK, []string{`"rate":"30/m"`}},
		{ops + "--json", exitOK, []string{`\{"id":"` + id}},
		{ops + "ls --state x", exitFailed, []string{}},
		{ops + "ls -n 0", exitFailed, []string{}},
	} {
		out, errs, code := command(t, address, strings.Fields(step.args)...)
		for _, text := range step.says {
			if !regexp.MustCompile(text).MatchString(out) {
				t.Errorf("%s: %q is not in %q", step.args, text, out)
			}
		}
		if code != step.code || strings.Contains(out, "\x1b") {
			t.Errorf("%s: exit %d, %q, %q", step.args, code, out, errs)
		}
	}
	if _, errs, _ := command(t, address, strings.Fields(ops+"show op_none")...); !strings.Contains(errs, "op_none is mistyped") || strings.Contains(errs, "again") {
		t.Errorf("of an id that nobody gave it says %q", errs)
	}
	for _, args := range [][]string{{"ls", "--stream", ""}, {"ls", "--state="}, {"show", ""}, {"cancel", ""}} {
		if out, errs, code := command(t, address, slices.Concat([]string{"dead-set", "operations"}, args)...); code == exitOK {
			t.Errorf("%q: %q, %q", args, out, errs)
		}
	}
}

// A mistyped id stays one, however often it is tried; what a command has begun it can begin again.
func TestAnOperationThatEndedWithItsProcessMayBeBegunAgain(t *testing.T) {
	forgetful := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"detail":"there is no such operation here"}`)
			return
		}
		_, _ = io.WriteString(w, `{"id":"op_1","stream":"orders","state":"queued","matched":1}`)
	}))
	defer forgetful.Close()
	for _, args := range []string{"replay -s orders --all --yes", "sort -s orders"} {
		if out, errs, code := command(t, forgetful.URL, append([]string{"dead-set"}, strings.Fields(args)...)...); code != exitAgain || !strings.Contains(errs, "the same command again does what is left") {
			t.Errorf("%s: exit %d, %q, %q", args, code, out, errs)
		}
	}
}

func TestCtrlCEndsTheWatchingAndNotTheOperation(t *testing.T) {
	address, dead := serve(t, "")
	dead.pile.set(5, true)
	ctx, cancel := context.WithCancel(t.Context())
	var out, errs bytes.Buffer
	ended := make(chan int)
	go func() {
		ended <- run(ctx, []string{"dead-set", "delete", "-s", "orders", "--all", "--yes", "--address", address}, nil, &out, &errs)
	}()
	for limit := time.After(30 * time.Second); ; {
		if list, _, _ := command(t, address, "dead-set", "operations"); strings.Contains(list, "running") {
			break
		}
		select {
		case <-time.After(2 * time.Millisecond):
		case <-limit:
			t.Fatal("it does not run")
		}
	}
	cancel()
	if code := <-ended; code != exitLook || !strings.Contains(errs.String(), "goes on unwatched; stepwell --address "+address+" dead-set operations watch op_") {
		t.Errorf("exit %d, %q, %q", code, &out, &errs)
	}
	if list, _, _ := command(t, address, "dead-set", "operations"); !strings.Contains(list, "running") {
		t.Errorf("%s", list)
	}
}

// Who presses it then is told which operation it is, or that there may be one.
func TestCtrlCWhileAnOperationIsAskedForWaitsForTheAnswer(t *testing.T) {
	for want, answers := range map[string]bool{"goes on unwatched; stepwell --address %s dead-set operations watch op_": true, "the operation may have begun; stepwell --address %s dead-set operations shows it": false} {
		address, dead := serve(t, "")
		dead.pile.set(5, true)
		ctx, cancel := context.WithCancel(t.Context())
		proxy := httptest.NewServer(&httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", address },
			ModifyResponse: func(resp *http.Response) error {
				if resp.StatusCode == http.StatusAccepted { // it has begun
					cancel()
					if !answers {
						<-resp.Request.Context().Done()
					}
				}
				return nil
			},
		})
		t.Cleanup(proxy.Close)
		var out, errs bytes.Buffer
		code := run(ctx, []string{"dead-set", "delete", "-s", "orders", "--all", "--yes", "--address", proxy.URL}, nil, &out, &errs)
		if code != exitLook || !strings.Contains(errs.String(), fmt.Sprintf(want, proxy.URL)) {
			t.Errorf("answered %t: exit %d, %q", answers, code, &errs)
		}
	}
}

// cut serves what address does, but breaks the connection off when a request of that kind came,
// whose body has the text, once it is done.
func cut(t *testing.T, address, method, path, text string) string {
	t.Helper()
	through := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", address }}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if r.Method != method || !strings.HasPrefix(r.URL.Path, path) || !strings.Contains(string(body), text) {
			through.ServeHTTP(w, r)
			return
		}
		through.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(proxy.Close)
	return proxy.URL
}

// A process that ends while it is asked, or watched, may have done what it was asked for.
func TestWhereTheAnswerIsCutOffSomebodyHasToLook(t *testing.T) {
	const mayBeDone = "it may be done, or a part of it: look at the dead set before you ask again"
	for _, test := range []struct{ method, path, text, args, says string }{
		{"DELETE", "/v1/dead_set", "", "delete -s orders -n 1 --yes", mayBeDone},
		{"POST", "/v1/dead_set/replay", "", "replay -s orders -n 1", mayBeDone},
		{"POST", "/v1/dead_set/messages/", `"value"`, "edit -s orders orders/v1:0:7 --yes --value " + file(t, "x"), mayBeDone},
		{"POST", operationsPath, `"before"`, "delete -s orders --all --yes", "the operation may have begun; stepwell --address %s dead-set operations shows it"},
		{"GET", operationsPath + "/", "", "delete -s orders --all --yes", "the operation may go on, unwatched: stepwell --address %s dead-set operations watch op_"},
	} {
		address, dead := serveKeeping(t, threeDays, "")
		dead.pile.set(5, false)
		through := cut(t, address, test.method, test.path, test.text)
		out, errs, code := command(t, through, append([]string{"dead-set"}, strings.Fields(test.args)...)...)
		if says := strings.ReplaceAll(test.says, "%s", through); code != exitLook || !strings.Contains(errs, says) {
			t.Errorf("%s: exit %d, %q, %q", test.args, code, out, errs)
		}
	}
}

// A script that tries again what exits with 3 would take as many once more.
func TestWhatStopsHalfWayIsForSomebodyToLookAt(t *testing.T) {
	for _, args := range []string{"delete -s orders -n 3 --yes", "replay -s orders -n 3", "delete -s orders -n 3 --yes --json"} {
		address, dead := serveKeeping(t, threeDays, "")
		dead.left, dead.stops = 5, "no confirm"
		out, errs, code := command(t, address, append([]string{"dead-set"}, strings.Fields(args)...)...)
		if code != exitLook || !strings.Contains(errs, " 2 of 3 messages of ") || !strings.Contains(errs, "takes as many again") {
			t.Errorf("%s: exit %d, %q, %q", args, code, out, errs)
		}
		dead.left = 1 // nothing was done
		if out, errs, code := command(t, address, append([]string{"dead-set"}, strings.Fields(args)...)...); code != exitAgain {
			t.Errorf("%s where nothing was done: exit %d, %q, %q", args, code, out, errs)
		}
	}
}

// What was never sent was not done.
func TestWhereNobodyIsReachedNothingMayBeDone(t *testing.T) {
	for _, args := range []string{"delete -s orders -n 1 --yes", "delete -s orders --all --yes", "operations watch op_1"} {
		if out, errs, code := command(t, "127.0.0.1:1", append([]string{"dead-set"}, strings.Fields(args)...)...); code != exitFailed {
			t.Errorf("%s: exit %d, %q, %q", args, code, out, errs)
		}
	}
}
