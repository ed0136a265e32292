package chaos

import (
	"maps"
	"time"
)

// asJobs has actors enqueue each record as a job, and one of four jobs fail twice.
var asJobs = settings{"CHAOS_JOBS": "yes", "CHAOS_FAIL_EVERY": "4"}

// jobs are faults of actors that enqueue what they read, and work that off.
func jobs() []scenario {
	all := []scenario{
		{name: "jobs: an actor is killed, three times", short: true, env: asJobs, fault: killAnActor},
		{name: "jobs: all actors are killed at once", env: asJobs, fault: killAllActors},
		{name: "jobs: an actor is stopped, three times", env: asJobs, fault: stopAnActor},
		{name: "jobs: RabbitMQ is killed, twice", env: asJobs, fault: killRabbitMQ},
		{name: "jobs: RabbitMQ and an actor are killed at once", env: asJobs, fault: killRabbitMQAndAnActor},
		{name: "jobs: an actor is killed under a memory alarm", env: asJobs, fault: func(r *run) { r.memoryAlarm(r.killOne) }},
		{name: "jobs: connections are cut to RabbitMQ", env: asJobs, fault: func(r *run) { r.often(r.toRabbit.Cut) }},
	}
	large := maps.Clone(asJobs)
	// That is what Enqueue goes by. The queues have the usual limit, as where somebody lowers it.
	large["RABBITMQ_MAX_MESSAGE_SIZE"], large["RABBITMQ_CONFIRM_TIMEOUT"] = "32MiB", "20s"
	all = append(all, scenario{name: "jobs: some have no room for what their failures say", env: large, mib: 512, fault: fullJobs})
	for _, mark := range []string{"publish", "published", "confirmed", "parked", "ack", "acked"} {
		all = append(all, scenario{name: "jobs: an actor dies at: " + mark, env: asJobs, fault: func(r *run) { r.diesAt(mark) }})
	}
	return all
}

// fullJobs has jobs fail that are as large as RabbitMQ takes, but for some hundred bytes. Nothing
// but the job has what is in it.
func fullJobs(r *run) {
	const room, head = 600, 210
	for range 3 {
		value := make([]byte, limit-room-head) // that no compression makes smaller
		for i := range value {
			value[i] = byte(r.random.Uint32())
		}
		r.load.once(special{text: string(value)})
		r.sometime(time.Second)
	}
}
