package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// test is one test of a program, as it was without any change.
type test struct {
	program
	name    string
	took    time.Duration
	entered map[int]bool // functions
}

// measure runs each test by itself: how long it takes and which functions it enters. One that
// fails notices nothing, and is named.
func measure(ctx context.Context, dir string, o options, programs []program) ([]test, error) {
	var all []test
	for _, p := range programs {
		out, err := run(ctx, p.dir, nil, p.binary, "-test.list", cmp.Or(o.run, "."))
		if err != nil {
			return nil, fmt.Errorf("list the tests: %w\n%s", err, out)
		}
		for name := range strings.FieldsSeq(out) {
			if !strings.HasPrefix(name, "Benchmark") {
				all = append(all, test{program: p, name: name})
			}
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(max(1, o.jobs))
	for i := range all {
		g.Go(func() error {
			t := &all[i]
			reached := filepath.Join(dir, fmt.Sprintf("reached-%d", i))
			if err := os.WriteFile(reached, nil, 0o600); err != nil {
				return fmt.Errorf("write down what is entered: %w", err)
			}
			const patience = 5 * time.Minute
			began := time.Now()
			out, err := o.runTests(ctx, []test{*t}, patience, envMutant+"=-1", envReached+"="+reached)
			t.took = time.Since(began)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				fmt.Printf("%s fails without any change, and is left out\n%s", t.name, out)
				return nil
			}
			text, err := os.ReadFile(reached)
			if err != nil {
				return fmt.Errorf("read what is entered: %w", err)
			}
			t.entered = map[int]bool{}
			for line := range strings.FieldsSeq(string(text)) {
				function, _ := strconv.Atoi(line) // the hook wrote it
				t.entered[function] = true
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	// The package's own first.
	slices.SortStableFunc(all, func(a, b test) int {
		return cmp.Or(cmp.Compare(a.binary, b.binary), cmp.Compare(a.took, b.took))
	})
	return all, nil
}

// judge says what becomes of a mutant by the tests that enter its function, the quick ones first,
// and which of them noticed.
func (o options) judge(ctx context.Context, m *mutant, tests []test) (what, by string, err error) {
	tests = slices.DeleteFunc(slices.Clone(tests), func(t test) bool { return !t.entered[m.function] })
	// A few at once, since each start of the program costs something; more of them, the longer
	// nobody notices.
	for batch := 300 * time.Millisecond; len(tests) > 0; batch *= 2 {
		var sum time.Duration
		n := 0
		for n < len(tests) && (n == 0 || tests[n].program == tests[0].program && sum+tests[n].took <= batch) {
			sum += tests[n].took
			n++
		}
		const patience = 6 // a loaded machine
		limit := 10*time.Second + patience*sum
		out, err := o.runTests(ctx, tests[:n], limit, fmt.Sprintf("%s=%d", envMutant, m.number))
		if ctx.Err() != nil {
			return "", "", ctx.Err()
		}
		if err == nil {
			tests = tests[n:]
			continue
		}
		late, by := strings.Contains(out, "test timed out") || err.Error() == "signal: killed", noticed(out)
		again := slices.DeleteFunc(slices.Clone(tests[:n]), func(t test) bool { return by != "" && t.name != by })
		// The machine may be busy, or the test fail by itself: then it shows nothing.
		if out, err := o.runTests(ctx, again, limit, envMutant+"=0"); err != nil {
			return unclear, by + "\n" + out, ctx.Err()
		}
		if late {
			return hanging, by, nil
		}
		return killed, by, nil
	}
	return survived, "", nil
}

// noticed is the test that failed first, where the output names one.
func noticed(out string) string {
	if m := regexp.MustCompile(`(?m)^--- FAIL: (\w+)|^\t+(\w+) \(\d`).FindStringSubmatch(out); m != nil {
		return m[1] + m[2]
	}
	return ""
}

// runTests runs some tests of one program; its error is theirs.
func (o options) runTests(ctx context.Context, tests []test, limit time.Duration, env ...string) (string, error) {
	var names []string
	for _, t := range tests {
		names = append(names, t.name)
	}
	const more = 10 * time.Second // to say where it hangs
	ctx, cancel := context.WithTimeoutCause(ctx, limit+more, errors.New("the tests hang"))
	defer cancel()
	args := []string{fmt.Sprintf("-test.short=%t", !o.all), "-test.failfast", "-test.timeout=" + limit.String(), "-test.run=^(" + strings.Join(names, "|") + ")$"}
	if tests[0].rapid {
		args = append(args, "-rapid.shrinktime=0", "-rapid.nofailfile") // nobody asks for a smaller example
	}
	return run(ctx, tests[0].dir, env, tests[0].binary, args...)
}
