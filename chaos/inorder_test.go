package chaos

import (
	"maps"
	"time"
)

// keysInOrder have a failing record hold back later ones of its key alone until it is done or dead.
// Its rests are short, so that a key with many of them keeps up with the load.
var keysInOrder = settings{"RETRY_IN_PLACE": "all", "RETRY_DELAY": "50ms"}

// inOrder are faults under which each key keeps its order, which the ledger judges. None of them
// lets a process live on beside the next owner of its partitions: that is not promised.
func inOrder() []scenario {
	all := []scenario{
		{name: "in order: an actor is killed, three times", short: true, fault: killAnActor},
		{name: "in order: all actors are killed at once", fault: killAllActors},
		{name: "in order: an actor is stopped, three times", fault: stopAnActor},
		{name: "in order: members join and leave every three seconds", fault: rebalanceStorm},
		{name: "in order: RabbitMQ is killed, twice", fault: killRabbitMQ},
		{name: "in order: RabbitMQ and an actor are killed at once", fault: killRabbitMQAndAnActor},
	}
	for _, mark := range []string{"rests", "rested", "publish", "published", "confirmed", "parked", "commit", "committed"} {
		all = append(all, scenario{name: "in order: an actor dies at: " + mark, short: mark == "confirmed", fault: func(r *run) { dieAt(r, mark, 40*time.Second) }})
	}
	for i := range all {
		all[i].env = keysInOrder
	}
	return all
}

// batchesInOrder are faults of actors whose batches rest in their lanes, where each key keeps its
// order, too.
func batchesInOrder() (all []scenario) {
	env := maps.Clone(inBatches)
	maps.Copy(env, keysInOrder)
	add := func(name string, fault func(r *run)) {
		all = append(all, scenario{name: "batches in order: " + name, env: env, fault: fault})
	}
	add("an actor is killed, three times", killAnActor)
	add("an actor is stopped, three times", stopAnActor)
	add("members join and leave every three seconds", rebalanceStorm)
	add("RabbitMQ and an actor are killed at once", killRabbitMQAndAnActor)
	add("Kafka and an actor are killed at once", killKafkaAndAnActor)
	add("connections are cut to RabbitMQ", func(r *run) { r.often(r.toRabbit.Cut) })
	for _, mark := range []string{
		"gathered", "batch", "batched", "marked", "rests", "rested", "publish", "published", "confirmed", "parked", "commit", "committed",
	} {
		add("an actor dies at: "+mark, func(r *run) { dieAt(r, mark, 40*time.Second) })
	}
	return all
}
