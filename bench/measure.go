package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"
)

// round has each case's result by name.
type round map[string]result

// run measures all groups and writes down each when it is done.
func (p plan) run(ctx context.Context, out, progress io.Writer) (err error) {
	load := loadOfMachine() // before brokers and cases cause some of it
	b, err := p.startBrokers(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	at := commit(ctx)
	for _, g := range p.groups {
		s := section{group: g, plan: p, versions: b.versions, commit: at, load: load}
		if g.table != nil {
			s.table, err = g.table(ctx, p.rounds)
		} else {
			s.skipped = s.group.skip()
			for _, line := range s.skipped {
				fmt.Fprintln(progress, "NOT RUN: "+line)
			}
			s.rounds, err = p.measure(ctx, b, s.group, progress)
		}
		if err != nil {
			return fmt.Errorf("group %s: %w", g.name, err)
		}
		fmt.Fprintln(out, s)
		if p.page == "" {
			continue
		}
		if err := s.write(p.page); err != nil {
			return err
		}
	}
	return nil
}

// measure runs the cases of a group, round by round.
func (p plan) measure(ctx context.Context, b *brokers, g group, progress io.Writer) (rounds []round, err error) {
	prefix := fmt.Sprintf("bench-%d", time.Now().Unix())
	t := &topics{address: b.kafka, prefix: prefix, made: map[content]string{}}
	var groups []string
	defer func() { err = errors.Join(err, t.end(context.WithoutCancel(ctx), groups)) }()
	for n := range p.rounds {
		results := round{}
		order := slices.Clone(g.cases)
		if n%2 == 1 {
			slices.Reverse(order) // so that none is always the one after the same neighbour
		}
		for _, c := range order {
			name := fmt.Sprintf("%s-%d-%s", prefix, n, c.name)
			j := job{
				Group: g.name, Case: c.name, App: name, ConsumerGroup: name, Kafka: b.kafka, RabbitMQ: b.rabbitmq, RabbitPID: b.rabbitPID,
				Records: c.records(p.records), Environ: p.environ, Feed: c.feed,
			}
			if p.profiles != "" {
				j.Profile = filepath.Join(p.profiles, fmt.Sprintf("%s.%s.%d.pprof", g.name, c.name, n+1))
			}
			groups = append(groups, name)
			r, err := one(ctx, t, j)
			if err != nil {
				return nil, fmt.Errorf("round %d: %w", n+1, err)
			}
			cpu := fmt.Sprintf("CPU s per million %.2f", r.cpuPerMillion())
			if r.Broker > 0 {
				cpu += fmt.Sprintf(", RabbitMQ's %.1f", r.brokerPerMillion())
			}
			fmt.Fprintf(progress, "round %d  %-9s %-24s %12.0f records/s, %s  %v\n", n+1, g.name, c.name, r.perSecond(), cpu, r.Notes)
			results[c.name] = r
		}
		rounds = append(rounds, results)
	}
	return rounds, nil
}

// records are the plan's, scaled, and a multiple of what is counted at once in all partitions.
func (c benchCase) records(all int64) int64 {
	step := int64(max(c.feed.Partitions, 1) * countStep)
	n := int64(float64(all) * c.share)
	return max((n+step-1)/step, 1) * step
}

// one runs a case in a process of its own.
func one(ctx context.Context, t *topics, j job) (r result, err error) {
	switch {
	case j.Feed.Synthetic:
		address, closed, err := openKfake(ctx, j.Feed)
		if err != nil {
			return r, err
		}
		defer func() { _ = closed() }() // it was of no use any more
		j.Kafka, j.Topic = address, kfakeTopic
	case j.Feed.real():
		if j.Topic, err = t.open(ctx, j.Feed, j.Records); err != nil {
			return r, err
		}
	}
	if err := quiet(ctx, j.RabbitPID); err != nil { // of the case before, whose queues may still be deleted
		return r, err
	}
	child, err := spawn(ctx, j)
	if err != nil {
		return r, err
	}
	err = child.read(&r)
	return r, errors.Join(err, child.end())
}
