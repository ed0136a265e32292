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
	"sync"
	"syscall"
	"time"

	"github.com/stepwell/stepwell/internal/testbroker"
)

type options struct {
	quick   bool
	timeout time.Duration // of a package
	budget  time.Duration // of all
	args    []string      // packages; empty: everything
}

func main() {
	if len(os.Args) > 2 && os.Args[1] == measuredFlag {
		os.Exit(measure(os.Args[2:], os.Stdout))
	}
	var o options
	install := flag.Bool("install", false, "only install the brokers, with sudo if need be")
	flag.BoolVar(&o.quick, "quick", false, "run only what needs no broker, without the race detector")
	flag.DurationVar(&o.timeout, "timeout", 45*time.Minute, "a package whose tests take longer hangs: it fails, and says where")
	flag.DurationVar(&o.budget, "budget", 12*time.Minute, "warn, and name the slowest packages, when all tests take longer")
	flag.Parse()
	o.args = flag.Args()

	// A signal ends the tests and then the brokers: a node that outlived the run would keep its
	// ports.
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
	dirs, err := o.modules()
	if err != nil {
		return err
	}
	if o.quick {
		return runTests(ctx, o, dirs, temp, &brokers{}, nil)
	}
	// Brokers are downloaded, unpacked and started while vet compiles: one waits, the other works.
	var vetted error
	var vetting sync.WaitGroup
	vetting.Go(func() { vetted = vet(ctx, o, dirs, temp) })
	b, err := startBrokers(ctx, temp)
	vetting.Wait()
	if err != nil {
		return fmt.Errorf("start the brokers: %w", err)
	}
	// Before the folder goes, since deferred calls run backwards: brokers write into it as they
	// end.
	defer func() { err = errors.Join(err, b.Close()) }()
	for _, line := range append(b.tested, prefixed("NOT RUN: ", b.notRun)...) {
		say("%s", line)
	}
	return runTests(ctx, o, dirs, temp, b, vetted)
}

// modules are the folders whose modules are tested.
func (o options) modules() ([]string, error) {
	if len(o.args) > 0 {
		return []string{"."}, nil
	}
	return modules(".")
}

func (o options) packages() []string {
	if len(o.args) > 0 {
		return o.args
	}
	return []string{"./..."}
}

// vet checks all modules. With -race it compiles what the tests need as well, which would else be
// compiled twice.
func vet(ctx context.Context, o options, dirs []string, temp string) error {
	var broken []error
	for _, dir := range dirs {
		cmd := goCommand(ctx, dir, temp, nil, append([]string{"vet", "-race"}, o.packages()...)...)
		cmd.Stdout = os.Stdout
		if err := cmd.Run(); err != nil {
			broken = append(broken, fmt.Errorf("in %s: go vet: %w", dir, err))
		}
	}
	return errors.Join(broken...)
}

// runTests tests every module, side by side, and prints the closing lines. What vet found does not
// keep the tests from running.
func runTests(ctx context.Context, o options, dirs []string, temp string, b *brokers, vetted error) error {
	began, idle := time.Now(), machineIdle()
	testTemp := filepath.Join(temp, "tmp")
	if err := os.Mkdir(testTemp, 0o700); err != nil {
		return fmt.Errorf("make a folder for the tests: %w", err)
	}
	r := newReport(os.Stdout)
	broken := make([]error, len(dirs))
	var all sync.WaitGroup
	for i, dir := range dirs {
		all.Go(func() {
			if err := goTest(goCommand(ctx, dir, testTemp, b.env(), o.testArgs(dir)...), r); err != nil {
				broken[i] = fmt.Errorf("in %s: %w", dir, err)
			}
		})
	}
	all.Wait()
	took := time.Since(began)
	r.printf("the tests took %s%s\n", took.Round(time.Second), idle(took))
	err := errors.Join(append(broken, vetted)...)
	if ctx.Err() != nil {
		err = context.Cause(ctx) // what else went wrong follows from that
	}
	return closing(o, b, r, took, err)
}

// testArgs are those of go: how many packages run at once, and tests of a package. Most of what
// takes long waits for a broker, so more tests run than there are cores.
func (o options) testArgs(dir string) []string {
	args := []string{"test", "-json"}
	if o.quick {
		return append(append(args, "-short", "-p", "6", "-parallel", "16"), o.packages()...)
	}
	args = append(args, "-race", "-p", "2", "-parallel", "8", "-timeout", o.timeout.String(), "-vet=off") // vet was there
	if self, err := os.Executable(); err == nil {
		args = append(args, "-exec", "'"+self+"' "+measuredFlag)
	}
	if dir == "." && len(o.args) == 0 {
		// What takes longest begins first: then what is left at the end is short, and no core waits
		// for one package.
		args = append(args, "./actor", "./chaos", "./internal/rabbit", "./deadset")
	}
	return append(args, o.packages()...)
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
	if len(b.rabbits) > 1 && os.Getenv(testbroker.EnvReleases) != "all" {
		r.printf("most tests above internal/rabbit saw one of the two RabbitMQs; make everywhere runs each on both\n")
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
