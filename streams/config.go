package streams

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"regexp"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell/internal/crew"
	"github.com/stepwell/stepwell/internal/ledger"
	"github.com/stepwell/stepwell/internal/solo"
	"github.com/stepwell/stepwell/internal/task"
)

// Config says what to read and how. Required are Stream, Group.ID, and Topics or Pattern.
type Config struct {
	// Stream is the stream-id.
	Stream string
	// Topics to read, or Pattern: a regular expression that whole topic names must match.
	Topics  []string
	Pattern string
	// Start is where a group without commits begins: earliest (the default), latest, or a time as
	// RFC 3339.
	Start string
	// MaxAge: records older than this are settled without a call, and counted. 0: off.
	MaxAge time.Duration
	// ReadUncommitted also hands out what is in transactions that are open or were aborted.
	ReadUncommitted bool

	// Kafka is how to reach the cluster, Group what the reader is in it.
	Kafka Kafka
	Group Group
	// Window bounds what is in flight, Calls what runs of it.
	Window Window
	Calls  Calls
	// Guard is against records that kill the process.
	Guard Guard

	// ConfirmsHealthy says whether it is worth waiting for pending messages when a partition has to
	// be given up. Nil: always.
	ConfirmsHealthy func() bool
	// Numbered is told the number of a partition's log before the first of its records is handed
	// out, and each time that it is another from the next record on. The same number means that the
	// same offset is the same record, whoever reads it; commits carry it from owner to owner. It is
	// another one where the log was cut, the topic made anew, or the group rewound by an operator:
	// the same offset is then another record, or is wanted again. It must not call the Reader. Nil:
	// nobody needs to know, and commits carry none.
	Numbered func(topic string, partition int32, log uint32)
	// Setting is how users call a setting, by its key, say "kafka.brokers" or
	// "streams.orders.group". Nil: by that.
	Setting func(key string) string
	// Logger is for what happens while the reader runs. Nil: nothing is logged.
	Logger *slog.Logger
	// Telemetry counts what is read and what is settled without a call. Nil: nothing is counted.
	Telemetry Counter
}

// Kafka is how to reach the cluster, and with which clients.
type Kafka struct {
	// Options lead to the cluster.
	Options []kgo.Opt
	// Extra returns what a user wants of a client beyond that. It is called for each client, and by
	// [New]. What [CheckOptions] refuses must not be in it. Nil: nothing.
	Extra func() []kgo.Opt
	// ClientID is shown to the brokers. Default: the client library's.
	ClientID string
	// Fetchers are the clients that read partitions side by side; each has one fetch under way with
	// each broker. The first is the group's member, so that there is one for the group whatever
	// this says. One that waits for a first record keeps a place of the window free for it, so
	// there are no more than an eighth of the window's Messages or Span. Default: 2.
	Fetchers int
}

// Group is the consumer group and how its member behaves.
type Group struct {
	// ID is the group's name. Required.
	ID string
	// Protocol is classic (the default: cooperative-sticky) or consumer (KIP-848).
	Protocol string
	// SessionTimeout, HeartbeatInterval and RebalanceTimeout are those of the group. Defaults: 10
	// s, 3 s (but at most a third of the session), 60 s.
	SessionTimeout, HeartbeatInterval, RebalanceTimeout time.Duration
	// RevokeTimeout is how long running handlers may take to finish when their partition is
	// revoked. Default: half the rebalance time-out, and it must be below that.
	RevokeTimeout time.Duration
	// LeaveTimeout is how long the last commit and leaving the group may take once the work context
	// of a stop is over, half of it each. Default: 3 s.
	LeaveTimeout time.Duration
}

// Window bounds what is in flight, in all partitions together; where it is full, polling stops and
// the group stays.
type Window struct {
	// Messages and Bytes bound what was read and is not settled. Defaults: 10,000, 64 MiB. One poll
	// may exceed the bytes, since the size of a record is known only once it is read.
	Messages, Bytes int
	// Span bounds how many records are settled or in flight behind the first unsettled one of a
	// partition. Default: 100 times Messages.
	Span int
}

// Calls says how messages are handed to the [Handle].
type Calls struct {
	// Concurrency is how many run at once, in all partitions together; Order which of one partition
	// may. Defaults: 16, OrderKey.
	Concurrency int
	Order       Order
	// Seats are taken for calls, so that others who call the same handler can be counted in. Nil:
	// nobody else does.
	Seats crew.Seats
	// Ended is told, on the goroutine that ran them, how long the calls of a lane took since it was
	// told last: all together, and the last of them if that was measured alone, else 0. Calls that
	// took less than a millisecond or two are measured together. Nil: nobody is told.
	Ended func(lane int, all, last time.Duration)
	// Held is told, on any goroutine, that the call under way on a lane takes long: those before it
	// have ended, and Ended may be told of them much later. Nil: nobody is told.
	Held func(lane int)
	// Gather takes, from any goroutine, messages that are to be called together with others. The
	// [Handle] is given only those that are handed out one by one, suspects for instance, and is to
	// gather them, too. Gather must not keep the slice, nor block. Nil: there is only the Handle.
	Gather func(of task.Gatherable, messages []crew.Entry)
	// Flush is called where what was gathered is to be called without waiting for more: a partition
	// is given up, the window is full, or few may be under way since the process died. It must not
	// block, nor call the Reader. Nil: nothing is gathered.
	Flush func()
	// Fetched is called now and then with how much was fetched so far, in eighths of the window's
	// Bytes, modulo 2^32: what was gathered and has waited for long is to get memory of its own. It
	// must not call the Reader. Nil: nobody is told.
	Fetched func(eighths uint32)
}

// Guard finds records that kill the process: where it died again and again with the same records
// under way, these are suspects, which run one by one until the one that kills is known.
type Guard struct {
	// CrashLimit is after how many deaths of the process in a row, with the same records under way,
	// those records are suspected. 0: never.
	CrashLimit int
	// Process tells the process from others; what it commits says so, and the client id of its
	// member, so that others see that it lives. 0: a number of the reader's own.
	Process uint32
	// AloneFor is for how long at most other suspects wait for a step of one's turn, its call for
	// instance; all others wait for none. Default: 10 minutes.
	AloneFor time.Duration
	// Probation is how long a process must have lived, with no suspect running, before it condemns
	// one. It must be longer than a session of the group. Default: a minute.
	Probation time.Duration
	// Condemn is called in place of the [Handle] for a record that killed the process again and
	// again while no other suspect ran. Nil: it runs all the same.
	Condemn Handle
	// Token is held by the suspect that runs. Nil: nobody else has suspects in this process.
	Token *solo.Token
}

// rules are those of the ledgers.
func (g Guard) rules() ledger.Rules {
	return ledger.Rules{Limit: g.CrashLimit, Owner: g.Process, Spare: g.Condemn == nil}
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

func (c Config) withDefaults() (Config, error) {
	c.Window = c.Window.withDefaults()
	c.Kafka.Fetchers = min(cmp.Or(c.Kafka.Fetchers, 2), max(1, min(c.Window.Messages, c.Window.Span)/8))
	c.Group = c.Group.withDefaults()
	c.Guard = c.Guard.withDefaults()
	c.Calls.Concurrency = cmp.Or(c.Calls.Concurrency, 16)
	if c.Calls.Flush == nil {
		c.Calls.Flush = func() {}
	}
	if c.Calls.Fetched == nil {
		c.Calls.Fetched = func(uint32) {}
	}
	if c.Kafka.Extra == nil {
		c.Kafka.Extra = func() []kgo.Opt { return nil }
	}
	if c.Setting == nil {
		c.Setting = func(key string) string { return key }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Telemetry == nil {
		c.Telemetry = uncounted{}
	}
	return c, c.check()
}

func (g Group) withDefaults() Group {
	g.Protocol = cmp.Or(g.Protocol, "classic")
	g.SessionTimeout = cmp.Or(g.SessionTimeout, 10*time.Second)
	g.HeartbeatInterval = cmp.Or(g.HeartbeatInterval, min(3*time.Second, g.SessionTimeout/3))
	g.RebalanceTimeout = cmp.Or(g.RebalanceTimeout, 60*time.Second)
	g.RevokeTimeout = cmp.Or(g.RevokeTimeout, g.RebalanceTimeout/2)
	g.LeaveTimeout = cmp.Or(g.LeaveTimeout, 3*time.Second)
	return g
}

// grace is that of a stop: two thirds of the time to leave where that is less than mostGrace, since
// one with little time has to tell who did not return.
func (g Group) grace() time.Duration { return min(mostGrace, g.LeaveTimeout*2/3) }

func (w Window) withDefaults() Window {
	w.Messages = cmp.Or(w.Messages, 10_000)
	w.Bytes = cmp.Or(w.Bytes, 64<<20)
	w.Span = cmp.Or(w.Span, 100*w.Messages)
	return w
}

func (g Guard) withDefaults() Guard {
	g.Process = cmp.Or(g.Process, newProcess())
	g.AloneFor = cmp.Or(g.AloneFor, 10*time.Minute)
	g.Probation = cmp.Or(g.Probation, time.Minute)
	g.Token = cmp.Or(g.Token, &solo.Token{})
	return g
}

// check returns all that is wrong.
func (c Config) check() error {
	var errs []error
	complain := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	complain(c.Stream == "", "no stream-id")
	complain(c.Group.ID == "", "no group")
	complain(len(c.Topics) == 0 && c.Pattern == "", "no topics and no topic pattern")
	complain(len(c.Topics) > 0 && c.Pattern != "", "topics and a topic pattern: want one of them")
	complain(c.Window.Messages < 0 || c.Window.Bytes < 0 || c.Window.Span < 0, "a window cannot be negative")
	complain(c.Kafka.Fetchers < 0, "%d fetchers cannot be", c.Kafka.Fetchers)
	complain(c.Guard.CrashLimit < 0, "a crash limit of %d cannot be", c.Guard.CrashLimit)
	complain(c.Calls.Concurrency < 0, "a concurrency of %d cannot be", c.Calls.Concurrency)
	complain(c.Group.RevokeTimeout >= c.Group.RebalanceTimeout, "revoke time-out %v is not below the rebalance time-out %v", c.Group.RevokeTimeout, c.Group.RebalanceTimeout)
	complain(c.Group.Protocol != "classic" && c.Group.Protocol != "consumer", "group protocol %q: want classic or consumer", c.Group.Protocol)
	if _, err := regexp.Compile(c.wholeName()); err != nil {
		errs = append(errs, fmt.Errorf("topic pattern: %w", err))
	}
	return errors.Join(errs...)
}

// draw returns what draws numbers for logs; nil: they have none.
func (c Config) draw() func() uint32 {
	if c.Numbered == nil {
		return nil
	}
	return func() uint32 { return max(1, rand.Uint32()) }
}

// wholeName is the pattern made to match whole names only.
func (c Config) wholeName() string { return "^(?:" + c.Pattern + ")$" }
