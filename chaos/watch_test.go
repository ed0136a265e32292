package chaos

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/stepwell/stepwell/chaos/ledger"
)

// lookEvery is how often the commits are held against the ledger.
const lookEvery = 50 * time.Millisecond

// watch reads the ledger and the commits while the scenario runs.
type watch struct {
	r      *run
	reader *ledger.Reader
	stop   context.CancelFunc
	ended  chan struct{}

	mu      sync.Mutex
	book    *ledger.Book
	entries []ledger.Entry
	commits map[int32]int64
	err     error
}

func (r *run) startWatch() *watch {
	reader, err := ledger.Open(r.ledger)
	r.check(err)
	ctx, cancel := context.WithCancel(context.Background())
	w := &watch{
		r: r, reader: reader, stop: cancel, ended: make(chan struct{}),
		book: ledger.NewBook(ledger.Rules{Tries: 1 + retries, InOrder: r.env["RETRY_IN_PLACE"] == "all"}), commits: map[int32]int64{},
	}
	go func() {
		defer close(w.ended)
		w.run(ctx)
	}()
	r.t.Cleanup(func() {
		w.close()
		_ = reader.Close() // it was only read
	})
	return w
}

func (w *watch) close() {
	w.stop()
	<-w.ended
}

func (w *watch) run(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		w.look(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// look reads the commits first: what they are about is then in the ledger.
func (w *watch) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	commits, err := kadm.NewClient(w.r.client).FetchOffsets(ctx, w.r.app+".orders")
	if err != nil {
		commits = nil // Kafka is away
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.read()
	commits.Each(func(o kadm.OffsetResponse) {
		if o.Topic == w.r.topic && o.Err == nil {
			w.book.Committed(o.Partition, w.commits[o.Partition], o.At)
			w.commits[o.Partition] = o.At
		}
	})
}

func (w *watch) read() {
	entries, err := w.reader.Next()
	if err != nil {
		w.err = err
	}
	for _, e := range entries {
		w.book.Note(e)
	}
	w.entries = append(w.entries, entries...)
}

func (w *watch) produced(p ledger.Position, r ledger.Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.book.Produced(p, r)
}

// remove notes what somebody took away.
func (w *watch) remove(all ...ledger.Position) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range all {
		w.book.Remove(p)
	}
}

// doom notes a record that must end in the dead set.
func (w *watch) doom(p ledger.Position, reason string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.book.Doom(p, reason)
}

// which are the records of the entries for which it is true, each once.
func (w *watch) which(is func(ledger.Entry) bool) (all []ledger.Position) {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := map[ledger.Position]bool{}
	for _, e := range w.entries {
		if !seen[e.Position] && is(e) {
			seen[e.Position] = true
			all = append(all, e.Position)
		}
	}
	return all
}

// length is how many entries there are.
func (w *watch) length() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.entries)
}

// clock is how far ahead the clock of a process was when it wrote last.
func (w *watch) clock(pid int) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := len(w.entries) - 1; i >= 0; i-- {
		if w.entries[i].Process == pid {
			return time.Until(w.entries[i].Time)
		}
	}
	return 0
}

// running is how long the process has been in the longest first try that has not ended.
func (w *watch) running(pid int) (longest time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	began := map[ledger.Position]time.Time{}
	for _, e := range w.entries {
		switch {
		case e.Process != pid || e.Attempt > 1:
		case e.Kind == ledger.Began:
			began[e.Position] = e.Time
		default:
			delete(began, e.Position)
		}
	}
	for _, at := range began {
		longest = max(longest, time.Since(at))
	}
	return longest
}

// stillest is the longest time that passed between two entries of one process, of those after the
// first entries, from its own first try on: before, it may have retries, and waits for the group to
// give up the member that died.
func (w *watch) stillest(from int) (longest time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := map[int]time.Time{}
	for _, e := range w.entries[from:] {
		at, joined := last[e.Process]
		if joined {
			longest = max(longest, e.Time.Sub(at))
		}
		if joined || e.Attempt == 1 && !e.Channel && e.Replays == 0 {
			last[e.Process] = e.Time
		}
	}
	return longest
}

// cancelled is how many calls ended with their context.
func (w *watch) cancelled() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.book.Cancelled
}

// done is how many records are done, and rest dead.
func (w *watch) done() (done, dead int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.book.Done()
}

// progress tells whether nothing is left to do, and how much was done.
func (w *watch) progress() (over bool, calls int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.book.Over(), w.book.Calls
}

// committed tells whether everything up to these ends is committed.
func (w *watch) committed(ends map[int32]int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for partition, end := range ends {
		if w.commits[partition] != end {
			return false
		}
	}
	return true
}

// commitsNow are the commits that were seen last.
func (w *watch) commitsNow() map[int32]int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.commits)
}

// beyond tells whether all commits are beyond the offsets.
func (w *watch) beyond(all map[int32]kadm.Offset) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for partition, o := range all {
		if w.commits[partition] <= o.At {
			return false
		}
	}
	return true
}

// judge ends the watch.
func (w *watch) judge(end ledger.End) (ledger.Report, []ledger.Entry) {
	w.r.t.Helper()
	w.close()
	w.look(context.Background())
	w.r.check(w.err)
	end.Committed = w.commits
	return w.book.Judge(end, w.entries), w.entries
}
