package actor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/config"
	"github.com/stepwell/stepwell/deadset"
	"github.com/stepwell/stepwell/embedded"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/server"
)

func TestAnArgumentThatIsNoCommandIsNamedAndHelpIsNoMistake(t *testing.T) {
	for _, test := range []struct {
		args      string
		code      int
		out, errs string
	}{
		{"bogus", 2, "", `there is no command "bogus"`},
		{"docter", 2, "", `there is no command "docter"; did you mean doctor?`},
		{"doctor now", 2, "", `doctor takes no argument, not "now"`},
		{"--help", 0, "usage: ", ""},
		{"-h", 0, "usage: ", ""},
		{"--version", 0, "shop (devel), stepwell (devel), go1.", ""},
	} {
		var out, errs bytes.Buffer
		code := command(t.Context(), App{Name: "shop"}, strings.Fields(test.args), &out, &errs)
		if code != test.code || !strings.HasPrefix(out.String(), test.out) || !strings.HasPrefix(errs.String(), test.errs) || (test.errs == "") != (errs.Len() == 0) {
			t.Errorf("%s: exit %d, %q, %q", test.args, code, &out, &errs)
		}
	}
}

func TestADurationInTheLogHasItsUnit(t *testing.T) {
	var out bytes.Buffer
	newLogger(config.Log{Level: "info", Format: "json"}, &out).Info("stop", "budget", config.Shutdown{Timeout: 25e9}.Timeout)
	if !strings.Contains(out.String(), `"budget":"25s"`) {
		t.Error(out.String())
	}
}

func TestTheErrorOfAPartIsReportedOnce(t *testing.T) {
	parts := newStack()
	parts.push(t.Context(), "http", func(context.Context) error { return errors.New("port in use") })
	first := (<-parts.failed).failure()
	if err := parts.unwind(t.Context()); first == nil || err != nil {
		t.Errorf("%v, and again %v", first, err)
	}
	parts.push(t.Context(), "brokers", func(ctx context.Context) error { <-ctx.Done(); return errors.New("not closed") })
	if err := parts.unwind(t.Context()); err == nil || err.Error() != "stop brokers: not closed" {
		t.Errorf("what went wrong in the stop: %v", err)
	}
}

func TestWhyAPartEndedIsToldAtOnceAndReturnedThoughAStopComesWhileTheStartFunctionRuns(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	ctx, stop := context.WithCancel(t.Context())
	log := &lines{}
	app := App{
		Name: "shop", Logger: slog.New(slog.NewTextHandler(log, nil)), Brokers: embedded.New(embedded.Options{Topics: map[string]int32{"orders.v1": 1}}),
		Streams: Streams{"orders": {Handler: func(context.Context, *stepwell.Message) error { return nil }}},
		Start: func(ctx context.Context, _ *Env) error {
			<-ctx.Done()
			if !strings.Contains(log.String(), "listen on ") {
				t.Error("nobody said why")
			}
			stop()
			return ctx.Err()
		},
	}
	cfg, err := Load(app, []string{"SERVER_ADDRESS=" + taken.Addr().String(), "STREAMS_ORDERS_TOPICS=orders.v1"})
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(cfg, app)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Run(ctx); err == nil || !strings.Contains(err.Error(), "listen on ") {
		t.Errorf("Run: %v", err)
	}
}

func TestAPartThatEndsWithoutAnErrorOrWithThatOfAContextIsToldWhereNobodyLooks(t *testing.T) {
	for _, why := range []error{nil, fmt.Errorf("asked: %w", context.Canceled)} {
		parts := newStack()
		for _, part := range []string{"http", "brokers"} {
			parts.push(t.Context(), part, func(context.Context) error { return why })
			<-parts.parts[len(parts.parts)-1].done
		}
		if text := fmt.Sprint(parts.unwind(t.Context())); !strings.Contains(text, "http: ") || !strings.Contains(text, "brokers: ") {
			t.Errorf("%v: %s", why, text)
		}
	}
}

func TestNoErrorOfAPartThatEndedByItselfIsLostWhereSeveralDoOrNobodyLooks(t *testing.T) {
	for name, looks := range map[string]bool{"one is looked at": true, "none is": false} {
		parts := newStack()
		for _, part := range []string{"http", "brokers"} {
			parts.push(t.Context(), part, func(context.Context) error { return errors.New("no " + part) })
			<-parts.parts[len(parts.parts)-1].done
		}
		var first error
		if looks {
			first = (<-parts.failed).failure()
		}
		err := fmt.Sprint(errors.Join(first, parts.unwind(t.Context())))
		for _, part := range []string{"http", "brokers"} {
			if strings.Count(err, part+": no "+part) != 1 || strings.Contains(err, "stop ") {
				t.Errorf("%s: %s", name, err)
			}
		}
	}
}

func TestTheLogOfAnActorWhosePortIsInUseSaysItAtOnceAndInTheLastLine(t *testing.T) { // not parallel: it sets variables
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	t.Setenv("SERVER_ADDRESS", taken.Addr().String())
	t.Setenv("STREAMS_ORDERS_TOPICS", "orders.v1")
	log, out := &lines{}, &bytes.Buffer{}
	code := command(t.Context(), App{
		Name: "shop", Logger: slog.New(slog.NewTextHandler(log, nil)), Brokers: embedded.New(embedded.Options{Topics: map[string]int32{"orders.v1": 1}}),
		Streams: Streams{"orders": {Handler: func(context.Context, *stepwell.Message) error { return nil }}},
	}, nil, out, out)
	all := strings.Split(strings.TrimSpace(log.String()), "\n")
	if code != exitFailed || out.Len() > 0 || strings.Count(log.String(), "listen on ") != 2 || strings.Count(log.String(), "level=ERROR") != 1 ||
		!strings.Contains(log.String(), `level=WARN msg="a part ended, stop" part=http error="http: listen on SERVER_ADDRESS `) ||
		!strings.Contains(all[len(all)-1], `level=ERROR msg="the actor ends with an error" error="http: listen on SERVER_ADDRESS `) {
		t.Errorf("exit %d, %q, and the log\n%s", code, out, log)
	}
}

func TestWhatIsWrongWithTheQueuesIsSaidOnce(t *testing.T) {
	err := forServer(fmt.Errorf("peek: %w: connection refused", queue.ErrUnavailable))
	if !errors.Is(err, server.ErrUnavailable) || !errors.Is(err, queue.ErrUnavailable) || err.Error() != "peek: queues are not available: connection refused" {
		t.Errorf("%v", err)
	}
	if err := forServer(fmt.Errorf("peek: %w", deadset.ErrRefused)); !errors.Is(err, server.ErrRefused) {
		t.Errorf("%v", err)
	}
}

func TestATroubleOfAllQueuesIsSaidOnce(t *testing.T) {
	away := fmt.Errorf("%w: refused", queue.ErrUnavailable)
	if err := eachOnce([]error{away, away, errors.New("no queue q"), away}); err == nil || err.Error() != "queues are not available: refused; no queue q" {
		t.Errorf("%v", err)
	}
	if err := eachOnce(nil); err != nil {
		t.Errorf("%v", err)
	}
}
