package testbroker

import (
	"testing"

	"github.com/stepwell/stepwell/internal/testbroker/local"
)

// RabbitOptions say what a private node has beyond the defaults.
type RabbitOptions = local.RabbitOptions

// Certs are the PEM files of a node with TLS.
type Certs = local.Certs

// NewCerts makes certificates that live as long as the test.
func NewCerts(t testing.TB) Certs {
	t.Helper()
	c, err := local.NewCerts(t.TempDir())
	check(t, err)
	return c
}

// Rabbit is a RabbitMQ node that belongs to one test. What goes wrong with
// the node itself ends the test.
type Rabbit struct {
	Version string
	URL     string
	TLSURL  string // with RabbitOptions.TLS or ClientCerts
	Certs   Certs

	t    testing.TB
	node *local.Rabbit
}

// StartRabbitMQ starts a node of the "oldest" or the "newest" RabbitMQ there
// is and ends it with the test.
func StartRabbitMQ(t testing.TB, version string, o RabbitOptions) *Rabbit {
	t.Helper()
	node, err := local.StartRabbit(t.Context(), findRabbit(t, version), t.TempDir(), o)
	check(t, err)
	t.Cleanup(func() { check(t, node.Close()) })
	return newRabbit(t, node)
}

func newRabbit(t testing.TB, node *local.Rabbit) *Rabbit {
	return &Rabbit{Version: node.Version, URL: node.URL(), TLSURL: node.TLSURL(), Certs: node.Certs, t: t, node: node}
}

func findRabbit(t testing.TB, version string) local.RabbitDist {
	t.Helper()
	if testing.Short() {
		notRun(t, "a private RabbitMQ is not started with -short")
	}
	find := map[string]func() (local.RabbitDist, error){"oldest": local.Oldest, "newest": local.Newest}[version]
	if find == nil {
		t.Fatalf("no RabbitMQ is called %q: oldest or newest", version)
	}
	dist, err := find()
	if err != nil {
		notRun(t, "no RabbitMQ to start: run `make brokers`")
	}
	return dist
}

// Name is what the nodes of its cluster call the node.
func (r *Rabbit) Name() string { return r.node.Name() }

// Kill ends the node with SIGKILL and returns when it is gone.
func (r *Rabbit) Kill() { r.t.Helper(); check(r.t, r.node.Kill()) }

// Stop ends the node in order.
func (r *Rabbit) Stop() { r.t.Helper(); check(r.t, r.node.Stop()) }

// Start starts the node after Kill or Stop: same ports, same data.
func (r *Rabbit) Start() { r.t.Helper(); check(r.t, r.node.Start(r.t.Context())) }

// Restart ends the node in order, if it still runs, and starts it again.
func (r *Rabbit) Restart() { r.t.Helper(); r.Stop(); r.Start() }

// Freeze stops the node from running; connections to it stay open.
func (r *Rabbit) Freeze() { r.t.Helper(); check(r.t, r.node.Freeze(r.t.Context())) }

// Thaw lets a frozen node go on.
func (r *Rabbit) Thaw() { r.t.Helper(); check(r.t, r.node.Thaw()) }

// Ctl runs rabbitmqctl on the node and returns what it prints. It takes a
// second or two.
func (r *Rabbit) Ctl(args ...string) string {
	r.t.Helper()
	out, err := r.node.Ctl(r.t.Context(), args...)
	check(r.t, err)
	return out
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
