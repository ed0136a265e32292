package chaos

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/stepwell/stepwell/internal/failpoint"
	"github.com/stepwell/stepwell/internal/testbroker/local"
)

// process is an actor in a process of its own.
type process struct {
	r       *run
	cmd     *exec.Cmd
	address string
	log     string
	modes   string // empty: all
	ended   chan struct{}
	err     error // set before ended is closed
}

// spawn starts one more actor.
func (r *run) spawn() *process { return r.spawnWith(nil) }

func (r *run) spawnWith(more settings) *process {
	r.t.Helper()
	program := r.program
	if r.beside != "" && program == r.child && len(r.every)%2 == 1 {
		program = r.beside
	}
	// Not any port that is free now: it may be another's by the time that the actor listens.
	ports, err := local.TakePorts()
	r.check(err)
	p := &process{r: r, cmd: exec.Command(program), address: ports.Addr(0), ended: make(chan struct{})}
	p.log = fmt.Sprintf("%s.%d.log", r.ledger, len(r.every))
	env := r.settings(p)
	maps.Copy(env, r.env)
	maps.Copy(env, more)
	p.modes = env[modesVariable]
	p.cmd.Env = os.Environ()
	for k, v := range env {
		p.cmd.Env = append(p.cmd.Env, k+"="+v)
	}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := os.Create(p.log)
	r.check(err)
	defer func() { _ = out.Close() }() // the child has its own
	p.cmd.Stdout, p.cmd.Stderr = out, out
	r.check(p.cmd.Start())
	go func() {
		defer close(p.ended)
		p.err = errors.Join(p.cmd.Wait(), ports.Release())
	}()
	r.actors, r.every = append(r.actors, p), append(r.every, p)
	r.t.Cleanup(p.cleanUp)
	return p
}

// settings are those of all processes of the run, with the process's own address.
func (r *run) settings(p *process) settings {
	r.t.Helper()
	if r.posts != nil {
		r.posts.spawned(p.address)
		return settings{
			"APP_NAME": r.app, "RABBITMQ_URL": r.urls(), "APP_HOSTS": "localhost", "APP_TIMEOUT": "2s", "APP_HOST_LIMIT": "64", "RETRY_PREFETCH": "50",
			"CRASH_PROBATION": "11s", "RABBITMQ_CONFIRM_TIMEOUT": "5s", "SHUTDOWN_TIMEOUT": "15s", "SERVER_ADDRESS": p.address,
		}
	}
	env := settings{
		"CHAOS_LEDGER": r.ledger, "APP_NAME": r.app, "KAFKA_BROKERS": r.kafka.Bootstrap, "RABBITMQ_URL": r.urls(), "STREAMS_ORDERS_TOPICS": r.topic,
		"RETRY_COUNT": fmt.Sprint(retries), "RETRY_DELAY": r.delay().String(), "RETRY_PREFETCH": "50", "STREAMS_ORDERS_CHANNELS_SLOW_CONCURRENCY": "4",
		"KAFKA_SESSION_TIMEOUT": "6s", "CRASH_PROBATION": "7s", "RABBITMQ_CONFIRM_TIMEOUT": "5s", "SHUTDOWN_TIMEOUT": "15s", "SERVER_ADDRESS": p.address,
	}
	if r.toKafka != nil {
		env["CHAOS_KAFKA_PROXY"] = r.toKafka.Addr()
	}
	if modes := r.missing(); modes != "" {
		env[modesVariable] = modes
	}
	return env
}

// urls are where the actors find RabbitMQ: behind the proxy, or at each node of the cluster, from
// another one on each time.
func (r *run) urls() string {
	r.t.Helper()
	if r.rabbits == nil {
		u, err := url.Parse(r.rabbit.URL)
		r.check(err)
		u.Host = r.toRabbit.Addr()
		return u.String()
	}
	var all []string
	for i := range r.rabbits {
		all = append(all, r.rabbits[(len(r.every)+i)%len(r.rabbits)].URL)
	}
	return strings.Join(all, ",")
}

// dying starts an actor that kills itself at the n-th hit of a mark.
func (r *run) dying(mark string, n int, more ...settings) *process {
	env := settings{failpoint.Variable: fmt.Sprintf("%s:%d", mark, n)}
	if mark == "published" || mark == "confirmed" { // what all processes share is published, too, and would come first
		env["RABBITMQ_RECORDS"] = "false"
	}
	for _, s := range more {
		maps.Copy(env, s)
	}
	return r.spawnWith(env)
}

func (p *process) cleanUp() {
	_ = p.cmd.Process.Kill() // it has ended, unless the test failed
	<-p.ended
	if p.r.t.Failed() || len(p.r.complaints) > 0 {
		if data, err := os.ReadFile(p.log); err == nil {
			p.r.t.Logf("the end of the log of process %d:\n%s", p.cmd.Process.Pid, data[max(0, len(data)-3000):])
		}
	}
}

// kills is how many actors ended with SIGKILL, whoever sent it.
func (r *run) kills() (n int) {
	for _, p := range r.every {
		select {
		case <-p.ended:
			if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGKILL {
				n++
			}
		default:
		}
	}
	return n
}

// kill ends the actor with SIGKILL; it is none of ours from then on.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have killed itself
	<-p.ended
	p.forget()
}

func (p *process) forget() {
	if p.r.posts != nil {
		p.r.posts.ended(p.address)
	}
	for i, a := range p.r.actors {
		if a == p {
			p.r.actors = append(p.r.actors[:i:i], p.r.actors[i+1:]...)
		}
	}
}

// signal sends what may also stop or continue the actor.
func (p *process) signal(s syscall.Signal) {
	p.r.t.Helper()
	p.r.check(p.cmd.Process.Signal(s))
}

// stop ends the actor in order, and fails the test if it is not.
func (p *process) stop() {
	p.r.t.Helper()
	p.signal(syscall.SIGTERM)
	const most = 20 * time.Second
	select {
	case <-p.ended:
	case <-time.After(most):
		p.r.complain("the actor did not end within %s of a SIGTERM", most)
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
	if exit, ok := errors.AsType[*exec.ExitError](p.err); ok && !p.toldTooSoon() {
		p.r.complain("the actor ended with %v", exit)
	}
}

// toldTooSoon says that the actor was to stop before it could hear that: it has said nothing yet.
func (p *process) toldTooSoon() bool {
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	said, err := os.ReadFile(p.log)
	return ok && status.Signaled() && status.Signal() == syscall.SIGTERM && err == nil && len(said) == 0
}

// leave is stop for an actor that is none of ours from then on.
func (p *process) leave() {
	p.r.t.Helper()
	p.stop()
	p.forget()
}

// died waits until the actor has killed itself at its mark.
func (p *process) died(most time.Duration) bool {
	select {
	case <-p.ended:
		p.forget()
		return true
	case <-time.After(most):
		return false
	}
}

// said tells whether the text is in the actor's log.
func (p *process) said(text string) bool {
	data, err := os.ReadFile(p.log)
	return err == nil && bytes.Contains(data, []byte(text))
}

// ready tells whether the actor says so.
func (p *process) ready() bool {
	status, _, err := p.do(context.Background(), http.MethodGet, "/readyz", "")
	return err == nil && status == http.StatusOK
}

// do asks the actor's API.
func (p *process) do(ctx context.Context, method, path, body string) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+p.address+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), cmp.Or(err, resp.Body.Close())
}
