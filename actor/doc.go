// Package actor puts an actor together and runs it: Kafka readers, retry queues, dead sets, the
// HTTP server and the user's own functions.
//
// A program describes itself as an [App] and calls [Main]; [New] and [Actor.Run] are the form for
// embedding and tests.
package actor

// What follows is for who works on this package, and not shown to those who use it.
//
// # The way of a message
//
//	source                     Kafka, or a queue of RabbitMQ: hands it over with a ticket
//	  -> dispatch.fromLog      its first try; of a queue, and of retries, dispatch.fromQueue
//	  -> dispatch.run          the call (internal/call), which ends with an answer or none
//	  -> dispatch.follow       the switch on verdicts: done, handed over, failed
//	  -> dispatch.fail         an OnDead may take it over: fallback.go
//	  -> dispatch.tryInPlace   called again here as long as its waits are spent here: inplace.go
//	  -> dispatch.park         a queue has it (retry), and then its ticket settles it
//
// Where retries are off follow goes to dispatch.keepTrying: hold.go. Messages of a Batch are
// gathered in place of fromLog: batch.go has their way.
//
// # Map
//
//	app.go, main.go             what a program fills in; Main and its commands
//	actor.go, stack.go          New and Run; parts that start in order and stop in reverse
//	together.go, userfunc.go    functions side by side; the start and the stop function
//	stream.go, line.go          a stream; a handler with its queues
//	channel.go, policy.go       lines of channels; the waits of a policy
//	kafka.go, queue.go          the sources that are Kafka, and a queue
//	modes.go, retired.go        what runs in this process; streams that are read no more
//	dispatch.go, fallback.go    the switch on verdicts; OnDead
//	inplace.go, hold.go         waits in the process; trying for ever where retries are off
//	batch.go, lane.go           messages gathered for a call together; where they wait
//	caller.go, batchinplace.go  who calls them; what failed of them, again in place
//	left.go                     queues of a line whose retries were turned off
//	failurelog.go               what the log tells of failures, and how often
//	health.go, progress.go      status, readiness, gauges; since when nothing gets done
//	depths.go                   how many messages are in which queue
//	paused.go, pauses.go        what holds a stream back here; pauses of the whole app
//	api.go, operations.go       what the HTTP server sees of an actor; dead sets for operations
//	shared.go, outcomes.go      what all processes share; among it what became of replays
//	enqueue.go, produce.go      jobs of one's own; records for Kafka
//	brokers.go, kafkaoptions.go clients of brokers; options of App.Kafka that are refused
//	kafkarecords.go             records by their position
//	inspect.go, load.go         the commands config, topology, doctor; the configuration
//	logger.go, exporters.go     the log; variables that ask for an export nobody does
//	gc.go                       how often garbage is collected where the process is ours
//
// # Glossary
//
//	source     where messages come from first; one of a stream, none of a channel
//	line       a handler with its queues, retries and dead set: a stream's own, or a channel's
//	lane       of a Batch: where messages wait for their batch (lane.go). In all else the number
//	           of a goroutine that calls: caller.number, and what Running returns
//	rests      it waits in the process, between two tries in place
//	leaves     it waits in a queue
//	parked     a queue has confirmed it
//	hold       of dispatch: what becomes of a failure where retries are off. Of a stream: a pause
//	           begins or ends
//	left       queues whose retries are off; of a lane: what was left to the next owner
//	modes      which parts of the actor run in this process
//	part       what the stack starts and stops
//
// # Locks
//
// pauses.mu is taken before stream.pausing, and that before the locks of a source, an inbox or a
// lane. lane.mu and batches.mu may be taken with a partition's lock held (its Flush). All others
// are for moments, and nothing is taken under them; App.Kafka is called under producer.mu.
