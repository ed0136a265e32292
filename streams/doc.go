// Package streams reads Kafka: one consumer group per stream, a ledger and a roster per partition.
// What is committed is always a settled prefix of a partition that is ours.
//
// # The way of a record
//
//	fetcher -> Reader.poll     as many records as the load has room for
//	  -> partition.append      into the ledger, which knows what is settled, and the queue
//	  -> roster.Offer          the crew (internal/crew) takes them from here: partition.Take
//	  -> Handle                the call, on a worker of the crew, with a ticket
//	  -> partition.Done        or Settle, later: into the ledger again
//	  -> committer             five times a second, and before a partition is given up
//
// # Map
//
//	reader.go, config.go       Reader, Pause; its settings
//	options.go, foreign.go     options of our clients; those of a user that must be left alone
//	run.go                     one Run: start, stop, the drain
//	fetcher.go, poll.go        clients that fetch, one of them the group's member; what they bring
//	gate.go                    polls, or a change of what is ours, never both
//	load.go, fetchsize.go      how much is in flight; how much a fetch is to bring
//	assign.go, joining.go      partitions come and go; which membership they belong to
//	start.go, cut.go           where a group begins; a log that was cut
//	partition.go               one assignment of a partition
//	feed.go, settle.go         what the crew takes from it and tells it; its tickets
//	message.go, recordpool.go  records as messages, without an allocation for each
//	tenure.go                  what waits for long gets memory of its own
//	oldest.go                  which record holds the window
//	commit.go                  commits, and those past the client while a group joins
//	suspects.go, trial.go      records that may kill the process: their turns, the trial
//	living.go                  which processes live, as the group shows
//	order.go                   Handle, and the orders of the crew by their names
//	trouble.go, explain.go     errors of fetches and of the group, and what they mean
//	supervise.go, heal.go      what polling does not tell; topics made anew are found again
//	record.go, status.go       one record by its position; how the reader is doing
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
//	mark        what a commit says of deaths, beside its offset
//
// # Locks
//
// Taken in this order; most code needs one of them:
//
//	gate             what changes who reads what runs alone (gate.change), polls share (gate.poll)
//	load.taking      who looks how much room there is, and takes it
//	Reader.mu        which partitions are ours
//	partition.mu     its ledger, queue, suspects, and its roster: the feed's lock of the crew
//	Crew.mu          and the lock of the suspects' token: for moments, nothing is taken under them
//
// committer.turn, a place for one, is never waited for by who holds one of these; who has it takes
// Reader.mu and partition.mu. A method whose name ends in Locked, or whose comment says so, is for
// who holds the lock.
package streams
