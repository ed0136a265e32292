// Package ledger keeps the books of one partition: which of its records are settled, and so what
// may be committed. It decides and remembers; it has no lock, no clock, no goroutine and no client.
// Whoever owns a value of it calls it under a lock of its own.
//
// A partition as the ledger sees it (s: settled, o: open, that is not settled, .: not read yet):
//
//	offset     40  41  42  43  44  45  46  47  48  49
//	            s   s   o   s   s   o   s   .   .   .
//	                    |                       |
//	                    |<------ window ----->| first offset that was not read
//	                    |
//	                    next commit: 42, for 42 itself is open
//	                    its metadata: beyond it 43 to 44 and 46 are settled, and the mark
//
// A commit says where the next owner begins, which is the first open record, never beyond it: what
// is settled behind that gap travels as text in the commit's metadata, as far as it fits, so that
// the next owner does not run it again. If the text is lost, records repeat; none is passed over.
//
// The same text has a number, by which the log is told from others that had the same positions, for
// those who remember positions. All owners of one log have the same.
//
// It has a mark, too, by which the next owner sees how this one ended. An owner whose last
// commit has no farewell died, and after some deaths the guard suspects the records that were out.
//
// One assignment has one [Ledger]. It is told where the partition begins (Restore, Begin), what is
// read (Identify, Add), handed out (HandOut) and settled (Settle, Pend), and says what to commit
// (Checkpoint, then Stored). Inside are the window, which knows what is settled; what was inherited
// from the commit; the calls that are not over; and the [Guard], which is asked before records are
// handed out.
//
// Glossary:
//
//	settled    done, or safe in a queue of RabbitMQ: its offset may be passed by a commit
//	open       read and not settled
//	position   an offset with the leader epoch of the record before it, as a commit has them
//	window     the records from the first open one to the last that was read
//	span       a run of settled offsets behind an open one
//	metadata   the text that Kafka keeps beside a commit; at most 4096 bytes, unless set otherwise
//	log        one run of a partition's positions; after a cut, or a rewind, it is another
//	mark       what the metadata says of the owner, and of owners before it that died
//	guard      the rules by which a record that ends the process is found and condemned
//	suspect    a record that was handed out when an owner died
//	accused    the suspect that was announced, and ran or was about to, when an owner died
//	pending    its call is over, and it is settled later, by a ticket
//	inherited  what the commit says from which an assignment begins
//	front      the first open record and since when it is that, for whoever asks what waits
package ledger
