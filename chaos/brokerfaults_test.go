package chaos

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/stepwell/stepwell/chaos/ledger"
	"github.com/stepwell/stepwell/chaos/proxy"
)

func killRabbitMQ(r *run) {
	for range 2 {
		r.rabbit.Kill()
		r.sometime(3 * time.Second)
		r.rabbit.Start()
		r.sometime(4 * time.Second)
	}
}

// killRabbitMQAtExpiry has many messages moved from the delay queue when the node dies.
func killRabbitMQAtExpiry(r *run) {
	for range 3 {
		r.load.burst(2000)
		r.pause(r.delay() + time.Duration(r.random.Int64N(int64(300*time.Millisecond))))
		r.rabbit.Kill()
		r.rabbit.Start()
	}
}

func killRabbitMQAndAnActor(r *run) {
	r.rabbit.Kill()
	r.killOne()
	r.rabbit.Start()
}

// memoryAlarm holds back whoever publishes, and does something meanwhile.
func (r *run) memoryAlarm(do func()) {
	r.rabbit.Ctl("set_vm_memory_high_watermark", "0.00000001")
	defer r.rabbit.Ctl("set_vm_memory_high_watermark", "0.6")
	r.pause(2 * time.Second)
	do()
	r.pause(time.Second)
}

// diskAlarm has RabbitMQ find its disk full: it wants more of it to be free than there is.
func (r *run) diskAlarm(do func()) {
	r.rabbit.Ctl("set_disk_free_limit", "900000GB")
	defer r.rabbit.Ctl("set_disk_free_limit", "50MB")
	if status := r.rabbit.Ctl("-q", "status"); !strings.Contains(status, "disk space alarm") {
		r.complain("RabbitMQ finds enough room on its disk: %s", status)
	}
	r.pause(7 * time.Second) // longer than a confirm may take
	do()
	r.pause(time.Second)
}

func closeConnections(r *run) {
	for range 2 {
		r.rabbit.Ctl("close_all_connections", "chaos")
		r.sometime(2 * time.Second)
	}
}

// changePassword has RabbitMQ refuse the actors when they come again, for a while.
func changePassword(r *run) {
	r.refused()
	for _, p := range r.actors {
		r.until("it works again", time.Minute, p.ready)
	}
}

func (r *run) refused() {
	r.t.Helper()
	r.rabbit.Ctl("change_password", "guest", "another")
	defer r.rabbit.Ctl("change_password", "guest", "guest")
	r.toRabbit.Cut()
	for _, p := range r.actors {
		r.until("it says that it cannot work", time.Minute, func() bool { return !p.ready() })
	}
	r.sometime(5 * time.Second)
}

// cutSlowly cuts connections while slow handlers have a delivery of theirs.
func cutSlowly(r *run) {
	for range 4 {
		r.pause(time.Second)
		r.toRabbit.Cut()
		r.sometime(2 * time.Second)
	}
}

// shortConsumerTimeout has RabbitMQ end consumers that hold a message for two seconds. It looks
// each second, and reads both times when a channel opens.
func shortConsumerTimeout(r *run) {
	set := func(timeout, tick time.Duration) {
		r.rabbit.Ctl("eval", fmt.Sprintf("application:set_env(rabbit, consumer_timeout, %d), application:set_env(rabbit, channel_tick_interval, %d).",
			timeout.Milliseconds(), tick.Milliseconds()))
		r.toRabbit.Cut()
	}
	defer set(30*time.Minute, time.Minute)
	set(2*time.Second, time.Second)
	r.until("a consumer is ended for its time-out", time.Minute, func() bool {
		return slices.ContainsFunc(r.actors, func(p *process) bool { return p.said("delivery acknowledgement") || p.said("time-out passed") })
	})
	r.pause(12 * time.Second)
}

// cutSlowlyAndKill cuts connections, and kills the actors when handlers that began before have
// ended: an ack of theirs that settled another message would lose it. The guard
// against records that kill is off: from the third of these kills on it suspects all that waits
// behind slow keys, and has it run one at a time.
func cutSlowlyAndKill(r *run) {
	for range 4 {
		for _, p := range r.actors {
			r.until("the actor is ready", time.Minute, p.ready)
		}
		r.sometime(2 * time.Second)
		r.toRabbit.Cut()
		r.pause(1200 * time.Millisecond)
		r.toRabbit.Cut()
		r.pause(1500*time.Millisecond + time.Duration(r.random.Int64N(int64(500*time.Millisecond))))
		r.killAll()
	}
}

// weather changes the weather for long enough that time-outs and heartbeats notice.
func (r *run) weather(p *proxy.Proxy, w proxy.Weather) {
	p.Set(w)
	r.pause(5*time.Second + time.Duration(r.random.Int64N(int64(7*time.Second))))
	p.Set(proxy.Weather{})
}

// trap resets a connection at one of the next methods of this kind.
func (r *run) trap(way proxy.Way, m proxy.Method, after bool) {
	select {
	case <-r.toRabbit.CutAt(way, m, 1+r.random.IntN(20), after):
	case <-time.After(20 * time.Second):
		r.complain("no such method passed: %v", m)
	}
	r.sometime(time.Second)
}

// longOutage lets one actor go on without RabbitMQ: what fails waits, and must not hold all that
// was fetched with it.
func longOutage(r *run) {
	for len(r.actors) > 1 {
		r.actors[0].leave()
	}
	text := r.noise(10 << 10)
	r.rabbit.Kill()
	before, _ := r.watch.done()
	for range 120 {
		r.load.large(400, text)
		r.pause(time.Second)
	}
	if done, _ := r.watch.done(); done-before < 120*400 {
		r.complain("%d records were done while RabbitMQ was away, of %d and more that succeed", done-before, 120*400*99/100)
	}
	r.rabbit.Start()
}

func killKafka(r *run) {
	r.kafka.Kill(1)
	r.sometime(3 * time.Second)
	r.kafka.Restart(1)
	r.pause(3 * time.Second)
}

func killKafkaAndAnActor(r *run) {
	r.kafka.Kill(1)
	r.killOne()
	r.kafka.Restart(1)
	r.pause(3 * time.Second)
}

// cutLog has Kafka delete what is behind the commits, while no actor runs. What was not settled of
// it is gone, and no more than that.
func cutLog(r *run) {
	n := len(r.actors)
	for len(r.actors) > 0 {
		r.actors[0].leave()
	}
	r.pause(time.Second) // for records to come
	cut := kadm.Offsets{}
	for partition, next := range r.watch.commitsNow() {
		for offset := next; offset < next+20; offset++ {
			r.watch.remove(ledger.Position{Partition: partition, Offset: offset})
		}
		cut.AddOffset(r.topic, partition, next+20, -1)
	}
	ctx, cancel := r.shortly()
	defer cancel()
	deleted, err := kadm.NewClient(r.client).DeleteRecords(ctx, cut)
	r.check(err)
	r.check(deleted.Error())
	for range n {
		r.spawn()
	}
	r.until("they read on", time.Minute, func() bool { return r.watch.beyond(cut[r.topic]) })
}

// unreadable has Kafka hand out a batch of one partition that cannot be decoded, for longer than it
// takes until a topic is looked for anew. What runs meanwhile is not cut off.
func unreadable(r *run) {
	mend := func() {}
	r.frozen(func() {
		r.pause(time.Second) // no answer to a fetch is under way any more, and there are new records
		mend = r.damage(0)
	})
	r.until("an actor says that it cannot read it", time.Minute, func() bool {
		return slices.ContainsFunc(r.actors, func(p *process) bool { return p.said("does not match calculated crc") })
	})
	before, stood := r.watch.cancelled(), r.watch.commitsNow()[0]
	r.pause(70 * time.Second)
	if n := r.watch.cancelled() - before; n > 0 {
		r.complain("%d calls were cut off since another partition could not be read", n)
	}
	mend()
	r.until("it is read on", time.Minute, func() bool { return r.watch.commitsNow()[0] > stood+rate })
}

// damage changes the last byte that the partition has so far. mend makes it what it was.
func (r *run) damage(partition int32) (mend func()) {
	r.t.Helper()
	file, err := os.OpenFile(r.kafka.Segment(1, r.topic, partition), os.O_RDWR, 0)
	r.check(err)
	end, err := file.Seek(-1, io.SeekEnd)
	r.check(err)
	was := make([]byte, 1)
	_, err = file.ReadAt(was, end)
	r.check(err)
	_, err = file.WriteAt([]byte{^was[0]}, end)
	r.check(err)
	return func() {
		_, err := file.WriteAt(was, end)
		r.check(errors.Join(err, file.Close()))
	}
}

// unacked is how many messages of the queue are with consumers: as the queue itself knows it, since
// what list_queues says is up to five seconds old.
func (r *run) unacked(name string) int {
	r.t.Helper()
	const ask = `{ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<"%s">>)),
		{ok, {_, Held}, _} = ra:local_query(amqqueue:get_pid(Q), fun rabbit_fifo:query_messages_checked_out/1), Held.`
	return atoi(r, strings.TrimSpace(r.rabbit.Ctl("-q", "eval", fmt.Sprintf(ask, name))))
}
