// Package deadset looks into a stream's dead set, and replays, deletes or edits what rests there:
// by count, oldest first, or what somebody chose. What is deleted may go into a trash, and come
// back from there. What does not fit one look is sorted into pages: see pages.go.
//
// A walk holds the queue's lease from its first look to the moment at which the queue shows what it
// must, so that what one person sees is what the next command acts on. A peek answers before that
// moment, and gives back what it held in the background. A message is published and confirmed
// before it is removed: a crash at any point leaves it where it was, or in both places, never in
// none.
//
// # The way of a walk
//
//	by count      Set.Replay, Set.Delete: an errand, and Set.walk
//	what matches  Choice.Replay, Choice.Delete, Restoration.Restore, Trash.Edit: Choice.turn
//	pages         Pages.Sort, Pages.Back
//
//	errand.lease    the right to walk
//	errand.parts    which queues the dead set is now, and how deep each is
//	Set.step        one window of one part, whose messages the errand takes, leaves, or stops at
//	course.run      each that it takes: errand.act publishes it; confirmed, it is acked
//
// A walk by count begins with the oldest part, and goes on until the errand has what it wants. A
// turn goes through all parts, since what matches may lie anywhere. A look (Set.look) acts on
// nothing and gives all back.
//
// # Map
//
//	set.go                     Config, Set, and what is done by count
//	selection.go               what was chosen: samples, replays and deletes of it, in passes
//	errand.go, walk.go         what a walk is for; the walk
//	move.go, mark.go           a message between two queues, and how it is known
//	look.go, lease.go          looks; the lease, which whoever walks has
//	survey.go, listing.go      what looks answer: lists, one message, of how much
//	groups.go, peek.go         causes; the oldest messages
//	export.go                  messages whole, a part at a time
//	found.go, view.go          a message as a look found it, and as a person sees it
//	pointer.go                 values that are only in Kafka
//	recent.go, index.go        what a look of this second saw; what is known of pages
//	pages.go, runs.go          which queues a dead set is; how numbers of pages go round
//	sort.go, fill.go           sorting into pages and back; filling the last page
//	trash.go, restore.go       deleting into the trash, and back
//	edit.go                    a copy with another value, and the message into the trash
//
// # Glossary
//
//	walk        one way through the oldest messages, under the lease
//	lease       the right to walk, of one process at a time: an exclusive queue of the broker
//	window      the messages that are held at once, of one part: at most queue.WindowSize
//	part        one queue of a dead set: a page, or the one where the dead arrive
//	arrivals    that last one
//	errand      what a walk is for: which messages it takes, and what becomes of them
//	held        a message that a window has handed out
//	found       what is known of a message, also after it was given back
//	print       a hash of all that a message is, by which it is known again
//	place       a number that grows with each move: a message that comes back has another
//	turn        as much of an operation as is done under one lease; there may be another
//	left out    matches what was chosen, and stays: by its crash loop, or its mark, say
//
// # Locks
//
// Set, recent, index, pages, passes and trashes have a lock each, and guard nothing but their own
// fields: nothing else is taken under them, and no broker is asked. What keeps two walks apart, in
// one process or in two, is the lease alone.
package deadset
