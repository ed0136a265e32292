package actor_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/testbroker"
)

// deadly is a handler that some messages end the process of, by a kill or by the end of its
// goroutine, while others run.
func deadly(value string, attempt int) error {
	switch {
	case value == "kills at once" && attempt == 1, value == "kills later" && attempt == 2:
		time.Sleep(30 * time.Millisecond)
		os.Exit(1)
	case value == "ends its goroutine at once" && attempt == 1, value == "ends its goroutine later" && attempt == 2:
		runtime.Goexit()
	case strings.HasSuffix(value, " later"), strings.HasPrefix(value, "fails") && attempt < 3:
		return errFlaky
	}
	time.Sleep(5 * time.Millisecond)
	return nil
}

func TestAMessageThatKillsTheProcessComesToTheDeadSetAloneAndTheGroupGoesOn(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT RUN: processes that are killed again and again, because of -short")
	}
	t.Parallel()
	nodes := testbroker.RabbitMQs(t)
	for _, test := range []struct {
		killer    string
		instances int
		node      testbroker.Node
	}{
		{"kills at once", 1, nodes[0]},
		{"kills at once", 3, nodes[len(nodes)-1]},
		{"kills later", 1, nodes[0]},
		{"kills later", 3, nodes[len(nodes)-1]},
		{"ends its goroutine at once", 3, nodes[0]},
		{"ends its goroutine later", 1, nodes[0]},
		{"ends its goroutine later", 3, nodes[len(nodes)-1]},
	} {
		t.Run(fmt.Sprintf("it %s, %d processes, RabbitMQ %s", test.killer, test.instances, test.node.Version), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.rabbit, w.seeds = test.node.URL, testbroker.Kafka(t)
			w.connect(kgo.SeedBrokers(w.seeds))
			w.createTopic(w.topic, 4)
			t.Cleanup(w.deleteQueues)
			s := w.supervise(t, test.instances)

			const n = 60
			var last []string // the calls that end a message's retries
			for i := range n {
				value := fmt.Sprintf("goes well %d", i)
				switch {
				case i == n/2:
					value = test.killer
				case i%5 == 0:
					value = fmt.Sprintf("fails %d", i)
					last = append(last, "+++ "+value+"\n")
				}
				w.produce(&kgo.Record{Key: fmt.Appendf(nil, "%d", i), Value: []byte(value)})
			}
			within(t, 8*time.Minute, "the killer is dead and all else is done", func() bool {
				return w.committed() == n && w.ready(t, "dead_set") == 1 && s.logged(last)
			})
			s.stop()
			look := w.start(orders(func(_ context.Context, m *stepwell.Message) error {
				if string(m.Value) == test.killer { // others may have a second copy on its way, of a failure that was stored just before a death
					t.Errorf("%s is called once more", test.killer)
				}
				return nil
			}), nil)
			dead := look.deadCount(1)
			if dead[0]["value"] != test.killer || dead[0]["reason"] != stepwell.ReasonCrashLoop || dead[0]["error_type"] != nil || dead[0]["attempts"] != dead[0]["attempts_total"] {
				t.Errorf("in the dead set is %v", dead[0])
			}
			look.ready()
			eventually(t, "nothing waits", func() bool { return w.ready(t, "instant") == 0 && w.ready(t, "delay.1000") == 0 })
			look.deadCount(1)
			t.Logf("%d deaths", s.deaths.Load())
		})
	}
}

// supervisor starts actors in processes of their own, again and again.
type supervisor struct {
	t       *testing.T
	end     context.CancelFunc
	running sync.WaitGroup
	deaths  atomic.Int32
	log     string // a file
}

func (w *world) supervise(t *testing.T, instances int, env ...string) *supervisor {
	ctx, cancel := context.WithCancel(context.Background())
	path := filepath.Join(t.TempDir(), "log")
	s := &supervisor{t: t, end: cancel, log: path}
	for range instances {
		s.running.Go(func() {
			for ctx.Err() == nil {
				code := w.deadlyActor(ctx, t, path, env...)
				if code == 1 {
					s.deaths.Add(1)
				} else if code != 0 || ctx.Err() == nil {
					t.Errorf("an actor ended with %d", code)
					return
				}
			}
		})
	}
	t.Cleanup(func() {
		s.stop()
		if t.Failed() {
			if data, err := os.ReadFile(path); err == nil {
				t.Logf("the end of the actors' log:\n%s", data[max(0, len(data)-20000):])
			}
		}
	})
	return s
}

// logged says whether the actors' log has all these lines. What queues show is no help: a message
// on its way from one to the next is in none.
func (s *supervisor) logged(lines []string) bool {
	data, err := os.ReadFile(s.log)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, line := range lines {
		if !bytes.Contains(data, []byte(line)) {
			return false
		}
	}
	return true
}

func (s *supervisor) stop() {
	s.end()
	s.running.Wait()
}

// deadlyActor runs one actor until it ends, or until ctx does and it stops, and returns its exit
// code.
func (w *world) deadlyActor(ctx context.Context, t *testing.T, path string, env ...string) int {
	log, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		t.Error(err)
		return -1
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, program(t))
	cmd.Env = append(os.Environ(), roleVariable+"=deadly",
		"APP_NAME="+w.app, "KAFKA_BROKERS="+w.seeds, "RABBITMQ_URL="+w.rabbit, "STREAMS_ORDERS_TOPICS="+w.topic,
		"RETRY_COUNT=5", "RETRY_DELAY=1s", "KAFKA_SESSION_TIMEOUT=6s", "CRASH_PROBATION=7s", "SERVER_ADDRESS=off")
	cmd.Env = append(cmd.Env, env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stdout, cmd.Stderr = log, log
	_ = cmd.Run() // the exit code says it
	if ctx.Err() != nil && (cmd.ProcessState == nil || signalled(cmd.ProcessState, syscall.SIGTERM)) {
		return 0 // it was asked to stop before it was there to hear it
	}
	return cmd.ProcessState.ExitCode()
}

// signalled says whether a process ended by a signal it had no handler for.
func signalled(p *os.ProcessState, s syscall.Signal) bool {
	status, ok := p.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == s
}

// ready is how many messages of a queue no consumer has; -1: there is no such queue.
func (w *world) ready(t *testing.T, kind string) int {
	conn, err := amqp.Dial(w.rabbit)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	q, err := ch.QueueDeclarePassive(w.queue("orders", kind), true, false, false, false, nil)
	if err != nil {
		return -1
	}
	return q.Messages
}
