package inbox_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/inbox"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/seats"
	"github.com/stepwell/stepwell/internal/solo"
	"github.com/stepwell/stepwell/internal/task"
)

// Times of the model: short, but in the same order as those that are used. No whole seconds, since
// what waits for its turn looks again each second: in step with it, deaths would double all copies.
const (
	modelProbation = 5370 * time.Millisecond
	modelAloneFor  = 6130 * time.Millisecond
	modelDrain     = 4 * s                  // what a stop gives to handlers: longer than a suspect is waited for
	noticed        = 2 * s                  // until it is seen that a process has died: less than half of the probation
	restart        = 730 * time.Millisecond // until another process takes the place of one that ended
	copyTime       = 10 * s
)

// mood is what the dead set does with what is published to it.
type mood int

const (
	takes    mood = iota
	refusing      // it says that the message is too large
	silent        // it confirms nothing
)

// temper is what a message does to the process that calls it.
type temper struct {
	takes time.Duration // how long its call is
	// kills is how many calls end their process; the others come to their end.
	kills int
	// fails is how many of the others fail: they go to the queue beside, for another try.
	fails int
	// accused is how many processes died of it before the model begins.
	accused int
	calls   int
	failed  int
	done    int
	deaths  int       // of processes, by its calls
	rests   time.Time // until then, as it could not be parked
}

const always = 1 << 30

// crashWorld is a queue, and processes that work it off. Messages may end the process that calls
// them, or take longer than others are to wait for them.
type crashWorld struct {
	limit   int
	wait    bool // there is a queue beside
	workers int
	seats   int // how many calls of a process run at once at most; 0: as many as there are workers

	mu       sync.Mutex
	queue    modelQueue
	messages map[string]*temper
	dead     map[string]int // how often each is in the dead set
	procs    []*process     // all that there were, in order
	// diedOf has, by message, the process of each death, or cut, while it ran there as a suspect.
	diedOf map[string][]*process
	deaths int
	// What others do to the processes.
	deadSet mood
	blind   bool          // nobody can say who lives
	deploy  time.Duration // after so long each call ends its process; 0: none does
	// began is when the last change was; until the next one everybody waited who did.
	began   time.Time
	longest time.Duration // for which a message that was not suspected waited
	trials  int
	rowsCut int // how often it was said that it is not the messages
	start   time.Time
	history []string
	wrong   string // what was broken first
	closed  bool   // no process begins any more
}

// process is one that works the queue off.
type process struct {
	w      *crashWorld
	number uint32
	link   *link
	in     *inbox.Inbox
	stop   context.CancelFunc
	abort  context.CancelFunc
	ended  chan struct{} // closed when nothing of it runs

	stopping, paused bool
	gone             bool // it died, or was stopped and has ended
	goneAt           time.Time
	calls            []*oneCall
	row              []string // what was condemned since a suspect came to its end
	condemned        []string // and all, each as a try
}

// oneCall is a call.
type oneCall struct {
	id    string
	try   string // the id, and which attempt it is
	alone bool
	began time.Time
}

func newCrashWorld(limit, workers int) *crashWorld {
	w := &crashWorld{
		limit: limit, workers: workers, messages: map[string]*temper{}, dead: map[string]int{},
		diedOf: map[string][]*process{}, began: time.Now(), start: time.Now(),
	}
	w.queue.w = w
	return w
}

// change makes a change, and counts who waited until then.
func (w *crashWorld) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.countWaits()
	f()
}

// broke notes that a promise was broken. The lock must be held.
func (w *crashWorld) broke(format string, args ...any) {
	if w.wrong == "" {
		w.wrong = fmt.Sprintf(format, args...)
	}
}

// note adds to the history, which a failure shows the end of.
func (w *crashWorld) note(format string, args ...any) {
	w.history = append(w.history, fmt.Sprintf("%v ", time.Since(w.start))+fmt.Sprintf(format, args...))
	w.history = w.history[max(0, len(w.history)-200):]
}

// headersOf are those that tell of suspicions.
func headersOf(m queue.Message) string {
	return fmt.Sprintf("died %v, runs in %v", m.Headers["x-stepwell-suspect"], m.Headers["x-stepwell-suspect-by"])
}

// put has a message published to the queue, as if the broker had counted so many returns.
func (w *crashWorld) put(id string, t temper, returns int64) {
	e := envelope.Envelope{Message: stepwell.Message{ID: id, Value: []byte("x"), Attempt: 2, Origin: stepwell.Origin{Topic: "t"}}}
	m := e.Encode()
	if t.accused > 0 {
		m.Headers["x-stepwell-suspect"] = strings.Repeat("ffffffff,", t.accused)
	}
	w.change(func() {
		w.messages[id] = &t
		i := &item{m: m, returns: returns, back: returns > 0}
		w.queue.items = append(w.queue.items, i)
		w.queue.add(i)
	})
}

// begin starts a process.
func (w *crashWorld) begin() {
	if w.closed {
		return
	}
	p := &process{w: w, number: uint32(len(w.procs) + 1), ended: make(chan struct{})}
	p.link = &link{p: p, up: true, changed: make(chan struct{}), shows: map[string]bool{}}
	cfg := inbox.Config{
		Queue: modelMain, Broker: p.link, Presence: p.link, Publisher: p.link, Owner: p, Workers: w.workers,
		HandlerTimeout: modelAloneFor / 2, Logger: slog.New(saying{w}),
		Suspects: inbox.Suspects{
			Limit: w.limit, Token: &solo.Token{}, Process: p.number, AloneFor: modelAloneFor, Probation: modelProbation,
		},
	}
	if w.wait {
		cfg.Suspects.Wait = modelWait
	}
	if w.seats > 0 {
		cfg.Seats = seats.New(w.seats).Retry()
	}
	p.in = inbox.New(cfg)
	stop, cancelStop := context.WithCancel(context.Background())
	work, cancelWork := context.WithCancel(context.Background())
	p.stop, p.abort = cancelStop, cancelWork
	w.procs = append(w.procs, p)
	go func() {
		defer close(p.ended)
		if err := p.in.Run(stop, work, p.handle); err != nil {
			w.change(func() { w.broke("Run: %v", err) })
		}
	}()
}

// saying counts what is said in the log.
type saying struct{ w *crashWorld }

func (saying) Enabled(context.Context, slog.Level) bool { return true }
func (l saying) WithAttrs([]slog.Attr) slog.Handler     { return l }
func (l saying) WithGroup(string) slog.Handler          { return l }

func (l saying) Handle(_ context.Context, r slog.Record) error {
	l.w.change(func() {
		switch {
		case strings.Contains(r.Message, "it runs once more"):
			l.w.trials++
		case strings.Contains(r.Message, "it is not the messages"):
			l.w.rowsCut++
		}
	})
	return nil
}

// alive are the processes that take messages, or would but for a cut or a pause.
func (w *crashWorld) alive() (all []*process) {
	w.change(func() {
		for _, p := range w.procs {
			if !p.gone && !p.stopping {
				all = append(all, p)
			}
		}
	})
	return all
}

// handle is the handler.
func (p *process) handle(ctx context.Context, m *stepwell.Message, t inbox.Ticket) task.Outcome {
	w := p.w
	c := &oneCall{id: m.ID, try: fmt.Sprint(m.ID, " ", m.Attempt), alone: t.Alone(), began: time.Now()}
	var length time.Duration
	kills := false
	w.change(func() {
		how := w.messages[m.ID]
		how.calls++
		length, kills = how.takes, how.calls <= how.kills
		if w.deploy > 0 {
			length, kills = w.deploy, true
		}
		p.called(c)
	})
	select {
	case <-time.After(length):
	case <-ctx.Done():
	}
	outcome := task.Abandoned
	w.change(func() {
		switch {
		case p.gone || ctx.Err() != nil:
			p.over(c)
		case kills:
			w.messages[m.ID].deaths++
			p.die(false)
		case w.messages[m.ID].failed < w.messages[m.ID].fails:
			w.messages[m.ID].failed++
			p.over(c)
			outcome = task.Pending
		default:
			w.messages[m.ID].done++
			p.over(c)
			outcome = task.Settled
		}
	})
	if outcome == task.Pending {
		t.Park(p.park)
	}
	if kills && outcome == task.Abandoned {
		<-ctx.Done()
	}
	return outcome
}

// park is what is done with a failure: the next try, in the queue beside. It is refused, as too
// large, while the dead set refuses what comes.
func (p *process) park(ctx context.Context, e *envelope.Envelope, done func(error)) {
	refused := false
	p.w.change(func() {
		if refused = p.w.deadSet == refusing; refused {
			p.w.messages[e.Message.ID].rests = time.Now().Add(time.Minute)
		}
	})
	if refused {
		go done(queue.ErrTooLarge)
		return
	}
	e.Message.Attempt++
	p.link.Publish(ctx, modelWait, e.Encode(), done)
}

func (p *process) called(c *oneCall) {
	p.w.note("process %d calls %s, alone %v", p.number, c.id, c.alone)
	if p.gone {
		return
	}
	for _, other := range p.calls {
		// A suspect that waits for a seat has the token, and its time runs.
		if c.alone && other.alone && p.w.seats == 0 && time.Since(other.began) < modelAloneFor {
			p.w.broke("process %d: suspect %s is called beside %s, which began %v ago", p.number, c.id, other.id, time.Since(other.began))
		}
	}
	p.calls = append(p.calls, c)
}

func (p *process) over(c *oneCall) {
	p.calls = slices.DeleteFunc(p.calls, func(other *oneCall) bool { return other == c })
	if c.alone {
		p.row = nil
	}
}

// suspectsRun notes that the process dies, or is cut off, while these run. A suspect counts as one
// that runs as soon as somebody has its announced copy, be it on the way to the process it names:
// the death of the one that has it is then taken for that of the other.
func (p *process) suspectsRun() {
	for _, c := range p.calls {
		if c.alone {
			p.w.diedOf[c.id] = append(p.w.diedOf[c.id], p)
		}
	}
	if p.link.s == nil {
		return
	}
	for _, i := range p.link.s.out {
		if !slices.ContainsFunc(p.calls, func(c *oneCall) bool { return c.alone && c.id == i.m.ID }) {
			p.w.noteAnnounced(i)
		}
	}
}

// noteAnnounced notes that the copy, if it is announced, goes back to the queue, which tells of the
// death of the process that it names.
func (w *crashWorld) noteAnnounced(i *item) {
	by, _, _ := strings.Cut(fmt.Sprint(i.m.Headers["x-stepwell-suspect-by"]), "+")
	if number, err := strconv.ParseUint(by, 16, 32); err == nil {
		w.diedOf[i.m.ID] = append(w.diedOf[i.m.ID], w.procs[number-1])
	}
}

// die ends the process at once. What it published and the broker does not have yet arrives, or
// does not. The lock must be held.
func (p *process) die(arrives bool) {
	if p.gone {
		return
	}
	p.w.deaths++
	p.w.note("process %d dies", p.number)
	p.suspectsRun()
	p.leave()
	p.link.cut(arrives)
	for _, one := range slices.Clone(p.link.sends) {
		one.finish(errProcessDied)
	}
	p.stop()
	p.abort()
}

// leave has another process take this one's place.
func (p *process) leave() {
	p.gone, p.goneAt, p.calls = true, time.Now(), nil
	time.AfterFunc(restart, func() { p.w.change(p.w.begin) })
}

// cut cuts its connection off for a while.
func (p *process) cut(d time.Duration, arrives bool) {
	if p.gone || !p.link.up {
		return
	}
	p.suspectsRun()
	p.link.cut(arrives)
	time.AfterFunc(d, func() { p.w.change(p.link.connect) })
}

// end stops it in order: its calls have the time of the drain.
func (p *process) end() {
	if p.gone || p.stopping {
		return
	}
	p.stopping = true
	p.w.note("process %d is to stop", p.number)
	p.stop()
	time.AfterFunc(modelDrain, p.abort)
	go func() {
		<-p.ended
		p.w.change(func() {
			if !p.gone {
				p.link.cut(true)
				p.leave()
			}
		})
	}()
}

// pause has it take nothing for a while.
func (p *process) pause(d time.Duration) {
	p.w.change(func() { p.paused = true })
	p.in.Pause()
	p.w.change(func() {
		if s := p.link.s; s != nil {
			if s.hand != nil {
				s.hand()
			}
			s.poke()
		}
	})
	time.AfterFunc(d, func() {
		p.in.Resume()
		p.w.change(func() {
			p.paused = false
			if s := p.link.s; s != nil {
				s.poke()
			}
		})
	})
}

func (w *crashWorld) refuses(to string) bool { return to == modelDead && w.deadSet != takes }

// Decode is that of an inbox.Owner: there are envelopes in the queue.
func (p *process) Decode(d queue.Delivery) (*envelope.Envelope, error) {
	return envelope.Decode(d.Message)
}

// Complete has nothing to add.
func (p *process) Complete(context.Context, *envelope.Envelope) (string, error) { return "", nil }

// BuryUnreadable is called for nothing here.
func (p *process) BuryUnreadable(_ context.Context, m queue.Message, problem error, _ func(error)) {
	p.w.change(func() { p.w.broke("%s cannot be decoded: %v", m.ID, problem) })
}

// Bury puts what is condemned into the dead set.
func (p *process) Bury(ctx context.Context, e *envelope.Envelope, reason, text string, done func(error)) {
	id, try := e.Message.ID, fmt.Sprint(e.Message.ID, " ", e.Message.Attempt)
	p.w.change(func() { p.condemns(id, try) })
	e.Failure = envelope.Failure{Reason: reason, Error: text, At: time.Now()}
	p.link.Publish(ctx, modelDead, e.Encode(), func(err error) {
		p.w.change(func() {
			if err == nil {
				return
			}
			not := func(other string) bool { return other == try }
			p.row, p.condemned = slices.DeleteFunc(p.row, not), slices.DeleteFunc(p.condemned, not)
		})
		done(err)
	})
}
