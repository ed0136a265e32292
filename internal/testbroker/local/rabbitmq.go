package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// RabbitOptions say what a node has beyond the defaults.
type RabbitOptions struct {
	Conf []string // more lines for rabbitmq.conf
	TLS  bool     // a second listener, for amqps
	// ClientCerts makes the TLS listener refuse who shows no certificate
	// that is signed by Certs.CA.
	ClientCerts bool
	// Join is a running node whose cluster this one becomes a member of: see
	// StartRabbitCluster.
	Join *Rabbit
}

// Rabbit is one RabbitMQ node of our own.
type Rabbit struct {
	Version string
	Certs   Certs // empty without TLS

	dist  RabbitDist
	dir   string // its folder, as we see it
	in    string // its folder, as the node sees it
	ports *Ports
	names int      // port of the epmd that knows the nodes of its cluster
	epmd  *process // nil for a node that has joined another
	node  *process
}

// The ports of a node within its block.
const (
	rabbitAMQP = iota
	rabbitDist
	rabbitEpmd
	rabbitAMQPS
)

// StartRabbit makes a node in the empty folder dir and waits until it listens.
// What it started is stopped again where that goes wrong.
func StartRabbit(ctx context.Context, dist RabbitDist, dir string, o RabbitOptions) (*Rabbit, error) {
	ports, err := TakePorts()
	if err != nil {
		return nil, err
	}
	r := &Rabbit{Version: dist.Version, dist: dist, dir: dir, in: dist.inside(dir), ports: ports, names: ports.At(rabbitEpmd)}
	if o.Join != nil {
		r.names = o.Join.names
	}
	if err := r.setUp(o); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	if err := r.Start(ctx); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Name is what the nodes of a cluster call this one.
func (r *Rabbit) Name() string { return fmt.Sprintf("stepwell%d@localhost", r.ports.At(rabbitAMQP)) }

// Addr is the host and port of the AMQP listener.
func (r *Rabbit) Addr() string { return r.ports.Addr(rabbitAMQP) }

// TLSAddr is the host and port of the TLS listener.
func (r *Rabbit) TLSAddr() string { return r.ports.Addr(rabbitAMQPS) }

// URL is how a client reaches the node's default virtual host as guest.
func (r *Rabbit) URL() string { return "amqp://guest:guest@" + r.Addr() + "/" }

// TLSURL is URL for the TLS listener.
func (r *Rabbit) TLSURL() string { return "amqps://guest:guest@" + r.TLSAddr() + "/" }

// Dir is the node's folder: out.log has what it says.
func (r *Rabbit) Dir() string { return r.dir }

// PID is the process of the node, which has its whole CPU time.
func (r *Rabbit) PID() int { return r.node.cmd.Process.Pid }

// Start starts a node that was stopped or killed, on the same ports with the
// same data, and waits until it listens.
func (r *Rabbit) Start(ctx context.Context) error {
	cmd := r.command(context.WithoutCancel(ctx), "rabbitmq-server")
	node, err := startProcess(cmd, filepath.Join(r.dir, "out.log"))
	if err != nil {
		return err
	}
	r.node = node
	addrs := []string{r.Addr()}
	if r.Certs.CA != "" {
		addrs = append(addrs, r.TLSAddr())
	}
	return node.ready(ctx, addrs...)
}

// Kill ends the node with SIGKILL.
func (r *Rabbit) Kill() error { return r.node.kill() }

// Stop ends the node in order.
func (r *Rabbit) Stop() error { return r.node.stop() }

// Freeze stops the node from running, its connections stay open.
func (r *Rabbit) Freeze(ctx context.Context) error { return r.node.freeze(ctx) }

// Thaw lets a frozen node go on.
func (r *Rabbit) Thaw() error { return r.node.signal(syscall.SIGCONT) }

// Ctl runs rabbitmqctl and returns what it prints.
func (r *Rabbit) Ctl(ctx context.Context, args ...string) (string, error) {
	cmd := r.command(ctx, "rabbitmqctl", args...)
	cmd.SysProcAttr = childAttr()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("rabbitmqctl %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// Close ends the node and gives up its ports. Its folder stays.
func (r *Rabbit) Close() error {
	var errs []error
	for _, p := range []*process{r.node, r.epmd} {
		if p != nil {
			errs = append(errs, p.kill())
		}
	}
	return errors.Join(append(errs, r.ports.Release())...)
}

// setUp writes the node's files and starts its epmd: one of our own, since
// the one a node starts by itself would outlive it.
func (r *Rabbit) setUp(o RabbitOptions) error {
	conf := append([]string{"listeners.tcp.1 = " + r.Addr()}, o.Conf...)
	if o.TLS || o.ClientCerts {
		certs, err := NewCerts(filepath.Join(r.dir, "certs"))
		if err != nil {
			return err
		}
		r.Certs = certs
		conf = append(conf, r.tlsConf(o.ClientCerts)...)
	}
	if o.Join != nil {
		conf = append(conf, r.joinConf(o.Join)...)
	}
	files := map[string]string{
		"rabbitmq.conf": strings.Join(conf, "\n") + "\n",
		// How long an expired message waits that met no queue. The broker's own three minutes are
		// long in a test.
		"advanced.config": "[{rabbit, [{dead_letter_worker_publisher_confirm_timeout, 5000}]}].\n",
		"plugins":         "[].\n",
		".erlang.cookie":  "tests",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o400); err != nil {
			return fmt.Errorf("set up a RabbitMQ node: %w", err)
		}
	}
	if err := r.setUpHome(); err != nil {
		return err
	}
	if o.Join != nil {
		return nil
	}
	epmd := r.dist.command(context.Background(), r.dir, r.env(), "epmd", "-address", "127.0.0.1", "-port", fmt.Sprint(r.names))
	var err error
	r.epmd, err = startProcess(epmd, filepath.Join(r.dir, "epmd.log"))
	return err
}

// tlsConf names the certificates as the node sees them.
func (r *Rabbit) tlsConf(clientCerts bool) []string {
	in := func(file string) string { return filepath.Join(r.in, "certs", filepath.Base(file)) }
	return []string{
		"listeners.ssl.1 = " + r.TLSAddr(),
		"ssl_options.cacertfile = " + in(r.Certs.CA),
		"ssl_options.certfile = " + in(r.Certs.ServerCert),
		"ssl_options.keyfile = " + in(r.Certs.ServerKey),
		"ssl_options.verify = verify_peer",
		fmt.Sprintf("ssl_options.fail_if_no_peer_cert = %t", clientCerts),
	}
}

// command runs a script of the distribution for this node.
func (r *Rabbit) command(ctx context.Context, script string, args ...string) *exec.Cmd {
	return r.dist.command(ctx, r.dir, r.env(), filepath.Join(r.in, "home", "sbin", script), args...)
}

// env is the whole environment of the node's programs: nothing of ours, and
// nothing of the system's own node, leaks in.
func (r *Rabbit) env() []string {
	at := func(name string) string { return filepath.Join(r.in, name) }
	return []string{
		"PATH=" + r.dist.path(), "LANG=C.UTF-8", "HOME=" + r.in,
		// With this the start script becomes the node, so that its pid is the node's.
		"RABBITMQ_ALLOW_INPUT=1",
		"RABBITMQ_NODENAME=" + r.Name(),
		"RABBITMQ_CONF_ENV_FILE=/dev/null",
		"RABBITMQ_CONFIG_FILE=" + at("rabbitmq.conf"),
		"RABBITMQ_ADVANCED_CONFIG_FILE=" + at("advanced.config"),
		"RABBITMQ_MNESIA_BASE=" + at("mnesia"),
		"RABBITMQ_LOG_BASE=" + at("log"),
		"RABBITMQ_PID_FILE=" + at("server.pid"),
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + at("plugins"),
		"RABBITMQ_FEATURE_FLAGS_FILE=" + at("flags"),
		"RABBITMQ_GENERATED_CONFIG_DIR=" + at("generated"),
		fmt.Sprintf("RABBITMQ_DIST_PORT=%d", r.ports.At(rabbitDist)),
		fmt.Sprintf("ERL_EPMD_PORT=%d", r.names),
		"ERL_EPMD_ADDRESS=127.0.0.1",
		"RABBITMQ_SERVER_START_ARGS=+Bi -noinput",
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=+S 2:2 +sbwt none -kernel inet_dist_use_interface {127,0,0,1}",
	}
}
