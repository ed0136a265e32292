package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// goCommand is the go tool with an environment of the tests' own: env, a
// temporary folder that goes away with the run, and nothing that would
// configure an actor by chance.
func goCommand(ctx context.Context, dir, temp string, env []string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "KAFKA_") || strings.HasPrefix(v, "RABBITMQ_")
	})
	// A process with the race detector sleeps for a second when it ends, unless it is told not to.
	cmd.Env = append(append(cmd.Env, "TMPDIR="+temp, "GORACE="+cmp.Or(os.Getenv("GORACE"), "atexit_sleep_ms=0")), env...)
	// A group of its own: Ctrl-C comes to us alone, and we end go and the
	// tests it runs together.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	cmd.Stderr = os.Stderr
	return cmd
}

// goTest runs `go test -json` and reports it. Failing tests are no error.
func goTest(cmd *exec.Cmd, r *report) error {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("read what go test says: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("run go test: %w", err)
	}
	// All is read before Wait, which closes the pipe.
	err = r.read(out)
	waited := cmd.Wait()
	var exit *exec.ExitError
	if errors.As(waited, &exit) && exit.Exited() && r.anyFailed() {
		waited = nil // counted
	}
	return errors.Join(err, waited)
}

// modules are the folders of the modules below root that have code of their
// own to check with what is installed here: not the one that only names tools,
// and not the one that needs a browser.
func modules(root string) ([]string, error) {
	var dirs []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "tools" || d.Name() == "browser"):
			return filepath.SkipDir
		case d.Name() == "go.mod":
			dirs = append(dirs, filepath.Dir(path))
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("find the modules: %w", err)
	}
	return dirs, nil
}
