package streams

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell/internal/crew"
)

// Reader reads one stream.
type Reader struct {
	cfg       Config
	begin     startAt
	log       *slog.Logger
	count     Counter
	gate      *gate
	load      *load
	tenure    tenure // who has load.taking has it
	status    *status
	commits   *committer
	records   recordPool
	fetchSize *fetchSize
	crew      *crew.Crew
	seed      maphash.Seed

	// set by Run
	fetchers  []*fetcher
	client    *kgo.Client // of the first: the group's member
	endMember context.CancelFunc
	life      context.Context // ends when everything else has
	heal      *healer
	purges    sync.WaitGroup // of clients; they end when these are closed

	workers sync.WaitGroup
	mu      sync.Mutex
	owned   map[topicPartition]*partition
	given   int                           // how many partitions the group has given us
	ending  map[topicPartition]*partition // given up while calls of them ran
	closing bool
	started bool
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
		cfg: cfg, begin: begin, log: cfg.Logger, count: cfg.Telemetry,
		gate: newGate(), load: newLoad(cfg.Window), seed: maphash.MakeSeed(),
		owned: map[topicPartition]*partition{}, ending: map[topicPartition]*partition{}, heal: newHealer(),
	}
	r.tenure.step = int64(cfg.Window.Bytes / 8)
	r.status = newStatus(cfg)
	r.fetchSize = newFetchSize(cfg.Window.Bytes, cfg.Window.Messages, r.updateFetches)
	r.commits = newCommitter(r)
	r.crew = crew.New(crew.Config{Handle: handle, Size: cfg.Calls.Concurrency, Seats: cfg.Calls.Seats, Ended: cfg.Calls.Ended, Held: cfg.Calls.Held})
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
	for _, p := range r.all() {
		p.mu.Lock()
		p.suspects.standBack()
		p.mu.Unlock()
	}
}

// Resume ends a pause.
func (r *Reader) Resume() {
	r.crew.Resume()
	for _, p := range r.all() {
		p.roster.Offer()
	}
}
