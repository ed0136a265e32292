// Package streams reads Kafka: one consumer group per stream, a ledger and a roster per partition.
// What is committed is always a settled prefix of a partition that is ours.
//
// # The way of a record
//
//	fetcher -> intake.poll     as many records as the load has room for
//	  -> partition.append      into the ledger, which knows what is settled, and the backlog
//	  -> roster.Offer          the crew (internal/crew) takes them from here: partition.Take
//	  -> Handle                the call, on a worker of the crew, with a ticket
//	  -> partition.Done        or Settle, later: into the ledger again
//	  -> committer             five times a second, and before a partition is given up
//
// # Parts
//
// A [Reader] is made of parts, each of which owns its state and names in its fields what it works
// with. None knows one that comes after it here:
//
//	assignments   which partitions are ours, and which were while calls of them run
//	clients       the group's member and the others that fetch, and which reads what
//	committer     what is settled, sent one commit at a time
//	rebalancer    partitions come, and go in good order or at once
//	starter       where the group begins with partitions that come
//	intake        what polls bring, handed to the partitions
//	supervisor    what the cluster must be asked, and topics to be found anew
//
// They share what knows none of them: gate, load, status, healer and the crew. A partition knows
// no part either; what it asks of them is four functions (shared), which are set once all parts are
// there.
//
// # Map
//
//	reader.go, config.go       Reader, its parts, Pause; what it is told
//	options.go, reserved.go    options of our clients; those of a user that must be left alone
//	run.go                     one Run: start, stop, the drain
//	assignments.go             which partitions are ours
//	clients.go, fetcher.go     all clients; one of them
//	rebalance.go               partitions come and go
//	gate.go                    polls, or a change of what is ours, never both
//	poll.go, cut.go            what polls bring; a log that was cut
//	load.go, fetchsize.go      how much is in flight; how much a fetch is to bring
//	start.go, beginnings.go    where a group begins
//	latecomers.go              topics that came after the group began
//	partition.go               one assignment of a partition
//	books.go, lifetime.go      its ledger and its lock; its contexts, and when it is over
//	feed.go                    what the crew takes from it and tells it; its tickets
//	backlog.go                 what was fetched of it and is no message yet
//	gathered.go                what was handed out, and waits for a call with others
//	message.go, recordpool.go  records as messages, without an allocation for each
//	tenure.go                  what waits for long gets memory of its own
//	oldest.go                  which record holds the window
//	commit.go, joining.go      commits; those past the client, while a group joins
//	suspects.go, trial.go      records that may kill the process: their turns, the trial
//	living.go                  which processes live, as the group shows
//	order.go                   Handle, and the orders of the crew by their names
//	trouble.go, explain.go     status: errors of fetches and of the group; what they mean
//	supervise.go, heal.go      what polling does not tell; topics made anew are found again
//	unread.go                  topics of the group that nobody reads any more
//	record.go, status.go       one record by its position; Status, how the reader is doing
//
// # Glossary
//
//	member      the client that joined the group: it commits, the other fetchers only fetch
//	assignment  a partition that is ours from one rebalance to another: a *partition
//	ledger      what is settled of an assignment, and what may be committed (internal/ledger)
//	roster      what waits and runs of it (internal/crew)
//	ticket      a message's way back, which settles it (internal/task)
//	revoked     given up in good order: calls end, what is settled is committed
//	lost        gone without notice: nothing more is committed
//	cut         the log became shorter, and other records take the offsets
//	suspect     a record that ran when the process died again and again
//	aside       where a suspect waits for its turn
//	token       held by the one suspect of a process that runs, or is on trial (internal/solo)
//	trial       what a suspect that the process died of goes through before it runs again
//	probation   how long a process must have lived, with no suspect running, before a trial ends
//	row         how many records were condemned since a suspect came to its end, in all partitions
//	mark        what a commit says of deaths, beside its offset
//
// # Locks
//
// Taken in this order; most code needs one of them:
//
//	gate             what changes who reads what runs alone (gate.change), polls share (gate.poll)
//	load.taking      who looks how much room there is, and takes it
//	assignments.mu   which partitions are ours
//	partition.mu     its ledger, backlog, suspects, and its roster: the feed's lock of the crew
//	Crew.mu          and the lock of the suspects' token: for moments, nothing is taken under them
//
// Who waits for room holds load.turn, outside of the gate, and takes them from load.taking on. The
// locks of status, healer, fetcher, fetchSize and latecomers are for moments: none of the table is
// taken under them. committer.turn, a place for one, is never waited for by who holds one of these;
// who has it takes assignments.mu and partition.mu. A method whose name ends in Locked, or whose
// comment says so, is for who holds the lock.
package streams
