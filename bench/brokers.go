package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/stepwell/stepwell/internal/testbroker/local"
)

// brokers are the real ones that the cases need.
type brokers struct {
	kafka, rabbitmq string // empty: no case needs it
	rabbitPID       int    // 0: it was not started here
	versions        []string
	closers         []func() error
}

// startBrokers starts what the plan needs and does not name.
func (p plan) startBrokers(ctx context.Context) (b *brokers, err error) {
	b = &brokers{}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	temp, err := os.MkdirTemp("", "stepwell-bench-")
	if err != nil {
		return b, fmt.Errorf("make a folder for the brokers: %w", err)
	}
	b.closers = append(b.closers, func() error { return os.RemoveAll(temp) })
	if p.some(func(c benchCase) bool { return c.feed.real() }) {
		if err := b.startKafka(ctx, p.kafka, filepath.Join(temp, "kafka")); err != nil {
			return b, err
		}
	}
	if p.some(func(c benchCase) bool { return c.rabbitmq }) {
		err = b.startRabbitMQ(ctx, p.rabbitmq, filepath.Join(temp, "rabbitmq"))
	}
	return b, err
}

// some says whether a case of the plan is such.
func (p plan) some(is func(benchCase) bool) bool {
	return slices.ContainsFunc(p.groups, func(g group) bool { return slices.ContainsFunc(g.cases, is) })
}

func (b *brokers) startKafka(ctx context.Context, named, dir string) error {
	if b.kafka = named; named != "" {
		b.versions = append(b.versions, "Kafka at a given address")
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make Kafka's folder: %w", err)
	}
	k, err := local.StartKafka(ctx, dir, local.KafkaOptions{})
	if err != nil {
		return fmt.Errorf("start Kafka (`make brokers` installs it): %w", err)
	}
	b.kafka = k.Bootstrap()
	b.versions = append(b.versions, "Kafka "+local.KafkaVersion+", one node")
	b.closers = append(b.closers, k.Close)
	return nil
}

func (b *brokers) startRabbitMQ(ctx context.Context, named, dir string) error {
	if b.rabbitmq = named; named != "" {
		b.versions = append(b.versions, "RabbitMQ at a given address")
		return nil
	}
	dist, err := local.Newest()
	if err != nil {
		return fmt.Errorf("find RabbitMQ (`make brokers` installs it): %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make RabbitMQ's folder: %w", err)
	}
	r, err := local.StartRabbit(ctx, dist, dir, local.RabbitOptions{})
	if err != nil {
		return fmt.Errorf("start RabbitMQ: %w", err)
	}
	b.rabbitmq, b.rabbitPID = r.URL(), r.PID()
	b.versions = append(b.versions, "RabbitMQ "+r.Version+", one node")
	b.closers = append(b.closers, r.Close)
	return nil
}

// close ends what was started, the folder last.
func (b *brokers) close() error {
	var errs []error
	for _, end := range slices.Backward(b.closers) {
		errs = append(errs, end())
	}
	return errors.Join(errs...)
}
