// Command mutate is what `make mutate` starts: it changes one place of a package after another and
// runs the tests that enter its function, of which one should fail. What they let through is
// printed: a test is missing there, or the change changes nothing.
//
// Only tests that need no broker and are quick run (-short) unless it is told otherwise. What it
// found it keeps beside the user's other caches, by the text of the file, and what survived also by
// that of the tests, so that a run that was ended goes on where it was.
package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sync/errgroup"
)

// What became of a mutant.
const (
	killed   = "killed"
	hanging  = "killed by the time-out"
	survived = "survived"
	unbuilt  = "does not build"
	// unclear: the test that noticed fails without the change, too.
	unclear = "unclear"
	// apart: the change is in no function, or in one that recovers.
	apart = "cannot be tried"
)

type options struct {
	pkg, run string
	// files are those of the package that are changed; empty: all but tests.
	files []string
	// tests are the folders of packages whose tests should notice.
	tests []string
	jobs  int
	// again: what survived before, or did not end in time, is tried once more, even where the tests
	// are those of then.
	again bool
	// digest tells these tests from others.
	digest string
	// all: tests on brokers run, too.
	all   bool
	store string
}

func main() {
	var o options
	flag.StringVar(&o.pkg, "package", "", "folder of the package, say ./streams")
	flag.StringVar(&o.run, "run", "", "only tests that match; all where it is empty")
	files := flag.String("files", "", "only these files of it, separated by commas")
	tests := flag.String("tests", "", "folders whose tests should notice, separated by commas; the package's own where it is empty")
	flag.IntVar(&o.jobs, "jobs", 2, "mutants at once")
	flag.BoolVar(&o.again, "again", false, "try those again that survived before, or whose tests did not end in time, though the tests are the same")
	flag.BoolVar(&o.all, "all", false, "tests that are not quick run, too; on brokers, where the environment names some")
	flag.Parse()
	list := func(s string) []string { return strings.FieldsFunc(s, func(r rune) bool { return r == ',' }) }
	o.files, o.tests = list(*files), list(cmp.Or(*tests, o.pkg))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := mutate(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func mutate(ctx context.Context, o options) error {
	cache, err := os.UserCacheDir()
	if err != nil {
		return fmt.Errorf("find the cache: %w", err)
	}
	o.store = filepath.Join(cache, "stepwell-mutate")
	if err := os.MkdirAll(o.store, 0o700); err != nil {
		return fmt.Errorf("make the cache: %w", err)
	}
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return fmt.Errorf("make a folder for the mutants: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	files, all, err := find(o)
	if err != nil {
		return err
	}
	programs, err := build(ctx, dir, o, files, all)
	if err != nil {
		return err
	}
	if o.digest, err = digestOf(o.tests); err != nil {
		return err
	}
	measured, err := measure(ctx, dir, o, programs)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	counts := map[string]map[string]int{}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(max(1, o.jobs))
	for _, m := range all {
		g.Go(func() error {
			what, by, err := o.try(ctx, m, files[m.file], measured)
			mu.Lock()
			defer mu.Unlock()
			if counts[m.file] == nil {
				counts[m.file] = map[string]int{}
			}
			counts[m.file][what]++
			switch what {
			case survived, apart, unclear, hanging:
				fmt.Printf("%s:%d: %s: %s %s\n-%s\n+%s\n", m.file, m.line, m.what, what, by, indented(m.old), indented(m.new))
			}
			return err
		})
	}
	err = g.Wait()
	for _, file := range slices.Sorted(maps.Keys(counts)) {
		fmt.Printf("%s: %s\n", file, summary(counts[file]))
	}
	return err
}

// digestOf is of all tests in these folders.
func digestOf(dirs []string) (string, error) {
	all := sha256.New()
	for _, dir := range dirs {
		names, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil {
			return "", fmt.Errorf("look into %s: %w", dir, err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				return "", fmt.Errorf("read a test: %w", err)
			}
			fmt.Fprintf(all, "%d ", len(text))
			all.Write(text)
		}
	}
	return fmt.Sprintf("%x", all.Sum(nil)), nil
}

// summary says in a line what became of the mutants of a file.
func summary(n map[string]int) string {
	dead := n[killed] + n[hanging]
	return fmt.Sprintf("%d of %d mutants killed (%d by the time-out), %d survived, %d unclear, %d do not build, %d cannot be tried",
		dead, dead+n[survived]+n[unclear], n[hanging], n[survived], n[unclear], n[unbuilt], n[apart])
}

func indented(text string) string { return strings.ReplaceAll(text, "\n", "\n ") }

// find reads the files that are meant and makes their mutants.
func find(o options) (map[string][]byte, []*mutant, error) {
	names, err := filepath.Glob(filepath.Join(o.pkg, "*.go"))
	if err != nil {
		return nil, nil, fmt.Errorf("look into %s: %w", o.pkg, err)
	}
	files := map[string][]byte{}
	var all []*mutant
	for _, name := range names {
		base := filepath.Base(name)
		if strings.HasSuffix(base, "_test.go") || len(o.files) > 0 && !slices.Contains(o.files, base) {
			continue
		}
		source, err := os.ReadFile(name)
		if err != nil {
			return nil, nil, fmt.Errorf("read: %w", err)
		}
		some, err := mutants(name, source)
		if err != nil {
			return nil, nil, err
		}
		files[name], all = source, append(all, some...)
	}
	if all == nil {
		return nil, nil, fmt.Errorf("nothing to change in %q %v: -package ./streams names a folder", o.pkg, o.files)
	}
	return files, all, nil
}

// try says what becomes of the mutant, and by which test; what is known already is not tried again.
func (o options) try(ctx context.Context, m *mutant, source []byte, tests []test) (what, by string, err error) {
	switch {
	case m.unbuilt:
		return unbuilt, "", nil
	case m.function == 0:
		return apart, "", nil
	}
	key := fmt.Sprintf("%s %q %t %q %d %d %q %s", m.file, o.run, o.all, o.tests, m.from, m.to, m.text, source)
	known := filepath.Join(o.store, fmt.Sprintf("%x", sha256.Sum256([]byte(key))))
	if text, err := os.ReadFile(known); err == nil {
		before, digest, _ := strings.Cut(string(text), "\n")
		if before == killed || !o.again && digest == o.digest {
			return before, "", nil
		}
	}
	what, by, err = o.judge(ctx, m, tests)
	if err != nil || what == unclear {
		return what, by, err
	}
	if err := os.WriteFile(known, []byte(what+"\n"+o.digest), 0o600); err != nil {
		return "", "", fmt.Errorf("remember a mutant: %w", err)
	}
	return what, by, nil
}
