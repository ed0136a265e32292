// Command stepwell looks after running actors over their HTTP: dead sets and streams.
//
//	stepwell dead-set groups --stream orders
//	stepwell dead-set list --stream orders --error "status 503" --died-from 2h
//	stepwell dead-set show --stream orders orders.v1:3:8812
//	stepwell dead-set export --stream orders --group 7f3a91c2b04d > orders.ndjson
//	stepwell dead-set peek --stream orders --count 10
//	stepwell dead-set replay --stream orders --group 7f3a91c2b04d --rate 200/s
//	stepwell dead-set delete --stream orders --error "no such customer" --dry-run
//	stepwell dead-set replay --stream orders --count 10
//	stepwell dead-set edit --stream orders orders.v1:3:8812
//	stepwell dead-set trash --stream orders
//	stepwell dead-set undo op_01k9… -s orders
//	stepwell dead-set sort --stream orders
//	stepwell dead-set operations watch op_01k9…
//	stepwell streams
//	stepwell streams --watch
//	stepwell pause orders
//	stepwell resume orders
//	stepwell pause orders --app
//	stepwell resume orders --app
//
// What is chosen, by --id, --group, a filter or --all, is counted, shown and asked about before it
// is replayed or deleted, and so is every delete; where nobody can be asked it wants --yes. Ctrl-C
// ends the watching, and not the operation.
//
// It exits with 0; 1 when the actor refused or could not be reached, or the person did not say yes;
// 2 for a mistake in the command; 3 when the actor cannot do it now, or stopped half way, so that
// trying again may help; 4 when an operation pauses, was refused, goes on unwatched, or ended
// though messages were left that it could not see, or that --id names, or a try of what it replayed
// failed, when an id or a cause that is named was not found, or when the answer to an act was cut
// off, so that it may be done: somebody has to look.
package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
	// exitAgain says that the same command may succeed later: a walk is under way, or the queues
	// are away.
	exitAgain = 3
	// exitLook says that somebody has to look: see errLook.
	exitLook = 4
)

// commands are what the program understands.
type commands struct {
	Address   string `help:"The actor: host:port, or a URL." default:"${address}" env:"${address_variable}"`
	Token     string `help:"Token of the actor (its SERVER_TOKEN, or yours of SERVER_TOKENS). Other users of this machine can see it here: the variable or a file keeps it." env:"STEPWELL_TOKEN" xor:"token"`
	TokenFile string `help:"File with the token." type:"path" env:"STEPWELL_TOKEN_FILE" xor:"token"`
	JSON      bool   `name:"json" help:"Print JSON, one object a line: each message, each stream, or the answer."`

	Version kong.VersionFlag `help:"Print the version."`

	DeadSet struct {
		Groups groups `cmd:"" help:"Show what killed the messages; nothing changes."`
		List   find   `cmd:"" help:"Show the oldest messages of a kind; nothing changes."`
		Show   show   `cmd:"" help:"Show all that is known of one message; nothing changes."`
		Export export `cmd:"" help:"Write messages whole, a line of JSON each, for a file; nothing changes."`
		Peek   peek   `cmd:"" help:"Show the oldest messages; nothing changes."`
		Replay replay `cmd:"" help:"Give messages a full new budget of tries: the oldest, or those that are chosen."`
		Delete remove `cmd:"" help:"Delete messages, into the trash where there is one: the oldest, or those that are chosen."`
		Edit   edit   `cmd:"" help:"Have a copy of one message with another value handled, and put the message itself into the trash."`
		Trash  trash  `cmd:"" help:"Show what was deleted and is kept; nothing changes."`
		Undo   undo   `cmd:"" help:"Move what was deleted from the trash back into the dead set."`
		Sort   sorts  `cmd:"" help:"Sort what has arrived into pages, so that all of it is seen; no message leaves the dead set."`
		Unsort unsort `cmd:"" help:"Move what is in pages back, for a release that knows no pages."`

		Operations operationCommands `cmd:"" help:"Look at replays and deletes of what was chosen, or hold them back."`
	} `cmd:"" name:"dead-set" help:"Look at dead messages, replay or delete them."`
	Streams list   `cmd:"" help:"Show what the actor runs and how it is doing."`
	Pause   pause  `cmd:"" help:"Hold a stream back on that instance, or in the whole app; fine twice."`
	Resume  resume `cmd:"" help:"Let a paused stream go on; fine twice."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], atTerminal(os.Stdin, os.Stderr), os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// helpShown is what the parser panics with after it printed the help or the version, instead of
// ending the process.
type helpShown struct{}

// asker puts a question to a person. A nil error means yes; errNo, that the answer is another;
// errUnasked, that there is none.
type asker func(question string) error

// atTerminal asks who sits at the terminal; nil where in is none.
func atTerminal(in *os.File, out io.Writer) asker {
	if !isTerminal(in) {
		return nil
	}
	return asking(in, out)
}

// asking writes a question to out and reads a line of in.
func asking(in io.Reader, out io.Writer) asker {
	return func(question string) error {
		fmt.Fprint(out, question, " [y/N] ")
		line, err := bufio.NewReader(in).ReadString('\n')
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return nil
		case "":
			if err != nil { // Ctrl-D
				fmt.Fprintln(out)
				return errUnasked
			}
		}
		return errNo
	}
}

// run does what args say and returns the exit code.
func run(ctx context.Context, args []string, ask asker, out, errs io.Writer) (code int) {
	defer func() {
		switch p := recover(); p.(type) {
		case nil:
		case helpShown:
			code = exitOK
		default:
			panic(p)
		}
	}()
	var c commands
	// kong ends the process where it has printed the help: run is to return, also in tests.
	parser, err := kong.New(&c, kong.Name("stepwell"), kong.Description("Looks after running stepwell actors: dead sets and streams."),
		kong.Vars{"version": version(), "address": defaultAddress, "address_variable": addressVariable}, kong.Writers(out, errs), kong.Exit(func(int) { panic(helpShown{}) }))
	if err != nil {
		fmt.Fprintln(errs, "stepwell:", err)
		return exitUsage
	}
	parsed, err := parser.Parse(args)
	if err == nil {
		err = doubled(parsed)
	}
	if err != nil {
		fmt.Fprintf(errs, "stepwell: %v\n%sstepwell --help says what there is\n", err, usageOf(err))
		return exitUsage
	}
	a, err := newActor(&c, ask, out, errs)
	if err != nil {
		fmt.Fprintln(errs, "stepwell:", err)
		return exitUsage
	}
	parsed.BindTo(ctx, (*context.Context)(nil))
	if err := parsed.Run(a); err != nil {
		fmt.Fprintln(errs, "stepwell:", a.addressed(plain(err.Error())))
		return exitOf(err)
	}
	return exitOK
}

// version is that of the program, and of Go.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "stepwell: built without a version"
	}
	return fmt.Sprintf("stepwell %s, %s", cmp.Or(info.Main.Version, "(devel)"), info.GoVersion)
}

// doubled names a flag that is there twice and takes one value: kong would take the last, and say
// nothing of the first.
func doubled(parsed *kong.Context) error {
	given := map[*kong.Flag]bool{}
	for _, at := range parsed.Path {
		f := at.Flag
		if f == nil || f.IsCumulative() || f.IsBool() {
			continue
		}
		if given[f] {
			return fmt.Errorf("--%s is given twice", f.Name)
		}
		given[f] = true
	}
	return nil
}

// usageOf is a line with the usage of the command that was meant, as far as that is known.
func usageOf(err error) string {
	mistake, ok := errors.AsType[*kong.ParseError](err)
	if !ok || mistake.Context == nil || mistake.Context.Selected() == nil {
		return ""
	}
	return "usage: stepwell " + mistake.Context.Selected().Summary() + "\n"
}

// exitOf is the exit code for a command's error.
func exitOf(err error) int {
	switch {
	case errors.Is(err, errUnasked):
		return exitUsage
	case errors.Is(err, errLook):
		return exitLook
	case errors.Is(err, errBegun):
		return exitAgain
	}
	if r, ok := errors.AsType[*refusal](err); ok && r.again() {
		return exitAgain
	}
	return exitFailed
}
