package operations

import (
	"context"
	"errors"
	"time"

	"github.com/stepwell/stepwell/internal/filter"
	"github.com/stepwell/stepwell/internal/outcomes"
)

// The actions.
const (
	// Replay gives messages a full new budget of tries.
	Replay = "replay"
	// Delete moves them into the trash, or removes them for good.
	Delete = "delete"
	// Restore moves them from the trash back to where the dead arrive.
	Restore = "restore"
	// Sort moves what has arrived in a dead set into pages, so that looks see all of it. Unsort
	// moves it back, for programs that know no pages. Both are about all that is there when they
	// begin, and choose nothing.
	Sort   = "sort"
	Unsort = "unsort"
	// Edit replaces one message by an edited copy that is handled anew, and moves it into the
	// trash. It is done at once by whoever is asked, see [Runner.Note]: a Runner runs none.
	Edit = "edit"
)

// Sorts says whether the action moves messages within their dead set, and chooses none.
func Sorts(action string) bool { return action == Sort || action == Unsort }

// isAction says whether this release knows the action.
func isAction(action string) bool {
	return action == Replay || action == Delete || action == Restore || Sorts(action)
}

// MaxIDs is how many ids a selection names at most.
const MaxIDs = 1000

// Target names a dead set: that of a stream, or of one of its channels.
type Target struct {
	Stream  string `json:"stream"`
	Channel string `json:"channel,omitempty"`
}

// words name it for people.
func (t Target) words() string {
	if t.Channel == "" {
		return t.Stream
	}
	return t.Stream + " channel " + t.Channel
}

// Selection says which messages are meant. Exactly one of its fields is set, but for an Operation
// beside IDs.
type Selection struct {
	// IDs are those of messages, every copy of each.
	IDs []string `json:"ids,omitempty"`
	// Group is a cause of death.
	Group string `json:"group,omitempty"`
	// Filter has the parameters of [filter.Parse].
	Filter map[string]string `json:"filter,omitempty"`
	// Operation is the delete or the edit whose messages are restored, and is for a restore alone.
	// Where there are IDs, too, only those of its messages are meant.
	Operation string `json:"operation,omitempty"`
	// All is every message.
	All bool `json:"all,omitempty"`
}

// Compile makes the test of it. asked is the moment at which it was asked for, which texts such as
// "2h" count from. The error says what is wrong with it.
func (s Selection) Compile(asked time.Time) (filter.Filter, error) {
	given := 0
	for _, is := range []bool{s.IDs != nil, s.Group != "", s.Filter != nil, s.Operation != "" && s.IDs == nil, s.All} {
		if is {
			given++
		}
	}
	switch {
	case given != 1:
		return filter.Filter{}, errors.New("exactly one of ids, group, filter and all: true says what is meant, or operation, with ids or without, what to restore")
	case s.IDs != nil:
		return filter.IDs(s.IDs), nil
	case s.All, s.Operation != "":
		return filter.All(), nil
	case s.Group != "":
		return filter.Parse(map[string]string{"group": s.Group}, asked)
	case len(s.Filter) == 0:
		return filter.Filter{}, errors.New("an empty filter chooses nothing: all: true chooses all")
	}
	return filter.Parse(s.Filter, asked)
}

// Request is what somebody asked for. It never changes.
type Request struct {
	ID     string `json:"id"`
	Action string `json:"action"`
	Target
	Select Selection `json:"select"`
	// Before leaves out what died later.
	Before time.Time `json:"before"`
	// Expect is how many messages who asked thinks it is about; nil: did not say. More are not
	// touched.
	Expect *int `json:"expect,omitempty"`
	// CrashLoops are replayed too.
	CrashLoops bool `json:"include_crash_loop,omitempty"`
	// Forever says that what is deleted is gone. Else Trash is for how long it is kept; a restore
	// takes from the trash that keeps so long.
	Forever bool `json:"forever,omitempty"`
	Trash   Wait `json:"trash,omitzero"`
	// Force sorts though others may consume who know no pages.
	Force bool `json:"force,omitempty"`
	// Ahead is how many messages may wait in the queue that takes what is replayed: while as many
	// do, a replay waits. 0: DefaultAhead.
	Ahead int `json:"ahead,omitempty"`
	// Canary is how many messages are replayed first, and waited for, CanaryWait for how long: it
	// goes on once all are handled. 0: none.
	Canary     int  `json:"canary,omitempty"`
	CanaryWait Wait `json:"canary_wait,omitzero"`
	// StopAt is at how many messages of which a try fails it pauses; zero: never.
	StopAt    StopAt    `json:"stop_at,omitzero"`
	Note      string    `json:"note,omitempty"`
	By        string    `json:"by"`
	CreatedAt time.Time `json:"created_at"`
	// Wish tells requests with the same idempotency key apart; empty: there was no such key.
	Wish string `json:"wish,omitempty"`
	// Foreign says that it has members that this release does not know.
	Foreign bool `json:"-"`
}

// Phase is how far an operation is.
type Phase string

// The phases. The last four are ends.
const (
	Queued    Phase = "queued"  // another operation runs on that dead set, or enough do
	Running   Phase = "running" // also while the brokers are away: why says so
	Paused    Phase = "paused"
	Done      Phase = "done" // a fresh look found nothing more
	Cancelled Phase = "cancelled"
	Refused   Phase = "refused" // nothing was touched
	Failed    Phase = "failed"
)

// IsOver says whether nothing follows.
func (p Phase) IsOver() bool {
	switch p {
	case Done, Cancelled, Refused, Failed:
		return true
	case Queued, Running, Paused:
	}
	return false
}

// LeftOut counts messages that match and stay, as far as was seen.
type LeftOut struct {
	// CrashLoop killed the process, and the request does not say that they are meant, too.
	CrashLoop int `json:"crash_loop"`
	// TooLarge are larger than may be published.
	TooLarge int `json:"too_large"`
	// Of Undated nobody knows when they died, so they may have died later than the request.
	Undated int `json:"undated"`
	// Later died after the request; what this operation replayed and died again is not among them.
	Later int `json:"later"`
}

// State is how an operation is doing.
type State struct {
	Phase Phase `json:"state"`
	// Why says why it waits, or ended as it did.
	Why string `json:"why,omitempty"`
	// Rate is how fast it may be; zero: as fast as it can.
	Rate Rate `json:"rate,omitzero"`
	// Runner is the process that runs it. Resumed is how often another went on with it.
	Runner  string `json:"runner,omitempty"`
	Resumed int    `json:"resumed,omitempty"`
	// Alone is why it lives in the process that was asked, and ends with it; empty: it does not.
	Alone string `json:"alone,omitempty"`
	// Matched is how many messages were found to match, as far as a look sees. Done is how many of
	// them are seen to be gone.
	Matched int     `json:"matched"`
	Done    int     `json:"done"`
	LeftOut LeftOut `json:"left_out"`
	// Causes are what killed most of those that matched when it began, the largest first: once they
	// are replayed, or deleted, nothing else says what they died of.
	Causes []Cause `json:"causes,omitempty"`
	// ActsBefore leaves out more than the request's Before: what died so late before that some of
	// it was not there yet when somebody looked. Zero: it does not.
	ActsBefore time.Time `json:"acts_before,omitzero"`
	// Outcome is what became of what was replayed, as far as anybody told; nil: it is no replay.
	Outcome *outcomes.Outcome `json:"outcome,omitempty"`
	// CanaryOver says that nobody waits for the canary any more: it is handled, or somebody let the
	// operation go on all the same. Accepted are the failures that he had seen.
	CanaryOver bool     `json:"canary_over,omitempty"`
	Accepted   Accepted `json:"accepted,omitzero"`
	// Unsorted messages were not looked at: they lie behind as many as a look sees. Complete says
	// that there are none.
	Complete bool `json:"complete"`
	Unsorted int  `json:"unsorted"`
	// ETASeconds is about how long the rest takes; 0: not known.
	ETASeconds int       `json:"eta_seconds,omitempty"`
	StartedAt  time.Time `json:"started_at,omitzero"`
	UpdatedAt  time.Time `json:"updated_at"`
	EndedAt    time.Time `json:"ended_at,omitzero"`

	// The rest is for those who run operations, and no person's concern.

	// Wanted is what is to become of it while it runs: Paused, Cancelled, or empty.
	Wanted Phase `json:"wanted,omitempty"`
	// Term is that in which it runs; see [Election].
	Term int64 `json:"term,omitempty"`
	// Begun is how many messages were acted on at most, where a number is expected. What a turn may
	// do is added before the turn, so that a process which goes on after a kill does not exceed
	// that number.
	Begun int `json:"begun,omitempty"`
}

// ForPeople is the state without what is nobody's concern.
func (s State) ForPeople() State {
	s.Wanted, s.Term, s.Begun = "", 0, 0
	return s
}

// Operation is a request and its state.
type Operation struct {
	Request
	State
}

// Sample is what an operation would act on, as far as a look sees.
type Sample struct {
	// Matched messages of Depth would be acted on, of Bytes bytes.
	Matched int     `json:"matched"`
	Bytes   int64   `json:"bytes"`
	LeftOut LeftOut `json:"left_out"`
	// Room is about how many messages fit into the trash; nil: they do not go there.
	Room *int `json:"room,omitempty"`
	// Nothing says of a restore that nothing of what it is to undo is in the trash; empty: it is no
	// such restore, or there is something.
	Nothing string `json:"-"`
	// Causes are the largest of Groups.
	Causes []Cause `json:"-"`
	// Groups are what killed them, Samples some of them, in the form in which they become JSON.
	Groups  []any `json:"groups"`
	Samples []any `json:"samples"`
	// Unsorted of Depth were not looked at; AsOf is when the look began.
	Depth    int       `json:"depth"`
	Unsorted int       `json:"unsorted"`
	Complete bool      `json:"complete"`
	AsOf     time.Time `json:"as_of"`
}

// MaxCauses is how many causes an operation remembers.
const MaxCauses = 3

// Cause is a cause of death, by its fingerprint, and how many died of it. Error is what their
// errors share.
type Cause struct {
	Group string `json:"group"`
	Error string `json:"error"`
	Count int    `json:"count"`
}

// Turn is what a turn saw and did.
type Turn struct {
	// Unseen is how many messages it did not come to.
	Unseen int
	// Begun is with how many of those that match it began, and Done how many of these are seen to
	// be gone: what was sent and is still there counts as not done, and is found again.
	Begun, Done int
	// LeftOut are those of the others that match and stay.
	LeftOut LeftOut
	// More says that it ended before it came to the end of what a look sees.
	More bool
}

// DeadSet is where operations act.
type DeadSet interface {
	// May returns an error where what is asked for is not possible here.
	May(ctx context.Context, r *Request) error
	// Sample counts what the request is about.
	Sample(ctx context.Context, r *Request) (Sample, error)
	// Turn acts on the oldest messages that the request is about, at most so many, as far as one
	// look sees, and begins with no more once enough is closed. Where there is an error the
	// Turn still says what was done before it.
	Turn(ctx context.Context, enough <-chan struct{}, r *Request, most int) (Turn, error)
	// Waiting is how many messages wait to be handled where a replay puts what it replays, whoever
	// put them there. What a process has fetched already is not counted.
	Waiting(ctx context.Context) (int, error)
}

// Errors of a [DeadSet].
var (
	// ErrAway: not now. It is tried again.
	ErrAway = errors.New("not now")
	// ErrNever: it cannot be done before something is changed.
	ErrNever = errors.New("not possible")
)

// OtherWish is [ErrOtherWish], with the operation that the key began.
type OtherWish struct{ ID string }

// Error names the operation.
func (e OtherWish) Error() string { return ErrOtherWish.Error() + ": it began " + e.ID }

// Unwrap is ErrOtherWish.
func (OtherWish) Unwrap() error { return ErrOtherWish }
