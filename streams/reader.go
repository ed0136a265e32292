package streams

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell/internal/crew"
)

// Reader reads one stream.
type Reader struct {
	*common
	begin     startAt
	gate      *gate
	parts     *assignments
	load      *load
	tenure    tenure // who has load.taking has it
	status    *status
	commits   *committer
	records   recordPool
	fetchSize *fetchSize
	crew      *crew.Crew
	heal      *healer
	started   atomic.Bool

	// set by Run
	fetchers  []*fetcher
	client    *kgo.Client // of the first: the group's member
	endMember context.CancelFunc
	purges    sync.WaitGroup // of clients; they end when these are closed
}

// common is what all parts of a reader know.
type common struct {
	cfg  Config
	log  *slog.Logger    // names the stream
	life context.Context // set by Run; ends when everything else has
}

// New checks the configuration. It does not dial.
func New(cfg Config, handle Handle) (*Reader, error) {
	if handle == nil {
		return nil, errors.New("streams: no handle")
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", cfg.Stream, err)
	}
	begin, err := parseStart(cfg.Start)
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", cfg.Stream, err)
	}
	r := &Reader{
		common: &common{cfg: cfg, log: cfg.Logger.With("stream", cfg.Stream)},
		begin:  begin, gate: newGate(), load: newLoad(cfg.Window), heal: newHealer(), status: newStatus(cfg),
		crew: crew.New(crew.Config{
			Handle: handle, Size: cfg.Calls.Concurrency, Seats: cfg.Calls.Seats, Ended: cfg.Calls.Ended, Held: cfg.Calls.Held,
		}),
	}
	r.tenure.step = int64(cfg.Window.Bytes / 8)
	r.fetchSize = newFetchSize(cfg.Window.Bytes, cfg.Window.Messages, r.updateFetches)
	r.commits = newCommitter(r)
	r.parts = newAssignments(&shared{
		common: r.common, crew: r.crew, load: r.load, seed: maphash.MakeSeed(),
		hurry: r.commits.hurry, living: r.Living, condemned: func() int { return r.parts.condemnedInARow() },
	})
	if err := CheckOptions(cfg.Setting, cfg.Kafka.Extra()); err != nil {
		return nil, fmt.Errorf("stream %s: kafka options: %w", cfg.Stream, err)
	}
	if err := kgo.ValidateOpts(r.options(context.Background())...); err != nil {
		return nil, fmt.Errorf("stream %s: kafka options: %w", cfg.Stream, err)
	}
	return r, nil
}

// Pause stops the handing out of messages; a call that runs is not disturbed. The reader stays in
// its group.
func (r *Reader) Pause() {
	r.crew.Pause()
	for _, p := range r.parts.all() {
		p.mu.Lock()
		p.suspects.standBack()
		p.mu.Unlock()
	}
}

// Resume ends a pause.
func (r *Reader) Resume() {
	r.crew.Resume()
	for _, p := range r.parts.all() {
		p.roster.Offer()
	}
}
