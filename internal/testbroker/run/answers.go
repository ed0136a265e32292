package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kgo"
)

const answerTimeout = time.Minute

// rabbitVersion waits until a RabbitMQ lets us in and says what it is.
func rabbitVersion(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	for {
		// A port that listens is not enough: Docker opens it before the broker is there.
		conn, err := amqp.Dial(url)
		if err == nil {
			version := fmt.Sprint(conn.Properties["version"])
			return version, conn.Close()
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("no answer: %w", err)
		case <-time.After(time.Second):
		}
	}
}

// kafkaAnswers waits until a Kafka without TLS or passwords answers.
func kafkaAnswers(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(addr, ",")...))
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	defer client.Close()
	for {
		err := client.Ping(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no answer: %w", err)
		case <-time.After(time.Second):
		}
	}
}
