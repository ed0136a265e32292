package ledger

import (
	"fmt"
	"time"
)

// Summary is a run in numbers, as it is kept in a file of results: one of these in JSON on each
// line.
type Summary struct {
	Scenario, RabbitMQ string
	// Records were produced, and handled in so many Calls. Lost is what nobody can account for,
	// Removed what an operator took or may have.
	Records, Calls, Lost, Removed int
	// Repeats are tries that were made again, Copies messages in a queue that were done, or there
	// twice; Resting are those that ended in the dead set.
	Repeats, Copies, Resting int
	// Kills is how many actors ended with SIGKILL.
	Kills int
	// Wrong is how much else was not as it should be.
	Wrong int
	// Fault is how long the faults took, Recovery how long afterwards a first try and a retry had
	// both succeeded.
	Fault, Recovery time.Duration
}

// String has what a person reads first, and what is wrong.
func (s Summary) String() string {
	return fmt.Sprintf("%s on RabbitMQ %s: %d records, %d calls, %d lost, %d removed by an operator, %d tries repeated, %d copies in queues, "+
		"%d rest in the dead set, %d actors killed, %d wrong; faults took %s, all worked again after %s",
		s.Scenario, s.RabbitMQ, s.Records, s.Calls, s.Lost, s.Removed, s.Repeats, s.Copies,
		s.Resting, s.Kills, s.Wrong, s.Fault.Round(time.Millisecond), s.Recovery.Round(time.Millisecond))
}

// Recovery is how long it took after the faults until a first try and a retry had succeeded.
func Recovery(entries []Entry, healed time.Time) time.Duration {
	var first, retry time.Duration
	for _, e := range entries {
		since := e.Time.Sub(healed)
		if since < 0 || e.Kind != Done {
			continue
		}
		if e.Attempt == 1 && first == 0 {
			first = since
		}
		if e.Attempt > 1 && retry == 0 {
			retry = since
		}
	}
	return max(first, retry)
}
