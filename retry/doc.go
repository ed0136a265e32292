// Package retry brings failed messages back: it parks them in the queue of their next delay, picks
// them up when the broker has moved them to the instant queue, and puts those without a try left
// into the dead set.
//
// What decides is pure (policy, topology); a [Retrier] acts on it for one stream. Its instant queue
// is worked off by package inbox.
//
// # The way of a failed message
//
//	Retrier.Fail, Snooze, Hand            it comes to a queue for the first time
//	  -> firsts.park                      again and again, until the broker takes it
//	Retrier.Enqueue                       likewise, but once: who enqueues it is told
//	Ticket.Fail, Snooze, Hand             it came from a queue, and is there still
//	  -> parking.pack and its siblings    a parcel: which queue is next, what the envelope says
//	  -> parking.post                     for a free wait: its queues, where they are missing
//	  -> parking.send                     published; smaller, where it is too large
//	  -> done(nil)                        confirmed: only now its source may let it go
//	delay queue -> instant queue          the broker moves it when its time is over
//	  -> owner.divert                     a wait that is not over yet goes on in the next queue
//	  -> owner.Decode, Handle             the next try, with a [Ticket]
//
// # Map
//
//	retry.go               Config, Retrier, Ticket
//	policy.go, topology.go which wait comes after which attempt; the queues
//	rungs.go, ladder.go    the queues through which free waits go; which of them are declared
//	send.go, past.go       what comes for the first time; the tries it had before, in place
//	firsts.go              what is not parked yet
//	parcel.go, parking.go  a message and where it goes; how it gets there
//	owner.go, intake.go    what the instant queue has; a queue of somebody else's
//	pointers.go            how many ask Kafka at once for what was too large to be parked
//	former.go, logs.go     queues of former delays; the numbers of logs
//
// # Glossary
//
//	instant queue  where messages come back, one for each line
//	line           a stream's own handler, or one of its channels
//	delay queue    where messages of one wait rest, until the broker moves them
//	free wait      one that no policy names: of RetryAfter, Snooze, a job for later
//	rung           a delay queue of free waits; a long wait goes down several, the longest first
//	parcel         an envelope, and which queue it goes to
//	parked         confirmed by the broker, in a delay queue, the instant queue or the dead set
//	hop            from one delay queue to the next, by the instant queue, without a call
//	pointer        a dead message without its value, which is too large: its record is in Kafka
//
// # Locks
//
// firsts, former, ladder and inbox.Trouble have a lock each, and guard nothing but their own
// fields: nothing else is taken under them, and no broker is asked.
package retry
