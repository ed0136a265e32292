package local

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// What runs where the brokers cannot be had otherwise.
const (
	RabbitImage = "rabbitmq:4.3"
	KafkaImage  = "apache/kafka:" + KafkaVersion
)

// Container is a broker that Docker runs for us. It listens on a free port of
// 127.0.0.1, which Docker opens long before the broker does.
type Container struct {
	id    string
	ports *Ports
}

// HaveDocker says whether Docker runs here.
func HaveDocker(ctx context.Context) bool {
	return have("docker") && exec.CommandContext(ctx, "docker", "info").Run() == nil
}

// RunRabbitImage starts RabbitMQ.
func RunRabbitImage(ctx context.Context) (*Container, error) {
	return run(ctx, func(addr string, _ int) []string { return []string{"-p", addr + ":5672", RabbitImage} })
}

// RunKafkaImage starts a Kafka of one node.
func RunKafkaImage(ctx context.Context) (*Container, error) {
	return run(ctx, func(addr string, port int) []string {
		settings := []string{
			"NODE_ID=1", "PROCESS_ROLES=broker,controller", "CONTROLLER_LISTENER_NAMES=CONTROLLER", "CONTROLLER_QUORUM_VOTERS=1@localhost:9093",
			fmt.Sprintf("LISTENERS=PLAINTEXT://:%d,CONTROLLER://:9093", port), "ADVERTISED_LISTENERS=PLAINTEXT://" + addr,
			"LISTENER_SECURITY_PROTOCOL_MAP=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
			"OFFSETS_TOPIC_REPLICATION_FACTOR=1", "TRANSACTION_STATE_LOG_REPLICATION_FACTOR=1", "TRANSACTION_STATE_LOG_MIN_ISR=1",
			"SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR=1", "SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR=1",
		}
		for line := range strings.Lines(small) { // as the nodes of our own
			key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			if strings.HasPrefix(key, "group.") {
				settings = append(settings, strings.ToUpper(strings.ReplaceAll(key, ".", "_"))+"="+value)
			}
		}
		args := []string{"-p", fmt.Sprintf("%s:%d", addr, port)}
		for _, s := range settings {
			args = append(args, "-e", "KAFKA_"+s)
		}
		return append(args, KafkaImage)
	})
}

// run starts a container in the background. The block of ports is held until Close, so that no
// other broker of the run gets the same.
func run(ctx context.Context, args func(addr string, port int) []string) (*Container, error) {
	ports, err := TakePorts()
	if err != nil {
		return nil, err
	}
	argv := append([]string{"run", "--rm", "--detach"}, args(ports.Addr(0), ports.At(0))...)
	cmd := exec.CommandContext(ctx, "docker", argv...)
	cmd.SysProcAttr = childAttr()
	out, err := cmd.Output()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("docker run %s: %w", argv[len(argv)-1], err), ports.Release())
	}
	return &Container{id: strings.TrimSpace(string(out)), ports: ports}, nil
}

// Addr is where the broker listens, once it does.
func (c *Container) Addr() string { return c.ports.Addr(0) }

// Close ends the container, which removes itself with its volumes.
func (c *Container) Close() error {
	err := command(context.Background(), "docker", "rm", "--force", "--volumes", c.id)
	return errors.Join(err, c.ports.Release())
}
