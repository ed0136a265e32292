package chaos

import (
	"slices"
	"time"

	"github.com/stepwell/stepwell/chaos/proxy"
)

// scenarios are the faults, each alone.
func scenarios() []scenario {
	return slices.Concat(processes(), poisons(), clocks(), rabbits(), kafkas(), networks(), operators(), marks(), operated(), sorted(), trashed(), counted(), edited(), inOrder(), batches(), batchesInOrder(), modes(), jobs(), sources(), gathered(), retriers())
}

// seldomSlow has two records slow every ten seconds, so that calls are hit in their middle and
// there is time for all of them in the end.
var seldomSlow = settings{"CHAOS_SLOW": "10s", "CHAOS_SLOW_EVERY": "4000"}

func processes() []scenario {
	return []scenario{
		{name: "no fault at all", fault: func(r *run) { r.pause(time.Second) }},
		{name: "an actor is killed, three times", short: true, fault: killAnActor},
		killing(),
		{name: "all actors are killed at once", fault: killAllActors},
		{name: "an actor is stopped, three times", fault: stopAnActor},
		{name: "an actor is stopped while its handlers are slow", env: settings{"CHAOS_SLOW": "10s", "SHUTDOWN_TIMEOUT": "8s"}, fault: stopAnActor},
		{name: "members join and leave every three seconds", fault: rebalanceStorm},
		{name: "actors with another RETRY_DELAY work beside the old ones and replace them", fault: newDelay},
		{name: "an actor is suspended for longer than its session", fault: suspendAnActor},
		{name: "members are expelled again and again while their handlers are slow", env: seldomSlow, fault: expelMembers},
		{name: "actors are evicted in a row while their handlers are slow", env: seldomSlow, fault: evict},
		{name: "actors have little time to stop while a member is dead", fault: stopBesideTheDead},
	}
}

// killing has no guard against records that kill the process: where everybody is killed all the
// time from outside, it would in the end hold that against a record.
func killing() scenario {
	return scenario{name: "actors are killed, three hundred times", env: settings{"CRASH_LIMIT": "0"}, fault: killManyTimes}
}

func rabbits() []scenario {
	return []scenario{
		{name: "RabbitMQ is killed, twice", fault: killRabbitMQ},
		{name: "RabbitMQ is killed when thousands of messages expire", fault: killRabbitMQAtExpiry},
		{name: "RabbitMQ and an actor are killed at once", fault: killRabbitMQAndAnActor},
		{name: "memory alarm", fault: func(r *run) { r.memoryAlarm(func() {}) }},
		{name: "memory alarm for two minutes", lone: true, fault: func(r *run) { r.memoryAlarm(func() { r.pause(2 * time.Minute) }) }},
		{name: "an actor is killed under a memory alarm", fault: func(r *run) { r.memoryAlarm(r.killOne) }},
		{name: "disk alarm", fault: func(r *run) { r.diskAlarm(func() {}) }},
		{name: "an actor is killed under a disk alarm", fault: func(r *run) { r.diskAlarm(r.killOne) }},
		{name: "an operator closes all connections", fault: closeConnections},
		{name: "the password is another one after a cut, and is set back", fault: changePassword},
		{
			name: "records of 16 MiB and more, and RabbitMQ and an actor are killed", mib: 512,
			env: settings{"RABBITMQ_CONFIRM_TIMEOUT": "20s"}, fault: largeRecords,
		},
		{
			name: "slow handlers outlive their connection, then all actors are killed",
			env:  settings{"CHAOS_SLOW": "2s", "CHAOS_SLOW_EVERY": "40", "CRASH_LIMIT": "0"}, fault: cutSlowlyAndKill,
		},
		{name: "slow handlers outlive the broker's consumer time-out", env: settings{"CHAOS_SLOW": "6s", "RETRY_PREFETCH": "100"}, fault: shortConsumerTimeout},
		{
			name: "RabbitMQ is away for two minutes, and one of a hundred large records fails", mib: 64 + 2*16,
			env: settings{"CHAOS_FAIL_EVERY": "100", "WINDOW_BYTES": "16MiB"}, fault: longOutage,
		},
		{name: "slow handlers outlive their connection", env: settings{"CHAOS_SLOW": "3s"}, fault: cutSlowly},
	}
}

func kafkas() []scenario {
	return []scenario{
		{name: "Kafka is killed", fault: killKafka},
		{name: "Kafka and an actor are killed at once", fault: killKafkaAndAnActor},
		{name: "Kafka deletes records that nobody has read", fault: cutLog},
		{name: "a partition cannot be read while handlers of others are slow", env: seldomSlow, fault: unreadable},
	}
}

// networks are the faults of the two networks, and cuts at the methods at which a message changes
// hands.
func networks() []scenario {
	var all []scenario
	for _, to := range []struct {
		name  string
		proxy func(*run) *proxy.Proxy
	}{
		{"RabbitMQ", func(r *run) *proxy.Proxy { return r.toRabbit }},
		{"Kafka", func(r *run) *proxy.Proxy { return r.toKafka }},
	} {
		weather := func(name string, w proxy.Weather) scenario {
			return scenario{name: name + " " + to.name, fault: func(r *run) { r.weather(to.proxy(r), w) }}
		}
		all = append(all,
			scenario{name: "connections are cut to " + to.name, short: to.name == "RabbitMQ", fault: func(r *run) { r.often(to.proxy(r).Cut) }},
			scenario{name: "connections are reset to " + to.name, fault: func(r *run) { r.often(to.proxy(r).Reset) }},
			weather("what is sent disappears on its way to", proxy.Weather{Hole: proxy.Up}),
			weather("what is answered disappears on its way from", proxy.Weather{Hole: proxy.Down}),
			weather("200 ms of latency to", proxy.Weather{Latency: 200 * time.Millisecond}),
			weather("4 KB a second to", proxy.Weather{Rate: 4 << 10}),
		)
	}
	for _, at := range []struct {
		name   string
		way    proxy.Way
		method proxy.Method
	}{
		{"a publish", proxy.Up, proxy.Publish},
		{"a confirm", proxy.Down, proxy.Ack},
		{"a delivery", proxy.Down, proxy.Deliver},
		{"an ack", proxy.Up, proxy.Ack},
	} {
		all = append(all, scenario{name: "connection reset before or after " + at.name, short: at.method == proxy.Publish, fault: func(r *run) {
			for n := range 6 {
				r.trap(at.way, at.method, n%2 == 0)
			}
		}})
	}
	return all
}

// several are some of the faults one after the other, in bad weather. Those that need actors with
// settings of their own stay alone.
func several() scenario {
	return scenario{name: "several at random", fault: func(r *run) {
		all := slices.DeleteFunc(scenarios(), func(c scenario) bool { return c.env != nil || c.parts != nil || c.jumps || c.lone })
		r.toRabbit.Set(proxy.Weather{Latency: time.Duration(r.random.IntN(20)) * time.Millisecond})
		for range 2 + r.random.IntN(3) {
			c := all[r.random.IntN(len(all))]
			r.t.Log(c.name)
			c.fault(r)
		}
		r.toRabbit.Set(proxy.Weather{})
		r.toKafka.Set(proxy.Weather{})
	}}
}

// sometime waits up to the given time.
func (r *run) sometime(most time.Duration) { r.pause(time.Duration(r.random.Int64N(int64(most)))) }

// often does it three times.
func (r *run) often(do func()) {
	for range 3 {
		do()
		r.sometime(2 * time.Second)
	}
}
