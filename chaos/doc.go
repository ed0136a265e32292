// Package chaos is the proof that nothing is lost: its tests run actors in processes of their own
// under load, kill them and all they stand on, and count every record at the end. docs/PROOF.md
// says what was run and what came out.
//
// A run has a load of records, faults, and a ledger of every call of the handler. When the faults
// are over and all work is done, the actors stop, the queues are emptied, and package ledger
// judges.
package chaos
