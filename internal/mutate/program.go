package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// program is the tests of one package, built with all mutants.
type program struct {
	dir, binary string
	// rapid: its tests try examples, and look for a smaller one when one failed.
	rapid bool
}

// build builds the tests of the packages with all mutants that build.
func build(ctx context.Context, dir string, o options, files map[string][]byte, all []*mutant) ([]program, error) {
	for i, m := range all {
		m.number = i + 1
	}
	// Each round leaves out what the compiler refused, which shows more of it at times.
	for range len(all) + 1 {
		overlay, owners, err := write(dir, o.pkg, files, all)
		if err != nil {
			return nil, err
		}
		var programs []program
		refused := ""
		for i, pkg := range o.tests {
			p := program{dir: pkg, binary: filepath.Join(dir, fmt.Sprintf("tests-%d", i))}
			args := []string{"test", "-c", "-vet=off", "-gcflags=" + folder(o.pkg) + "=-e", "-overlay", overlay, "-o", p.binary, folder(pkg)}
			out, err := run(ctx, "", nil, "go", args...)
			if err != nil {
				refused = out
				break
			}
			help, _ := run(ctx, "", nil, p.binary, "-help") // its error is that it only helps
			p.rapid = strings.Contains(help, "-rapid.shrinktime")
			programs = append(programs, p)
		}
		if refused == "" {
			return programs, nil
		}
		if !leaveOut(refused, owners) {
			return nil, fmt.Errorf("the tests do not build: %w\n%s", ctx.Err(), refused)
		}
	}
	return nil, errors.New("the compiler refuses without an end")
}

// folder is what the go tool takes for a folder, and not for a package of the library.
func folder(pkg string) string { return "./" + filepath.ToSlash(filepath.Clean(pkg)) }

// write puts the files with their copies where the go tool takes them instead, so that the work
// tree is never touched. It says which line of which file belongs to which mutant.
func write(dir, pkg string, files map[string][]byte, all []*mutant) (overlay string, owners map[string]map[int]*mutant, err error) {
	replaced, owners := map[string]string{}, map[string]map[int]*mutant{}
	put := func(name string, text []byte) error {
		abs, err := filepath.Abs(name)
		if err != nil {
			return fmt.Errorf("find %s: %w", name, err)
		}
		replaced[abs] = filepath.Join(dir, filepath.Base(name))
		if err := os.WriteFile(replaced[abs], text, 0o600); err != nil {
			return fmt.Errorf("write the mutants: %w", err)
		}
		return nil
	}
	base, name := 1, ""
	for file, source := range files {
		c, err := withCopies(file, source, base, slices.DeleteFunc(slices.Clone(all), func(m *mutant) bool { return m.file != file }))
		if err != nil {
			return "", nil, err
		}
		base, name = base+len(source), c.pkg
		owners[filepath.Base(file)] = c.owner
		if err := put(file, c.source); err != nil {
			return "", nil, err
		}
	}
	if err := put(filepath.Join(pkg, "mutant_hook.go"), fmt.Appendf(nil, hook, name)); err != nil {
		return "", nil, err
	}
	text, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return "", nil, fmt.Errorf("write the mutants: %w", err)
	}
	overlay = filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, text, 0o600); err != nil {
		return "", nil, fmt.Errorf("write the mutants: %w", err)
	}
	return overlay, owners, nil
}

// leaveOut marks the mutants that the compiler complains about, and says whether there were any.
func leaveOut(complaints string, owners map[string]map[int]*mutant) bool {
	some := false
	for _, at := range regexp.MustCompile(`(?m)([^/\s:]+\.go):(\d+):`).FindAllStringSubmatch(complaints, -1) {
		line, _ := strconv.Atoi(at[2]) // digits
		if m := owners[at[1]][line]; m != nil {
			m.unbuilt, some = true, true
		}
	}
	return some
}

// run runs a program, which ends with all that it started, and gives what it printed.
func run(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}
