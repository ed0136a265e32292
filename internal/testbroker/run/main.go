// Command run is what `make test`, `make quick` and `make brokers` start: it
// finds or starts the brokers, runs vet and all tests on them, says what was
// tested and what was not, and leaves nothing behind.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

type options struct {
	quick   bool
	timeout time.Duration // of a package
	budget  time.Duration // of all
	args    []string      // packages; empty: everything
}

func main() {
	var o options
	install := flag.Bool("install", false, "only install the brokers, with sudo if need be")
	flag.BoolVar(&o.quick, "quick", false, "run only what needs no broker, without the race detector")
	flag.DurationVar(&o.timeout, "timeout", 30*time.Minute, "a package whose tests take longer hangs: it fails, and says where")
	flag.DurationVar(&o.budget, "budget", 20*time.Minute, "warn, and name the slowest packages, when all tests take longer")
	flag.Parse()
	o.args = flag.Args()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	var err error
	if *install {
		err = installAll(ctx)
	} else {
		err = test(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// test runs everything in a temporary folder that is gone when it returns.
func test(ctx context.Context, o options) (err error) {
	temp, err := os.MkdirTemp("", "stepwell-test-")
	if err != nil {
		return fmt.Errorf("make a folder for the run: %w", err)
	}
	defer func() { err = errors.Join(err, removeAll(temp)) }()
	if o.quick {
		return runTests(ctx, o, temp, &brokers{})
	}
	b, err := startBrokers(ctx, temp)
	if err != nil {
		return fmt.Errorf("start the brokers: %w", err)
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	for _, line := range append(b.tested, prefixed("NOT RUN: ", b.notRun)...) {
		say("%s", line)
	}
	return runTests(ctx, o, temp, b)
}

// runTests vets and tests every module and prints the closing lines.
func runTests(ctx context.Context, o options, temp string, b *brokers) error {
	began := time.Now()
	dirs := []string{"."}
	if len(o.args) == 0 {
		var err error
		if dirs, err = modules("."); err != nil {
			return err
		}
	}
	testTemp := filepath.Join(temp, "tmp")
	if err := os.Mkdir(testTemp, 0o700); err != nil {
		return fmt.Errorf("make a folder for the tests: %w", err)
	}
	r := newReport(os.Stdout)
	var broken []error
	for _, dir := range dirs {
		err := module(ctx, o, dir, testTemp, b, r)
		if ctx.Err() != nil { // what else went wrong follows from that
			broken = []error{context.Cause(ctx)}
			break
		}
		if err != nil {
			broken = append(broken, fmt.Errorf("in %s: %w", dir, err))
		}
	}
	took := time.Since(began)
	return closing(o, b, r, took, errors.Join(broken...))
}

// module vets and tests one module; what vet finds does not keep the tests from running.
func module(ctx context.Context, o options, dir, temp string, b *brokers, r *report) error {
	packages := o.args
	if len(packages) == 0 {
		packages = []string{"./..."}
	}
	atOnce := "2" // packages
	if o.quick {
		atOnce = "6" // most of their tests wait
	}
	args := []string{"test", "-json", "-p", atOnce}
	var vetted error
	if o.quick {
		args = append(args, "-short", "-parallel", "16")
	} else {
		args = append(args, "-race", "-timeout", o.timeout.String())
		vet := goCommand(ctx, dir, temp, nil, append([]string{"vet"}, packages...)...)
		vet.Stdout = os.Stdout
		if err := vet.Run(); err != nil {
			vetted = fmt.Errorf("go vet: %w", err)
		}
	}
	tested := goTest(goCommand(ctx, dir, temp, b.env(), append(args, packages...)...), r)
	return errors.Join(vetted, tested)
}

// closing prints what was tested and what not, and says how it ended. The
// line of the counts stands alone: people and machines look for it.
func closing(o options, b *brokers, r *report, took time.Duration, broken error) error {
	r.abandon()
	r.slowest(10)
	r.overBudget(took, o.budget)
	for _, line := range b.tested {
		r.printf("tested on %s\n", line)
	}
	for _, line := range prefixed("NOT RUN: ", append(b.notRun, r.missed()...)) {
		r.printf("%s\n", line)
	}
	r.printf("%d passed, %d failed, %d skipped\n", r.passed, r.failed, r.skipped)
	incomplete := len(b.notRun) > 0 || r.missing() > 0
	switch {
	case broken != nil:
		return broken
	case r.failed > 0:
		return fmt.Errorf("%d tests failed", r.failed)
	case incomplete && os.Getenv("CI") == "true" && !o.quick:
		return errors.New("NOT RUN is a failure with CI=true")
	case incomplete && o.quick:
		r.printf("NOT RUN: %d tests that need brokers; `make test` runs them\n", r.missing())
	case incomplete:
		r.printf("NOT RUN: %d tests, for what the lines above say; `%s` installs what is missing\n", r.missing(), fix)
	}
	return nil
}

func prefixed(prefix string, lines []string) []string {
	var out []string
	for _, line := range lines {
		out = append(out, prefix+line)
	}
	return out
}

// removeAll removes dir, in which a process that was just killed may still write.
func removeAll(dir string) error {
	var err error
	for range 50 {
		if err = os.RemoveAll(dir); err == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("remove the folder of the run: %w", err)
}
