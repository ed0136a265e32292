package streams

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"regexp"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell/internal/crew"
	"github.com/stepwell/stepwell/internal/solo"
)

// Config says what to read and how.
type Config struct {
	// Stream is the stream-id, Group the consumer group. Both are required.
	Stream, Group string
	// ClientID is shown to the brokers. Default: the client library's.
	ClientID string
	// Topics to read, or Pattern: a regular expression that whole topic names must match.
	Topics  []string
	Pattern string
	// Start is where a group without commits begins: earliest (the default), latest, or a time as
	// RFC 3339.
	Start string
	// MaxAge: records older than this are settled without a call, and counted. 0: off.
	MaxAge time.Duration
	// Concurrency is how many messages are handled at once, in all partitions together; Order which
	// of one partition may be. Defaults: 16, OrderKey.
	Concurrency int
	Order       Order
	// Seats are taken for calls, so that others who call the same handler can be counted in. Nil:
	// nobody else does.
	Seats crew.Seats
	// WindowMessages and WindowBytes bound what is in flight; then polling stops, the group stays.
	// Defaults: 10,000, 64 MiB. One poll may exceed the bytes, since the size of a record is known
	// only once it is read.
	WindowMessages, WindowBytes int
	// WindowSpan bounds how many records are settled or in flight behind the first unsettled one,
	// in all partitions together. Default: 100 times WindowMessages.
	WindowSpan int
	// Fetchers are the clients that read partitions side by side; each has one fetch under way with
	// each broker. The first is the group's member, so that there is one for the group whatever
	// this says. One that waits for a first record keeps a place of the window free for it, so
	// there are no more than an eighth of WindowMessages or WindowSpan. Default: 2.
	Fetchers int
	// SessionTimeout, HeartbeatInterval and RebalanceTimeout are those of the group. Defaults: 10
	// s, 3 s (but at most a third of the session), 60 s.
	SessionTimeout, HeartbeatInterval, RebalanceTimeout time.Duration
	// RevokeTimeout is how long running handlers may take to finish when their partition is
	// revoked. Default: half the rebalance time-out, and it must be below that.
	RevokeTimeout time.Duration
	// LeaveTimeout is how long the last commit and leaving the group may take once the work context
	// of a stop is over, half of it each. Default: 3 s.
	LeaveTimeout time.Duration
	// GroupProtocol is classic (the default: cooperative-sticky) or consumer (KIP-848).
	GroupProtocol string
	// ReadUncommitted also hands out what is in transactions that are open or were aborted.
	ReadUncommitted bool
	// Kafka is how to reach the cluster.
	Kafka []kgo.Opt
	// Extra returns what a user wants of a client beyond that. It is called for each client, and by
	// [New]. What [CheckOptions] refuses must not be in it. Nil: nothing.
	Extra func() []kgo.Opt
	// ConfirmsHealthy says whether it is worth waiting for pending messages when a partition has to
	// be given up. Nil: always.
	ConfirmsHealthy func() bool
	// Forgotten is called when a partition is given up, and when its log was cut. Until its records
	// are handed out again its topic may be made anew, or its group rewound by an operator: the
	// same offset is then another record, or is wanted again. It must not call the Reader. Nil:
	// nobody needs to know.
	Forgotten func(topic string, partition int32)
	// Ended is told, on the goroutine that ran them, how long the calls of a lane took since it was
	// told last: all together, and the last of them if that was measured alone, else 0. Calls that
	// took less than a millisecond or two are measured together. Nil: nobody is told.
	Ended func(lane int, all, last time.Duration)
	// Held is told, on any goroutine, that the call under way on a lane takes long: those before it
	// have ended, and Ended may be told of them much later.
	Held func(lane int)
	// CrashLimit is after how many deaths of the process in a row, with the same records under way,
	// those records are suspected of killing it, and run one by one. 0: never.
	CrashLimit int
	// Process tells the process from others; what it commits says so, and the client id of its
	// member, so that others see that it lives. 0: a number of the reader's own.
	Process uint32
	// AloneFor is how long a suspect that runs holds up other suspects. Default: 10 minutes.
	AloneFor time.Duration
	// Probation is how long a process must have lived, with no suspect running, before it condemns
	// one. It must be longer than a session of the group. Default: a minute.
	Probation time.Duration
	// Condemn is called in place of the [Handle] for a record that killed the process again and
	// again while no other suspect ran. Nil: it runs all the same.
	Condemn Handle
	// Token is held by the suspect that runs. Nil: nobody else has suspects in this process.
	Token *solo.Token
	// Setting is how users call a setting, by its key, say "kafka.brokers" or
	// "streams.orders.group". Nil: by that.
	Setting func(key string) string
	// Logger is for what happens while the reader runs. Nil: nothing is logged.
	Logger *slog.Logger
	// Telemetry counts what is read and what is settled without a call. Nil: nothing is counted.
	Telemetry Counter
}

// Counter counts records, and what became of them without a handler call.
type Counter interface {
	// Consumed: n records were read.
	Consumed(n int64)
	// Lost: Kafka deleted n records before they were read.
	Lost(n int64)
	// Expired: n records were older than MaxAge.
	Expired(n int64)
	// Duplicate: a record was settled already.
	Duplicate()
}

type uncounted struct{}

func (uncounted) Consumed(int64) {}
func (uncounted) Lost(int64)     {}
func (uncounted) Expired(int64)  {}
func (uncounted) Duplicate()     {}

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
		gate: newGate(), load: newLoad(cfg.WindowMessages, cfg.WindowBytes, cfg.WindowSpan), seed: maphash.MakeSeed(),
		owned: map[topicPartition]*partition{}, ending: map[topicPartition]*partition{}, heal: newHealer(),
	}
	r.tenure.step = int64(cfg.WindowBytes / 8)
	r.status = newStatus(cfg)
	r.fetchSize = newFetchSize(cfg.WindowBytes, cfg.WindowMessages, r.updateFetches)
	r.commits = newCommitter(r)
	r.crew = crew.New(crew.Config{Handle: handle, Size: cfg.Concurrency, Seats: cfg.Seats, Ended: cfg.Ended, Held: cfg.Held})
	if err := CheckOptions(cfg.Setting, cfg.Extra()); err != nil {
		return nil, fmt.Errorf("stream %s: kafka options: %w", cfg.Stream, err)
	}
	if err := kgo.ValidateOpts(r.options(context.Background())...); err != nil {
		return nil, fmt.Errorf("stream %s: kafka options: %w", cfg.Stream, err)
	}
	return r, nil
}

func (c Config) withDefaults() (Config, error) {
	c.WindowMessages = cmp.Or(c.WindowMessages, 10_000)
	c.WindowBytes = cmp.Or(c.WindowBytes, 64<<20)
	c.WindowSpan = cmp.Or(c.WindowSpan, 100*c.WindowMessages)
	c.Fetchers = min(cmp.Or(c.Fetchers, 2), max(1, min(c.WindowMessages, c.WindowSpan)/8))
	c.Concurrency = cmp.Or(c.Concurrency, 16)
	c.SessionTimeout = cmp.Or(c.SessionTimeout, 10*time.Second)
	c.HeartbeatInterval = cmp.Or(c.HeartbeatInterval, min(3*time.Second, c.SessionTimeout/3))
	c.RebalanceTimeout = cmp.Or(c.RebalanceTimeout, 60*time.Second)
	c.RevokeTimeout = cmp.Or(c.RevokeTimeout, c.RebalanceTimeout/2)
	c.LeaveTimeout = cmp.Or(c.LeaveTimeout, 3*time.Second)
	c.GroupProtocol = cmp.Or(c.GroupProtocol, "classic")
	if c.Setting == nil {
		c.Setting = func(key string) string { return key }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Token = cmp.Or(c.Token, &solo.Token{})
	c.Process = cmp.Or(c.Process, newLife())
	c.AloneFor = cmp.Or(c.AloneFor, 10*time.Minute)
	c.Probation = cmp.Or(c.Probation, time.Minute)
	if c.Telemetry == nil {
		c.Telemetry = uncounted{}
	}
	if c.Extra == nil {
		c.Extra = func() []kgo.Opt { return nil }
	}
	if c.Forgotten == nil {
		c.Forgotten = func(string, int32) {}
	}
	var errs []error
	complain := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	complain(c.Stream == "", "no stream-id")
	complain(c.Group == "", "no group")
	complain(len(c.Topics) == 0 && c.Pattern == "", "no topics and no topic pattern")
	complain(len(c.Topics) > 0 && c.Pattern != "", "topics and a topic pattern: want one of them")
	complain(c.WindowMessages < 0 || c.WindowBytes < 0 || c.WindowSpan < 0, "a window cannot be negative")
	complain(c.Fetchers < 0, "%d fetchers cannot be", c.Fetchers)
	complain(c.CrashLimit < 0, "a crash limit of %d cannot be", c.CrashLimit)
	complain(c.Concurrency < 0, "a concurrency of %d cannot be", c.Concurrency)
	complain(c.RevokeTimeout >= c.RebalanceTimeout, "revoke time-out %v is not below the rebalance time-out %v", c.RevokeTimeout, c.RebalanceTimeout)
	complain(c.GroupProtocol != "classic" && c.GroupProtocol != "consumer", "group protocol %q: want classic or consumer", c.GroupProtocol)
	if _, err := regexp.Compile(c.wholeName()); err != nil {
		errs = append(errs, fmt.Errorf("topic pattern: %w", err))
	}
	return c, errors.Join(errs...)
}

// wholeName is the pattern made to match whole names only.
func (c Config) wholeName() string { return "^(?:" + c.Pattern + ")$" }

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
