package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// measuredFlag makes this program one that runs a test binary, which go test has it do by -exec,
// and that then says how much CPU time the binary and what it started have used: go test does not.
const measuredFlag = "-measured"

// measuredLine begins what it says.
const measuredLine = "CPU seconds of this package: "

// measure runs the test binary of the arguments, and returns how it ended.
func measure(argv []string, out io.Writer) int {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	// By SIGQUIT go test asks a binary that is over its time where it hangs.
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGQUIT)
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	go func() {
		for s := range asked {
			_ = cmd.Process.Signal(s) // one that is gone hangs no more
		}
	}()
	err := cmd.Wait()
	_, _ = fmt.Fprintf(out, "%s%.2f\n", measuredLine, (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds())
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return exit.ExitCode()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err) // as by which signal it was ended
		return 1
	}
	return 0
}

// measured reads what measure says.
func measured(line string) (seconds float64, ok bool) {
	text, ok := strings.CutPrefix(strings.TrimSpace(line), measuredLine)
	if !ok {
		return 0, false
	}
	seconds, err := strconv.ParseFloat(text, 64)
	return seconds, err == nil
}

// machineIdle begins to watch the machine. What it returns says, after so long, how much of it was
// idle: then more could run at once. It says nothing where that is not known.
func machineIdle() func(took time.Duration) string {
	before, _ := idleTime()
	return func(took time.Duration) string {
		now, ok := idleTime()
		if !ok || took <= 0 {
			return ""
		}
		share := (now - before).Seconds() / (took.Seconds() * float64(runtime.NumCPU()))
		return fmt.Sprintf("; the machine was idle for %.0f %% of that", 100*share)
	}
}

// idleTime is how long the processors of the machine have had nothing to do, all together. Only
// Linux tells.
func idleTime() (time.Duration, bool) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, false
	}
	line, _, _ := bytes.Cut(stat, []byte("\n"))
	fields := strings.Fields(string(line))
	if len(fields) < 6 || fields[0] != "cpu" {
		return 0, false
	}
	var ticks int64
	for _, f := range fields[4:6] { // idle, and waiting for a disk
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, false
		}
		ticks += n
	}
	const perSecond = 100 // USER_HZ, whatever the kernel's own clock is
	return time.Duration(ticks) * time.Second / perSecond, true
}
