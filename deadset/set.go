package deadset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/queue"
)

// Config says which dead set.
type Config struct {
	App, Stream string
	// Queue is the dead set, Instant the queue that takes what is replayed.
	Queue, Instant string
	Broker         queue.Broker
	// Pages is how many pages a sort may make; see [Set.Pages]. Those that are there are walked in
	// any case. TrashPages is how many pages of its trash may have messages; see [Set.Trash].
	Pages, TrashPages int
	// KeepPages: pages that are empty are never deleted, since nobody here may make them again.
	KeepPages bool
	// MaxEdited is how large an edited copy may be, in bytes, so that its failures find room: it is
	// in no log. 0: as large as the broker takes.
	MaxEdited int
	// WalkBytes bounds the memory that a walk keeps; 0: 64 MiB.
	WalkBytes int
	// Index bounds what is remembered of pages, so that looks need not read all of them again; nil:
	// nothing is.
	Index *Index
	// Source has the values that were too large for the dead set, so that a peek shows them. Nil:
	// it does not.
	Source Source
	// Setting is how users call a setting, by its key, say "rabbitmq.max_message_size". Nil: by
	// that.
	Setting func(key string) string
	// Logger is told what goes wrong after a peek has answered. Nil: slog's default.
	Logger *slog.Logger
}

// Result is what a replay or a delete did.
type Result struct {
	// Requested is the count that was asked for, Done how many messages it was done to: only those
	// count that are seen to be gone. Left is how many of those that were there at the start are
	// there still: what died since is not counted. [Unknown] where the walk never began. LeftOut is
	// how many of the oldest a replay passed over because they killed the process, TooLarge how
	// many because they are larger than what may be published: they stay.
	Requested, Done, Left, LeftOut, TooLarge int
	// Stopped says why it stopped half way; empty: it did not.
	Stopped string
}

// Unknown is a number of messages that nobody knows.
const Unknown = -1

const defaultBytes = 64 << 20

// ErrRefused is what each walk of a Set ends with once messages came back so often that the queue
// might drop them, and the broker does not take them anew. Only the queue remembers that: another
// Set, of a process that starts, finds it out by a walk that brings each message back twice.
var ErrRefused = errors.New("the dead set is handed out no more: messages came back so often that the queue might drop them, and they cannot be " +
	"published anew, since they are larger than may be published")

// Set is the dead set of one stream.
type Set struct {
	cfg       Config
	publisher queue.Publisher

	// peeking has a token while nobody peeks: who peeks takes it.
	peeking chan struct{}
	// closed: no peek begins any more; see Close.
	closed atomic.Bool

	// trashes are those that somebody has asked for.
	trashes trashes
	// values reads from Kafka what was too large for the dead set; recent keeps for a second what a
	// look saw; index remembers what is in pages; pages knows which there are, passes how far an
	// operation has come. Each has its own lock or none.
	values values
	recent recent
	index  index
	pages  *pages
	passes passes

	// mu guards the fields below.
	mu sync.Mutex
	// refused: no walk begins; see ErrRefused.
	refused bool
	// back is closed when the last peek has given back what it held.
	back chan struct{}
}

// New makes a Set. It connects nowhere. Call Close when it has peeked.
func New(cfg Config) *Set {
	cfg.WalkBytes = cmp.Or(cfg.WalkBytes, defaultBytes)
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	if cfg.Setting == nil {
		cfg.Setting = func(key string) string { return key }
	}
	return newSet(cfg, cfg.Broker.Publisher(cfg.App+"."+cfg.Stream+" replay"), newPages(&cfg, 0))
}

// newSet makes a Set of these pages.
func newSet(cfg Config, to queue.Publisher, of *pages) *Set {
	s := &Set{
		cfg: cfg, publisher: to, pages: of, values: values{cfg.Source, cfg.WalkBytes}, index: index{room: cfg.Index, pages: map[string]leaf{}},
		peeking: make(chan struct{}, 1), back: make(chan struct{}), trashes: trashes{of: map[time.Duration]*Set{}},
	}
	s.peeking <- struct{}{}
	// Nothing is held yet.
	close(s.back)
	return s
}

// refusal is ErrRefused, with what can be done.
func refusal(cfg Config) error {
	return fmt.Errorf("%w: raise %s, unless RabbitMQ's frames allow no more, and start again", ErrRefused, cfg.Setting("rabbitmq.max_message_size"))
}

// Replay gives the count oldest messages but those that killed the process a full new budget: each
// is published to the instant queue, and removed here when that is confirmed. The result is true
// also beside an error. The error is queue.ErrLeased when another walk is still under way after two
// seconds, queue.ErrUnavailable where the broker cannot be reached or confirms nothing for ten
// seconds, and ErrRefused.
func (s *Set) Replay(ctx context.Context, count int) (Result, error) {
	return s.replay(ctx, count, harmless)
}

// ReplayAll is Replay for the count oldest messages, also those that killed the process.
func (s *Set) ReplayAll(ctx context.Context, count int) (Result, error) {
	return s.replay(ctx, count, nil)
}

func (s *Set) replay(ctx context.Context, count int, which func(*held) bool) (Result, error) {
	r, err := s.walk(ctx, errand{most: count, which: which, act: func(ctx context.Context, h *held, done func(error)) {
		s.publisher.Publish(ctx, s.cfg.Instant, replayed(h, envelope.Mark{}), done)
	}})
	if err != nil {
		return r, fmt.Errorf("replay: %w", err)
	}
	return r, nil
}

// Delete removes the count oldest messages for good; see also [Trash.Delete]. The result is true
// also beside an error, which is as that of Replay.
func (s *Set) Delete(ctx context.Context, count int) (Result, error) {
	r, err := s.walk(ctx, errand{most: count, removes: true, act: func(_ context.Context, _ *held, done func(error)) { done(nil) }})
	if err != nil {
		return r, fmt.Errorf("delete: %w", err)
	}
	return r, nil
}
