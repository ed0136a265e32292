package chaos

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stepwell/stepwell/chaos/ledger"
)

// summary is a run in numbers.
type summary struct {
	Scenario, RabbitMQ                                             string
	Records, Calls, Lost, Removed, Repeats, Copies, Resting, Wrong int
	Fault, Recovery                                                time.Duration
}

func (s summary) String() string {
	return fmt.Sprintf("%s on RabbitMQ %s: %d records, %d calls, %d lost, %d removed by an operator, %d tries repeated, %d copies in queues, %d rest in the dead set, %d wrong; faults took %s, all worked again after %s",
		s.Scenario, s.RabbitMQ, s.Records, s.Calls, s.Lost, s.Removed, s.Repeats, s.Copies, s.Resting, s.Wrong, s.Fault.Round(time.Millisecond), s.Recovery.Round(time.Millisecond))
}

// keep appends the summary to the file of results, where one is named.
func (s summary) keep(t *testing.T) {
	path := os.Getenv(resultsVariable)
	if path == "" {
		return
	}
	line, err := json.Marshal(s)
	if err == nil {
		var file *os.File
		if file, err = os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600); err == nil {
			_, err = file.Write(append(line, '\n'))
			_ = file.Close() // the write has told
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// recovery is how long it took after the faults until a first try and a retry had succeeded.
func recovery(entries []ledger.Entry, healed time.Time) time.Duration {
	var first, retry time.Duration
	for _, e := range entries {
		since := e.Time.Sub(healed)
		if since < 0 || e.Kind != ledger.Done {
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
