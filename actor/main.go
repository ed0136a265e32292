package actor

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Exit codes of [Main].
const (
	exitOK     = 0
	exitFailed = 1
	exitConfig = 2
)

// Main runs the app until SIGTERM or SIGINT and exits: 0 after a stop that was asked for, 1 when it failed, 2 for a bad configuration,
// whose errors it prints all at once. A second signal exits at once, with 1. Arguments of the program: config (prints the configuration and
// where each value came from), topology (prints queues and waits), doctor (looks whether everything needed is there); none runs the actor.
func Main(app App) {
	ctx, stop := untilSignal()
	code := command(ctx, app, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// untilSignal returns a context that ends with the first signal. The second one exits the process.
func untilSignal() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() { // lives as long as the process
		<-signals
		cancel()
		<-signals
		fmt.Fprintln(os.Stderr, "second signal: exit at once")
		os.Exit(exitFailed)
	}()
	return ctx, cancel
}

const usage = `usage: %s [command]
  (none)     run the actor
  config     print every setting, its value and where it came from
  topology   print queues and waits of every stream
  doctor     check brokers, topics and queues; missing queues are created, as a start would
`

// runTuned runs the actor in a process that is its own.
func runTuned(ctx context.Context, a *Actor, _ io.Writer) error {
	defer TuneGC(a.log)()
	return a.Run(ctx)
}

func command(ctx context.Context, app App, args []string, out, errs io.Writer) int {
	name := ""
	if len(args) > 0 {
		name = args[0]
	}
	if name == "config" && len(args) == 2 && args[1] == "print" {
		args = args[:1]
	}
	run := map[string]func(context.Context, *Actor, io.Writer) error{
		"":         runTuned,
		"config":   printConfig,
		"topology": printTopology,
		"doctor":   doctor,
	}[name]
	if run == nil || len(args) > 1 {
		fmt.Fprintf(errs, usage, os.Args[0])
		return exitConfig
	}
	cfg, err := Load(app, nil)
	if err != nil {
		fmt.Fprintln(errs, err)
		return exitConfig
	}
	a, err := New(cfg, app)
	if err != nil {
		fmt.Fprintln(errs, err)
		return exitConfig
	}
	if name != "" { // one that runs logs them
		for _, warning := range cfg.Warnings() {
			fmt.Fprintln(errs, "warning:", warning)
		}
	}
	if err := run(ctx, a, out); err != nil {
		fmt.Fprintln(errs, err)
		return exitFailed
	}
	return exitOK
}
