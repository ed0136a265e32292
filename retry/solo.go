package retry

import (
	"context"
	"sync"
	"time"

	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/solo"
)

// quiet is the process kept quiet for one suspect at a time.
type quiet struct {
	room  *solo.Room
	turn  solo.Turn
	ready chan struct{} // readable when the turn has come

	mu      sync.Mutex
	busy    bool
	waiting *time.Timer // for the copy; nil: not
	swapped <-chan struct{}
}

func newQuiet(room *solo.Room) *quiet {
	q := &quiet{room: room, ready: make(chan struct{}, 1)}
	q.turn.Ready = func() {
		select {
		case q.ready <- struct{}{}:
		default:
		}
	}
	return q
}

// begin waits until nothing else runs. It reports false when another suspect has its turn, or stop ended.
func (q *quiet) begin(stop context.Context) bool {
	q.mu.Lock()
	if q.busy {
		q.mu.Unlock()
		return false
	}
	q.busy = true
	q.mu.Unlock()
	for q.room.Request(&q.turn); !q.room.Alone(&q.turn); {
		select {
		case <-q.ready:
		case <-stop.Done():
			q.end()
			return false
		}
	}
	return true
}

// await keeps the turn for resume, so long. swapped is closed when the copy is all there is of the message.
func (q *quiet) await(limit time.Duration, swapped <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.swapped = swapped
	q.waiting = time.AfterFunc(limit, q.forgo)
}

// resume takes over the turn that await keeps, if it does.
func (q *quiet) resume() (swapped <-chan struct{}, kept bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting == nil {
		return nil, false
	}
	q.waiting.Stop()
	q.waiting = nil
	return q.swapped, true
}

// forgo ends the turn that await keeps, if it does.
func (q *quiet) forgo() {
	if _, kept := q.resume(); kept {
		q.end()
	}
}

// end ends the turn.
func (q *quiet) end() {
	q.mu.Lock()
	if q.waiting != nil {
		q.waiting.Stop()
		q.waiting = nil
	}
	q.busy = false
	q.mu.Unlock()
	q.room.Release(&q.turn)
}

// parked are deliveries that came while the room was closed. They are bounded by the prefetch.
type parked struct {
	mu   sync.Mutex
	all  []queue.Delivery
	more chan struct{} // readable when there is something to look at
}

// park keeps a delivery until the room is open.
func (r *Retrier) park(stop context.Context, d queue.Delivery) {
	r.inFlight.Add(-1) // nobody works on it
	r.parked.mu.Lock()
	r.parked.all = append(r.parked.all, d)
	r.parked.mu.Unlock()
	if stop.Err() != nil || !r.cfg.Room.Closed() {
		r.look()
	}
}

// look has feed look at what is parked.
func (r *Retrier) look() {
	select {
	case r.parked.more <- struct{}{}:
	default:
	}
}

// feed gives what is parked to workers again when the room is open, until over ends; then back to the broker, also what comes later.
func (r *Retrier) feed(over context.Context, closing <-chan struct{}, jobs chan<- queue.Delivery) {
	defer r.cfg.Room.Listen(r.look)()
	stopped := over.Done()
	for {
		select {
		case <-closing:
			r.giveBack()
			return
		case <-stopped:
			stopped = nil
			r.giveBack()
		case <-r.parked.more:
			if over.Err() != nil {
				r.giveBack()
				continue
			}
			for _, d := range r.takeParked() {
				select {
				case jobs <- d:
				case <-over.Done():
					d.Release()
				}
			}
		}
	}
}

func (r *Retrier) takeParked() []queue.Delivery {
	r.parked.mu.Lock()
	defer r.parked.mu.Unlock()
	all := r.parked.all
	r.parked.all = nil
	return all
}

func (r *Retrier) giveBack() {
	for _, d := range r.takeParked() {
		d.Release()
	}
}
