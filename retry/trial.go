package retry

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/queue"
)

// try decides, after the probation, whether a message is condemned or runs once more.
func (r *Retrier) try(stop, work context.Context, d queue.Delivery, e *envelope.Envelope, s suspicion) {
	probation := time.NewTimer(r.cfg.Probation)
	defer probation.Stop()
	select {
	case <-probation.C:
	case <-stop.Done():
		r.turn.end()
		r.release(d)
		return
	}
	living, err := r.cfg.Living(stop)
	if err != nil {
		r.cfg.Logger.Warn("a suspected message waits until it can be seen which processes live", "queue", d.Queue, "id", d.ID, "error", err)
		r.turn.end()
		r.postpone(stop, work, d, s)
		return
	}
	s.died = slices.DeleteFunc(s.died, func(name string) bool { return lives(living, name) })
	log := r.cfg.Logger.With("queue", d.Queue, "id", d.ID, "deaths", len(s.died))
	switch {
	case len(s.died) <= r.cfg.CrashLimit:
		log.Warn("the process died while a suspected message ran: it runs once more, and no other suspect beside it")
		r.tried.set(d.ID, s)
		r.announce(stop, work, d, s)
	case r.row.Load() >= rowLimit:
		log.Error("the process dies whichever message runs: it is not the messages, and no more of them are condemned until one comes to its end")
		s.died = nil
		r.announce(stop, work, d, s)
	default:
		log.Error("a message killed the process each time it ran: it goes to the dead set, not called again")
		r.row.Add(1)
		r.turn.end()
		r.condemn(stop, work, d, e)
	}
}

// trial is the last one that a message came out of, to run once more. Its copy may go to other
// processes first, and is not tried again when it is back.
type trial struct {
	mu   sync.Mutex
	id   string
	died int
}

func (t *trial) set(id string, s suspicion) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.id, t.died = id, len(s.died)
}

func (t *trial) is(id string, s suspicion) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.id == id && t.died == len(s.died)
}

func lives(living map[uint32]bool, name string) bool {
	process, err := strconv.ParseUint(name, 16, 32)
	return err == nil && living[uint32(process)]
}

// condemn puts a message into the dead set, uncalled.
func (r *Retrier) condemn(stop, work context.Context, d queue.Delivery, e *envelope.Envelope) {
	e.Failure.At, e.Failure.Error = time.Now(), fmt.Sprintf("the process died more than %d times while the message ran", r.cfg.CrashLimit)
	p := &parcel{envelope: e, made: e.Message.Attempt}
	p.bury(stepwell.ReasonCrashLoop, r.topology)
	r.post(work, p, func(err error) { r.unread(stop, work, d, err) })
}
