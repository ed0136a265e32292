package chaos

import "time"

// scenarios are the faults, each alone.
func scenarios() []scenario {
	return []scenario{
		{name: "nothing at all", fault: func(r *run) { r.pause(time.Second) }},
		{name: "an actor is killed", short: true, fault: killAnActor},
		{name: "connections to RabbitMQ are cut", fault: cutRabbitMQ},
	}
}

// several are some of the faults in turn.
var several = scenario{name: "several at random", fault: func(r *run) {
	for range 2 + r.random.IntN(3) {
		all := scenarios()
		c := all[r.random.IntN(len(all))]
		r.t.Log(c.name)
		c.fault(r)
	}
}}

// sometime waits up to the given time.
func (r *run) sometime(most time.Duration) { r.pause(time.Duration(r.random.Int64N(int64(most)))) }

// anActor picks one of those that run.
func (r *run) anActor() *process { return r.actors[r.random.IntN(len(r.actors))] }

func killAnActor(r *run) {
	for range 3 {
		r.anActor().kill()
		r.spawn()
		r.sometime(2 * time.Second)
	}
}

func cutRabbitMQ(r *run) {
	for range 3 {
		r.toRabbit.Cut()
		r.sometime(2 * time.Second)
	}
}
