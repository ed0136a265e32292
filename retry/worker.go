package retry

import (
	"errors"
	"sync"

	"github.com/stepwell/stepwell/internal/queue"
)

// ErrGoexit is the failure of a handler that ended its goroutine, as the Fatal of a test does.
var ErrGoexit = errors.New("the function called runtime.Goexit")

// worker picks up deliveries, one at a time. When a handler ends its goroutine, it goes on with another.
type worker struct {
	retrier *Retrier
	number  int
	all     *sync.WaitGroup
	calls   *job // whose handler runs
	ended   bool // regularly
}

func (w *worker) run(jobs <-chan queue.Delivery, pick func(queue.Delivery)) {
	defer func() {
		if w.ended {
			return
		}
		if p := recover(); p != nil { // a panic passes
			panic(p)
		}
		w.failed()
		w.all.Go(func() { w.run(jobs, pick) })
	}()
	for d := range jobs {
		pick(d)
	}
	w.ended = true
}

// failed ends the call that was cut off.
func (w *worker) failed() {
	j := w.calls
	w.calls = nil
	switch {
	case j == nil:
	case j.work.Err() != nil:
		j.end(false)
	default:
		Ticket{j}.Fail(Failure{Err: ErrGoexit})
	}
}
