package chaos

import (
	"maps"
	"time"
)

// inBatches has actors handle messages in batches, several at once.
var inBatches = settings{"CHAOS_BATCH": "yes", "BATCH_SIZE": "50", "BATCH_WAIT": "200ms", "STREAMS_ORDERS_CONCURRENCY": "16"}

// batches are faults of actors that handle messages in batches: those that hit a batch in its
// middle, and an actor's death at each of its steps.
func batches() []scenario {
	slow := maps.Clone(seldomSlow)
	maps.Copy(slow, inBatches)
	all := []scenario{
		{name: "batches: an actor is killed, three times", short: true, env: inBatches, fault: killAnActor},
		{name: "batches: all actors are killed at once", env: inBatches, fault: killAllActors},
		{name: "batches: an actor is stopped, three times", env: inBatches, fault: stopAnActor},
		{name: "batches: members join and leave every three seconds", env: inBatches, fault: rebalanceStorm},
		{name: "batches: members are expelled again and again while batches are slow", env: slow, fault: expelFromBatches},
		{name: "batches: RabbitMQ and an actor are killed at once", env: inBatches, fault: killRabbitMQAndAnActor},
		{
			name: "batches: two records kill each process that takes their first try", env: inBatches,
			fault: func(r *run) { r.poison(1, 1) },
		},
	}
	all = append(all,
		scenario{name: "batches: connections are cut to RabbitMQ", env: inBatches, fault: func(r *run) { r.often(r.toRabbit.Cut) }},
		scenario{name: "batches: Kafka and an actor are killed at once", env: inBatches, fault: killKafkaAndAnActor})
	for _, mark := range []string{
		"gathered", "batch", "batched", "marked", "publish", "published", "confirmed", "parked", "ack", "acked", "commit", "committed",
	} {
		all = append(all, scenario{name: "batches: an actor dies at: " + mark, env: inBatches, fault: func(r *run) {
			for range 3 {
				p := r.dying(mark, 1+r.random.IntN(10))
				if !p.died(40 * time.Second) {
					r.complain("the actor never came to the mark %s", mark)
					p.leave()
				}
			}
		}})
	}
	return all
}

// expelFromBatches has Kafka remove all members from their group while batches are slow. A batch
// goes on, with what is ours of it: its context does not end with a partition's.
func expelFromBatches(r *run) {
	for range 8 {
		r.inASlowCall()
		r.until("somebody is expelled", time.Minute, func() bool { return r.expelAll() > 0 })
		r.sometime(3 * time.Second)
	}
}
