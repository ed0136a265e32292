// Command bench measures what a record costs in an actor, beside the same work done by other means,
// and writes docs/BENCHMARKS.md.
//
// Every case runs in a process of its own, and every round measures all cases of a group one after
// the other: what a busy machine does to one it does to its neighbours, and only ratios within a
// round are compared.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if isChild, err := child(ctx); isChild {
		exit(err)
		return
	}
	exit(command(ctx, os.Args[1:]))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// plan is what one invocation measures.
type plan struct {
	records  int64 // that a case with a share of 1 reads
	rounds   int
	groups   []group
	kafka    string   // a cluster; empty: one is started if a case needs it
	rabbitmq string   // a URL; empty: one is started if a case needs it
	environ  []string // further settings of the actor
	profiles string   // a folder for CPU profiles; empty: none
	page     string   // the report; empty: it is only shown
}

func command(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	var (
		p            plan
		names, cases string
		quick        bool
	)
	flags.StringVar(&names, "group", "", "comma-separated `names` of groups: "+groupNames()+"; default: all")
	flags.StringVar(&cases, "only", "", "comma-separated `names` of cases; what they are compared with is measured as well")
	flags.Int64Var(&p.records, "records", 4_000_000, "records `n` that a case with a share of 1 reads; all others read a part or a multiple of it")
	flags.IntVar(&p.rounds, "rounds", 3, "rounds `n`")
	flags.StringVar(&p.kafka, "kafka", "", "`host:port` of a cluster; default: a node is started")
	flags.StringVar(&p.rabbitmq, "rabbitmq", "", "`URL` of a RabbitMQ; default: a node is started")
	flags.Func("env", "`NAME=value`: a setting of the actor; may be repeated", func(s string) error { p.environ = append(p.environ, s); return nil })
	flags.StringVar(&p.profiles, "profiles", "", "`folder` for CPU profiles, one for each case and round")
	flags.StringVar(&p.page, "page", "../docs/BENCHMARKS.md", "`file` whose sections of the measured groups are replaced; empty: none")
	flags.BoolVar(&quick, "quick", false, "one short round that is not written down: does it run at all")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	if quick {
		p.records, p.rounds, p.page = 100_000, 1, ""
	}
	var err error
	if p.groups, err = chosen(names, cases); err != nil {
		return err
	}
	return p.run(ctx, os.Stdout, os.Stderr)
}
