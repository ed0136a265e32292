package chaos

import (
	"maps"
	"time"
)

// sources are faults of actors that consume a queue of somebody else's, of either type: each record
// is published to it, and one of four fails twice.
func sources() (all []scenario) {
	for _, kind := range []string{"classic", "quorum"} {
		env := settings{"CHAOS_SOURCE": kind, "CHAOS_FAIL_EVERY": "4"}
		add := func(name string, short bool, fault func(r *run)) {
			all = append(all, scenario{name: kind + " queue: " + name, short: short, env: env, fault: fault})
		}
		add("an actor is killed, three times", kind == "classic", killAnActor)
		add("all actors are killed at once", false, killAllActors)
		add("an actor is stopped, three times", false, stopAnActor)
		add("RabbitMQ is killed, twice", false, killRabbitMQ)
		add("RabbitMQ and an actor are killed at once", false, killRabbitMQAndAnActor)
		// Some fail late, and so there are always some that fail under the alarm, or are in hand.
		slow := maps.Clone(env)
		slow["CHAOS_SLOW"], slow["CHAOS_SLOW_EVERY"] = "3s", "40"
		all = append(all, scenario{name: kind + " queue: actors are killed under a memory alarm", env: slow, fault: func(r *run) {
			r.memoryAlarm(func() {
				// What one had comes back, and is moved: that waits for its confirm as another
				// dies.
				for range 3 {
					r.killOne()
					r.pause(2 * time.Second)
				}
			})
		}})
		add("connections are cut to RabbitMQ", false, func(r *run) { r.often(r.toRabbit.Cut) })
		for _, mark := range []string{"publish", "published", "confirmed", "parked", "ack", "acked"} {
			add("an actor dies at: "+mark, false, func(r *run) { r.diesAt(mark) })
		}
		for _, mark := range []string{"hop", "hopped"} {
			all = append(all, scenario{name: kind + " queue: an actor dies as it moves what came back, at: " + mark, env: slow, fault: func(r *run) { r.diesMoving(mark) }})
		}
	}
	return append(all, bound()...)
}

// bound are faults of actors whose queue is their own, bound to an exchange. Some records are slow,
// and so there are always some in hand.
func bound() (all []scenario) {
	env := settings{"CHAOS_SOURCE": "exchange", "CHAOS_FAIL_EVERY": "4", "CHAOS_SLOW": "3s", "CHAOS_SLOW_EVERY": "40"}
	add := func(name string, fault func(r *run)) {
		all = append(all, scenario{name: "queue of an exchange: " + name, env: env, fault: fault})
	}
	add("all actors are killed at once", killAllActors)
	add("an actor is stopped, three times", stopAnActor)
	add("RabbitMQ and an actor are killed at once", killRabbitMQAndAnActor)
	add("connections are cut to RabbitMQ", func(r *run) { r.often(r.toRabbit.Cut) })
	for _, mark := range []string{"hop", "hopped"} {
		add("an actor dies as it moves what came back, at: "+mark, func(r *run) { r.diesMoving(mark) })
	}
	return all
}

// gathered are faults of actors that handle what comes from such a queue in batches: those that hit
// one in its middle, and an actor's death at each of its steps.
func gathered() (all []scenario) {
	for _, kind := range []string{"classic", "quorum"} {
		env := settings{
			"CHAOS_SOURCE": kind, "CHAOS_FAIL_EVERY": "4", "CHAOS_BATCH": "yes",
			"BATCH_SIZE": "50", "BATCH_WAIT": "200ms", "STREAMS_SOURCED_CONCURRENCY": "8",
		}
		add := func(name string, short bool, fault func(r *run)) {
			all = append(all, scenario{name: kind + " queue in batches: " + name, short: short, env: env, fault: fault})
		}
		add("an actor is killed, three times", kind == "quorum", killAnActor)
		add("an actor is stopped, three times", false, stopAnActor)
		add("RabbitMQ and an actor are killed at once", false, killRabbitMQAndAnActor)
		add("connections are cut to RabbitMQ", false, func(r *run) { r.often(r.toRabbit.Cut) })
		for _, mark := range []string{"gathered", "batch", "batched", "marked", "published", "confirmed", "ack", "acked"} {
			add("an actor dies at: "+mark, false, func(r *run) { r.diesAt(mark) })
		}
	}
	return all
}

// diesAt has an actor die at the mark, three times.
func (r *run) diesAt(mark string) {
	for range 3 {
		p := r.dying(mark, 1+r.random.IntN(100))
		if !p.died(40 * time.Second) {
			r.complain("the actor never came to the mark %s", mark)
			p.leave()
		}
	}
}

// diesMoving has an actor die at the mark, three times, as it moves what another one had when that
// was killed. No other is left to move it: then it might all be moved before this one is there.
func (r *run) diesMoving(mark string) {
	for range 3 {
		r.pause(3 * time.Second) // until they have something in hand
		n := len(r.actors)
		for len(r.actors) > 0 {
			r.anActor().kill()
		}
		p := r.dying(mark, 1)
		if !p.died(40 * time.Second) {
			r.complain("the actor never came to the mark %s", mark)
			p.leave()
		}
		for range n {
			r.spawn()
		}
	}
}

// foreign is the queue that is the source; see the child's.
func (r *run) foreign() string {
	if r.env["CHAOS_SOURCE"] == "exchange" {
		return r.app + ".sourced.source"
	}
	return "foreign-" + r.app
}
