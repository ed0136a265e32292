package streams

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell/internal/crew"
)

// Reader reads one stream. It is made of parts, of which each has its own state, and of what
// several of them use.
type Reader struct {
	*common
	gate   *gate
	load   *load
	status *status
	heal   *healer
	crew   *crew.Crew

	parts      *assignments
	clients    *clients
	commits    *committer
	rebalances *rebalancer
	starts     *starter
	intake     *intake
	watch      *supervisor

	started atomic.Bool
}

// common is what all parts of a reader know.
type common struct {
	cfg  Config
	log  *slog.Logger    // names the stream
	life context.Context // set by Run; ends when everything else has
}

// lost counts records that Kafka deleted before we read them.
func (c *common) lost(tp topicPartition, from, n int64) {
	c.cfg.Telemetry.Lost(n)
	c.log.Error("records were deleted by Kafka before they were read: the topic's retention is too short for this lag",
		"topic", tp.topic, "partition", tp.partition, "from_offset", from, "records", n)
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
		gate:   newGate(), load: newLoad(cfg.Window), status: newStatus(cfg), heal: newHealer(),
		crew: crew.New(crew.Config{
			Handle: handle, Gather: cfg.Calls.Gather, Size: cfg.Calls.Concurrency, Seats: cfg.Calls.Seats, Ended: cfg.Calls.Ended, Held: cfg.Calls.Held,
		}),
	}
	r.build(begin)
	if err := CheckOptions(cfg.Setting, cfg.Kafka.Extra()); err != nil {
		return nil, fmt.Errorf("stream %s: kafka options: %w", cfg.Stream, err)
	}
	if err := kgo.ValidateOpts(r.options(context.Background())...); err != nil {
		return nil, fmt.Errorf("stream %s: kafka options: %w", cfg.Stream, err)
	}
	return r, nil
}

// build makes the parts, each of those before it, and then tells partitions whom to ask.
func (r *Reader) build(begin startAt) {
	late := newLatecomers()
	s := &shared{common: r.common, crew: r.crew, load: r.load, seed: maphash.MakeSeed()}
	r.parts = newAssignments(s)
	r.clients = newClients(r.common, r.gate, r.parts, r.heal)
	r.commits = newCommitter(r.common, r.parts, r.clients, r.status, r.heal)
	r.rebalances = &rebalancer{r.common, r.gate, r.parts, r.clients, r.commits, r.status}
	r.starts = &starter{r.common, begin, r.gate, r.parts, r.clients, r.commits, r.status, r.heal, late}
	r.intake = newIntake(s, r.gate, r.parts, r.status, r.heal)
	r.watch = &supervisor{
		common: r.common, parts: r.parts, clients: r.clients, rebalances: r.rebalances, status: r.status, heal: r.heal, late: late,
		paused: r.crew.Paused, unread: newUnread(),
	}
	s.hurry, s.living, s.condemned, s.endRow = r.commits.hurry, r.watch.living, r.parts.condemnedInARow, r.parts.endRow
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
