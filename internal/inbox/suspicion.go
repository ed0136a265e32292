package inbox

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/stepwell/stepwell/internal/queue"
)

// A message that kills the process comes back from the broker again and again. The rules are those
// of internal/ledger, with the message's own headers in place of a commit's metadata:
//
//  1. More than ten returns that the broker counted make a suspect. A message whose connection was
//     cut has returns, too, and so have all that waited in a process that died.
//  2. A suspect runs while it holds the process's token, and only once a copy of it was published
//     that says which process runs it. All other messages go on meanwhile.
//  3. A copy that is returned, and comes to another process than it names, tells of a death. A
//     stop, and the end of the time that a suspect may hold the token, are none: each publishes a
//     copy that names no process.
//  4. After a death the suspect runs again only in a process that has lived through the probation
//     with no suspect running. More than CRASH_LIMIT deaths condemn it; a death of a process that
//     the broker shows to live was none: its connection was cut.
//  5. A handler that ends its goroutine ends the process in order: its message becomes a suspect
//     with that death.
//  6. Two messages in a row are condemned by one process, and a third only after a suspect came to
//     its end: else it is not the messages. A process that dies takes its row with it: were it kept
//     in the copies, of three that kill, and no other suspect, the third would kill for ever.

const (
	// suspectAfter is how many returns make a suspect.
	suspectAfter = 10
	// hSuspect names the processes that died while the message ran, with commas between, and with
	// certain behind those that need not be looked for.
	hSuspect = "x-stepwell-suspect"
	// hAnnounced names the process that runs it, then + and how many others had the copy first;
	// empty: none.
	hAnnounced = "x-stepwell-suspect-by"
	certain    = "!"
)

// suspicion is what the headers of a delivery say.
type suspicion struct {
	suspect   bool
	died      []string // the processes that died while it ran
	announced string   // the process that runs it; empty: none
	hops      int      // how many other processes had the copy first
}

// suspicionOf reads the headers. What is not there, or is no number, counts as nothing: a message
// with strange headers runs.
func suspicionOf(d queue.Delivery) suspicion {
	died, suspect := d.Headers[hSuspect].(string)
	by, _ := d.Headers[hAnnounced].(string)
	if died == "" && by == "" { // as nearly all: what follows would make an error of the missing number
		return suspicion{suspect: suspect}
	}
	by, hops, _ := strings.Cut(by, "+")
	n, _ := strconv.Atoi(hops)
	return suspicion{suspect, strings.FieldsFunc(died, func(r rune) bool { return r == ',' }), by, n}
}

// by returns the suspicion for a copy that names the process which runs it; "" names none.
func (s suspicion) by(process string) suspicion { return suspicion{true, s.died, process, 0} }

// with returns the message with other suspicions.
func (s suspicion) with(m queue.Message) queue.Message {
	m.Headers = maps.Clone(m.Headers)
	m.Headers[hSuspect], m.Headers[hAnnounced] = strings.Join(s.died, ","), s.announced
	if s.hops > 0 {
		m.Headers[hAnnounced] = fmt.Sprintf("%s+%d", s.announced, s.hops)
	}
	return m
}

// bereaved adds the process that ran the message to those that died; at most most of them, the
// newest, are kept.
func (s suspicion) bereaved(most int) suspicion {
	died := append(slices.Clone(s.died), s.announced)
	return suspicion{true, died[max(0, len(died)-most):], "", 0}
}

// nameOf is a process in headers.
func nameOf(process uint32) string { return fmt.Sprintf("%08x", process) }

// isName says that the text is the name of a process that may live; a header may have any.
func isName(text string) bool {
	process, err := strconv.ParseUint(text, 16, 32)
	return err == nil && text == nameOf(uint32(process))
}

// treatment is what is done with a delivery.
type treatment int

const (
	asAny    treatment = iota + 1 // it is as any other
	mark                          // publish it as a suspect: the counts begin anew
	announce                      // publish a copy that says that it runs
	runAlone                      // it is that copy
)

// treat decides what is done with a delivery by the process of that name.
func (s suspicion) treat(d queue.Delivery, process string, limit int) (treatment, suspicion) {
	switch {
	case limit == 0 && (!d.Redelivered || d.Returns <= suspectAfter):
		return asAny, s
	// Nothing is suspected. The copy only makes the broker count anew: a queue that others made may
	// drop a message after twenty returns.
	case limit == 0:
		return mark, s
	case !s.suspect && d.Redelivered && d.Returns > suspectAfter:
		return mark, s
	case !s.suspect:
		return asAny, s
	case s.announced == "":
		return announce, s
	case !d.Redelivered || s.announced == process:
		return runAlone, s
	}
	return announce, s.bereaved(limit + 1)
}
