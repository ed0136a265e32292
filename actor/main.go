package actor

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"github.com/stepwell/stepwell/internal/spelling"
)

// Exit codes of [Main].
const (
	exitOK     = 0
	exitFailed = 1
	exitConfig = 2
)

// Main runs the app until SIGTERM or SIGINT and exits: 0 after a stop that was asked for, 1 when it
// failed, which the log tells as its last line, 2 for a bad configuration, whose errors it prints
// all at once. A second signal exits at once, with 1; one that comes within a second of the first
// is the first. Arguments of the program: config (prints the configuration and where each value
// came from), topology (prints queues and waits), doctor (looks whether everything needed is
// there), --help, --version; none runs the actor.
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
	go heed(signals, cancel, func() { // lives as long as the process
		fmt.Fprintln(os.Stderr, "second signal: exit at once")
		os.Exit(exitFailed)
	})
	return ctx, cancel
}

// sameSignal is how long after the first signal another one is the same: some who send one send it
// to a process and to its group.
const sameSignal = time.Second

// heed calls stop at the first signal and exit at the second.
func heed(signals <-chan os.Signal, stop, exit func()) {
	<-signals
	first := time.Now()
	stop()
	for range signals {
		if time.Since(first) >= sameSignal {
			exit()
			return
		}
	}
}

const usage = `usage: %s [command]
  (none)     run the actor
  config     print every setting, its value and where it came from
  topology   print queues and waits of every stream
  doctor     check brokers, topics and queues; missing queues are created, as a start would
  --help     print this
  --version  print the versions of the program and of stepwell
`

// runTuned runs the actor in a process that is its own.
func runTuned(ctx context.Context, a *Actor, _ io.Writer) error {
	defer TuneGC(a.log, a.cfg.LargestWindow())()
	return a.Run(ctx)
}

// command runs what the arguments say and returns the exit code.
func command(ctx context.Context, app App, args []string, out, errs io.Writer) int {
	name := ""
	if len(args) > 0 {
		name = args[0]
	}
	if name == "config" && len(args) == 2 && args[1] == "print" {
		args = args[:1]
	}
	commands := map[string]func(context.Context, *Actor, io.Writer) error{
		"":         runTuned,
		"config":   printConfig,
		"topology": printTopology,
		"doctor":   doctor,
	}
	run := commands[name]
	if run == nil || len(args) > 1 {
		return explain(args, app.Name, commands, out, errs)
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
	switch err := run(ctx, a, out); {
	case err == nil:
		return exitOK
	case name == "": // who looks for errors looks in the log
		a.log.Error("the actor ends with an error", "error", err)
	default:
		fmt.Fprintln(errs, err)
	}
	return exitFailed
}

// explain answers arguments that are no command: those that ask for help or a version, and
// mistakes.
func explain[V any](args []string, app string, commands map[string]V, out, errs io.Writer) int {
	_, known := commands[args[0]]
	switch {
	case len(args) == 1 && slices.Contains([]string{"--help", "-h", "help"}, args[0]):
		fmt.Fprintf(out, usage, os.Args[0])
		return exitOK
	case len(args) == 1 && slices.Contains([]string{"--version", "version"}, args[0]):
		fmt.Fprintln(out, versions(app))
		return exitOK
	case known:
		fmt.Fprintf(errs, "%s takes no argument, not %q\n"+usage, args[0], args[1], os.Args[0])
	default:
		fmt.Fprintf(errs, "there is no command %q%s\n"+usage, args[0], spelling.Meant(args[0], slices.Sorted(maps.Keys(commands))), os.Args[0])
	}
	return exitConfig
}

// versionOf is the version of the app: what it says, else that of the program's module; empty: it
// is not known.
func versionOf(app *App) string {
	if app.Version != "" {
		return app.Version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "(devel)" {
		return ""
	}
	return info.Main.Version
}

// versions are those of the program, of stepwell in it, and of Go.
func versions(app string) string {
	const module = "github.com/stepwell/stepwell"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return app + ": built without versions"
	}
	of := func(m debug.Module) string { return cmp.Or(m.Version, "(devel)") }
	stepwell := of(info.Main)
	for _, m := range info.Deps {
		if m.Path == module {
			stepwell = of(*m)
		}
	}
	return fmt.Sprintf("%s %s, stepwell %s, %s", app, of(info.Main), stepwell, info.GoVersion)
}
