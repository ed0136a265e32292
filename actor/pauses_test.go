package actor_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/embedded"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/testbroker"
)

// hold pauses or resumes the stream orders in all processes.
func (r *running) hold(verb, scope string) (says string) {
	r.t.Helper()
	status, answer := r.do("POST", "/v1/streams/orders/"+verb+"?scope="+scope, "")
	if status != 200 || answer["scope"] != scope {
		r.t.Fatalf("%s of scope %s: %d %v", verb, scope, status, answer)
	}
	return fmt.Sprint(answer["message"])
}

// pausedFor are the scopes of the pauses of the stream orders, and who made them.
func (r *running) pausedFor() string {
	r.t.Helper()
	var all []string
	of := r.status("orders")
	pauses, _ := of["pauses"].([]any)
	for _, p := range pauses {
		p := p.(map[string]any)
		if _, err := time.Parse(time.RFC3339, fmt.Sprint(p["since"])); err != nil {
			r.t.Errorf("since when: %v", p)
		}
		all = append(all, fmt.Sprint(p["scope"], " by ", p["by"]))
	}
	if of["paused"] != (len(all) > 0) {
		r.t.Errorf("paused is %v, and its pauses are %v", of["paused"], all)
	}
	return strings.Join(all, ", ")
}

func TestAPauseOfTheAppHoldsAllItsProcessesAndThoseThatStartLaterUntilAnyOfThemResumesIt(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		y := newTally()
		app := orders(y.handler(failsOnce))
		env := settings{"RETRY_DELAY": "5s"}
		one, other := w.start(app, env), w.start(app, env)
		one.ready()
		other.ready()
		w.produce(values("bad")...)
		eventually(t, "a first try failed", func() bool { return y.triesOf("bad") == 1 })
		if says := one.hold("pause", "app"); !strings.Contains(says, "all processes") {
			t.Errorf("it says %q", says)
		}
		within(t, 2*time.Second, "the other knows", func() bool { return other.pausedFor() == "app by loopback" })
		if one.pausedFor() != "app by loopback" || other.metric(`stepwell_paused{stepwell_stream="orders"}`) != 1 {
			t.Error("who was asked does not say it, or the metric of the other")
		}
		w.produce(several("good", 20)...)
		eventually(t, "the failure's wait is over", func() bool { return one.depths()[w.queue("orders", "instant")] == 1 })
		third := w.start(app, env)
		third.ready() // it joins its group, and has a share of the partitions
		if got := third.pausedFor(); got != "app by loopback" {
			t.Errorf("who starts later says %q", got)
		}
		if _, _, text := third.health(); !hasAll(text, "[+] stream orders", "paused in all processes of the app, by loopback, since 20") {
			t.Errorf("/readyz says %s", text)
		}
		always(t, "nothing is handled", time.Second, func() bool { tried, _ := y.count(); return tried == 1 && y.triesOf("bad") == 1 })
		third.hold("resume", "app")
		eventually(t, "all is handled", func() bool { _, done := y.count(); return done == 21 })
		for _, r := range []*running{one, other, third} {
			within(t, 2*time.Second, "it is resumed", func() bool { return r.pausedFor() == "" })
		}
	})
}

func TestAPauseOfTheAppAndOneOfTheInstanceHaveBothToBeLifted(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		y := newTally()
		app := orders(y.handler(failsOnce))
		one, api := w.start(app, nil), w.part(app, "api")
		one.ready()
		one.hold("pause", "instance")
		api.hold("pause", "app") // who runs nothing can pause them all
		eventually(t, "both hold", func() bool { return one.pausedFor() == "instance by loopback, app by loopback" })
		w.produce(several("good", 3)...)
		if says := one.hold("resume", "instance"); !strings.Contains(says, "still paused in all processes of the app, by loopback") {
			t.Errorf("it says %q", says)
		}
		nothing := func() bool { tried, _ := y.count(); return tried == 0 }
		always(t, "the app is paused", 300*time.Millisecond, nothing)
		one.hold("pause", "instance")
		api.hold("resume", "app")
		within(t, 2*time.Second, "that of the app is lifted", func() bool { return one.pausedFor() == "instance by loopback" })
		always(t, "the instance is paused", 300*time.Millisecond, nothing)
		one.hold("resume", "instance")
		eventually(t, "it goes on", func() bool { _, done := y.count(); return done == 3 })
	})
}

// lateLog are brokers whose log nobody can read before the gate is open.
type lateLog struct {
	actor.Brokers
	gate chan struct{}
}

func (l lateLog) Queues() queue.Broker { return lateQueues{l.Brokers.Queues(), l.gate} }

type lateQueues struct {
	queue.Broker
	gate chan struct{}
}

func (l lateQueues) Follow(ctx context.Context, log string, from int64, handle func(queue.Entry)) error {
	select {
	case <-l.gate:
		return l.Broker.Follow(ctx, log, from, handle)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestAProcessThatStartsReadsNothingBeforeItKnowsWhatIsPaused(t *testing.T) {
	t.Parallel()
	w := embeddedWorld(t)
	y := newTally()
	app := orders(y.handler(failsOnce))
	api := w.part(app, "api")
	api.hold("pause", "app")
	w.produce(several("good", 5)...)

	late := lateLog{shared{w.brokers}, make(chan struct{})}
	app.Brokers = late
	r := w.start(app, nil)
	r.notReady("[-] stream orders: waits for what all processes share, to know whether it is paused in the whole app")
	nothing := func() bool { tried, _ := y.count(); return tried == 0 }
	always(t, "nothing is read", time.Second, nothing)
	close(late.gate)
	r.ready()
	if got := r.pausedFor(); got != "app by loopback" {
		t.Errorf("it says %q", got)
	}
	always(t, "it is paused", 300*time.Millisecond, nothing)
	r.hold("resume", "app")
	eventually(t, "it goes on", func() bool { _, done := y.count(); return done == 5 })
}

func TestAStreamStandsNoLongerThanHalfAMinuteBecauseNobodyKnowsWhetherItIsPausedAndSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		y := newTally()
		brokers := embedded.New(embedded.Options{Topics: map[string]int32{"orders.v1": 1}, VirtualNetwork: true})
		app, log := logged(orders(y.handler(failsOnce)))
		app.Name, app.Brokers = "unheard", lateLog{brokers, make(chan struct{})}
		cfg, err := actor.Load(app, []string{"STREAMS_ORDERS_TOPICS=orders.v1", "SERVER_ADDRESS=off"})
		if err != nil {
			t.Fatal(err)
		}
		a, err := actor.New(cfg, app)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- a.Run(ctx) }()
		if err := brokers.Produce(ctx, &kgo.Record{Topic: "orders.v1", Value: []byte("good")}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(29 * time.Second)
		if tried, _ := y.count(); tried > 0 || log.said("streams begin though") {
			t.Errorf("it did not wait: %s", log)
		}
		time.Sleep(30 * time.Second) // it still has to join its group
		if _, done := y.count(); done != 1 || !log.said(`"level":"WARN"`, "streams begin though it is not known which are paused in the whole app", "not known for 30s") {
			t.Errorf("%d handled; it says %s", done, log)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// hung are brokers whose RabbitMQ takes connections and does not answer.
type hung struct{ actor.Brokers }

func (h hung) Queues() queue.Broker { return hungQueues{h.Brokers.Queues()} }

type hungQueues struct{ queue.Broker }

func (hungQueues) Status() queue.Status {
	return queue.Status{Detail: "cannot reach 10.0.0.7:5672 (RABBITMQ_URL): no answer within 5s"}
}

func (hungQueues) Follow(ctx context.Context, log string, _ int64, _ func(queue.Entry)) error {
	return fmt.Errorf("follow %s: %w: Exception (501) Reason: use of closed network connection", log, queue.ErrUnavailable)
}

func TestAPauseOfTheAppWhileRabbitMQHangsSaysSoAndThatOneOfEachProcessWorks(t *testing.T) {
	t.Parallel()
	w := embeddedWorld(t)
	app := orders(newTally().handler(failsOnce))
	app.Brokers = hung{shared{w.brokers}}
	r := w.start(app, nil)
	const why = "cannot reach 10.0.0.7:5672 (RABBITMQ_URL): no answer within 5s"
	for verb, more := range map[string]string{"pause": "; meanwhile a pause of each process works: stepwell pause orders, without --app", "resume": ""} {
		eventually(t, "it says why, and nothing of the log", func() bool {
			status, answer := r.do("POST", "/v1/streams/orders/"+verb+"?scope=app", "")
			says := fmt.Sprint(answer["detail"])
			return status == 503 && strings.HasSuffix(says, "records that all its processes share: RabbitMQ is away ("+why+")"+more)
		})
	}
	r.hold("pause", "instance")
	if got := r.pausedFor(); got != "instance by loopback" {
		t.Errorf("it says %q", got)
	}
}

func TestWithoutRecordsAPauseOfTheAppIsRefusedWithTheSettingAndAllElseWorks(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		y := newTally()
		r := w.start(orders(y.handler(failsOnce)), settings{"RABBITMQ_RECORDS": "false"})
		w.produce(values("good")...)
		eventually(t, "it works", func() bool { _, done := y.count(); return done == 1 })
		for _, verb := range []string{"pause", "resume"} {
			if status, answer := r.do("POST", "/v1/streams/orders/"+verb, `{"scope":"app"}`); status != 409 || !strings.Contains(fmt.Sprint(answer["detail"]), "RABBITMQ_RECORDS=false") {
				t.Errorf("%s: %d %v", verb, status, answer)
			}
		}
		r.hold("pause", "instance")
		w.produce(values("bad")...)
		always(t, "it is paused", 300*time.Millisecond, func() bool { return y.triesOf("bad") == 0 })
		r.hold("resume", "instance")
		eventually(t, "it goes on", func() bool { _, done := y.count(); return done == 2 })
	})
}

// A user of RabbitMQ who may not have the log: streams begin at once, and who asks for a pause of
// the app is told which queue it is about.
func TestWithoutTheRightToRecordsStreamsBeginAtOnceAndAPauseOfTheAppNamesIt(t *testing.T) {
	onPrivate(t, func(t *testing.T, w *world, node *testbroker.Rabbit) {
		node.Ctl("add_user", rightsUser, "secret")
		node.Ctl("set_permissions", rightsUser, of(`^shipping\.orders\..*$`, w.app), mayWrite, of(ownQueues, w.app))
		y := newTally()
		app, log := logged(orders(y.handler(failsOnce)))
		r := w.start(app, settings{"RABBITMQ_USERNAME": rightsUser, "RABBITMQ_PASSWORD": "secret"})
		w.produce(values("good", "bad")...)
		within(t, 25*time.Second, "it reads and retries", func() bool { _, done := y.count(); return done == 2 })
		for _, verb := range []string{"pause", "resume"} {
			status, answer := r.do("POST", "/v1/streams/orders/"+verb+"?scope=app", "")
			if says := fmt.Sprint(answer["detail"]); status != 409 || !hasAll(says, w.app+".records", "ACCESS_REFUSED") {
				t.Errorf("%s: %d %v", verb, status, answer)
			}
		}
		if !log.said("streams begin though it is not known which are paused", w.app+".records") {
			t.Errorf("the log does not say it: %s", log)
		}
		if _, ready, text := r.health(); ready != 200 || !hasAll(text, "[+] pauses of the app: not known: ", w.app+".records") {
			t.Errorf("/readyz: %d %s", ready, text)
		}
		r.hold("pause", "instance")
		r.hold("resume", "instance")
	})
}

func TestAPauseOfAStreamThatTheAppHasNoMoreIsShownAndLiftedByItsName(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		nothing := func(context.Context, *stepwell.Message) error { return nil }
		old := orders(nothing)
		old.Streams["jobs"] = actor.Stream{Handler: nothing, Enqueued: true}
		before := w.start(old, nil)
		before.ready()
		if status, answer := before.do("POST", "/v1/streams/jobs/pause?scope=app", ""); status != 200 {
			t.Fatalf("%d %v", status, answer)
		}
		before.end()
		r := w.start(orders(nothing), nil)
		r.ready()
		others := func() string { _, answer := r.do("GET", "/v1/streams", ""); return fmt.Sprint(answer["other_pauses"]) }
		if got := others(); !hasAll(got, "stream:jobs", "scope:app", "by:loopback") || r.pausedFor() != "" {
			t.Errorf("it is not shown: %s", got)
		}
		for _, want := range []int{200, 404} {
			if status, answer := r.do("POST", "/v1/streams/jobs/resume?scope=app", ""); status != want {
				t.Errorf("%d %v, not %d", status, answer, want)
			}
		}
		if got := others(); got != "<nil>" {
			t.Errorf("it is still shown: %s", got)
		}
	})
}

// The process that is paused dies. The next one has what waits in Kafka and what has come back to
// be tried again, and touches neither.
func TestAProcessThatStartsAfterOneWasKilledInAPauseOfTheAppReadsNothing(t *testing.T) {
	t.Parallel()
	onBrokers(t, func(t *testing.T, w *world) {
		serve := func() (*worker, *victim) {
			address := testbroker.Address(t)
			asked := &victim{t: t, address: address}
			p := w.work(t, "usual", settings{"SERVER_ADDRESS": address, "RETRY_DELAY": "5s"})
			eventually(t, "it is ready", func() bool { status, _ := asked.do("GET", "/readyz", "", ""); return status == 200 })
			return p, asked
		}
		first, asked := serve()
		w.produce(values("bad")...)
		eventually(t, "a first try failed, and is parked", func() bool { return first.attempt("bad") == 1 && w.committed() == 1 })
		if status, text := asked.do("POST", "/v1/streams/orders/pause", `{"scope":"app"}`, ""); status != 200 {
			t.Fatalf("%d %s", status, text)
		}
		first.kill(t)
		for _, r := range several("good", 20) {
			w.produce(values(string(r.Value))...) // to the partition of the other, of which there is a commit: so its lag is known
		}
		by := w.broker()
		eventually(t, "the failure's wait is over", func() bool {
			n, err := ready(t.Context(), by, w.queue("orders", "instant"))
			return err == nil && n == 1
		})

		next, asked := serve()
		tried := func() (n int) {
			for _, r := range append(several("good", 20), values("bad")...) {
				if next.attempt(string(r.Value)) > 0 {
					n++
				}
			}
			return n
		}
		eventually(t, "it has the partitions, and their lag", func() bool {
			_, text := asked.do("GET", "/v1/streams", "", "")
			return strings.Contains(text, `"lag":20`)
		})
		always(t, "nothing is handled", 2*time.Second, func() bool { return tried() == 0 })
		if _, text := asked.do("GET", "/v1/streams", "", ""); !hasAll(text, `"paused":true,"pauses":[{"scope":"app","by":"loopback","since":"20`) {
			t.Errorf("it says %s", text)
		}
		if status, text := asked.do("POST", "/v1/streams/orders/resume", `{"scope":"app"}`, ""); status != 200 {
			t.Fatalf("%d %s", status, text)
		}
		eventually(t, "all is handled", func() bool { return tried() == 21 && next.attempt("bad") == 2 })
		next.stop(t)
	})
}
