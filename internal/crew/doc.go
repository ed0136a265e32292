// Package crew says who runs what: the calls of one handler for messages of many feeds, such as the
// partitions of a stream. It knows nothing of Kafka: offsets are numbers that grow, and a message
// is settled by its [Feed].
//
// # The way of a message
//
//	Roster.Offer       the feed has something: a worker is woken, or started
//	worker.serve       a worker with a place and a seat asks the roster for work
//	Roster.handOut     Feed.Take fills the schedule; the worker gets a message, or a stretch
//	worker.runStretch  fast handlers: up to 64 calls in a row, one atomic operation each
//	worker.runLone     slow ones: a call by itself, and then the next message of its key
//	worker.gather      a stretch for who calls many messages together
//	Feed.Done          how calls ended, for all of a stretch at once
//
// What a stretch has done is known to the feed when the stretch ends, when its rest is taken away
// from its worker because a call takes long, and whenever the feed asks ([Roster.Flush]). What is
// gathered takes no time: nobody asks how far it is, nor takes its rest away.
//
// # Map
//
//	feed.go      what a feed is asked for; what it may say of suspects
//	roster.go    a feed as the crew sees it: what waits, what runs, and its halt
//	handout.go   what a worker takes from a roster, and how it tells what came of it
//	schedule.go  which message may run next, by keys: pure
//	pace.go      whether calls are fast enough for stretches: pure
//	stretch.go   the messages that one worker handles in a row, and how far it is
//	crew.go      the workers, and which roster is next
//	worker.go    a goroutine that serves one roster after another
//	watch.go     takes the rest of a stretch away from a worker whose call takes long
//	rest.go      a call that sleeps before it tries again, and lets others pass meanwhile
//	places.go    who has a lane, and who waits for one after a rest
//	pause.go     nothing is handed out for a while
//	goexit.go    a handler that ends its goroutine
//
// # Glossary
//
//	feed     where messages come from: the assignment of a partition
//	roster   what the crew knows of one feed
//	worker   a goroutine that calls the handler
//	place    a worker with a place may call; there are as many as calls may run at once
//	lane     the number of a place: no two calls have the same at once
//	seat     leave to call, shared with others who call the same handler: retries
//	stretch  messages that a worker handles one after another
//	rest     a call sleeps before it tries again: no place, no seat, and only its key waits
//	aside    where the feed keeps a suspect until its turn: its key stays busy
//
// # Locks
//
// A feed's lock comes before Crew.mu and before the locks of the feed's own that its methods take;
// nobody who holds Crew.mu takes another lock. The locks of seats and of the pause are held for
// moments, and nothing is taken under them. A worker holds no lock while it calls a handler.
package crew
