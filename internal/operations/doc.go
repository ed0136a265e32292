// Package operations replays and deletes dead messages that somebody has chosen, slowly and for as
// long as it takes, while others look on, hold it back, or end it.
//
// An operation is two values: the [Request], which never changes, and its [State]. A [Store] keeps
// them, the [Runner] acts on them: in turns of two seconds at most, between which the dead set is
// free for those who look. It knows nothing but counts from one turn to the next: what is done is
// no longer there, and what is left is found by a look at the messages. So an operation that is cut
// off has lost nothing, and who goes on with it does what was left.
//
// Whoever wishes for something writes it into the store, and whoever runs the operation reads it
// there:
//
//	queued -- begins --> running -- a wish, or a doubt --> paused -- resumed --> queued
//	                        `------ nothing more to do, a wish, an error --> done, cancelled, …
//
// A wish that concerns an operation that does not run is a change of its state, by whoever is
// asked; what runs is told what is wanted ([State].Wanted), and alone leaves the state running.
//
// # Map
//
//	words.go, rate.go              what is asked for, and how it is going; how fast
//	runner.go                      Runner: who is asked, and what it runs when it leads
//	election.go                    which process leads
//	run.go                         one operation begins here, and leaves
//	live.go                        its turns: how many, act, wait
//	count.go                       how many match, and what a look that is not as expected means
//	guard.go, fate.go              what holds a replay back; what became of what was replayed
//	ahead.go                       room among those that wait to be handled
//	undo.go                        why nothing is there for an undo
//	wishes.go                      pause, go on, cancel, another rate
//	saving.go                      what a run tells the store
//	store.go, shared.go            Store, and one that ends with the process; one in the records
//	either.go                      the records, or this process alone where there are none
//	note.go                        what was done at once, written down like an operation
//
// # Glossary
//
//	term      which leadership it is; what one of an earlier term writes does not count
//	wish      what somebody wants of an operation that runs: State.Wanted
//	turn      two seconds of work at most, between which the dead set is free for others
//	cut off   said of a turn of which nobody knows what it did: what is there is counted anew
//	expected  how many may match, as the person was told who asked: no more are touched
//	canary    the first few of a replay, whose fate decides whether it goes on
//	fate      what becomes of a message once it is replayed: internal/outcomes
//
// # Locks
//
// Runner.mu guards the operations that run here, Election.mu what is known of a refusal, those of
// the stores their content. Each is for moments, and none is taken under another.
package operations
