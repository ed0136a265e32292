package server

import (
	"context"
	"errors"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/filter"
	"github.com/stepwell/stepwell/internal/operations"
)

// Errors that a [DeadSet] returns, or wraps, for the server to tell them apart. What is none of
// these is answered with 500 and logged.
var (
	// ErrBusy: another walk of that dead set is under way (409).
	ErrBusy = errors.New("another replay, delete or peek of this dead set is under way")
	// ErrUnavailable: the queues cannot be reached, or take nothing now (503).
	ErrUnavailable = errors.New("the queues are not available")
	// ErrNotFound: no dead message that was looked at has the id (404).
	ErrNotFound = errors.New("no dead message has this id")
	// ErrMoved: the list that a cursor belongs to has changed (410).
	ErrMoved = errors.New("the list has changed: the message behind which it was to go on is gone. Begin without a cursor")
	// ErrReplayOff: the stream has a dead set from before its retries were off, and nobody would
	// take what is replayed (409).
	ErrReplayOff = errors.New("retries are off for this stream: nobody would take what is replayed. Peek and delete work")
	// ErrOthers: other processes handle messages of the dead set that was to be sorted, and may
	// not find them there (409).
	ErrOthers = errors.New("other processes may not know pages, and would show, replay and delete only what arrives from now on: " +
		"ask with \"force\": true (--force, or the tick in the console) once all run a release that sorts")
	// ErrNoPages: the dead set that was to be sorted may have no pages, by a setting (409).
	ErrNoPages = errors.New("a sort is refused, since there may be no pages to sort into; an unsort works")
	// ErrRefused: nobody can walk that dead set before something is changed, as the error says,
	// whose text is told (500).
	ErrRefused = errors.New("walks of this dead set are refused")
	// ErrNoTrash: what was to be deleted cannot be put into the trash (503).
	ErrNoTrash = errors.New("the trash does not take what is deleted")
	// ErrNoEdit: that message cannot be edited: others have its id, nobody can read it, or the
	// trash does not take it (409).
	ErrNoEdit = errors.New("the message cannot be edited")
	// ErrHalfEdited: nobody knows how far an edit came (503).
	ErrHalfEdited = errors.New("nobody knows how far the edit came")
	// ErrTooLarge: what was edited is larger than the queues take (413).
	ErrTooLarge = errors.New("the message is larger than the queues take")
	// ErrRetryOff: the stream has no dead set, since its retries are off (404).
	ErrRetryOff = errors.New("retries are off for this stream: it has no dead set")
)

// Page is what a peek found.
type Page struct {
	// Messages are the oldest, oldest first, each in the form in which it becomes JSON. They may be
	// fewer than asked for.
	Messages []any
	// Depth is how many messages there were.
	Depth int
}

// Query says which messages a list is to show: the oldest of those for which the filter is true,
// 1 … 500 of them, behind the one that the Next of an earlier list names.
type Query struct {
	Filter filter.Filter
	// MovedBy leaves out of a trash what another operation deleted; empty: nothing.
	MovedBy string
	Limit   int
	After   string
}

// List is what a query found.
type List struct {
	Page
	// Matched is how many messages match, shown or not, of those that were looked at; Unsorted how
	// many were not.
	Matched, Unsorted int
	// Next is for the query that goes on; empty: there is no more.
	Next string
	// AsOf is when the look began.
	AsOf time.Time
}

// Export is what a look found, whole.
type Export struct {
	// Depth is how many messages the dead set had, Unsorted how many of them were not looked at,
	// and Matched how many of the others are in the export.
	Depth, Unsorted, Matched int
	// Each calls do with each of these, oldest first, in the form in which it becomes JSON, until
	// do or ctx has an error.
	Each func(ctx context.Context, do func(message any) error) error
}

// Detail is one message.
type Detail struct {
	// Message is all that is known of it, in the form in which it becomes JSON.
	Message any
	// Key and Value are the record's bytes; Missing says why they are not known, else it is empty.
	Key, Value []byte
	Missing    string
}

// Result is what a replay or a delete did.
type Result struct {
	// Requested is the count that was asked for, Done how many messages it was done to. Left is how
	// many of those that were there at the start are there still; below 0: nobody knows. LeftOut is
	// how many of the oldest a replay passed over because they killed the process, TooLarge how
	// many because they are larger than what may be published.
	Requested, Done, Left, LeftOut, TooLarge int
	// Stopped says why it stopped half way; empty: it did not.
	Stopped string
}

// Edit is what a record is to have in place of what it has. Nil: that stays. What is pointed to may
// be nil: a value or a key that is null.
type Edit struct {
	Value, Key *[]byte
	Headers    *[]stepwell.Header
}

// DeadSet is the dead set of one stream. Counts are 1 … [MaxCount]; all act on the oldest messages.
type DeadSet interface {
	// Peek returns the oldest messages and changes nothing.
	Peek(ctx context.Context, count int) (Page, error)
	// Find lists messages for which a filter is true. It returns ErrMoved where the query continues
	// a list (Query.After) and the last message of that list is gone.
	Find(ctx context.Context, q Query) (List, error)
	// Groups counts those for which the filter is true by what killed them, in the form in which
	// that becomes JSON.
	Groups(ctx context.Context, of filter.Filter) (any, error)
	// Export finds those for which the filter is true, to be kept elsewhere.
	Export(ctx context.Context, of filter.Filter) (Export, error)
	// Message shows the oldest message with the id, or ErrNotFound.
	Message(ctx context.Context, id string) (Detail, error)
	// Replay gives the oldest messages a new budget of tries, but those that killed the process.
	// The result counts also beside an error.
	Replay(ctx context.Context, count int) (Result, error)
	// ReplayAll does so for all.
	ReplayAll(ctx context.Context, count int) (Result, error)
	// Delete removes the oldest messages for good. The result counts also beside an error.
	Delete(ctx context.Context, count int) (Result, error)
	// Trash moves them into the trash that keeps them so long, where operation names who deleted
	// them. The result counts also beside an error, which may be ErrNoTrash.
	Trash(ctx context.Context, keep time.Duration, operation string, count int) (Result, error)
	// FindTrash lists messages of that trash, as Find does.
	FindTrash(ctx context.Context, keep time.Duration, q Query) (List, error)
	// Edit has an edited copy of the message with the id handled anew, and moves the message into
	// that trash. It returns the copy's id. The error may be ErrNotFound, ErrNoEdit, ErrHalfEdited
	// or ErrTooLarge; after all but ErrHalfEdited the message is where it was.
	Edit(ctx context.Context, keep time.Duration, operation, id string, by Edit) (as string, err error)
}

// Operations acts on chosen messages of dead sets, in the background: an [operations.Runner]. What
// goes wrong is told in the words of its package, or of this one.
type Operations interface {
	// Ask begins an operation; known says that it was asked for before, with the same key.
	Ask(ctx context.Context, r operations.Request, rate operations.Rate, key string) (o operations.Operation, known bool, err error)
	// Sample counts what an operation would act on, and changes nothing.
	Sample(ctx context.Context, r operations.Request) (operations.Sample, error)
	Find(ctx context.Context, id string) (operations.Operation, error)
	// List returns all, the newest first.
	List(ctx context.Context) ([]operations.Operation, error)
	// Change returns the operation as it is then.
	Change(ctx context.Context, id string, c operations.Change) (operations.Operation, error)
	// Note calls do once, with the id of an operation that nobody runs, and keeps a record of how
	// it ended. Where none can be kept it does not call it.
	Note(ctx context.Context, r operations.Request, do func(ctx context.Context, id string) (operations.Phase, error)) (operations.Operation, error)
	// RunningOn is the id of the operation that runs on a dead set; empty: none does.
	RunningOn(t operations.Target) string
}

// Control looks at a stream of this process and holds it back here.
type Control interface {
	Status(ctx context.Context) Status
	// Pause and Resume may be called twice; by is who wants it. A pause of the whole app is none of
	// theirs.
	Pause(by string)
	Resume()
	// Pauses are all that hold it back, that of the app among them. No broker is asked.
	Pauses() []Pause
}

// Stream is what the server serves of one stream.
type Stream struct {
	Control Control
	// DeadSet is nil where there are no queues.
	DeadSet DeadSet
	// Channels are the dead sets of the stream's channels, by their names.
	Channels map[string]DeadSet
}

// Sources of a stream.
const (
	FromKafka   = "kafka"
	FromEnqueue = "enqueue" // the program itself
	FromQueue   = "queue"   // a queue of RabbitMQ, somebody else's or bound to an exchange
)

// Status is how a stream of this process is doing.
type Status struct {
	// Paused says that it is held back, and Pauses by whom.
	Paused bool    `json:"paused"`
	Pauses []Pause `json:"pauses,omitempty"`
	// Source is where the stream's messages come from first: [FromKafka], [FromEnqueue] or
	// [FromQueue].
	Source string `json:"source"`
	// Reads says that this process has what the stream begins with: it reads its topics, consumes
	// its queue, or works off what was enqueued.
	Reads bool `json:"reads"`
	// Retired says that nobody is to read them any more. EmptySince is since when all queues of
	// such a stream looked empty to this process; zero: they do not. MayGo says that this is so for
	// long enough: the stream may leave the code.
	Retired    bool      `json:"retired,omitempty"`
	EmptySince time.Time `json:"empty_since,omitzero"`
	MayGo      bool      `json:"may_go,omitempty"`
	// Joined says that it is a member of its consumer group, also one without partitions.
	Joined     bool `json:"joined"`
	Partitions int  `json:"partitions"`
	// Lag is how many records of its partitions were not settled yet. Where the source is a queue
	// of RabbitMQ, it is how many messages are ready in it, for all who consume it. Nil: it is not
	// known, as while the source cannot be read. Without Reads it is 0, whatever those who read are
	// behind.
	Lag *int64 `json:"lag"`
	// InFlight is how many messages the stream's window holds, and how many retries were picked up;
	// InFlightBytes are those of the window.
	InFlight      int `json:"in_flight"`
	InFlightBytes int `json:"in_flight_bytes"`
	// Oldest is the record that holds the stream's window; nil: all that was read is settled.
	Oldest *Oldest `json:"oldest,omitempty"`
	// Resting is how many messages rest in the process until they are tried again.
	Resting int `json:"resting,omitempty"`
	// Suspects are messages that may have ended the process: they run one at a time. Suspect is the
	// one whose turn it is. SuspectTriedUntil is until when it waits, since a process died of
	// it: then it runs again, or is condemned; zero: it runs.
	Suspects          int       `json:"suspects,omitempty"`
	Suspect           string    `json:"suspect,omitempty"`
	SuspectTriedUntil time.Time `json:"suspect_tried_until,omitzero"`
	// LastProgress is when a record was settled last; zero: none yet.
	LastProgress time.Time `json:"last_progress,omitzero"`
	// Stuck: there is lag but no progress, or a handler runs far past its time-out. StuckBecause
	// says which, and for how long; empty: it is not stuck.
	Stuck        bool   `json:"stuck"`
	StuckBecause string `json:"stuck_because,omitempty"`
	// Retry says whether failures go through retry queues.
	Retry bool `json:"retry"`
	// Queues are the messages ready in each queue of the stream, by the queue's name; nil where
	// they could not be read.
	Queues map[string]int `json:"queues,omitempty"`
	// Channels are those of the stream, by name.
	Channels []ChannelStatus `json:"channels,omitempty"`
	// Error says what is wrong now; empty: nothing.
	Error string `json:"error,omitempty"`
}

// ChannelStatus is how a channel of a stream of this process is doing. It is paused with its
// stream.
type ChannelStatus struct {
	ID string `json:"id"`
	// Runs says that this process calls the channel's handler.
	Runs bool `json:"runs"`
	// InFlight is how many messages were picked up and are neither done nor given back.
	InFlight int `json:"in_flight"`
	// Suspect is the message that may have ended the process and runs now, or waits until
	// SuspectTriedUntil before it runs again.
	Suspect           string    `json:"suspect,omitempty"`
	SuspectTriedUntil time.Time `json:"suspect_tried_until,omitzero"`
	// Stuck: a handler runs far past its time-out. StuckBecause says for how long; empty: it is not
	// stuck.
	Stuck        bool   `json:"stuck"`
	StuckBecause string `json:"stuck_because,omitempty"`
	// Queues are as those of a stream. Where all are empty, nothing of the channel is left but what
	// is in flight.
	Queues map[string]int `json:"queues,omitempty"`
	// Error says what is wrong now; empty: nothing.
	Error string `json:"error,omitempty"`
}

// Oldest is the first record of a partition that is not settled: nothing behind it can be
// committed. Of all partitions it is the one that has been the first for the longest.
type Oldest struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	// Since is when it became the first, as far as that is known. AgeSeconds is how long ago that
	// is by the clock of the actor.
	Since      time.Time `json:"since"`
	AgeSeconds float64   `json:"age_seconds"`
	// Behind is how many records behind it in its partition the window holds, settled or not.
	Behind int `json:"behind"`
	// NextTry is when it is tried again, where it rests in the process until then; else zero.
	NextTry time.Time `json:"next_try,omitzero"`
}

// Check is one thing that must be well before the actor is ready.
type Check struct {
	// Name says what was looked at, say "rabbitmq" or "stream orders".
	Name  string
	Ready bool
	// Stuck is shown, but does not make the actor unready.
	Stuck bool
	// Detail says how it is, in a line.
	Detail string
}
