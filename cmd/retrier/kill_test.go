package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell/internal/testbroker"
)

// childVariable makes a retrier of the test binary.
const childVariable = "STEPWELL_TEST_RETRIER"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		main()
	}
	// Most of these tests wait for brokers, delays and receivers: more of them than there are
	// processors can do so at once. The command line overrides this.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// child is a retrier in a process of its own, which a test may kill.
type child struct {
	t       *testing.T
	cmd     *exec.Cmd
	address string
	log     string // a file
	ended   chan struct{}
}

// child starts one and waits until it is ready.
func (w *world) child() *child {
	w.t.Helper()
	c := &child{t: w.t, address: testbroker.Address(w.t), log: filepath.Join(w.t.TempDir(), "log"), ended: make(chan struct{})}
	out, err := os.Create(c.log)
	if err != nil {
		w.t.Fatal(err)
	}
	defer out.Close() // the process has its own
	c.cmd = exec.Command(os.Args[0])
	c.cmd.Env = append(os.Environ(), w.environment("SERVER_ADDRESS="+c.address, childVariable+"=1")...)
	c.cmd.Stdout, c.cmd.Stderr = out, out
	if err := c.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	go func() {
		defer close(c.ended)
		_ = c.cmd.Wait() // it is killed
	}()
	w.t.Cleanup(c.cleanUp)
	eventually(w.t, "the process is ready", func() bool {
		select {
		case <-c.ended:
			w.t.Fatal("the process ended: ", c.cmd.ProcessState)
		default:
		}
		a, err := send(w.t.Context(), "GET", "http://"+c.address+"/readyz", "")
		return err == nil && a.status == 200
	})
	return c
}

// cleanUp ends the process, and shows the end of its log where the test failed.
func (c *child) cleanUp() {
	c.kill()
	if !c.t.Failed() {
		return
	}
	const most = 4 << 10
	log, err := os.ReadFile(c.log)
	c.t.Logf("the process at %s logged, at its end (%v):\n%s", c.address, err, log[max(0, len(log)-most):])
}

// kill ends the process as kill -9 does.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // it may have ended
	<-c.ended
}

// do sends a request; headers are given in pairs.
func (c *child) do(method, path, body string, headers ...string) answer {
	c.t.Helper()
	a, err := send(c.t.Context(), method, "http://"+c.address+path, body, headers...)
	if err != nil {
		c.t.Fatal(err)
	}
	return a
}

// post posts a call and says whether it was accepted.
func (c *child) post(ctx context.Context, body string) bool {
	a, err := send(ctx, "POST", "http://"+c.address+"/calls", body)
	return err == nil && a.status == 202
}

func TestACallIsAcceptedOnlyOnceConfirmed(t *testing.T) {
	t.Parallel()
	onRabbitMQ(t, func(t *testing.T, w *world) {
		r := newReceiver(t, func(_ string, n int) int { return map[bool]int{true: 500, false: 200}[n%3 == 0] })
		var mu sync.Mutex
		accepted := map[string]bool{}
		number := 0
		const rounds, perRound, posters = 5, 150, 8
		for range rounds {
			c := w.child()
			goal := len(accepted) + perRound
			enough := make(chan struct{})
			ctx, stop := context.WithCancel(t.Context())
			var all sync.WaitGroup
			for range posters {
				all.Go(func() {
					for ctx.Err() == nil {
						mu.Lock()
						number++
						id := fmt.Sprintf("c%d", number)
						mu.Unlock()
						if !c.post(ctx, fmt.Sprintf(`{"id":%q,"request":{"url":%q},"waits":["1s","1s","1s","1s","1s","1s","1s","1s"]}`, id, r.url("/"))) {
							return
						}
						mu.Lock()
						if accepted[id] = true; len(accepted) == goal {
							close(enough)
						}
						mu.Unlock()
					}
				})
			}
			select {
			case <-enough:
			case <-time.After(2 * time.Minute):
				t.Errorf("%d calls were accepted, want %d", len(accepted), goal)
			}
			c.kill() // while calls are posted, stored and made
			stop()
			all.Wait()
		}
		w.child()
		eventually(t, "each accepted call was made", func() bool {
			made := map[string]bool{}
			for _, got := range r.requests() {
				made[got.header.Get("Webhook-Id")] = true
			}
			for id := range accepted {
				if !made[id] {
					return false
				}
			}
			return true
		})
		t.Logf("%d calls accepted, %d posted, %d requests made", len(accepted), number, len(r.requests()))
	})
}

func TestWithoutRabbitMQNothingIsAcceptedAndTheAnswerSaysWhy(t *testing.T) {
	t.Parallel()
	for _, release := range testbroker.Sample(t, testbroker.Releases()) {
		t.Run(release, func(t *testing.T) {
			t.Parallel()
			node := testbroker.StartRabbitMQ(t, release, testbroker.RabbitOptions{})
			w := newWorld(t, node.URL)
			r := newReceiver(t, always(200))
			run := w.start()
			body := func(id string) string {
				return fmt.Sprintf(`{"id":%q,"request":{"url":%q},"waits":[]}`, id, r.url("/"))
			}
			if a := run.do("POST", "/calls", body("before")); a.status != 202 {
				t.Fatal(a)
			}
			eventually(t, "the call is made", func() bool { return len(r.requests()) == 1 })
			time.Sleep(2 * time.Second) // a queue that is younger may be lost by the broker itself
			node.Kill()
			var asked sync.WaitGroup
			for _, ask := range [][3]string{
				{"POST", "/calls", body("away")},
				{"DELETE", "/calls/away", ""},
				{"POST", "/retry_workflow", `{"name":"away","retry_delays":[5000]}`},
			} {
				asked.Go(func() {
					a, err := send(t.Context(), ask[0], "http://"+run.actor.Address()+ask[1], ask[2])
					says := fmt.Sprint(a.json["detail"])
					if err != nil || a.status != 503 || !strings.Contains(says, "RabbitMQ is away") || !strings.Contains(says, "RABBITMQ_URL") {
						t.Errorf("%s %s without RabbitMQ: %d %s, %v", ask[0], ask[1], a.status, says, err)
					}
				})
			}
			asked.Wait()
			node.Restart()
			eventually(t, "calls are accepted again", func() bool { return run.do("POST", "/calls", body("after")).status == 202 })
			eventually(t, "and made", func() bool {
				all := r.requests()
				return all[len(all)-1].header.Get("Webhook-Id") == "after"
			})
		})
	}
}

// The process is killed while a receiver has a request of the call, at each of its steps; the next
// process goes on where RabbitMQ knows that it was.
func TestACallWhoseProcessIsKilledAtAnyOfItsStepsGoesOn(t *testing.T) {
	t.Parallel()
	for step, path := range []string{"/hook", "/hook", "/failed", "/failed"} {
		t.Run(fmt.Sprintf("request %d", step+1), func(t *testing.T) {
			onRabbitMQ(t, func(t *testing.T, w *world) { w.killAt(step, path) })
		})
	}
}

func (w *world) killAt(step int, path string) {
	t, c := w.t, w.child()
	var once sync.Once
	accepted, reached := make(chan struct{}), make(chan struct{})
	r := newReceiver(t, func(_ string, n int) int {
		if n == step+1 { // the answer goes to nobody
			once.Do(func() {
				// The first request may come before the call that asked for it is answered.
				select {
				case <-accepted:
				case <-t.Context().Done():
				}
				c.kill()
				close(reached)
			})
		}
		return 500
	})
	body := fmt.Sprintf(`{"id":"order-17","request":{"url":%q},"waits":["1s"],"on_failure":{"url":%q}}`, r.url("/hook"), r.url("/failed"))
	if a, err := send(t.Context(), "POST", "http://"+c.address+"/calls", body); err != nil || a.status != 202 {
		t.Fatal("not accepted", a, err)
	}
	close(accepted)
	select {
	case <-reached:
	case <-time.After(2 * time.Minute):
		t.Fatalf("request %d never came", step+1)
	}
	if got := r.requests()[step]; got.path != path {
		t.Errorf("request %d went to %s, want %s", step+1, got.path, path)
	}
	next := w.child()
	eventually(t, "the call came to its end", func() bool {
		a, err := send(t.Context(), "GET", "http://"+next.address+"/v1/dead_set?stream=calls&count=1", "")
		return err == nil && a.status == 200 && len(a.json["messages"].([]any)) == 1
	})
	// One request more than without the kill, the one that was under way: or several, where the
	// last try was not acked when its on_failure was made.
	all := r.requests()
	if last := all[len(all)-1]; len(all) < 5 || last.path != "/failed" {
		t.Errorf("%d requests, the last one to %s", len(all), last.path)
	}
}
