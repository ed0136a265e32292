package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// round has each case's result by name.
type round map[string]result

// measure runs all cases, round by round.
func (p plan) measure(ctx context.Context, progress io.Writer) (rounds []round, err error) {
	app := fmt.Sprintf("stepwell-bench-%d", time.Now().Unix())
	var from source = fresh{}
	if p.kafka != "" {
		c, err := newCluster(ctx, p.kafka, app, p.records)
		if c != nil {
			from = c
		}
		if err != nil {
			return nil, errors.Join(err, from.end(context.WithoutCancel(ctx), nil))
		}
	}
	var groups []string
	defer func() {
		cleaning := context.WithoutCancel(ctx)
		err = errors.Join(err, from.end(cleaning, groups), p.deleteQueues(app))
	}()
	for n := range p.rounds {
		results := round{}
		order := slices.Clone(p.cases)
		if n%2 == 1 {
			slices.Reverse(order) // so that none is always the one after the same neighbour
		}
		for _, c := range order {
			j := job{Case: c.name, App: app, Group: fmt.Sprintf("%s.%d.%s", app, n, c.name), RabbitMQ: p.rabbitmq, Records: int64(float64(p.records) * c.share), Environ: p.environ}
			if p.profiles != "" {
				j.Profile = filepath.Join(p.profiles, fmt.Sprintf("%s.%d.pprof", c.name, n+1))
			}
			groups = append(groups, j.Group)
			r, err := one(ctx, from, j)
			if err != nil {
				return nil, fmt.Errorf("round %d: %w", n+1, err)
			}
			fmt.Fprintf(progress, "round %d  %-18s %12.0f records/s\n", n+1, c.name, r.perSecond())
			results[c.name] = r
		}
		rounds = append(rounds, results)
	}
	return rounds, nil
}

// one runs a case in a process of its own.
func one(ctx context.Context, from source, j job) (r result, err error) {
	address, topic, closed, err := from.open(ctx)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, closed()) }()
	j.Kafka, j.Topic = address, topic
	p, err := spawn(ctx, j)
	if err != nil {
		return r, err
	}
	err = p.read(&r)
	return r, errors.Join(err, p.end())
}

// deleteQueues removes the queues that the actor made.
func (p plan) deleteQueues(app string) error {
	if p.rabbitmq == "" {
		return nil
	}
	conn, err := amqp.Dial(p.rabbitmq)
	if err != nil {
		return fmt.Errorf("delete queues: %w", err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return fmt.Errorf("delete queues: %w", err)
	}
	for _, kind := range []string{"delay.5000", "instant", "dead_set"} {
		if _, err := ch.QueueDelete(app+"."+stream+"."+kind, false, false, false); err != nil {
			return fmt.Errorf("delete queues: %w", err)
		}
	}
	return nil
}
