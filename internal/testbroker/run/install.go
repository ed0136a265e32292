package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/stepwell/stepwell/internal/testbroker/local"
)

// installMissing gets for root what the package manager and Maven can give,
// and only for brokers that the user did not name. An error is not the end:
// there may be an older broker, or a container.
func installMissing(ctx context.Context) (rabbit, kafka error) {
	rabbitPackages, kafkaPackages := local.MissingPackages()
	var unpacking sync.WaitGroup // beside what Kafka needs; only apt-get runs alone
	if os.Getenv("RABBITMQ_URL") == "" {
		if rabbit = install(ctx, rabbitPackages, false); rabbit == nil {
			unpacking.Go(func() { rabbit = fetchRabbit(ctx) })
		}
	}
	if os.Getenv("KAFKA_BROKERS") == "" {
		kafka = installKafka(ctx, kafkaPackages, false)
	}
	unpacking.Wait()
	return rabbit, kafka
}

// installAll is `make brokers`: it may ask for a password.
func installAll(ctx context.Context) error {
	rabbit, kafka := local.MissingPackages()
	if err := errors.Join(installRabbit(ctx, rabbit, true), installKafka(ctx, kafka, true)); err != nil && !errors.Is(err, errNewest) {
		return err
	}
	oldest, err := local.Oldest()
	if err != nil {
		return fmt.Errorf("find RabbitMQ: %w", err)
	}
	newest, err := local.Newest()
	if err != nil {
		return fmt.Errorf("find RabbitMQ: %w", err)
	}
	say("RabbitMQ %s (oldest), %s (newest); Kafka %s", oldest.Version, newest.Version, local.KafkaVersion)
	return nil
}

func installRabbit(ctx context.Context, packages []string, sudo bool) error {
	if err := install(ctx, packages, sudo); err != nil {
		return err
	}
	return fetchRabbit(ctx)
}

// fetchRabbit unpacks the newest RabbitMQ into the cache. Without root it is errNewest, which is no
// reason to give up.
func fetchRabbit(ctx context.Context) error {
	if !local.CanFetchRabbit() {
		return errNewest
	}
	if !local.HaveFetchedRabbit() {
		say("unpacking the newest RabbitMQ into %s: once, a minute or two", local.CacheDir())
	}
	return local.FetchRabbit(ctx)
}

func installKafka(ctx context.Context, packages []string, sudo bool) error {
	if err := install(ctx, packages, sudo); err != nil {
		return err
	}
	return local.FetchKafka(ctx)
}

// install installs packages, where there are any to install and the user may.
func install(ctx context.Context, packages []string, sudo bool) error {
	if len(packages) == 0 {
		return nil
	}
	if err := local.Installable(sudo); err != nil {
		return fmt.Errorf("install %v: %w", packages, err)
	}
	say("installing %v", packages)
	return local.Install(ctx, packages)
}

func say(format string, args ...any) {
	_, _ = fmt.Fprintf(os.Stdout, format+"\n", args...)
}
