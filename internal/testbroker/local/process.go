package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

const (
	startTimeout = 2 * time.Minute
	stopTimeout  = 30 * time.Second
)

// process is one long-running child. Its output goes to a file.
type process struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed once the child is gone
}

// startProcess starts a child in the background; its goroutine ends with the child.
func startProcess(cmd *exec.Cmd, log string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", cmd.Path, err)
	}
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = out, out, childAttr()
	err = cmd.Start()
	if closed := out.Close(); err == nil && closed != nil {
		err = closed
	}
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	p := &process{cmd: cmd, log: log, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // how it ended is in its log
	}()
	return p, nil
}

// ready waits until something accepts connections on every address.
func (p *process) ready(ctx context.Context, addrs ...string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for _, addr := range addrs {
		for !accepts(ctx, addr) {
			select {
			case <-p.done:
				return fmt.Errorf("%s ended before it listened on %s: %s", p.cmd.Path, addr, p.tail())
			case <-ctx.Done():
				return fmt.Errorf("%s does not listen on %s: %w: %s", p.cmd.Path, addr, ctx.Err(), p.tail())
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
	return nil
}

// accepts says whether somebody listens on an address.
func accepts(ctx context.Context, addr string) bool {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return false
	}
	return c.Close() == nil
}

// signal sends sig to the child alone. A child that is gone is no error.
func (p *process) signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("send %s to %s: %w", sig, p.cmd.Path, err)
	}
	return nil
}

// kill ends the child at once and waits until it is gone.
func (p *process) kill() error {
	err := p.signal(syscall.SIGKILL)
	<-p.done
	return err
}

// stop asks the child to end; one that does not is killed.
func (p *process) stop() error {
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(stopTimeout):
		return p.kill()
	}
}

// freeze stops all threads of the child and waits until they have stopped.
func (p *process) freeze(ctx context.Context) error {
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	for threadsRun(p.cmd.Process.Pid) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("freeze %s: %w", p.cmd.Path, ctx.Err())
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}

// threadsRun says whether a thread of the process is not stopped yet. Where
// there is no /proc to tell, none is.
func threadsRun(pid int) bool {
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return false
	}
	for _, file := range stats {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // this thread is gone
		}
		// The state comes after the name, which is in parentheses.
		if state := stat[bytes.LastIndexByte(stat, ')')+1:]; !bytes.HasPrefix(state, []byte(" T")) {
			return true
		}
	}
	return false
}

// tail is the end of what the child wrote, for an error.
func (p *process) tail() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	const most = 4000
	return string(bytes.TrimSpace(b[max(0, len(b)-most):]))
}
