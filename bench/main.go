// Command bench measures what a record costs in an actor, beside the same work done by other means.
//
// Every case runs in a process of its own, with a broker process of its own, and every round measures all cases one after the other: what a
// busy machine does to one it does to its neighbours, and only ratios within a round are compared.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
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
	records  int64 // per case
	rounds   int
	cases    []benchCase
	kafka    string   // a cluster; empty: kfake
	rabbitmq string   // empty: no case that needs it
	environ  []string // further settings of the actor
	profiles string   // a folder for CPU profiles; empty: none
}

const (
	partitions = 8
	valueBytes = 100
)

func command(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	var (
		p     plan
		only  string
		quick bool
		write bool
	)
	flags.Int64Var(&p.records, "records", 4_000_000, "records `n` that the bare loop reads in a round; slow cases read a part of it")
	flags.IntVar(&p.rounds, "rounds", 5, "rounds `n`")
	flags.StringVar(&p.kafka, "kafka", "", "`host:port` of a cluster to read from; default: a kfake process")
	flags.StringVar(&p.rabbitmq, "rabbitmq", "", "`URL` of a RabbitMQ, for the case with retries on")
	flags.StringVar(&only, "only", "", "comma-separated `names` of cases; the baseline is always measured")
	flags.Func("env", "`NAME=value`: a setting of the actor; may be repeated", func(s string) error { p.environ = append(p.environ, s); return nil })
	flags.StringVar(&p.profiles, "profiles", "", "`folder` for CPU profiles, one for each case and round")
	flags.BoolVar(&quick, "quick", false, "one short round: does it run at all")
	flags.BoolVar(&write, "write", false, "write ../docs/BENCHMARKS.md")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	if quick {
		p.records, p.rounds = 100_000, 1
	}
	var err error
	if p.cases, err = chosen(only, p.rabbitmq != ""); err != nil {
		return err
	}
	rounds, err := p.measure(ctx, os.Stderr)
	if err != nil {
		return err
	}
	r := newReport(p, rounds)
	r.table(os.Stdout)
	if !write {
		return nil
	}
	return r.write("../docs/BENCHMARKS.md")
}
