// Command mutate is what `make mutate` starts: it changes one place of a package after another and
// runs the package's tests, which should fail. What they let through is printed: a test is missing
// there, or the change changes nothing.
//
// Only tests that need no broker and are quick run (-short). What it found it keeps beside the
// user's other caches, by the text of the file, so that a run that was ended goes on where it was.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// What became of a mutant.
const (
	killed   = "killed"
	hanging  = "killed by the time-out"
	survived = "survived"
	unbuilt  = "does not build"
)

type options struct {
	pkg, run string
	// files are those of the package that are changed; empty: all but tests.
	files []string
	jobs  int
	// again: what survived before, or did not end in time, is tried once more.
	again bool
	// limit is how long the tests of one mutant may take, without building them.
	limit time.Duration
	store string
}

func main() {
	var o options
	flag.StringVar(&o.pkg, "package", "", "folder of the package, say ./streams")
	flag.StringVar(&o.run, "run", "", "only tests that match; all where it is empty")
	files := flag.String("files", "", "only these files of it, separated by commas")
	flag.IntVar(&o.jobs, "jobs", 2, "mutants at once")
	flag.BoolVar(&o.again, "again", false, "try those again that survived before, or whose tests did not end in time")
	flag.Parse()
	o.files = strings.FieldsFunc(*files, func(r rune) bool { return r == ',' })
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o.limit = 10 * time.Minute // of the tests without a change
	if err := mutate(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func mutate(ctx context.Context, o options) error {
	all, err := find(o)
	if err != nil {
		return err
	}
	began := time.Now()
	// A test that fails without any change would kill every mutant. Its duration says how long the
	// others may take.
	if out, err := goTest(ctx, o, ""); err != nil {
		return fmt.Errorf("the tests fail without any change: %w\n%s", err, out)
	}
	const patience = 4 // a loaded machine
	o.limit = patience*time.Since(began) + 10*time.Second
	cache, err := os.UserCacheDir()
	if err != nil {
		return fmt.Errorf("find the cache: %w", err)
	}
	o.store = filepath.Join(cache, "stepwell-mutate")
	if err := os.MkdirAll(o.store, 0o700); err != nil {
		return fmt.Errorf("make the cache: %w", err)
	}
	var mu sync.Mutex
	counts := map[string]int{}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(max(1, o.jobs))
	for _, m := range all {
		g.Go(func() error {
			what, err := o.try(ctx, m)
			mu.Lock()
			defer mu.Unlock()
			counts[what]++
			if what == survived {
				fmt.Printf("%s:%d: %s\n-%s\n+%s\n", m.file, m.line, m.what, indented(m.old), indented(m.new))
			}
			return err
		})
	}
	err = g.Wait()
	dead := counts[killed] + counts[hanging]
	fmt.Printf("%d of %d mutants of %s killed (%d by the time-out), %d survived, %d do not build\n",
		dead, dead+counts[survived], o.pkg, counts[hanging], counts[survived], counts[unbuilt])
	return err
}

func indented(text string) string { return strings.ReplaceAll(text, "\n", "\n ") }

// find makes the mutants of the files that are meant.
func find(o options) ([]mutant, error) {
	names, err := filepath.Glob(filepath.Join(o.pkg, "*.go"))
	if err != nil {
		return nil, fmt.Errorf("look into %s: %w", o.pkg, err)
	}
	var all []mutant
	for _, name := range names {
		base := filepath.Base(name)
		if strings.HasSuffix(base, "_test.go") || len(o.files) > 0 && !slices.Contains(o.files, base) {
			continue
		}
		source, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read: %w", err)
		}
		some, err := mutants(name, source)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	if all == nil {
		return nil, fmt.Errorf("nothing to change in %q %v: -package ./streams names a folder", o.pkg, o.files)
	}
	return all, nil
}

// try says what becomes of the mutant; what is known already is not tried again.
func (o options) try(ctx context.Context, m mutant) (string, error) {
	known := filepath.Join(o.store, fmt.Sprintf("%x", sha256.Sum256([]byte(m.file+"\x00"+o.run+"\x00"+string(m.source)))))
	if before, err := os.ReadFile(known); err == nil && (!o.again || string(before) == killed || string(before) == unbuilt) {
		return string(before), nil
	}
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return "", fmt.Errorf("make a folder for a mutant: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	overlay, err := write(dir, m)
	if err != nil {
		return "", err
	}
	out, err := goTest(ctx, o, overlay)
	var what string
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err == nil:
		what = survived
	case strings.Contains(out, "[build failed]"), strings.Contains(out, "[setup failed]"):
		what = unbuilt
	// Killed most likely, by a loop without an end; but a busy machine looks the same, so that
	// -again tries it once more.
	case strings.Contains(out, "test timed out"):
		what = hanging
	default:
		what = killed
	}
	if err := os.WriteFile(known, []byte(what), 0o600); err != nil {
		return "", fmt.Errorf("remember a mutant: %w", err)
	}
	return what, nil
}

// write puts the mutant where the go tool takes it instead of the file.
func write(dir string, m mutant) (overlay string, err error) {
	file, err := filepath.Abs(m.file)
	if err != nil {
		return "", fmt.Errorf("find %s: %w", m.file, err)
	}
	changed, overlay := filepath.Join(dir, "mutant.go"), filepath.Join(dir, "overlay.json")
	text, err := json.Marshal(map[string]map[string]string{"Replace": {file: changed}})
	if err != nil {
		return "", fmt.Errorf("write a mutant: %w", err)
	}
	if err := errors.Join(os.WriteFile(changed, m.source, 0o600), os.WriteFile(overlay, text, 0o600)); err != nil {
		return "", fmt.Errorf("write a mutant: %w", err)
	}
	return overlay, nil
}

// goTest runs the quick tests of the package; its error is theirs.
func goTest(ctx context.Context, o options, overlay string) (string, error) {
	args := []string{"test", "-short", "-count=1", "-failfast", "-vet=off", "-run", o.run, "-timeout", o.limit.String()}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	pkg := "./" + filepath.ToSlash(filepath.Clean(o.pkg))
	cmd := exec.CommandContext(ctx, "go", append(args, pkg)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // go and its tests end together
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}
