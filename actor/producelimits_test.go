package actor_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
)

// deaf is a connection to a broker that hangs while hung: what is written to it comes to nobody.
type deaf struct {
	net.Conn
	hung *atomic.Bool
}

func (c deaf) Write(p []byte) (int, error) {
	if c.hung.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func TestAProduceToABrokerThatHangsEndsWithItsContext(t *testing.T) {
	t.Parallel()
	onBrokers(t, func(t *testing.T, w *world) {
		var hung atomic.Bool
		started := make(chan *actor.Env, 1)
		app := orders(func(context.Context, *stepwell.Message) error { return nil })
		app.Start = func(_ context.Context, e *actor.Env) error { started <- e; return nil }
		app.Kafka = func(stream string) []kgo.Opt {
			if stream != "" {
				return nil
			}
			return []kgo.Opt{kgo.Dialer(func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := new(net.Dialer).DialContext(ctx, network, address)
				return deaf{conn, &hung}, err
			})}
		}
		to := w.topic + ".copies"
		w.createTopic(to, 1)
		r := w.start(app, nil)
		env := <-started
		produce := func(most time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), most)
			defer cancel()
			return env.Produce(ctx, &kgo.Record{Topic: to, Value: []byte("x")})
		}
		if err := produce(30 * time.Second); err != nil {
			t.Fatal(err)
		}
		for _, then := range []string{"Kafka answers again", "the actor stops"} {
			hung.Store(true)
			ended := make(chan error, 1)
			go func() { ended <- produce(time.Second) }()
			select {
			case err := <-ended:
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("before %s: %v", then, err)
				}
			case <-time.After(20 * time.Second):
				hung.Store(false)
				t.Fatalf("before %s: it goes on though its context has ended (%v once Kafka answers)", then, <-ended)
			}
			if then == "the actor stops" {
				break
			}
			hung.Store(false)
			if err := produce(time.Minute); err != nil {
				t.Error(err)
			}
		}
		r.end()
	})
}

func TestWhatIsTooLargeForTheProducerSaysWhichLimitThatIs(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		started := make(chan *actor.Env, 1)
		app := orders(done)
		app.Start = func(_ context.Context, e *actor.Env) error { started <- e; return nil }
		for _, limit := range []int32{0, largest} { // 0: the client's own
			app.Kafka = func(stream string) (opts []kgo.Opt) {
				if stream == "" && limit > 0 {
					opts = append(opts, kgo.ProducerBatchMaxBytes(limit))
				}
				return opts
			}
			r := w.start(app, nil)
			// That the other one is stored does not hide it.
			err := (<-started).Produce(t.Context(), &kgo.Record{Topic: w.topic, Value: noise(2 << 20)}, &kgo.Record{Topic: w.topic, Value: []byte("x")})
			switch {
			case limit > 0 && err != nil:
				t.Errorf("with a limit of %d: %v", limit, err)
			case limit == 0 && (err == nil || !strings.Contains(err.Error(), "limit is 1000012 bytes a batch") || !strings.Contains(err.Error(), "kgo.ProducerBatchMaxBytes in App.Kafka")):
				t.Errorf("with the client's own limit: %v", err)
			}
			r.end()
		}
	})
}
