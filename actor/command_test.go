package actor_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/embedded"
	"github.com/stepwell/stepwell/internal/task"
)

// roleVariable says what the test binary is to be, where it is an actor in a process of its own.
const roleVariable = "STEPWELL_TEST_ROLE"

// play runs an actor of this role and exits. A stubborn one's handler never ends. One that holds
// ends no try of the attempt that the role names after its colon; an unstartable one's start
// function fails; one that takes over fails each try, and has an OnDead that does not return where
// the role names an attempt; others fail once and then work. Each try is a line "attempt value" on
// its standard output, before it ends, and so is a call of OnDead, of "taken" and the value. A
// telling one takes its time for each try, and says at the end of those that work that they are
// "done". An embedded one has its brokers inside, which have the topic that the role names.
func play(role string) {
	kind, attempt, _ := strings.Cut(role, ":")
	if kind == "jobs" {
		playJobs()
	}
	var start func(context.Context, *actor.Env) error
	var channels actor.Channels
	if kind == "channels" {
		channels = actor.Channels{"slow": {Handler: func(context.Context, *stepwell.Message) error { return nil }}}
	}
	var brokers actor.Brokers
	if kind == "embedded" {
		brokers = embedded.New(embedded.Options{Topics: map[string]int32{attempt: 1}})
	}
	if kind == "unstartable" {
		start = func(context.Context, *actor.Env) error { return errors.New("no database") }
	}
	handle := func(ctx context.Context, m *stepwell.Message) error {
		line := strings.Repeat("+", m.Attempt) + " " + string(m.Value) + "\n"
		if _, err := os.Stdout.WriteString(line); err != nil {
			panic(err)
		}
		switch {
		case kind == "takes":
			return errFlaky
		case kind == "deadly":
			return deadly(string(m.Value), m.Attempt)
		case kind == "stubborn":
			select {}
		case kind == "telling":
			return tells(ctx, m)
		case kind == "hold" && strings.HasPrefix(string(m.Value), "bad") && len(attempt) == m.Attempt:
			<-ctx.Done()
			return ctx.Err()
		}
		return failsOnce(string(m.Value), m.Attempt)
	}
	orders := actor.Stream{Channels: channels, Handler: handle}
	if kind == "takes" {
		orders.OnDead = func(_ context.Context, m *stepwell.Message, _ error) error {
			if _, err := os.Stdout.WriteString("+ taken " + string(m.Value) + "\n"); err != nil || attempt == "" {
				return err
			}
			select {} // the work is done, and the process is killed before anybody knows
		}
	}
	if kind == "deadly" { // which is not asked before what kills the process goes to the dead set
		orders.OnDead = func(context.Context, *stepwell.Message, error) error { return nil }
	}
	if os.Getenv(batchVariable) != "" {
		orders.Handler, orders.Batch = nil, eachOf(handle)
	}
	actor.Main(actor.App{Start: start, Brokers: brokers, Streams: actor.Streams{"orders": orders}})
}

// tells is a try that fails once and then works, long enough that a kill finds many under way. What
// it says when it works is said last, so that a try that was killed has not said it.
func tells(ctx context.Context, m *stepwell.Message) error {
	const work = 20 * time.Millisecond
	if !task.Sleep(ctx, work) {
		return ctx.Err()
	}
	if err := failsOnce(string(m.Value), m.Attempt); err != nil {
		return err
	}
	_, err := os.Stdout.WriteString(strings.Repeat("+", m.Attempt) + " done " + string(m.Value) + "\n")
	return err
}

// batchVariable says that the actor of a role handles messages in batches.
const batchVariable = "STEPWELL_TEST_BATCH"

// eachOf handles the messages of a batch one after another, and marks what failed.
func eachOf(handle stepwell.Handler) stepwell.BatchHandler {
	return func(ctx context.Context, b *stepwell.Batch) error {
		for _, m := range b.Messages() {
			if err := handle(ctx, m); err != nil {
				b.Fail(m, err)
			}
		}
		return nil
	}
}

// actorCommand is an actor in a process of its own, not started yet. It lives for longer than any
// test waits: the end of one that is slow would look as what is never committed.
func (w *world) actorCommand(t testing.TB, args []string, env settings) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, program(t), args...)
	all := settings{
		roleVariable: "usual", "APP_NAME": w.app, "KAFKA_BROKERS": w.seeds, "RABBITMQ_URL": w.rabbit, "STREAMS_ORDERS_TOPICS": w.topic,
		"RETRY_DELAY": "200ms", "KAFKA_SESSION_TIMEOUT": "6s", "SERVER_ADDRESS": "off",
	}.with(env)
	cmd.Env = os.Environ()
	for name, value := range all {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// worker is an actor in a process of its own whose tries can be read.
type worker struct {
	*process
	y   *tally // by value; what was done is not known
	log string // path
}

// work starts an actor of the role.
func (w *world) work(t testing.TB, role string, env settings) *worker {
	return read(t, w.actorCommand(t, nil, settings{roleVariable: role}.with(env)))
}

// read starts an actor whose tries can be read.
func read(t testing.TB, cmd *exec.Cmd) *worker {
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(t.TempDir(), "log")
	file, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cmd.Stderr = file
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	y := newTally()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for s := bufio.NewScanner(out); s.Scan(); {
			plus, value, _ := strings.Cut(s.Text(), " ")
			y.mu.Lock()
			y.tries[value]++
			y.done[value] = max(y.done[value], len(plus)) // the highest attempt
			y.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has ended, unless the test failed
		<-ended
		_ = cmd.Wait()
		if data, err := os.ReadFile(log); err == nil && t.Failed() {
			t.Logf("the end of the actor's log:\n%s", data[max(0, len(data)-3000):])
		}
	})
	return &worker{&process{cmd}, y, log}
}

// attempt is the highest attempt that was made of the value; 0: none.
func (k *worker) attempt(value string) int { return k.y.doneOf(value) }

// says reports whether the actor's log has the text.
func (k *worker) says(text string) bool {
	data, err := os.ReadFile(k.log)
	return err == nil && strings.Contains(string(data), text)
}

func TestTheSecondSignalExitsAtOnceWithOne(t *testing.T) {
	onOneRabbitMQ(t, func(t *testing.T, w *world) {
		w.produce(values("x")...)
		k := w.work(t, "stubborn", nil)
		eventually(t, "the handler runs", func() bool { return k.attempt("x") == 1 })
		ask := func() {
			if err := k.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
		}
		ask()
		eventually(t, "the actor heeds the first signal", func() bool { return k.says("msg=stop budget") })
		// One that comes within a second of when the actor heeded the first is the first once more.
		always(t, "the actor drains", 1100*time.Millisecond, func() bool { return k.cmd.Process.Signal(syscall.Signal(0)) == nil })
		began := time.Now()
		ask()
		err := k.cmd.Wait()
		var exit *exec.ExitError
		if took := time.Since(began); !errors.As(err, &exit) || exit.ExitCode() != 1 || took > 5*time.Second {
			t.Errorf("it ended after %v: %v", took, err)
		}
	})
}

func TestAnErrorOfTheStartFunctionExitsWithOneAndIsTheLastLineOfTheLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for format, want := range map[string]string{
		"text": `level=ERROR msg="the actor ends with an error" error="start function: no database"` + "\n",
		"json": `"level":"ERROR","msg":"the actor ends with an error","error":"start function: no database"}` + "\n",
	} {
		out, err := w.actorCommand(t, nil, settings{roleVariable: "unstartable", "KAFKA_BROKERS": "127.0.0.1:1", "RABBITMQ_URL": "amqp://127.0.0.1:1", "LOG_FORMAT": format}).CombinedOutput()
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok || exit.ExitCode() != 1 || !strings.HasSuffix(string(out), want) || strings.Count(string(out), "no database") != 1 {
			t.Errorf("%s: it ended with %v:\n%s", format, err, out)
		}
	}
}

func TestABadConfigurationExitsWithTwoAndPrintsAllItsErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cmd := w.actorCommand(t, nil, settings{"APP_NAME": "", "KAFKA_BROKERS": "", "RETRY_COUNT": "many", "HANDLER_TIMEOUT": "long",
		"RABBITMQ_URL": "http://user:hidden@rabbit/", "STREAMS_ORDERS_TOPICS": ""})
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 2 {
		t.Errorf("it ended with %v", err)
	}
	if !hasAll(errs.String(), "APP_NAME", "KAFKA_BROKERS", "RETRY_COUNT", "HANDLER_TIMEOUT", "RABBITMQ_URL", "STREAMS_ORDERS_TOPICS") {
		t.Errorf("it printed:\n%s", &errs)
	}
	if strings.Contains(errs.String(), "hidden") || out.Len() > 0 {
		t.Errorf("it printed:\n%s\n%s", &errs, &out)
	}
}

func TestTheCommandsOfAnActorSayWhatTheyShould(t *testing.T) {
	fromQueue := settings{"KAFKA_BROKERS": "", "STREAMS_ORDERS_TOPICS": ""}
	tests := []struct {
		name string
		args []string
		env  settings
		code int
		says []string
	}{
		{"config", []string{"config"}, settings{"RETRY_DELAY": "1s"}, 0, []string{"RETRY_DELAY", "1s", "STREAMS_ORDERS_TOPICS", "environment"}},
		{"config print", []string{"config", "print"}, nil, 0, []string{"RETRY_COUNT", "default"}},
		{"config with a typo", []string{"config"}, settings{"RETRY_CUONT": "1"}, 0, []string{"RETRY_COUNT", "warning: RETRY_CUONT is not known"}},
		{"topology with a typo", []string{"topology"}, settings{"RETRY_CUONT": "1"}, 0, []string{".orders.instant", "warning: RETRY_CUONT is not known"}},
		{"doctor with a typo", []string{"doctor"}, settings{"RETRY_CUONT": "1"}, 0, []string{"ok   kafka", "warning: RETRY_CUONT is not known"}},
		{"topology", []string{"topology"}, settings{"RETRY_DELAY": "1s", "RETRY_STEP": "1s"}, 0,
			[]string{".orders.instant", ".orders.delay.1000", ".orders.delay.2000", ".orders.delay.3000", ".orders.dead_set", "1s, 2s, 3s: 6s in all", "; 5 queues"}},
		{"topology with what is made as it is needed", []string{"topology"}, settings{"DEAD_SET_PAGES": "7", "DEAD_SET_TRASH": "1h"}, 0, []string{
			"  a sort makes as it needs them (DEAD_SET_PAGES=7):\n", ".orders.dead_set.page.0 … ", ".orders.dead_set.page.6 durable {",
			"  a delete makes as it needs them (DEAD_SET_TRASH=1h0m0s):\n", ".orders.dead_set.trash.3600.0 … ", ".orders.dead_set.trash.3600.511 durable {",
		}},
		{"topology without them", []string{"topology"}, settings{"DEAD_SET_PAGES": "0", "DEAD_SET_TRASH": "0"}, 0, []string{".orders.dead_set durable"}},
		{"topology with a channel", []string{"topology"}, settings{roleVariable: "channels", "STREAMS_ORDERS_CHANNELS_SLOW_RETRY_COUNT": "1", "STREAMS_ORDERS_CHANNELS_SLOW_RETRY_DELAY": "1m"}, 0,
			[]string{"orders channel slow: 1m", ".orders.channel.slow.instant durable", ".orders.channel.slow.delay.60000 durable"}},
		{"topology with a channel of a stream without retries", []string{"topology"}, settings{roleVariable: "channels", "RETRY_ENABLED": "false"}, 0,
			[]string{"orders: no retry queues", "orders channel slow: 200ms"}},
		{"topology of what retries alone", []string{"topology"}, settings{"MODES": "retries", "KAFKA_BROKERS": "", "STREAMS_ORDERS_TOPICS": ""}, 0, []string{"MODES=retries", ".orders.instant durable"}},
		{"topology of a retired stream", []string{"topology"}, settings{"STREAMS_ORDERS_RETIRED": "true", "KAFKA_BROKERS": ""}, 0, []string{"orders, retired: 200ms"}},
		{"doctor of what retries alone", []string{"doctor"}, settings{"MODES": "retries,api", "KAFKA_BROKERS": "", "STREAMS_ORDERS_TOPICS": ""}, 0, []string{"ok   MODES=retries,api", "ok   queues of stream orders"}},
		{"doctor with a channel", []string{"doctor"}, settings{roleVariable: "channels"}, 0, []string{"ok   queues of stream orders", "ok   queues of channel slow of stream orders"}},
		{"doctor", []string{"doctor"}, nil, 0, []string{"ok   kafka", "ok   topic", "ok   queues of stream orders"}},
		{"doctor without a topic", []string{"doctor"}, settings{"STREAMS_ORDERS_TOPICS": "no.such.topic"}, 1, []string{"BAD  topic no.such.topic", "ok   queues"}},
		{"doctor whose pattern matches nothing", []string{"doctor"}, settings{"STREAMS_ORDERS_TOPICS": "", "STREAMS_ORDERS_TOPIC_PATTERN": "nomatch.*"}, 1, []string{`BAD  topics "nomatch.*" of stream orders: no topic matches`, "ok   queues"}},
		{"doctor of a queue that is missing", []string{"doctor"}, fromQueue.with(settings{"STREAMS_ORDERS_QUEUE": "no.such.queue"}), 1,
			[]string{"BAD  queue no.such.queue of stream orders: waits for queue no.such.queue, which does not exist", "ok   queues of stream orders"}},
		{"doctor of an exchange that is missing", []string{"doctor"}, fromQueue.with(settings{"STREAMS_ORDERS_EXCHANGE": "no.such.exchange", "STREAMS_ORDERS_ROUTING_KEYS": "k"}), 1,
			[]string{".orders.source of stream orders: waits for exchange no.such.exchange, which does not exist", "ok   queues of stream orders"}},
		{"doctor of an exchange", []string{"doctor"}, fromQueue.with(settings{"STREAMS_ORDERS_EXCHANGE": "amq.direct", "STREAMS_ORDERS_ROUTING_KEYS": "nobody publishes with this key"}), 0,
			[]string{".orders.source of stream orders\n", "ok   queues of stream orders"}},
		{"doctor of an exchange that others consume", []string{"doctor"}, fromQueue.with(settings{"MODES": "retries", "STREAMS_ORDERS_EXCHANGE": "no.such.exchange", "STREAMS_ORDERS_ROUTING_KEYS": "k"}), 0,
			[]string{"ok   queues of stream orders"}},
		{"doctor without Kafka", []string{"doctor"}, settings{"KAFKA_BROKERS": "127.0.0.1:1"}, 1, []string{"BAD  kafka", "ok   queues"}},
		{"doctor with a login that Kafka does not want", []string{"doctor"}, settings{"KAFKA_SASL_MECHANISM": "PLAIN", "KAFKA_SASL_USERNAME": "u", "KAFKA_SASL_PASSWORD": "hidden"}, 1,
			[]string{"BAD  kafka (KAFKA_BROKERS): kafka wants another kind of login, or none, see KAFKA_SASL_MECHANISM", "ok   queues"}},
		{"doctor without RabbitMQ", []string{"doctor"}, settings{"RABBITMQ_URL": "amqp://u:hidden@127.0.0.1:1/"}, 1, []string{"ok   kafka", "BAD  rabbitmq (RABBITMQ_URL)", "refused"}},
		{"an unknown one", []string{"start"}, nil, 2, []string{"usage", "doctor"}},
		{"too much", []string{"doctor", "please"}, nil, 2, []string{"usage"}},
	}
	onOneRabbitMQ(t, func(t *testing.T, w *world) {
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				t.Parallel()
				w := *w
				w.app = newWorld(t).app
				t.Cleanup(w.deleteQueues)
				out, err := w.actorCommand(t, test.args, test.env).CombinedOutput()
				code := 0
				if exit, ok := errors.AsType[*exec.ExitError](err); ok {
					code = exit.ExitCode()
				} else if err != nil {
					t.Fatal(err)
				}
				if code != test.code || !hasAll(string(out), test.says...) {
					t.Errorf("exit %d:\n%s", code, out)
				}
				if strings.Contains(string(out), "hidden") || strings.Contains(string(out), "guest:guest") {
					t.Errorf("a password is shown:\n%s", out)
				}
			})
		}
	})
}

// A program that was left on embedded brokers looks well, and loses all that it keeps.
func TestAnActorOnEmbeddedBrokersSaysThatTheConfiguredOnesAreNotUsed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const notice = "nothing in them survives it; KAFKA_BROKERS and RABBITMQ_URL are not used"
	const warning = "App.Brokers stands in the place of the configured brokers: "
	tests := []struct {
		command string
		env     settings
		says    []string
	}{
		{"config", nil, []string{"EMBEDDED BROKERS: ", notice + "\n"}},
		{"config", settings{"KAFKA_BROKERS": "real:9092"}, []string{notice, "warning: ", warning + "KAFKA_BROKERS\n"}},
		{"doctor", nil, []string{"note EMBEDDED BROKERS: ", notice + "\n", "ok   kafka (App.Brokers)", "ok   topic", "ok   queues of stream orders"}},
		{"doctor", settings{"RABBITMQ_URL": "amqp://real/"}, []string{notice, "ok   kafka (App.Brokers)", "warning: ", warning + "RABBITMQ_URL\n"}},
	}
	env := settings{roleVariable: "embedded:" + w.topic, "KAFKA_BROKERS": "", "RABBITMQ_URL": ""}
	for _, test := range tests {
		out, err := w.actorCommand(t, []string{test.command}, env.with(test.env)).CombinedOutput()
		if err != nil || !hasAll(string(out), test.says...) {
			t.Errorf("%s: %v\n%s", test.command, err, out)
		}
		if test.env == nil && strings.Contains(string(out), "warning") {
			t.Errorf("%s: warned of what is not set:\n%s", test.command, out)
		}
	}
	const hint = "_TOPICS, and embedded.Options.Topics where App.Brokers is embedded"
	bare := env.with(settings{roleVariable: "embedded:another"})
	out, err := w.actorCommand(t, []string{"doctor"}, bare).CombinedOutput()
	if err == nil || !hasAll(string(out), "BAD  topic "+w.topic, hint) {
		t.Errorf("doctor of a topic that nobody made: %v\n%s", err, out)
	}
	out, err = w.actorCommand(t, []string{"doctor"}, bare.with(settings{"STREAMS_ORDERS_TOPICS": "", "STREAMS_ORDERS_TOPIC_PATTERN": "x.*"})).CombinedOutput()
	if err == nil || !hasAll(string(out), `BAD  topics "x.*"`, "_PATTERN, and embedded.Options.Topics where") {
		t.Errorf("doctor of a pattern that no topic matches: %v\n%s", err, out)
	}
	lost := w.work(t, bare[roleVariable], bare)
	eventually(t, "the actor says how a topic that nobody made is made", func() bool { return lost.says("topic " + w.topic + " does not exist, see STREAMS_ORDERS" + hint) })
	k := w.work(t, env[roleVariable], env.with(tests[1].env))
	eventually(t, "the actor says it at its start", func() bool { return k.says(notice) && k.says(warning+"KAFKA_BROKERS") })
}
