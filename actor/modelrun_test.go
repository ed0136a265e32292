package actor_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/config"
	"github.com/stepwell/stepwell/embedded"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/queue"
)

// plan is the settings of a run, as far as the model has to know them.
type plan struct {
	batches, retries, jitter, ends bool // ends: there is an OnDead
	inPlace, order                 string
	waits                          [2][]time.Duration // of the stream's policy and of the channel's
	confirms                       time.Duration      // how long a confirm takes
	env                            []string
}

func newPlan(r *rand.Rand) plan {
	p := plan{
		batches: r.Intn(2) == 0, retries: r.Intn(6) > 0, jitter: r.Intn(3) == 0, ends: r.Intn(2) == 0,
		inPlace: []string{"0", "2", "all", "all"}[r.Intn(4)], order: []string{"key", "partition", "none"}[r.Intn(3)],
		confirms: []time.Duration{0, time.Second, 5 * time.Second}[r.Intn(3)],
	}
	p.env = []string{
		"STREAMS_ORDERS_TOPICS=orders.v1", "SERVER_ADDRESS=off", "HANDLER_TIMEOUT=1m", "TELEMETRY_DEPTH_INTERVAL=1h",
		fmt.Sprint("CONCURRENCY=", 1+r.Intn(4)), "STREAMS_ORDERS_ORDER=" + p.order,
	}
	if p.batches {
		p.env = append(p.env, fmt.Sprint("BATCH_SIZE=", 1+r.Intn(9)), "BATCH_WAIT=1s")
	}
	if p.retries {
		p.env = append(p.env, "RETRY_IN_PLACE="+p.inPlace)
	} else {
		p.env = append(p.env, "STREAMS_ORDERS_RETRY_ENABLED=false")
	}
	if p.jitter {
		p.env = append(p.env, "RETRY_JITTER=0.5")
	}
	policy, waits := newPolicy(r)
	slow := r.Intn(3)
	p.waits = [2][]time.Duration{waits, slices.Repeat([]time.Duration{11 * time.Second}, slow)}
	for _, setting := range policy {
		p.env = append(p.env, "STREAMS_ORDERS_RETRY_"+setting)
	}
	for _, setting := range []string{"POLICY=linear", "STEP=0s", "DELAY=11s", fmt.Sprint("COUNT=", slow)} {
		p.env = append(p.env, "STREAMS_ORDERS_CHANNELS_SLOW_RETRY_"+setting)
	}
	return p
}

// newPolicy is the settings of a policy, and the waits that it comes to.
func newPolicy(r *rand.Rand) (env []string, waits []time.Duration) {
	count := r.Intn(5)
	switch r.Intn(3) {
	case 0:
		for i := range count {
			waits = append(waits, time.Duration(7+3*i)*time.Second)
		}
		return []string{fmt.Sprint("COUNT=", count), "DELAY=7s", "STEP=3s"}, waits
	case 1:
		all := []time.Duration{5 * time.Second, 15 * time.Second, 45 * time.Second, time.Minute}
		return []string{fmt.Sprint("COUNT=", count), "POLICY=exponential", "DELAY=5s", "FACTOR=3", "MAX_DELAY=1m"}, all[:count]
	}
	return []string{"POLICY=schedule", "SCHEDULE=1s,1m,2s"}, []time.Duration{time.Second, time.Minute, 2 * time.Second}
}

func (p plan) String() string {
	return fmt.Sprintf("batches %t, OnDead %t, a confirm takes %v, %s", p.batches, p.ends, p.confirms, strings.Join(p.env, " "))
}

// mayRest: a message may rest in the process between two calls.
func (p plan) mayRest() bool { return !p.retries || p.inPlace != "0" }

// keepsOrder: what is behind a message of its key waits until that is where it ends.
func (p plan) keepsOrder() bool {
	return p.order != "none" && (!p.retries || p.inPlace == config.All)
}

// asksOnDead: there is an OnDead. In a stream without retries nothing dies.
func (p plan) asksOnDead(where int) bool { return p.ends && (p.retries || where == inChannel) }

// slowConfirms are brokers whose queues confirm late, and tell the model what they confirmed.
type slowConfirms struct {
	shared
	model *verdictModel
}

func (b slowConfirms) Queues() queue.Broker { return confirmedLate{b.shared.Queues(), b.model} }

// confirmedLate are the queues of slowConfirms.
type confirmedLate struct {
	queue.Broker
	model *verdictModel
}

func (q confirmedLate) Publisher(name string) queue.Publisher {
	return latePublisher{q.Broker.Publisher(name), q.model}
}

// latePublisher is a publisher of confirmedLate.
type latePublisher struct {
	queue.Publisher
	model *verdictModel
}

func (p latePublisher) Publish(ctx context.Context, name string, m queue.Message, done func(error)) {
	p.Publisher.Publish(ctx, name, m, func(err error) {
		time.AfterFunc(p.model.confirms, func() {
			if err == nil {
				p.model.confirmed(name, m)
			}
			done(err)
		})
	})
}

// The queues where a message of the stream and one of its channel end, and where it is handed over.
var (
	deadSets = [2]string{"model.orders.dead_set", "model.orders.channel.slow.dead_set"}
	channel  = "model.orders.channel.slow.instant"
)

// confirmed checks what dies, and notes what is where it ends, or handed over.
func (v *verdictModel) confirmed(name string, m queue.Message) {
	v.mu.Lock()
	defer v.mu.Unlock()
	where := slices.Index(deadSets[:], name)
	if where < 0 && name != channel {
		return
	}
	i, _ := strconv.Atoi(string(m.Body))
	o := v.tales[i]
	e, err := envelope.Decode(m)
	switch {
	case err != nil:
		v.wrong("message %d: %v", []any{i, err}, i)
	case where < 0:
	case slices.Contains(o.stored, name):
		v.wrong("message %d dies twice", []any{i}, i)
	case o.end != "dead" || o.where != where || e.Failure.Reason != o.reason || e.Message.Attempt != o.attempt:
		v.wrong("message %d is in %s as attempt %d with reason %s, not as attempt %d with %q",
			[]any{i, name, e.Message.Attempt, e.Failure.Reason, o.attempt, o.reason}, i)
	}
	o.stored = append(o.stored, name)
}

// run lets an actor handle the messages, and stops it now and then.
func (v *verdictModel) run(r *rand.Rand) {
	brokers := embedded.New(embedded.Options{Topics: map[string]int32{"orders.v1": 3}, VirtualNetwork: true})
	app := actor.App{Name: "model", Brokers: slowConfirms{shared{brokers}, v}, Streams: actor.Streams{"orders": v.stream()}, Logger: slog.New(slog.DiscardHandler)}
	ctx, end := context.WithCancel(v.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- brokers.Run(ctx) }()
	defer func() {
		end()
		<-ended
	}()
	stop := v.start(app)
	time.Sleep(20 * time.Second)
	for i, o := range v.tales {
		if err := brokers.Produce(ctx, &kgo.Record{Topic: "orders.v1", Key: o.key, Value: []byte(strconv.Itoa(i))}); err != nil {
			v.t.Fatal(err)
		}
	}
	for stops, began := r.Intn(6), time.Now(); len(v.left()) > 0 && time.Since(began) < 24*time.Hour; {
		time.Sleep(time.Duration(r.Intn(300_000)) * time.Millisecond)
		if r.Intn(3) == 0 && stops > 0 {
			stops--
			stop()
			time.Sleep(time.Duration(r.Intn(30_000)) * time.Millisecond)
			stop = v.start(app)
		}
	}
	time.Sleep(20 * time.Minute) // for a call that is one too many
	v.atEnd(brokers)
	stop()
}

// start runs the actor until it is stopped.
func (v *verdictModel) start(app actor.App) (stop func()) {
	cfg, err := actor.Load(app, v.env)
	if err != nil {
		v.t.Fatal(err)
	}
	a, err := actor.New(cfg, app)
	if err != nil {
		v.t.Fatal(err)
	}
	v.mu.Lock()
	v.starts = append(v.starts, time.Now())
	v.mu.Unlock()
	ctx, cancel := context.WithCancel(v.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			v.t.Errorf("Run: %v", err)
		}
	}
}

// atEnd checks that each message has ended, and that the dead sets have those that died.
func (v *verdictModel) atEnd(brokers *embedded.Brokers) {
	if left := v.left(); len(left) > 0 {
		v.wrong("%d messages have not ended", []any{len(left)}, left...)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for where, name := range deadSets {
		var dead []int
		for i, o := range v.tales {
			if o.end == "dead" && o.where == where {
				dead = append(dead, i)
			}
		}
		if where == inStream && !v.retries {
			continue // there is no such queue
		}
		if depth, err := brokers.Queues().Depth(v.t.Context(), name); err != nil || depth != len(dead) {
			v.wrong("%s has %d messages, not %d: %v", []any{name, depth, len(dead), err}, dead...)
		}
	}
}

// Settings, messages and stops are drawn from a seed; these seeds have each kind of stream. One
// seed is not one run to the last step: goroutines of the actor race as ever.
func TestEachMessageEndsWhereItsVerdictsLeadAfterAsManyTriesAsTheySayThroughStops(t *testing.T) {
	for _, seed := range []int64{0, 5, 6, 11, 12, 13, 15, 18, 19, 21, 34} {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewSource(seed))
				newVerdictModel(t, r, 20).run(r)
			})
		})
	}
}
