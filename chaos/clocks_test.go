package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// clocks are the scenarios in which the wall clocks of the actors jump by hours.
func clocks() []scenario {
	return []scenario{{name: "clocks jump by three hours, one actor's ahead and the other's back", jumps: true, short: true, fault: jumpClocks}}
}

func jumpClocks(r *run) {
	const near, far = time.Hour, 3 * time.Hour
	for _, step := range []struct {
		actor int
		sent  syscall.Signal
		off   time.Duration
	}{
		{0, syscall.SIGUSR1, far},
		{1, syscall.SIGUSR2, -far},
		{0, syscall.SIGUSR2, 0},
		{0, syscall.SIGUSR2, -far},
		{1, syscall.SIGUSR1, 0},
		{1, syscall.SIGUSR1, far},
		{0, syscall.SIGUSR1, 0},
		{1, syscall.SIGUSR2, 0},
	} {
		p := r.actors[step.actor]
		p.signal(step.sent)
		r.until("its clock has jumped", 20*time.Second, func() bool {
			off := r.watch.clock(p.cmd.Process.Pid) - step.off
			return off.Abs() < near
		})
		r.toRabbit.Cut() // sessions begin and end while clocks are wrong
		r.pause(2 * time.Second)
	}
}

// jumper builds the actor with a wall clock that jumps, once.
func jumper(t *testing.T) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		dir := t.TempDir()
		overlay, err := jumpingTime(t.Context(), dir)
		if err != nil {
			return "", err
		}
		path := filepath.Join(dir, "jumper")
		out, err := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "-tags", "failpoint,clockjump", "-o", path, "./child").CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("build the actor whose clock jumps: %w: %s", err, out)
		}
		return path, nil
	})
}

// jumpingTime makes an overlay for go build in which the time of day is off by what time.Jump was
// told, for the whole program.
func jumpingTime(ctx context.Context, dir string) (string, error) {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("find Go: %w", err)
	}
	of := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	source, err := os.ReadFile(filepath.Join(of, "time.go"))
	if err != nil {
		return "", fmt.Errorf("read Go's package time: %w", err)
	}
	const read = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	now, jump := filepath.Join(dir, "now.go"), filepath.Join(dir, "jump.go")
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(of, "time.go"): now, filepath.Join(of, "jump.go"): jump}})
	if err != nil || !strings.Contains(string(source), read) {
		return "", errors.Join(errors.New("this Go reads the clock in another way"), err)
	}
	path := filepath.Join(dir, "overlay.json")
	return path, errors.Join(
		os.WriteFile(now, []byte(strings.Replace(string(source), read, read+"\tsec += jumped.Load()\n", 1)), 0o600),
		os.WriteFile(jump, []byte("package time\n\nimport \"sync/atomic\"\n\nvar jumped atomic.Int64\n\nfunc Jump(d Duration) { jumped.Add(int64(d / Second)) }\n"), 0o600),
		os.WriteFile(path, overlay, 0o600),
	)
}
