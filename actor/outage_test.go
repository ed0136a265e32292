package actor_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/testbroker"
)

func TestWithoutRabbitMQAtTheStartTheActorWaitsSaysSoAndGoesOnWhenItComes(t *testing.T) {
	onPrivate(t, func(t *testing.T, w *world, node *testbroker.Rabbit) {
		node.Stop()
		y := newTally()
		r := w.start(orders(y.handler(failsOnce)), nil)
		r.notReady("rabbitmq: cannot reach 127.0.0.1", "RABBITMQ_URL")
		w.produce(several("bad", 5)...)
		node.Start()
		r.ready()
		eventually(t, "all done on their second try", func() bool { _, done := y.count(); return done == 5 })
		r.queuesEmpty()
	})
}

func TestWithoutBothBrokersAtTheStartEachIsNamedInItsTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	node := testbroker.StartRabbitMQ(t, "newest", testbroker.RabbitOptions{})
	kafka := testbroker.StartKafka(t, testbroker.KafkaOptions{})
	w.rabbit, w.seeds = node.URL, kafka.Bootstrap
	w.connect(kgo.SeedBrokers(w.seeds))
	w.createTopic(w.topic, 4)
	node.Stop()
	kafka.Stop(1)
	y := newTally()
	r := w.start(orders(y.handler(failsOnce)), nil)
	r.notReady("rabbitmq: cannot reach 127.0.0.1")
	node.Start()
	r.notReady("[+] rabbitmq", "kafka cannot be reached, see KAFKA_BROKERS")
	kafka.Restart(1)
	r.ready()
	w.produce(several("bad", 5)...)
	eventually(t, "all done on their second try", func() bool { _, done := y.count(); return done == 5 })
}

func TestWhileRabbitMQIsAwaySuccessesGoOnUntilTheWindowIsFullAndNobodyLeavesTheGroup(t *testing.T) {
	const window, away = 40, 15 * time.Second
	onPrivate(t, func(t *testing.T, w *world, node *testbroker.Rabbit) {
		y := newTally()
		r := w.start(orders(y.handler(failsOnce)), settings{"WINDOW_MESSAGES": "40"})
		r.ready()
		w.produce(several("warm", 4)...)
		eventually(t, "all is committed", func() bool { return w.committed() == 4 })
		member := w.member()

		node.Kill()
		began := time.Now()
		w.produce(several("bad", 5)...)
		w.produce(several("good", 20)...)
		eventually(t, "successes go on", func() bool { _, done := y.count(); return done == 4+20 })
		w.produce(several("bad-more", 300)...)
		eventually(t, "the window is full", func() bool { return r.inFlight() >= window })
		r.notReady("rabbitmq")
		tried, _ := y.count()
		always(t, "the window bounds what is in flight, in one group", away-time.Since(began), func() bool {
			now, _ := y.count()
			return r.inFlight() <= window && now <= tried+window && w.member() == member
		})
		if tried, _ := y.count(); tried > 4+25+2*window {
			t.Errorf("%d records were tried while the window was full", tried)
		}

		node.Start()
		r.ready()
		const all = 4 + 25 + 300
		eventually(t, "all done", func() bool { _, done := y.count(); return done == all })
		eventually(t, "all is committed", func() bool { return w.committed() == all })
		if now := w.member(); now != member {
			t.Errorf("the group's member is %s, it was %s", now, member)
		}
		r.queuesEmpty()
	})
}

// member is the id of the group's one member while the group is stable, else its state.
func (w *world) member() string {
	w.t.Helper()
	groups, err := kadm.NewClient(w.client).DescribeGroups(context.Background(), w.app+".orders")
	if err != nil {
		w.t.Fatal(err)
	}
	g := groups[w.app+".orders"]
	if g.State != "Stable" || len(g.Members) != 1 {
		return g.State
	}
	return g.Members[0].MemberID
}

func TestAStopWhileRabbitMQIsAwayEndsInTimeAndTheNextProcessFinishesTheWork(t *testing.T) {
	onPrivate(t, func(t *testing.T, w *world, node *testbroker.Rabbit) {
		y := newTally()
		app := orders(y.handler(failsOnce))
		r := w.start(app, settings{"SHUTDOWN_TIMEOUT": "6s"})
		r.ready()
		node.Kill()
		w.produce(several("bad", 50)...)
		w.produce(several("good", 50)...)
		eventually(t, "all tried", func() bool {
			select {
			case <-r.ended:
				t.Fatalf("the actor has ended: %v", r.err)
			default:
			}
			tried, _ := y.count()
			return tried == 100
		})
		began := time.Now()
		r.stop()
		<-r.ended
		if took := time.Since(began); r.err != nil || took > 6500*time.Millisecond {
			t.Errorf("the stop took %v: %v", took, r.err)
		}
		node.Start()
		next := w.start(app, nil)
		eventually(t, "all done", func() bool { _, done := y.count(); return done == 100 })
		eventually(t, "all is committed", func() bool { return w.committed() == 100 })
		next.queuesEmpty()
	})
}

func TestUnderAnAlarmFailuresWaitDeadOnesAreSeenAndDeletedAReplayMovesNothingAndAllGoesOnByItself(t *testing.T) {
	onEachPrivate(t, func(t *testing.T, w *world, node *testbroker.Rabbit) {
		y := newTally()
		var works atomic.Bool
		r := w.start(orders(y.handler(func(value string, attempt int) error {
			if strings.HasPrefix(value, "dead") && !works.Load() {
				return stepwell.DeadLetter(errors.New("no"))
			}
			return failsOnce(value, attempt)
		})), nil)
		w.produce(several("dead", 5)...)
		r.deadCount(5)

		node.Ctl("set_vm_memory_high_watermark", "0.00000001")
		w.produce(several("bad", 20)...)
		w.produce(several("good", 20)...)
		eventually(t, "successes go on", func() bool { _, done := y.count(); return done == 20 })
		r.notReady("alarm")
		for asked, body := range map[string]string{
			"POST /v1/dead_set/replay": `{"count":3,"stream":"orders"}`, "DELETE /v1/dead_set": `{"count":3,"stream":"orders"}`,
			"POST /v1/dead_set/operations": `{"action":"delete","stream":"orders","select":{"all":true},"forever":true}`,
		} {
			method, path, _ := strings.Cut(asked, " ")
			status, answer := r.do(method, path, body)
			if status != 503 || answer["done"] != nil && answer["done"] != 0.0 {
				t.Errorf("%s under the alarm: %d %v", asked, status, answer)
			}
		}
		// What publishes nothing goes on: looks, and a delete for good, which makes room.
		sees := func(alarm string, dead float64) {
			if status, answer := r.do("GET", "/v1/dead_set/groups?stream=orders", ""); status != 200 || answer["depth"] != dead {
				t.Errorf("causes under the %s alarm: %d %v", alarm, status, answer)
			}
			if status, answer := r.do("GET", "/v1/dead_set/export?stream=orders", ""); status != 200 || answer["id"] == nil {
				t.Errorf("an export under the %s alarm: %d %v", alarm, status, answer)
			}
			if status, answer := r.do("DELETE", "/v1/dead_set", `{"count":1,"stream":"orders","forever":true}`); status != 200 || answer["done"] != 1.0 {
				t.Errorf("delete for good under the %s alarm: %d %v", alarm, status, answer)
			}
		}
		sees("memory", 5)
		node.Ctl("set_disk_free_limit", "900000GB")
		node.Ctl("set_vm_memory_high_watermark", "0.6")
		r.notReady("alarm")
		sees("disk", 4)
		if depth := r.depths()[w.queue("orders", "dead_set")]; depth != 3 {
			t.Errorf("after the replay that failed %d messages are in the dead set", depth)
		}

		node.Ctl("set_disk_free_limit", "50MB")
		r.ready()
		eventually(t, "failures done", func() bool { _, done := y.count(); return done == 40 })
		if status, list := r.do("GET", "/v1/dead_set/operations", ""); status != 200 || len(list["operations"].([]any)) != 0 {
			t.Errorf("what was refused under the alarm came later: %d %v", status, list)
		}
		works.Store(true)
		if status, answer := r.do("POST", "/v1/dead_set/replay", `{"count":3,"stream":"orders"}`); status != 200 || answer["done"] != 3.0 {
			t.Errorf("replay after the alarm: %d %v", status, answer)
		}
		eventually(t, "replayed ones done", func() bool { _, done := y.count(); return done == 43 })
		eventually(t, "all is committed", func() bool { return w.committed() == 45 })
		r.queuesEmpty()
	})
}

func TestAConnectionCutWhileARetrySucceedsMakesNoSecondCallAndAllWorkersGoOn(t *testing.T) {
	const workers = 4
	onPrivate(t, func(t *testing.T, w *world, node *testbroker.Rabbit) {
		var c calls
		var together atomic.Int64
		running, release, all := make(chan struct{}), make(chan struct{}), make(chan struct{})
		r := w.start(orders(func(ctx context.Context, m *stepwell.Message) error {
			if m.Attempt == 1 {
				return errFlaky
			}
			c.add(m)
			wait := release
			if string(m.Value) == "cut" {
				close(running)
			} else {
				if together.Add(1) == workers {
					close(all)
				}
				wait = all
			}
			select {
			case <-wait:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}), settings{"CONCURRENCY": "4"})
		w.produce(values("cut")...)
		<-running
		node.Ctl("close_all_connections", "a test")
		r.ready()
		close(release)
		w.produce(several("later", workers)...)
		eventually(t, "all workers are busy at once", func() bool { return together.Load() >= workers })
		r.queuesEmpty()
		eventually(t, "nothing in flight", func() bool { return r.inFlight() == 0 })
		if n := len(c.all()); n != 1+workers {
			t.Errorf("%d retries were called, want %d", n, 1+workers)
		}
		if dead := r.dead(10); len(dead) != 0 {
			t.Errorf("dead set has %v", dead)
		}
	})
}

func TestAStreamWhoseSourceIsAQueueIsNotReadyWhileRabbitMQIsAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	node := testbroker.StartRabbitMQ(t, "newest", testbroker.RabbitOptions{})
	w.rabbit = node.URL
	name, _ := w.foreign(t, "quorum")
	r := w.start(orders(func(context.Context, *stepwell.Message) error { return nil }), ofQueue(name))
	r.ready()
	node.Freeze()
	r.notReady("[-] stream orders: waits for RabbitMQ")
	node.Thaw()
	r.ready()
	node.Kill()
	r.notReady("[-] stream orders: waits for RabbitMQ")
	node.Start()
	r.ready()
}
