package outcomes

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stepwell/stepwell/internal/failpoint"
	"github.com/stepwell/stepwell/internal/records"
)

const (
	// recordKind is that of the records; their names are the operation's and the process's.
	recordKind = "stepwell.outcome"
	// keepFor is how long a record is kept after its last change.
	keepFor = 7 * 24 * time.Hour
	// tellEvery is how often what was counted is written.
	tellEvery = time.Second
	// lastTime is how long the last writing may take.
	lastTime = time.Second
	// maxPages is of how many operations a process counts at a time; beyond it the one that was
	// told of longest ago is forgotten. What it has written stays.
	maxPages = 200
)

// Log is where processes find what others wrote: a [records.Store].
type Log interface {
	Change(ctx context.Context, kind, name string, change func(records.Record) (records.Record, error)) error
	All(kind string) ([]records.Record, error)
}

// errAlone says that what a process tells of messages is what it handled itself.
var errAlone = errors.New("what other processes handled is not known: processes share nothing")

// Book counts for one process. Its methods may be called from any goroutine.
type Book struct {
	log     Log // nil: nothing is shared
	process string
	logger  *slog.Logger
	// news is readable when there is something to write.
	news chan struct{}

	mu    sync.Mutex
	pages []*page // in the order in which they were told of last
	// forgotten is how many pages had to make room for others.
	forgotten int
}

// page is what this process tells of an operation.
type page struct {
	operation string
	// name is that of its record. One that is begun anew, after it was forgotten, has another: what
	// was told before stays.
	name    string
	tally   Tally
	changed bool // since it was written
}

// New makes a book. process names this one among all that ever were, so that none overwrites what
// another told. A nil log: what is counted is known here alone.
func New(log Log, process string, logger *slog.Logger) *Book {
	return &Book{log: log, process: process, logger: cmp.Or(logger, slog.Default()), news: make(chan struct{}, 1)}
}

// Tell counts an event. It does not wait.
func (b *Book) Tell(e Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.pages, func(p *page) bool { return p.operation == e.Operation })
	var p *page
	switch last := len(b.pages) - 1; {
	case i < 0:
		if len(b.pages) == maxPages {
			b.pages = slices.Delete(b.pages, 0, 1)
			b.forgotten++
		}
		p = &page{operation: e.Operation, name: e.Operation + "/" + b.process}
		if b.forgotten > 0 {
			p.name += fmt.Sprint(".", b.forgotten)
		}
		b.pages = append(b.pages, p)
	case i < last:
		p = b.pages[i]
		b.pages = append(slices.Delete(b.pages, i, i+1), p)
	default:
		p = b.pages[i]
	}
	p.tally.count(e)
	p.changed = true
	b.nudge()
}

// nudge lets Run write.
func (b *Book) nudge() {
	select {
	case b.news <- struct{}{}:
	default: // it will
	}
}

// Run writes what was counted, at most once in tellEvery, and once more when ctx ends.
func (b *Book) Run(ctx context.Context) error {
	if b.log == nil {
		<-ctx.Done()
		return nil
	}
	for ctx.Err() == nil {
		select {
		case <-b.news:
			b.write(ctx)
			pause(ctx, tellEvery)
		case <-ctx.Done():
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTime)
	defer cancel()
	b.write(last)
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// write writes the pages that changed. One that cannot be written is so with the next: a page says
// all that was counted, and not what is new.
func (b *Book) write(ctx context.Context) {
	all := b.taken()
	if len(all) > 0 {
		failpoint.Hit("outcomes")
	}
	var refused []page
	defer func() { b.again(refused) }()
	for i, p := range all {
		value, err := json.Marshal(p.tally)
		if err == nil {
			err = b.log.Change(ctx, recordKind, p.name, func(r records.Record) (records.Record, error) {
				r.Value, r.Until = value, time.Now().Add(keepFor)
				return r, nil
			})
		}
		if err != nil {
			b.logger.Debug("what became of replayed messages is not told to other processes yet", "operation", p.operation, "error", err)
			if errors.Is(err, records.ErrRefused) { // of this one
				refused = append(refused, p)
				continue
			}
			b.again(all[i:])
			return
		}
	}
}

// taken are copies of the pages that are to be written.
func (b *Book) taken() (all []page) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.pages {
		if p.changed {
			p.changed = false
			one := *p
			one.tally.Canary = slices.Clone(p.tally.Canary)
			all = append(all, one)
		}
	}
	return all
}

// again has pages be written once more.
func (b *Book) again(all []page) {
	if len(all) == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.nudge()
	for _, p := range b.pages {
		p.changed = p.changed || slices.ContainsFunc(all, func(other page) bool { return other.operation == p.operation })
	}
}

// Of is what is known of the messages of operations: what this process has counted, and what others
// wrote, about a second later. An error says why that cannot be read: beside it all is this
// process's alone.
func (b *Book) Of(operations ...string) (map[string]Tally, error) {
	known, written := b.own(operations)
	if b.log == nil {
		return known, errAlone
	}
	all, err := b.log.All(recordKind)
	if err != nil {
		return known, fmt.Errorf("what other processes handled is not known: %w", err)
	}
	for _, r := range all {
		operation, _, _ := strings.Cut(r.Name, "/")
		if sum, asked := known[operation]; asked && !written[r.Name] {
			sum.add(read(r.Value))
			known[operation] = sum
		}
	}
	return known, nil
}

// own is what this process has counted of each, and the names of the records that say the same.
func (b *Book) own(operations []string) (known map[string]Tally, written map[string]bool) {
	known, written = make(map[string]Tally, len(operations)), map[string]bool{}
	for _, operation := range operations {
		known[operation] = Tally{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.pages {
		if _, asked := known[p.operation]; asked {
			own := p.tally
			own.Canary = slices.Clone(own.Canary)
			known[p.operation], written[p.name] = own, true
		}
	}
	return known, written
}

// read reads a record, which another version may have written.
func read(value json.RawMessage) (t Tally) {
	if json.Unmarshal(value, &t) != nil {
		return Tally{}
	}
	return t
}
