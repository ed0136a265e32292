package operations

import (
	"context"
	"fmt"
	"time"
)

// DefaultAhead is how far a replay runs ahead of those who handle what it replays; see
// [Request].Ahead. What is replayed waits before retries that come due later, and a mistake shows
// only once it is handled: the rest is better off in the dead set.
const DefaultAhead = 10_000

// aheadPause is the time between two looks of a replay that is as far ahead as it may be: with less
// it would look at the dead set for each message that is handled.
const aheadPause = time.Second

// room is how many messages a turn may add to those that wait to be handled. Where it is 0 the
// state says so.
func (w *worker) room(ctx context.Context) (int, error) {
	if w.l.request.Action != Replay {
		return noLimit, nil
	}
	waiting, err := w.set.Waiting(ctx)
	if err != nil {
		return 0, err
	}
	ahead := w.l.request.Ahead
	room := max(0, ahead-waiting)
	if room == 0 {
		_, err = w.tell(ctx, func(s *State) {
			s.Why = fmt.Sprintf("%d messages wait to be handled, and with %d (ahead) a replay waits: it goes on when fewer do", waiting, ahead)
			s.ETASeconds = 0
		})
	}
	return room, err
}
