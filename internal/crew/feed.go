package crew

import (
	"context"
	"sync"
	"time"

	"github.com/stepwell/stepwell/internal/task"
)

// Feed is where messages come from. Its lock guards the feed and what the crew knows of it, its
// [Roster], together: so a message is handed out, and a whole stretch is settled, in one step.
// Where a comment says "Locked" the caller holds that lock.
type Feed interface {
	sync.Locker
	// The tickets of calls settle here.
	task.Origin
	// Calls is the context of calls. It ends, with a cause, when they are to be cancelled.
	Calls() context.Context
	// Take adds what comes next to the roster. It reports false when there is nothing now; the feed
	// offers its roster once there is. Locked.
	Take() bool
	// More says that Take has more. Locked.
	More() bool
	// Done says how the calls of the messages from first to last ended. There are several only
	// where all are settled, or all gathered, and then no offset between them is missing. After
	// [task.Abandoned] nothing more is handed out; after [task.Gathered] the feed hears by itself
	// how the call ends, perhaps before this. Locked.
	Done(first, last int64, o task.Outcome)
	// Idle says that a worker has left, or found nothing to do. Locked.
	Idle()
	// Deserted says that the call of a message ended its goroutine, and will never be done. The
	// error names the message. Locked.
	Deserted(offset int64) error
}

// Suspects are messages of a feed that may end the process, and therefore run by themselves when
// the feed says so. The feed's rules are its own.
type Suspects interface {
	// Free says that there are none: stretches may be handed out. Locked.
	Free() bool
	// SetAside keeps a suspect until its turn. It reports false for a message that is none. Locked.
	SetAside(e Entry) bool
	// NextAside returns a message that was set aside and may run now. Locked.
	NextAside() (Entry, bool)
	// Handle is what to call for a message that runs by itself; nil: what is called for all.
	Handle(offset int64) task.Handle
	// Rests says that the call of a message begins to rest, or has rested.
	Rests(r Rest)
	// AwaitTurn returns when a message that has rested may be called again: a suspect has another
	// turn for that. It reports false when ctx or halted ends first.
	AwaitTurn(ctx context.Context, offset int64, halted <-chan struct{}) bool
}

// Rest says that the call of a message begins to rest, or has rested.
type Rest struct {
	Offset int64
	Begins bool
	// Until is when the message is called again after a rest that begins; zero: it is not, since
	// its way is decided.
	Until time.Time
}
