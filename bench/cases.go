package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// benchCase is one way to read a topic.
type benchCase struct {
	name string
	what string
	// share is the part of the records that the case reads, so that slow ones take no longer than the others.
	share float64
	// rabbitmq says that it needs one.
	rabbitmq bool
	run      func(context.Context, job, *meter) error
}

const baseline = "bare"

func allCases() []benchCase {
	return []benchCase{
		{baseline, "franz-go poll loop that calls a function for each record, autocommit", 1, false, bare},
		{"stepwell", "actor, RETRY_ENABLED=false", 1, false, stepwellAlone},
		{"stepwell-retries", "actor with its retry queues on RabbitMQ", 1, true, stepwellRetries},
		{"reader", "package streams alone, under a handle that counts", 1, false, readerAlone},
		{"kafka-go", "segmentio/kafka-go reader of a group, commits each second", 0.2, false, kafkaGo},
		{"watermill", "watermill-kafka subscriber of a group", 0.03, false, watermillLoop},
	}
}

// chosen are the cases to measure, the baseline first.
func chosen(only string, rabbitmq bool) ([]benchCase, error) {
	all := allCases()
	var names []string
	if only != "" {
		names = strings.Split(only, ",")
	}
	for _, name := range names {
		if !slices.ContainsFunc(all, func(c benchCase) bool { return c.name == name }) {
			return nil, fmt.Errorf("no case is called %q", name)
		}
	}
	return slices.DeleteFunc(all, func(c benchCase) bool {
		if c.name == baseline {
			return false
		}
		return names != nil && !slices.Contains(names, c.name) || c.rabbitmq && !rabbitmq
	}), nil
}

func caseNamed(name string) (benchCase, bool) {
	for _, c := range allCases() {
		if c.name == name {
			return c, true
		}
	}
	return benchCase{}, false
}
