package inbox_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/inbox"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/seats"
	"github.com/stepwell/stepwell/internal/solo"
	"github.com/stepwell/stepwell/internal/task"
)

// What a process gives back in order did not kill it, whyever it does.
func TestASuspectThatIsGivenBackInOrderTellsOfNoDeath(t *testing.T) {
	for why, prepare := range map[string]func(w *world) inbox.Handle{
		"it waits for a seat": func(w *world) inbox.Handle {
			all := seats.New(1)
			all.First().Take(nil)
			w.cfg.Seats = all.Retry()
			return new(calls).succeeding
		},
		"its call ends without a verdict": func(*world) inbox.Handle {
			return func(context.Context, *stepwell.Message, inbox.Ticket) task.Outcome {
				time.Sleep(2 * s)
				return task.Abandoned
			}
		},
		"it cannot be parked": func(*world) inbox.Handle {
			return func(_ context.Context, _ *stepwell.Message, t inbox.Ticket) task.Outcome {
				t.Park(func(_ context.Context, _ *envelope.Envelope, done func(error)) { go done(errors.New("too large")) })
				return task.Pending
			}
		},
	} {
		t.Run(why, func(t *testing.T) {
			inWorld(t, s, func(w *world) {
				handle := prepare(w)
				w.cfg.Suspects.Limit = 1
				w.returned("innocent")
				for number := range uint32(5) {
					w.cfg.Suspects.Process = number + 7
					w.renew()
					r := w.start(handle)
					time.Sleep(61*s + s/2) // the probation, and the announcement
					r.end()
				}
				if n := len(w.dead()); n != 0 {
					t.Errorf("%d in the dead set, and no process has died", n)
				}
			})
		})
	}
}

func TestTheAnnouncedCopyOfAMessageThatRunsHereAndIsGivenBackTellsOfNoDeath(t *testing.T) {
	inWorld(t, s, func(w *world) {
		w.cfg.Suspects.Limit, w.cfg.Suspects.Process = 1, 7
		w.renew()
		r := w.start(func(context.Context, *stepwell.Message, inbox.Ticket) task.Outcome {
			time.Sleep(5 * s)
			return task.Abandoned
		})
		w.put(w.cfg.Queue, unsuspected("x"))
		time.Sleep(s)
		w.announced("x", "00000008") // it waits for how the other one ends
		time.Sleep(s)
		w.inbox.Pause()
		time.Sleep(10 * s)
		r.end()
		w.namesNobody(2)
	})
}

func TestAnAnnouncedCopyThatNoWorkerTookAndIsGivenBackTellsOfNoDeath(t *testing.T) {
	inWorld(t, s, func(w *world) {
		w.cfg.Suspects.Limit, w.cfg.Suspects.Process, w.cfg.Workers = 1, 7, 1
		w.cfg.HandlerTimeout = 10 * s // which lets more be prefetched than there is room for here
		w.renew()
		r := w.start(func(context.Context, *stepwell.Message, inbox.Ticket) task.Outcome {
			time.Sleep(5 * s)
			return task.Abandoned
		})
		for _, id := range []string{"runs", "waits for the worker"} {
			w.put(w.cfg.Queue, unsuspected(id))
		}
		w.announced("comes too late", "00000008")
		time.Sleep(s)
		w.inbox.Pause()
		time.Sleep(10 * s)
		r.end()
		w.has(0, 3)
		w.namesNobody(3)
	})
}

// decoding is an owner that something else happens beside while it reads a message.
type decoding struct {
	inbox.Owner
	beside func()
}

func (o decoding) Decode(d queue.Delivery) (*envelope.Envelope, error) {
	o.beside()
	return o.Owner.Decode(d)
}

func TestAnAnnouncedCopyThatAStopOvertakesWhileAnotherSuspectHasItsTurnTellsOfNoDeath(t *testing.T) {
	inWorld(t, s, func(w *world) {
		var token solo.Token
		token.Request(&solo.Turn{Ready: func() {}}) // another suspect's, since this copy comes late
		w.cfg.Suspects.Limit, w.cfg.Suspects.Process, w.cfg.Suspects.Token = 1, 7, &token
		w.renew()
		started := make(chan *running, 1)
		w.cfg.Owner = decoding{w.owner, func() { (<-started).stop() }}
		w.inbox = inbox.New(w.cfg)
		w.announced("x", "00000007")
		r := w.start(new(calls).succeeding)
		started <- r
		<-r.ended
		w.namesNobody(1)
	})
}

// overtaken is a broker whose first delivery comes when something else has happened meanwhile.
type overtaken struct {
	queue.Broker
	by   func(end context.CancelFunc) // end ends the context of the delivery
	took chan bool
}

func (b overtaken) Consume(stop, work context.Context, c queue.Consumption) error {
	handle := c.Handle
	c.Paused = nil
	c.Handle = func(ctx context.Context, d queue.Delivery) bool {
		ctx, end := context.WithCancel(ctx)
		defer end()
		b.by(end)
		took := handle(ctx, d)
		b.took <- took
		<-stop.Done()
		return took
	}
	return b.Broker.Consume(stop, work, c)
}

// overtake makes an Inbox whose first delivery is overtaken.
func (w *world) overtake(by func(end context.CancelFunc)) (took <-chan bool) {
	b := overtaken{w.broker, by, make(chan bool, 1)}
	w.cfg.Broker = b
	w.renew()
	return b.took
}

// What comes back is handed out elsewhere, and would be moved there once more.
func TestWhatAPauseOrTheEndOfItsSessionOvertookIsNotMovedAndGoesBack(t *testing.T) {
	for name, by := range map[string]func(w *world) func(end context.CancelFunc){
		"a pause":                func(w *world) func(context.CancelFunc) { return func(context.CancelFunc) { w.inbox.Pause() } },
		"the end of its session": func(*world) func(context.CancelFunc) { return func(end context.CancelFunc) { end() } },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, s, func(w *world) {
				took := w.overtake(by(w))
				w.put(w.cfg.Queue, queue.Message{ID: "hop", Headers: map[string]any{"elsewhere": w.cfg.Queue + ".dead"}})
				r := w.start(new(calls).succeeding)
				if <-took {
					t.Error("it was taken")
				}
				r.end()
				w.has(0, 1)
			})
		})
	}
}

// The process is 00000007, and gives back what it did not start.
func TestACopyThatIsGivenBackUnstartedTellsOfTheDeathThatItToldOfBeforeAndOfNoOther(t *testing.T) {
	for name, test := range map[string]struct {
		by        string
		givenBack int
		want      string
	}{
		"it names this process":                         {"00000007", 0, ""},
		"it names this one, whose connection was cut":   {"00000007", 1, ""},
		"it names another, which is to get it":          {"00000008", 0, ""},
		"it names another, which died while it ran":     {"00000008", 1, "00000008"},
		"it names nobody, and goes back as it is":       {"", 0, ""},
		"it names nobody, and went back as it was once": {"", 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, s, func(w *world) {
				w.cfg.Suspects.Limit, w.cfg.Suspects.Process = 3, 7
				took := w.overtake(func(end context.CancelFunc) { end() })
				w.announced("x", test.by)
				w.givenBack(test.givenBack)
				r := w.start(new(calls).succeeding)
				<-took
				r.end()
				w.has(0, 1)
				if by := w.announcers(1); by[0] != test.want {
					t.Errorf("it came back and names %q, want %q", by[0], test.want)
				}
			})
		})
	}
}

// counting is a broker that counts how often each delivery was settled, and takes its time to
// confirm a copy that names nobody.
type counting struct {
	queue.Broker
	of       *settles
	confirms time.Duration
}

func (b counting) Publisher(name string) queue.Publisher {
	return slowly{b.Broker.Publisher(name), b.confirms}
}

type slowly struct {
	queue.Publisher
	confirms time.Duration
}

func (p slowly) Publish(ctx context.Context, to string, m queue.Message, done func(error)) {
	confirms := map[any]time.Duration{"": p.confirms}[m.Headers["x-stepwell-suspect-by"]]
	p.Publisher.Publish(ctx, to, m, func(err error) {
		time.AfterFunc(confirms, func() { done(err) })
	})
}

type settles struct {
	mu    sync.Mutex
	count map[uint64]int // by tag
}

func (b counting) Consume(stop, work context.Context, c queue.Consumption) error {
	handle := c.Handle
	c.Handle = func(ctx context.Context, d queue.Delivery) bool {
		d.Session = countingSession{d.Session, b.of}
		return handle(ctx, d)
	}
	return b.Broker.Consume(stop, work, c)
}

type countingSession struct {
	queue.Session
	of *settles
}

func (c countingSession) Ack(tag uint64) {
	c.add(tag)
	c.Session.Ack(tag)
}

func (c countingSession) Release(tag uint64) {
	c.add(tag)
	c.Session.Release(tag)
}

func (c countingSession) add(tag uint64) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.of.count[tag]++
}

// RabbitMQ closes the channel of who acks twice.
func TestASuspectThatHadItsTimeIsSettledOnceHoweverItsCallEndsLater(t *testing.T) {
	for name, test := range map[string]struct {
		takes, confirms time.Duration
		first           task.Outcome
		calls, repeats  int
	}{
		"settled: its copy is a repeat":                              {5 * time.Minute, 0, task.Settled, 1, 1},
		"without a verdict: its copy is called":                      {5 * time.Minute, 0, task.Abandoned, 2, 0},
		"settled before its copy is confirmed":                       {time.Minute + s, 2 * s, task.Settled, 1, 1},
		"without a verdict before that: of two copies one is called": {time.Minute + s, 2 * s, task.Abandoned, 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, s, func(w *world) {
				w.cfg.Suspects = inbox.Suspects{Wait: w.cfg.Wait, Limit: 3, AloneFor: time.Minute}
				of := &settles{count: map[uint64]int{}}
				w.cfg.Broker = counting{w.broker, of, test.confirms}
				w.renew()
				w.copied("x", "")
				var c calls
				r := w.start(func(_ context.Context, m *stepwell.Message, _ inbox.Ticket) task.Outcome {
					if c.add(m) > 1 {
						return task.Settled
					}
					time.Sleep(test.takes)
					return test.first
				})
				time.Sleep(time.Hour)
				r.end()
				for tag, n := range of.count {
					if n != 1 {
						t.Errorf("delivery %d was settled %d times", tag, n)
					}
				}
				if n := w.owner.duplicates(); len(c.tries) != test.calls || n != test.repeats {
					t.Errorf("%d calls and %d repeats, want %d and %d", len(c.tries), n, test.calls, test.repeats)
				}
				w.has(0, 0)
				w.empty()
			})
		})
	}
}

func TestASuspectWhoseCopyThatNamesNobodyIsRefusedGoesBackAsItIs(t *testing.T) {
	inWorld(t, s, func(w *world) {
		w.cfg.Suspects.Limit = 3
		w.refuses(func(m queue.Message) bool { return m.Headers["x-stepwell-suspect-by"] == "" })
		w.copied("x", "")
		var c calls
		r := w.start(func(_ context.Context, m *stepwell.Message, _ inbox.Ticket) task.Outcome {
			if c.add(m) > 1 {
				return task.Settled
			}
			return task.Abandoned
		})
		time.Sleep(time.Hour)
		r.end()
		if len(c.tries) != 2 {
			t.Errorf("%d calls, want one more after that without a verdict", len(c.tries))
		}
		w.has(0, 0)
		w.empty()
	})
}

// In a queue of somebody else's a header of that name is a stranger's, and its messages have
// properties that a copy would not have.
func TestAMessageOfSomebodyElsesIsGivenBackAsItIsWhateverItsHeadersSay(t *testing.T) {
	inWorld(t, s, func(w *world) {
		w.cfg.Foreign, w.cfg.Workers, w.cfg.HandlerTimeout = true, 1, 10*s
		w.renew()
		r := w.start(func(context.Context, *stepwell.Message, inbox.Ticket) task.Outcome {
			time.Sleep(5 * s)
			return task.Settled
		})
		w.put(w.cfg.Queue, unsuspected("runs"))
		for _, id := range []string{"waits for the worker", "is taken by none"} {
			w.announced(id, "somebody")
		}
		time.Sleep(s)
		w.inbox.Pause()
		time.Sleep(10 * s)
		r.end()
		for _, by := range w.announcers(2) {
			if by != "somebody" {
				w.t.Errorf("a message came back with another header: %q", by)
			}
		}
	})
}

// namesNobody empties the queue of n messages, of which none is to name a process.
func (w *world) namesNobody(n int) {
	w.t.Helper()
	for _, by := range w.announcers(n) {
		if by != "" {
			w.t.Errorf("a copy came back and names process %s, which lives", by)
		}
	}
}

// announcers empties the queue of n messages, and returns whom each names.
func (w *world) announcers(n int) (all []string) {
	ctx, end := context.WithCancel(w.t.Context())
	_ = w.broker.Consume(ctx, ctx, queue.Consumption{Queue: w.cfg.Queue, Prefetch: func() int { return 9 }, Handle: func(_ context.Context, d queue.Delivery) bool {
		by, _ := d.Headers["x-stepwell-suspect-by"].(string)
		all = append(all, by)
		d.Ack()
		if len(all) == n {
			end()
		}
		return true
	}})
	return all
}
