package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/stepwell/stepwell/internal/testbroker"
	"github.com/stepwell/stepwell/internal/testbroker/local"
)

// brokers are what the tests run on.
type brokers struct {
	rabbits []testbroker.Node
	kafka   string

	tested []string // lines that name brokers and where they come from
	notRun []string // lines that say what is missing and why

	mu   sync.Mutex // guards all fields while brokers start side by side
	open []io.Closer
}

// startBrokers starts what can be had, each broker in a folder below dir. What
// cannot is said in notRun; only the end of ctx is an error.
func startBrokers(ctx context.Context, dir string) (*brokers, error) {
	b := &brokers{}
	rabbitErr, kafkaErr := installMissing(ctx)
	var all sync.WaitGroup
	all.Go(func() { b.startRabbits(ctx, dir, rabbitErr) })
	all.Go(func() { b.startKafka(ctx, dir, kafkaErr) })
	all.Wait()
	slices.SortFunc(b.rabbits, byVersion)
	slices.Sort(b.tested) // side by side they came in any order
	if err := ctx.Err(); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// env are the variables through which tests find the brokers.
func (b *brokers) env() []string {
	return []string{testbroker.EnvRabbitMQ + "=" + testbroker.FormatNodes(b.rabbits), testbroker.EnvKafka + "=" + b.kafka}
}

// Close ends all that was started.
func (b *brokers) Close() error {
	var errs []error
	for _, c := range b.open {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

func (b *brokers) startRabbits(ctx context.Context, dir string, installed error) {
	// What the user names is used, and nothing is installed or started beside it.
	if url := os.Getenv("RABBITMQ_URL"); url != "" {
		first, _, _ := strings.Cut(url, ",")
		version, err := rabbitVersion(ctx, first)
		if err != nil {
			b.missing("RabbitMQ of RABBITMQ_URL", err, "start it, or unset RABBITMQ_URL")
			return
		}
		b.rabbit(version, first, "RABBITMQ_URL", nil)
		return
	}
	oldest, err := local.Oldest()
	if err != nil {
		b.containerRabbit(ctx, errors.Join(installed, err))
		return
	}
	// The suite is to run on both ends of what is supported.
	newest, err := local.Newest()
	if newest == oldest {
		b.missing("a second RabbitMQ beside "+oldest.Version, cmp.Or(installed, errNewest), "make brokers, as root")
	}
	var all sync.WaitGroup
	all.Go(func() { b.localRabbit(ctx, oldest, filepath.Join(dir, "rabbitmq-oldest"), "oldest") })
	if err == nil && newest != oldest {
		all.Go(func() { b.localRabbit(ctx, newest, filepath.Join(dir, "rabbitmq-newest"), "newest") })
	}
	all.Wait()
}

func (b *brokers) localRabbit(ctx context.Context, dist local.RabbitDist, dir, which string) {
	node, err := startIn(dir, func() (*local.Rabbit, error) { return local.StartRabbit(ctx, dist, dir, local.RabbitOptions{}) })
	if err != nil {
		b.missing("RabbitMQ "+dist.Version, err, "look into the error above")
		return
	}
	b.rabbit(node.Version, node.URL(), which, node)
}

func (b *brokers) containerRabbit(ctx context.Context, why error) {
	c, err := container(ctx, why, local.RunRabbitImage)
	if err != nil {
		b.missing("RabbitMQ", err, fix)
		return
	}
	url := "amqp://guest:guest@" + c.Addr() + "/"
	version, err := rabbitVersion(ctx, url)
	if err != nil {
		b.missing("RabbitMQ", errors.Join(err, c.Close()), fix)
		return
	}
	b.rabbit(version, url, "container "+local.RabbitImage, c)
}

func (b *brokers) startKafka(ctx context.Context, dir string, installed error) {
	if addr := os.Getenv("KAFKA_BROKERS"); addr != "" {
		if err := kafkaAnswers(ctx, addr); err != nil {
			b.missing("Kafka of KAFKA_BROKERS", err, "start it, or unset KAFKA_BROKERS")
			return
		}
		b.setKafka(addr, "Kafka at "+addr+" (KAFKA_BROKERS)", nil)
		return
	}
	dir = filepath.Join(dir, "kafka")
	k, err := startIn(dir, func() (*local.Kafka, error) { return local.StartKafka(ctx, dir, local.KafkaOptions{}) })
	if err == nil {
		b.setKafka(k.Bootstrap(), "Kafka "+local.KafkaVersion, k)
		return
	}
	c, err := container(ctx, errors.Join(installed, err), local.RunKafkaImage)
	if err != nil {
		b.missing("Kafka", err, fix)
		return
	}
	if err := kafkaAnswers(ctx, c.Addr()); err != nil {
		b.missing("Kafka", errors.Join(err, c.Close()), fix)
		return
	}
	b.setKafka(c.Addr(), "Kafka "+local.KafkaVersion+" (container "+local.KafkaImage+")", c)
}

// byVersion puts the oldest first.
func byVersion(x, y testbroker.Node) int {
	return slices.Compare(numbers(x.Version), numbers(y.Version))
}

// numbers are the parts of a version, which do not sort as text: 3.10 comes after 3.9.
func numbers(version string) []int {
	var all []int
	for part := range strings.SplitSeq(version, ".") {
		n, _ := strconv.Atoi(part) // what is no number comes first
		all = append(all, n)
	}
	return all
}

const fix = "make brokers"

var errNewest = errors.New("only root can unpack the newest RabbitMQ and run it")

// container is the last resort: why says why it came to that.
func container(ctx context.Context, why error, run func(context.Context) (*local.Container, error)) (*local.Container, error) {
	if !local.HaveDocker(ctx) {
		return nil, fmt.Errorf("%w, and no Docker runs here", why)
	}
	return run(ctx)
}

// startIn gives a broker a folder of its own, below that of the run, which is removed at the end.
func startIn[T any](dir string, start func() (T, error)) (T, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		var none T
		return none, fmt.Errorf("make a broker's folder: %w", err)
	}
	return start()
}

// rabbit notes a RabbitMQ that answers; where says where it is from.
func (b *brokers) rabbit(version, url, where string, c io.Closer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rabbits = append(b.rabbits, testbroker.Node{Version: version, URL: url})
	b.tested = append(b.tested, "RabbitMQ "+version+" ("+where+")")
	b.keep(c)
}

func (b *brokers) setKafka(addr, line string, c io.Closer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kafka = addr
	b.tested = append(b.tested, line)
	b.keep(c)
}

// missing notes what does not run. It is printed, and fails the run in CI: nothing is skipped in
// silence.
func (b *brokers) missing(what string, why error, fix string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	oneLine := strings.ReplaceAll(why.Error(), "\n", "; ")
	b.notRun = append(b.notRun, fmt.Sprintf("%s: %s (to fix it: %s)", what, oneLine, fix))
}

// keep notes what Close has to end; nil: it is not ours. b.mu is held.
func (b *brokers) keep(c io.Closer) {
	if c != nil {
		b.open = append(b.open, c)
	}
}
