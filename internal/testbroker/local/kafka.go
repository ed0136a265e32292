package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// KafkaVersion is the Apache Kafka that FetchKafka brings.
const KafkaVersion = "4.3.1"

// KafkaOptions say what a cluster has beyond the defaults.
type KafkaOptions struct {
	Nodes      int      // 0: one
	Properties []string // more lines for every node's properties
	// Secure adds listeners with SASL and TLS beside the plain one: see Addr.
	Secure bool
	// Brief is a cluster that lives for a test: its code is compiled in a hurry, which takes two
	// thirds of the time.
	Brief bool
}

// Kafka is a cluster of our own; its nodes are brokers and controllers alike
// and are numbered from 1.
type Kafka struct {
	Certs Certs // empty without Secure

	dir    string
	secure bool
	brief  bool
	ports  []*Ports
	nodes  []*process
}

// HaveKafka says whether the jars are in the cache and Java is there to run them.
func HaveKafka() bool {
	_, err := exec.LookPath("java")
	return err == nil && exists(kafkaLibs())
}

// StartKafka makes a cluster in the empty folder dir and waits until all nodes
// listen. What it started is stopped again where that goes wrong.
func StartKafka(ctx context.Context, dir string, o KafkaOptions) (*Kafka, error) {
	if !HaveKafka() {
		return nil, ErrMissing
	}
	k := &Kafka{dir: dir, secure: o.Secure, brief: o.Brief}
	if err := k.start(ctx, o); err != nil {
		return nil, errors.Join(err, k.Close())
	}
	return k, nil
}

// start takes ports, makes what all nodes share, and then starts them.
func (k *Kafka) start(ctx context.Context, o KafkaOptions) error {
	count := max(1, o.Nodes)
	k.nodes = make([]*process, count)
	for range count {
		p, err := TakePorts()
		if err != nil {
			return err
		}
		k.ports = append(k.ports, p)
	}
	if o.Secure {
		certs, err := NewCerts(filepath.Join(k.dir, "certs"))
		if err != nil {
			return err
		}
		k.Certs = certs
		if err := keyStore(k.keyStore(), certs); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(k.dir, "log4j2.properties"), []byte(logging), 0o600); err != nil {
		return fmt.Errorf("set up Kafka: %w", err)
	}
	for n := 1; n <= count; n++ {
		if err := k.format(ctx, n, o.Properties); err != nil {
			return err
		}
	}
	for n := 1; n <= count; n++ { // all first, since a majority must be up for one to get ready
		if err := k.launch(n); err != nil {
			return err
		}
	}
	for n := 1; n <= count; n++ {
		if err := k.ready(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// Bootstrap has the addresses of all nodes' plain listeners, joined by commas.
func (k *Kafka) Bootstrap() string { return k.Addr(Plaintext) }

// Addr has the addresses of one of the listeners on all nodes.
func (k *Kafka) Addr(l Listener) string {
	var addrs []string
	for _, p := range k.ports {
		addrs = append(addrs, p.Addr(l.port()))
	}
	return strings.Join(addrs, ",")
}

// Dir is the cluster's folder: 1.log has what node 1 says.
func (k *Kafka) Dir() string { return k.dir }

// Kill ends node n with SIGKILL.
func (k *Kafka) Kill(n int) error { return k.nodes[n-1].kill() }

// Stop ends node n in order.
func (k *Kafka) Stop(n int) error { return k.nodes[n-1].stop() }

// Freeze stops node n from running, its connections stay open.
func (k *Kafka) Freeze(ctx context.Context, n int) error { return k.nodes[n-1].freeze(ctx) }

// Thaw lets a frozen node go on.
func (k *Kafka) Thaw(n int) error { return k.nodes[n-1].signal(syscall.SIGCONT) }

// Restart starts node n again after Kill or Stop and waits until it listens.
func (k *Kafka) Restart(ctx context.Context, n int) error {
	if err := k.launch(n); err != nil {
		return err
	}
	return k.ready(ctx, n)
}

// Close ends all nodes and gives up their ports. The folder stays.
func (k *Kafka) Close() error {
	var errs []error
	for _, node := range k.nodes {
		if node != nil {
			errs = append(errs, node.kill())
		}
	}
	for _, p := range k.ports {
		errs = append(errs, p.Release())
	}
	return errors.Join(errs...)
}

// format writes the properties of node n and makes its empty log, with the
// SCRAM user in it.
func (k *Kafka) format(ctx context.Context, n int, extra []string) error {
	file := strconv.Itoa(n) + ".properties"
	if err := os.WriteFile(filepath.Join(k.dir, file), []byte(k.properties(n, extra)), 0o600); err != nil {
		return fmt.Errorf("set up Kafka: %w", err)
	}
	args := []string{"-XX:TieredStopAtLevel=1", "kafka.tools.StorageTool", "format", "-t", "c3RlcHdlbGwtdGVzdHMtMQ", "-c", file}
	if k.secure {
		for _, mechanism := range []string{"SCRAM-SHA-256", "SCRAM-SHA-512"} {
			args = append(args, "--add-scram", mechanism+"=[name="+KafkaUser+",password="+KafkaPassword+"]")
		}
	}
	cmd := k.java(ctx, args...)
	cmd.SysProcAttr = childAttr()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("format Kafka's log: %w: %s", err, out)
	}
	return nil
}

// launch starts node n. It lives beyond any context: Kill, Stop and Close end it.
func (k *Kafka) launch(n int) error {
	args := []string{"-Xms128m", "-Xmx512m", "kafka.Kafka", strconv.Itoa(n) + ".properties"}
	if k.brief {
		args = append([]string{"-XX:TieredStopAtLevel=1"}, args...)
	}
	cmd := k.java(context.Background(), args...)
	node, err := startProcess(cmd, filepath.Join(k.dir, strconv.Itoa(n)+".log"))
	if err != nil {
		return err
	}
	k.nodes[n-1] = node
	return nil
}

// ready waits until node n listens on all its listeners.
func (k *Kafka) ready(ctx context.Context, n int) error {
	var addrs []string
	for _, l := range k.listeners() {
		addrs = append(addrs, k.ports[n-1].Addr(l.port()))
	}
	return k.nodes[n-1].ready(ctx, addrs...)
}

// java runs a program of the jars. The serial collector starts fastest and needs the least memory.
func (k *Kafka) java(ctx context.Context, args ...string) *exec.Cmd {
	args = append([]string{"-XX:+UseSerialGC", "-Dlog4j2.configurationFile=log4j2.properties", "-cp", kafkaLibs() + "/*"}, args...)
	cmd := exec.CommandContext(ctx, "java", args...)
	cmd.Dir = k.dir
	return cmd
}
