package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// jobVariable makes this program a child that does one job. A variable rather than an argument, so
// that a test binary can be one too.
const jobVariable = "STEPWELL_BENCH_JOB"

// job is what a child is to do.
type job struct {
	Group, Case   string // of groups.go; a case may be kfake, or the load
	Kafka         string
	RabbitMQ      string
	RabbitPID     int // 0: one that was not started here
	Topic         string
	ConsumerGroup string
	App           string
	Records       int64
	Feed          feed
	Environ       []string // further settings of the actor
	Profile       string   // a file for the CPU profile of what is measured; empty: none
}

// child does the job of this process, if it is a child.
func child(ctx context.Context) (is bool, err error) {
	text, is := os.LookupEnv(jobVariable)
	if !is {
		return false, nil
	}
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return true, fmt.Errorf("job: %w", err)
	}
	if j.Case == kfakeJob {
		return true, serveKfake(j.Feed)
	}
	if j.Case == loadJob {
		return true, serveLoad(ctx)
	}
	c, err := caseNamed(j.Group, j.Case)
	if err != nil {
		return true, err
	}
	r, err := j.run(ctx, c)
	if err != nil {
		return true, fmt.Errorf("%s: %w", j.Case, err)
	}
	return true, json.NewEncoder(os.Stdout).Encode(r)
}

// caseTimeout ends a case that does not get its records.
const caseTimeout = 15 * time.Minute

func (j job) run(ctx context.Context, c benchCase) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, caseTimeout)
	defer cancel()
	m := newMeter(j.Records, j.Feed)
	m.broker = j.RabbitPID
	if j.Profile != "" {
		f, err := os.Create(j.Profile)
		if err != nil {
			return result{}, fmt.Errorf("profile: %w", err)
		}
		defer f.Close()
		m.profile = f
	}
	ended := make(chan error, 1)
	go func() { ended <- c.run(ctx, j, m) }()
	select {
	case <-m.done:
	case err := <-ended:
		return result{}, errors.Join(fmt.Errorf("ended after %d of %d records", m.total.Load(), m.wanted), err, context.Cause(ctx))
	}
	cancel()
	err := <-ended
	r, wrong := m.result()
	return r, errors.Join(err, wrong)
}

// process is a child that runs.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	out   *bufio.Reader
}

// spawn starts a child. It ends by itself when its standard input does, or when its job is done.
func spawn(ctx context.Context, j job, environ ...string) (*process, error) {
	text, err := json.Marshal(j)
	if err != nil {
		return nil, fmt.Errorf("job: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find myself: %w", err)
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(append(os.Environ(), jobVariable+"="+string(text)), environ...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("pipe: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("pipe: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s %s: %w", filepath.Base(self), j.Case, err)
	}
	return &process{cmd, stdin, bufio.NewReader(stdout)}, nil
}

// read decodes one line of what the child says.
func (p *process) read(to any) error {
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("the child said nothing: %w", err)
	}
	return json.Unmarshal(line, to)
}

// end waits for the child, after telling it to end.
func (p *process) end() error {
	_ = p.stdin.Close() // the child may be gone
	return p.cmd.Wait()
}
