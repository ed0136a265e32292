package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/deadset"
	"github.com/stepwell/stepwell/internal/filter"
	"github.com/stepwell/stepwell/server"
)

// set is a dead set of an actor that the commands talk to.
type set struct {
	left int
	err  error

	crashLoop bool     // the last replay was one of all
	trashed   []string // who deleted into the trash
	edited    []string
	editErr   error
	lost      bool         // nobody knows how many are left
	stops     string       // why a delete or replay stops when one message is left to be done
	query     server.Query // the last one

	pile   pile // what operations see of it
	unseen int  // what an export does not see
	breaks bool // an export ends half way
}

func (s *set) Peek(_ context.Context, count int) (server.Page, error) {
	page := server.Page{Depth: s.left}
	for range min(count, s.left, 2) {
		page.Messages = append(page.Messages, map[string]any{"id": "orders.v1:0:7", "topic": "orders.v1", "key": "k7", "key_encoding": "text", "encoding": "json",
			"value": map[string]any{"id": 7, "note": strings.Repeat("x", 100)}, "attempts_total": 4, "reason": "exhausted", "error": "no \x1b[31mstock\nat all"})
	}
	return page, s.err
}

func (s *set) Find(_ context.Context, q server.Query) (server.List, error) {
	s.query = q
	at, _ := strconv.Atoi(q.After)
	list := server.List{Page: server.Page{Depth: 1207}, Matched: 700, Unsorted: 7}
	for ; at < 700 && len(list.Messages) < q.Limit; at++ {
		list.Messages = append(list.Messages, map[string]any{"id": fmt.Sprint("orders.v1:0:", at), "topic": "orders.v1", "value": "\x1b[2Jtext", "encoding": "text", "error": "away"})
	}
	if at < 700 {
		list.Next = strconv.Itoa(at)
	}
	return list, s.err
}

func (s *set) Groups(_ context.Context, of filter.Filter) (any, error) {
	s.query = server.Query{Filter: of}
	minutes := make([]int, 60)
	minutes[0], minutes[58], minutes[59] = 1, 20, 30
	return deadset.Causes{Span: deadset.Span{Depth: 9, Unsorted: 2}, Groups: []*deadset.Group{
		{Group: "7f3a91c2b04d", Count: 6, Reason: "exhausted", Error: "status <n>", ErrorType: "*url.Error", ExampleID: "orders.v1:0:7", Keys: 2, Replayed: 1, Minutes: minutes},
		{Count: 1, Error: "all other causes", Minutes: make([]int, 60)},
	}}, s.err
}

func (s *set) Export(_ context.Context, of filter.Filter) (server.Export, error) {
	s.query = server.Query{Filter: of}
	return server.Export{Depth: 9, Unsorted: s.unseen, Matched: 2, Each: func(_ context.Context, do func(any) error) error {
		if s.breaks {
			return errors.Join(do(map[string]any{"id": strings.Repeat("a", 100_000)}), errors.New("no more")) // more than what waits to be sent
		}
		return errors.Join(do(map[string]any{"id": "a"}), do(map[string]any{"id": "b"}))
	}}, s.err
}

func (s *set) Message(_ context.Context, id string) (server.Detail, error) {
	if id != "orders/v1:0:7" {
		return server.Detail{}, fmt.Errorf("find: %w", server.ErrNotFound)
	}
	return server.Detail{Value: []byte("\x00whole"), Message: map[string]any{
		"id": id, "topic": "orders.v1", "partition": 3, "offset": 7, "key": "k7", "key_encoding": "text", "encoding": "json", "value": map[string]any{"note": "\u009bx"}, "size": 12,
		"group": "7f3a91c2b04d", "attempts_total": 4, "reason": "exhausted", "error": "no\nstock", "copies": 2, "headers": []any{map[string]any{"key": "h", "value": "v"}},
		"stack": "main.handle()\n\tmain.go:3\n", "tries": []any{map[string]any{"attempt": 1, "error": "first", "error_type": "*url.Error", "duration_ms": 0.25, "instance": "shipping-7d9", "app_version": "v1.8", "trace_url": "https://traces/1"}, map[string]any{"attempt": 2, "error": "\x1b[31mlast"}},
	}}, s.err
}

func (s *set) Replay(ctx context.Context, count int) (server.Result, error) {
	return s.Delete(ctx, count)
}

func (s *set) ReplayAll(ctx context.Context, count int) (server.Result, error) {
	s.crashLoop = true
	return s.Delete(ctx, count)
}

func (s *set) Trash(ctx context.Context, _ time.Duration, operation string, count int) (server.Result, error) {
	s.trashed = append(s.trashed, operation)
	return s.Delete(ctx, count)
}

func (s *set) FindTrash(_ context.Context, keep time.Duration, q server.Query) (server.List, error) {
	died := time.Date(2026, 7, 1, 3, 4, 5, 0, time.UTC)
	return server.List{Matched: 1, Page: server.Page{Depth: 1, Messages: []any{
		deadset.Entry{ID: "a", Reason: "exhausted", DiedAt: &died, Error: "kept " + keep.String(), DeletedBy: q.MovedBy, DeletedAt: &died, ExpiresAt: &died},
	}}}, nil
}

func (s *set) Edit(_ context.Context, _ time.Duration, operation, id string, by server.Edit) (string, error) {
	s.edited = append(s.edited, string(*by.Value))
	return id + "~" + operation, cmp.Or(s.editErr, s.err)
}

func (s *set) Delete(_ context.Context, count int) (server.Result, error) {
	if s.err != nil {
		return server.Result{}, s.err
	}
	n := min(count, s.left)
	if s.stops != "" {
		n--
	}
	s.left -= n
	left := s.left
	if s.lost {
		left = deadset.Unknown
	}
	return server.Result{Requested: count, Done: n, Left: left, Stopped: s.stops}, nil
}

type control struct{ now server.Status }

func (c *control) Status(context.Context) server.Status { return c.now }
func (c *control) Pause(by string) {
	c.pause(true, server.Pause{Scope: server.ScopeInstance, By: by, Since: time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)})
}
func (c *control) Resume()                { c.pause(false, server.Pause{Scope: server.ScopeInstance}) }
func (c *control) Pauses() []server.Pause { return c.now.Pauses }

func (c *control) pause(is bool, p server.Pause) {
	c.now.Pauses = slices.DeleteFunc(c.now.Pauses, func(old server.Pause) bool { return old.Scope == p.Scope })
	if is {
		c.now.Pauses = append(c.now.Pauses, p)
	}
	c.now.Paused = len(c.now.Pauses) > 0
}

// appPauses holds the one stream back as all processes would be.
type appPauses struct{ orders *control }

func (p appPauses) Pause(_ context.Context, _, by string) error {
	p.orders.pause(true, server.Pause{Scope: server.ScopeApp, By: by})
	return nil
}
func (p appPauses) Resume(context.Context, string) (bool, error) {
	p.orders.pause(false, server.Pause{Scope: server.ScopeApp})
	return true, nil
}
func (appPauses) Others() []server.OtherPause {
	return []server.OtherPause{{Stream: "gone", Pause: server.Pause{Scope: server.ScopeApp, By: "bob"}}}
}

// serve runs an actor's server with three dead messages until the test ends.
func serve(t *testing.T, token string, modes ...string) (address string, dead *set) {
	t.Helper()
	return serveKeeping(t, 0, token, modes...)
}

// serveKeeping serves one that keeps so long what is deleted.
func serveKeeping(t *testing.T, keep time.Duration, token string, modes ...string) (address string, dead *set) {
	t.Helper()
	dead = &set{left: 3}
	queues := map[string]int{"shop.orders.dead_set": 3, "shop.orders.instant": 0}
	oldest := &server.Oldest{Topic: "orders.v1", Partition: 3, Offset: 17, AgeSeconds: 130.4}
	orders := &control{server.Status{Source: server.FromQueue, Reads: true, Lag: new(int64(12)), Queues: queues, Oldest: oldest,
		Channels: []server.ChannelStatus{{ID: "slow", Runs: true, InFlight: 3, Queues: map[string]int{"shop.orders.channel.slow.instant": 7}}, {ID: "other"}}}}
	s, err := server.New(server.Config{
		Operations: operating(t, &dead.pile), Pauses: appPauses{orders}, Trash: keep, EditLimit: 1 << 20,
		Address: "127.0.0.1:0", Access: access(token), Timeouts: server.Timeouts{PeekWait: time.Millisecond}, Modes: modes,
		Streams: map[string]server.Stream{"orders": {Control: orders, DeadSet: dead,
			Channels: map[string]server.DeadSet{"slow": &set{left: 1}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- s.Run(ctx) }()
	go func() { ended <- s.Open(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, <-ended); err != nil {
			t.Error(err)
		}
	})
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(30 * time.Second)
	for {
		if s.Addr() != "" {
			if _, _, code := command(t, s.Addr(), "streams", "--token", "any"); code != exitAgain {
				return s.Addr(), dead
			}
		}
		select {
		case <-tick.C:
		case <-limit:
			t.Fatal("the server did not open")
		}
	}
}

// command runs the program.
func command(t *testing.T, address string, args ...string) (out, errs string, code int) {
	t.Helper()
	var o, e bytes.Buffer
	code = run(t.Context(), append(args, "--address", address), nil, &o, &e)
	return o.String(), e.String(), code
}

func TestEachCommandDoesWhatItSays(t *testing.T) {
	address, _ := serve(t, "")
	steps := []struct {
		args string
		says []string
	}{
		{"streams", []string{"STREAM", "SOURCE", "orders", "running", "queue", "12", "orders.v1:3:17 2m10s", "shop.orders.dead_set=3"}},
		{"pause orders", []string{"orders is paused on this instance"}},
		{"streams", []string{"paused here by loopback since 2026-01-02T15:04:05Z", "gone", "not a stream of this process, paused in the app by bob"}},
		{"pause orders --app", []string{"orders is paused in all processes"}},
		{"streams", []string{"paused here by loopback since 2026-01-02T15:04:05Z, paused in the app by loopback"}},
		{"resume orders", []string{"orders is resumed on this instance", "still paused in all processes"}},
		{"resume --app orders", []string{"orders is resumed in all processes"}},
		{"dead-set peek --stream orders --count 2", []string{"ID", "orders.v1:0:7", "exhausted", "orders.v1  k7", `{"id":7,"note":"xxx`, "x…", "no  [31mstock at all"}},
		{"dead-set replay --stream=orders --count=2", []string{"replayed 2 of 2", "1 left"}},
		{"dead-set delete -s orders -n 5 --yes", []string{"deleted 1 of 5", "0 left"}},
		{"dead-set peek -s orders -n 5", []string{"none"}},
		{"streams", []string{"orders slow", "shop.orders.channel.slow.instant=7"}},
		{"dead-set peek -s orders --channel slow -n 5", []string{"orders.v1:0:7"}},
		{"dead-set replay -s orders -c slow -n 5", []string{"replayed 1 of 5 messages of orders channel slow", "0 left"}},
	}
	for _, step := range steps {
		out, errs, code := command(t, address, strings.Fields(step.args)...)
		for _, text := range step.says {
			if !strings.Contains(out, text) {
				t.Errorf("%s: %q is not in %q", step.args, text, out)
			}
		}
		if code != exitOK || errs != "" || strings.Contains(out, "\x1b") {
			t.Errorf("%s: exit %d, %q, %q", step.args, code, out, errs)
		}
	}
}

func TestWhatIsRefusedForGoodIsNotToBeTriedAgain(t *testing.T) {
	address, dead := serve(t, "", "api")
	for args, err := range map[string]error{"dead-set replay -s orders -n 1": server.ErrReplayOff, "pause orders": nil, "resume orders": nil} {
		dead.err = err
		if _, errs, code := command(t, address, strings.Fields(args)...); code != exitFailed || !strings.Contains(errs, "409") {
			t.Errorf("%s: exit %d, %s", args, code, errs)
		}
	}
}

func TestTheStateOfAStreamIsWhatMattersMost(t *testing.T) {
	for want, s := range map[string]streamState{
		"running":         {Source: "kafka", Reads: true, Joined: true},
		"joining":         {Source: "kafka", Reads: true},
		"not read here":   {Source: "kafka"},
		"retired":         {Source: "kafka", Retired: true},
		"retired, may go": {Source: "kafka", Retired: true, MayGo: true},
		"stuck":           {Source: "kafka", Reads: true, Stuck: true, Suspect: "orders.v1:0:7"},
		"suspect":         {Source: "queue", Reads: true, Suspect: "order-17"},
		"paused":          {Source: "kafka", Reads: true, Stuck: true, Paused: true},
	} {
		if got := s.word(); got != want {
			t.Errorf("%+v: %s, not %s", s, got, want)
		}
	}
	for _, source := range []string{"enqueue", "queue"} { // which are members of no group
		if got := (streamState{Source: source, Reads: true}).word(); got != "running" {
			t.Errorf("%s: %s", source, got)
		}
	}
}

func TestAChannelThatAnotherProcessRunsIsNotCalledRunning(t *testing.T) {
	address, _ := serve(t, "")
	out, _, _ := command(t, address, "streams")
	if table := strings.Join(strings.Fields(out), " "); !strings.Contains(table, "orders slow running") || !strings.Contains(table, "orders other not run here") {
		t.Error(out)
	}
}

func TestWhatIsLeftIsNotCalledNoneWhereNobodyKnows(t *testing.T) {
	address, dead := serve(t, "")
	dead.lost = true
	for _, args := range []string{"dead-set replay -s orders -n 1", "dead-set delete -s orders -n 1 --yes"} {
		out, errs, code := command(t, address, strings.Fields(args)...)
		if code != exitOK || !strings.HasSuffix(out, " 1 of 1 messages of orders; how many are left is not known\n") {
			t.Errorf("%s: exit %d, %q, %q", args, code, out, errs)
		}
	}
}

func TestJSONIsOneObjectALine(t *testing.T) {
	address, dead := serve(t, "")
	for args, lines := range map[string]int{
		"streams": 1, "pause orders": 1, "dead-set peek -s orders -n 2": 2, "dead-set replay -s orders -n 1": 1, "dead-set replay -s other -n 1": 1, "dead-set peek -s other -n 1": 1,
	} {
		out, _, _ := command(t, address, append(strings.Fields(args), "--json")...)
		if n := strings.Count(out, "\n"); n != lines {
			t.Errorf("%s: %d lines, want %d", args, n, lines)
		}
		for line := range strings.Lines(out) {
			if err := json.Unmarshal([]byte(line), new(map[string]any)); err != nil {
				t.Errorf("%s: %v in %s", args, err, line)
			}
		}
	}
	if dead.left != 2 {
		t.Errorf("%d left", dead.left)
	}
}

func TestAnAddressWithoutAHostIsThisMachine(t *testing.T) {
	address, _ := serve(t, "")
	_, port, _ := strings.Cut(strings.TrimPrefix(address, "http://"), ":")
	if _, errs, code := command(t, ":"+port, "streams"); code != exitOK {
		t.Errorf("exit %d: %s", code, errs)
	}
}

func TestAPeekThatShowsNotAllSaysSoBesideTheTable(t *testing.T) {
	address, _ := serve(t, "")
	for _, args := range []string{"dead-set peek -s orders -n 5", "dead-set peek -s orders -n 5 --json"} {
		out, errs, code := command(t, address, strings.Fields(args)...)
		if code != exitOK || !strings.Contains(out, "orders.v1:0:7") || strings.Contains(out, "oldest") || errs != "the oldest 2 of 3: one answer shows no more\n" {
			t.Errorf("%s: %d %q %q", args, code, out, errs)
		}
	}
}

func TestADeleteAsksAndDeletesOnlyAfterAYes(t *testing.T) {
	address, dead := serve(t, "")
	var asked []string
	answering := func(answer error) asker {
		return func(question string) error { asked = append(asked, question); return answer }
	}
	steps := []struct {
		name, args string
		ask        asker
		code, left int
	}{
		{"no", "-n 2", answering(errNo), exitFailed, 3},
		{"nobody", "-n 2", nil, exitUsage, 3},
		{"nobody, with --json", "-n 2 --json", nil, exitUsage, 3},
		{"yes", "-n 2", answering(nil), exitOK, 1},
		{"said before", "-n 100000 --yes", nil, exitOK, 0},
	}
	for _, step := range steps {
		var out, errs bytes.Buffer
		args := append(strings.Fields("dead-set delete -s orders --address "+address), strings.Fields(step.args)...)
		if code := run(t.Context(), args, step.ask, &out, &errs); code != step.code || dead.left != step.left {
			t.Errorf("%s: exit %d, %d left, %q", step.name, code, dead.left, &errs)
		}
	}
	const question = "Delete the 2 oldest of the 3 dead messages of orders for good?"
	if !slices.Equal(asked, []string{question, question}) {
		t.Errorf("asked %q", asked)
	}
}

func TestOnlyATerminalIsAskedAndOnlyAYesIsOne(t *testing.T) {
	in, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if atTerminal(in, io.Discard) != nil {
		t.Error("a file is asked")
	}
	null, err := os.Open(os.DevNull) // a character device, like a terminal
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if atTerminal(null, io.Discard) != nil {
		t.Error("/dev/null is asked")
	}
	for line, want := range map[string]error{"y\n": nil, "Yes\n": nil, "yes": nil, "n\n": errNo, "\n": errNo, "yesterday\n": errNo, "": errUnasked} {
		if err := asking(strings.NewReader(line), io.Discard)("?"); !errors.Is(err, want) {
			t.Errorf("%q: %v, not %v", line, err, want)
		}
	}
}

func TestWhatWentWrongIsSaidInWordsAndByTheExitCode(t *testing.T) {
	address, dead := serve(t, "")
	tests := []struct {
		name, args string
		err        error
		code       int
		says       string
	}{
		{"unknown stream", "dead-set replay -s ordres -n 1", nil, exitFailed, "streams are: orders"},
		{"unknown stream to pause", "pause ordres", nil, exitFailed, "404"},
		{"another walk", "dead-set delete -y -s orders -n 1", server.ErrBusy, exitAgain, "try again in 1 s"},
		{"brokers away", "dead-set replay -s orders -n 1", server.ErrUnavailable, exitAgain, "not available"},
		{"a trash that takes nothing", "dead-set delete -y -s orders -n 1", server.ErrNoTrash, exitFailed, "forever=true"},
		{"a long story", "dead-set replay -s orders -n 1", fmt.Errorf("%w: %s mend that", server.ErrUnavailable, strings.Repeat("and ", 200)), exitAgain, "mend that"},
		{"count above the limit", "dead-set replay -s orders -n 100001", nil, exitFailed, "100000"},
		{"count 0", "dead-set replay -s orders -n 0", nil, exitUsage, "count"},
		{"count in words", "dead-set replay -s orders -n abc", nil, exitUsage, "count"},
		{"no count", "dead-set delete -s orders", nil, exitUsage, "--count"},
		{"no stream", "dead-set delete -n 1", nil, exitUsage, "--stream is missing, or empty"},
		{"no stream to look at", "dead-set groups", nil, exitUsage, "--stream is missing, or empty"},
		{"no stream to sort", "dead-set sort --stream=", nil, exitUsage, "--stream is missing, or empty"},
		{"nobody to ask", "dead-set delete -s orders -n 1", nil, exitUsage, "--yes"},
		{"no command", "", nil, exitUsage, "--help"},
		{"the stream as an argument", "dead-set peek orders", nil, exitUsage, "usage: stepwell dead-set peek --stream"},
		{"unknown command", "dead-set purge", nil, exitUsage, "purge"},
		{"missing token file", "streams --token-file /nowhere/token", nil, exitUsage, "token-file"},
		{"nobody there", "streams --address 127.0.0.1:1", nil, exitFailed, "reach the actor at --address 127.0.0.1:1: dial"},
		{"no address", "streams --address ftp://x", nil, exitUsage, "--address"},
	}
	for _, test := range tests {
		dead.err = test.err
		args := strings.Fields(test.args)
		if !strings.Contains(test.args, "--address") {
			args = append(args, "--address", address)
		}
		var out, errs bytes.Buffer
		if code := run(t.Context(), args, nil, &out, &errs); code != test.code || !strings.Contains(errs.String(), test.says) {
			t.Errorf("%s: exit %d, %q", test.name, code, errs.String())
		}
	}
	if dead.left != 3 {
		t.Errorf("%d left", dead.left)
	}
}

func TestTheTokenComesFromTheVariableOrAFile(t *testing.T) {
	address, _ := serve(t, "swordfish")
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("swordfish\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := command(t, address, "streams"); code != exitFailed || !strings.Contains(errs, "server.token") || !strings.Contains(errs, "STEPWELL_TOKEN") {
		t.Errorf("without: %d %s", code, errs)
	}
	if _, errs, code := command(t, address, "streams", "--token-file", file); code != exitOK {
		t.Errorf("from a file: %d %s", code, errs)
	}
	t.Setenv("STEPWELL_TOKEN", "swordfish")
	if _, errs, code := command(t, address, "streams"); code != exitOK {
		t.Errorf("from the variable: %d %s", code, errs)
	}
}

func TestTheVersionIsPrinted(t *testing.T) {
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"--version"}, nil, &out, &errs); code != exitOK || !strings.HasPrefix(out.String(), "stepwell ") || errs.Len() > 0 {
		t.Errorf("%d %q %q", code, &out, &errs)
	}
}

func TestHelpIsNoMistake(t *testing.T) {
	if out, errs, code := command(t, "localhost:1", "dead-set", "groups", "--help"); code != exitOK || !strings.Contains(out, "LAST HOUR draws how many died in each five minutes") || errs != "" {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
	if out, errs, code := command(t, "localhost:1", "--help"); code != exitOK || !strings.Contains(out, "dead-set") || errs != "" {
		t.Errorf("%d %q %q", code, out, errs)
	}
}

// access is by this token alone; empty: by none.
func access(token string) server.Access {
	if token == "" {
		return server.Access{}
	}
	return server.Access{Tokens: []server.Token{{Name: "token", Role: server.Operator, Secret: token}}}
}
