package rabbit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell/internal/failpoint"
	"github.com/stepwell/stepwell/internal/queue"
)

const (
	// callLimit is how long the broker may take to answer one AMQP method.
	callLimit = 10 * time.Second
	// farewell is how long a connection may take to close in good order.
	farewell = 500 * time.Millisecond
)

var (
	// errSessionOver is the cause of a session that we ended ourselves.
	errSessionOver = errors.New("connection closed")
	// errNoAnswer is that of one whose broker took too long.
	errNoAnswer = errors.New("no answer")
	// errUnreadable is that of one on which a message came that the library cannot read.
	errUnreadable = errors.New("a message came that the AMQP library cannot read")
)

// session is one AMQP connection from its handshake to its end. It is never mended: after it comes
// another session, with new channels and new delivery tags, so that nothing of an old one can reach
// a new one.
type session struct {
	// The layers of one connection, from the library down to the socket: conn writes to bytes,
	// which writes to wire, or to TLS over wire.
	conn  *amqp.Connection
	bytes *coalescer
	// wire can be closed whatever the layers above wait for; it also knows about the alarm.
	wire *wire
	// release is the broker's version, as its handshake told.
	release release
	// ctx ends with the connection; its cause says why.
	ctx context.Context
	end context.CancelCauseFunc
	// unblockedAt is when the last alarm ended, nil before that. It is a whole time, not its
	// nanoseconds: those would be compared by the wall clock, and one that was set back would
	// forgive a late confirm for as long.
	unblockedAt atomic.Pointer[time.Time]
	// alarm is readable when one began or ended; it has room for one signal.
	alarm chan struct{}
	// asking has the channel on which the last look was made, for the next one; nil: each look
	// opens one of its own.
	asking chan *amqp.Channel
	// trip is how long the shortest way to the broker and back took, in nanoseconds; 0: not known.
	trip atomic.Int64
	// watcher is the goroutine of watch, which ends with the connection.
	watcher sync.WaitGroup
}

// connect tries the targets in turn and takes the first that answers. A broker that is too old ends
// the search: that errTooOld is returned alone, so that it is not taken for an outage.
func connect(ctx context.Context, targets []target, name string) (*session, error) {
	var all several
	for i := range targets {
		conn, c, err := targets[i].connect(ctx, name)
		if err != nil {
			all = append(all, err)
			continue
		}
		s := newSession(conn, c)
		s.release = newRelease(conn.Properties)
		if err := s.release.check(); err != nil {
			s.close()
			return nil, err
		}
		// With less the headers of one message would end the connection each time that it is sent,
		// and with it what all others have in flight.
		if most := conn.Config.FrameSize; most < frameSize {
			s.close()
			all = append(all, fmt.Errorf("%s takes frames of %d bytes at most, and the headers of a message, which need up to %d, must fit one: raise its frame_max to that, which is the default", targets[i].addr, most, frameSize))
			continue
		}
		return s, nil
	}
	return nil, all
}

// several is one error for each target, in one line.
type several []error

func (e several) Error() string {
	var all []string
	for _, err := range e {
		all = append(all, err.Error())
	}
	return strings.Join(all, "; ")
}

// Unwrap gives errors.Is and errors.As all of them.
func (e several) Unwrap() []error { return e }

func newSession(conn *amqp.Connection, c *coalescer) *session {
	s := &session{conn: conn, bytes: c, wire: c.wire, alarm: make(chan struct{}, 1)}
	s.ctx, s.end = context.WithCancelCause(context.Background())
	closed := conn.NotifyClose(make(chan *amqp.Error, 1))
	blocked := conn.NotifyBlocked(make(chan amqp.Blocking, 8))
	s.watcher.Go(func() { s.watch(closed, blocked) })
	return s
}

// watch notes alarms, and ends the session with the connection.
func (s *session) watch(closed <-chan *amqp.Error, blocked <-chan amqp.Blocking) {
	for {
		select {
		case b, ok := <-blocked:
			// The library closes this channel with the connection; closed tells why.
			if !ok {
				blocked = nil
				continue
			}
			// unblockedAt is set before blocked is cleared. A lane reads them the other way round:
			// it would else see no alarm, and count the time under it as time in which no confirm
			// came.
			if !b.Active {
				s.unblockedAt.Store(new(time.Now()))
			}
			s.wire.blocked.Store(b.Active)
			signal(s.alarm) // whoever reads it finds how it is now
		case err := <-closed:
			switch {
			case err == nil:
				s.end(errSessionOver)
			case err.Server:
				s.end(fmt.Errorf("connection closed by the broker: %w", err))
			case strings.Contains(err.Reason, amqp.ErrSyntax.Error()):
				s.end(fmt.Errorf("connection lost: %w: %s", errUnreadable, err.Reason))
			default: // the library makes everything an AMQP exception
				s.end(errors.New("connection lost: " + err.Reason))
			}
			return
		}
	}
}

func (s *session) alive() bool { return s.ctx.Err() == nil }

// lostOver says that the error is that of a lost connection, which an error may show before the
// session has noticed.
func (s *session) lostOver(err error) bool {
	return !s.alive() || s.conn.IsClosed() || isCut(err) && !errors.Is(err, amqp.ErrClosed) // which may be the end of a channel alone
}

// written waits until what was sent has left the process, so that the mark which follows stands
// where its name says. In a process that no mark is to kill it does nothing.
func (s *session) written() {
	if failpoint.On() {
		s.bytes.drain()
	}
}

func (s *session) blocked() bool { return s.wire.blocked.Load() }

// cut ends the connection at once, whatever is under way on it.
func (s *session) cut(why error) {
	s.end(why)
	// The socket, not the library: the library's close waits for the broker, or for a write that an
	// alarm holds up.
	_ = s.wire.Close()
}

// close ends the connection in good order where the broker answers quickly, and cuts it where not.
// It returns when the session's goroutine has ended.
func (s *session) close() {
	// Under an alarm the broker does not read, so that a close in good order would not be answered.
	if s.blocked() {
		s.cut(errSessionOver)
	}
	timer := time.AfterFunc(farewell, func() { s.cut(errSessionOver) })
	_ = s.conn.Close()
	timer.Stop()
	_ = s.bytes.Close() // it may still have the answer to a close of the broker's to write
	s.cut(errSessionOver)
	s.watcher.Wait()
}

// hindered says that an alarm holds answers up, or did until a moment ago.
func (s *session) hindered() bool {
	if s.blocked() { // before unblockedAt: see watch
		return true
	}
	unblocked := s.unblockedAt.Load()
	return unblocked != nil && time.Since(*unblocked) < callLimit
}

// call runs f, which waits for an answer of the broker, and cuts the connection when none comes. An
// alarm is no reason to cut: the answer comes when it ends, and a broker that dies meanwhile is
// noticed by its silence.
func (s *session) call(what string, f func() error) error {
	waiting, answered := context.WithCancel(s.ctx)
	timer := time.AfterFunc(callLimit, func() {
		for s.hindered() && sleep(waiting, callLimit) {
		}
		if waiting.Err() == nil {
			s.cut(fmt.Errorf("%s: %w within %s", what, errNoAnswer, callLimit))
		}
	})
	err := f()
	timer.Stop()
	answered()
	if err == nil {
		return nil
	}
	// The library says only that the connection is closed; the session knows why. What the broker
	// said itself is more precise than both.
	if cause := context.Cause(s.ctx); cause != nil && code(err) == 0 {
		err = cause
	}
	return fmt.Errorf("%s: %w", what, err)
}

// channel opens an AMQP channel, on which delivery tags and confirms begin at one.
func (s *session) channel() (ch *amqp.Channel, err error) {
	began := time.Now()
	err = s.call("open channel", func() error {
		ch, err = s.conn.Channel()
		return err
	})
	if trip := int64(time.Since(began)); err == nil && (s.trip.Load() == 0 || trip < s.trip.Load()) {
		s.trip.Store(trip) // one that is a little longer may win a race: it is a guess
	}
	return ch, err
}

// closeChannel closes the channel and waits for the broker: what was unacked on it is back in its
// queue, in order.
func (s *session) closeChannel(ch *amqp.Channel) error { return s.call("close channel", ch.Close) }

// inspect asks for the state of a queue, on a channel that nobody else uses, since a missing queue
// closes it.
func (s *session) inspect(queue string) (state amqp.Queue, err error) {
	state, _, err = s.timed(queue)
	return state, err
}

// timed is inspect, and how long the answer took.
func (s *session) timed(queue string) (state amqp.Queue, took time.Duration, err error) {
	ch, err := s.toAsk()
	if err != nil {
		return state, 0, err
	}
	asked := time.Now()
	if state, err = s.look(ch, queue); err != nil {
		return state, 0, err
	}
	took = time.Since(asked)
	select {
	case s.asking <- ch:
		return state, took, nil
	default:
		return state, took, s.closeChannel(ch)
	}
}

// look asks on that channel.
func (s *session) look(ch *amqp.Channel, queue string) (state amqp.Queue, err error) {
	err = s.call("look at queue "+queue, func() error {
		state, err = ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		return err
	})
	return state, err
}

// toAsk is a channel to look at a queue.
func (s *session) toAsk() (*amqp.Channel, error) {
	select {
	case ch := <-s.asking:
		return ch, nil
	default:
		return s.channel()
	}
}

// declare makes the queue, or compares its arguments where it is there, on a channel of its own
// since a refusal closes it.
func (s *session) declare(queue string, args amqp.Table) error {
	ch, err := s.channel()
	if err != nil {
		return err
	}
	err = s.call("declare queue "+queue, func() error {
		_, err := ch.QueueDeclare(queue, true, false, false, false, args)
		return err
	})
	if err != nil {
		return err
	}
	return s.closeChannel(ch)
}

// bind has the queue get what is published to its exchange with any of its keys. A binding that is
// there already stays as it is.
func (s *session) bind(spec queue.Spec) error {
	ch, err := s.channel()
	if err != nil {
		return err
	}
	for _, key := range spec.Keys {
		err := s.call("bind queue "+spec.Name, func() error { return ch.QueueBind(spec.Name, key, spec.Exchange, false, nil) })
		switch {
		case code(err) == amqp.NotFound:
			return fmt.Errorf("%w: exchange %s does not exist, or queue %s is gone: %w", queue.ErrMissing, spec.Exchange, spec.Name, err)
		case code(err) == amqp.AccessRefused:
			return fmt.Errorf("the RabbitMQ user may not bind queue %s to exchange %s: grant it to write to the queue and to read the exchange: %w", spec.Name, spec.Exchange, err)
		case err != nil:
			return err
		}
	}
	return s.closeChannel(ch)
}

// code returns the reply code of an error that the broker sent, or 0.
func code(err error) int {
	var e *amqp.Error
	if errors.As(err, &e) && e.Server {
		return e.Code
	}
	return 0
}
