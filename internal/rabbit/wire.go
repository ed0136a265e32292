package rabbit

import (
	"errors"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// wire is the network connection below AMQP. It is ours so that it can be cut whatever the AMQP
// library waits for, and it keeps its own deadlines: the library's heartbeat goroutine sets them
// too late while a write is held up by an alarm.
type wire struct {
	net.Conn
	// quiet is the longest time, in nanoseconds, without a byte from, or taken by, the other side.
	quiet atomic.Int64
	// blocked is set while the broker said that it takes no publishes: writes then wait as long as
	// it takes.
	blocked atomic.Bool
	// armed is when the read deadline was set; only the reader uses it.
	armed time.Time
}

func newWire(conn net.Conn, quiet time.Duration) *wire {
	w := &wire{Conn: conn}
	w.quiet.Store(int64(quiet))
	return w
}

// setQuiet changes the limit, also for a read that waits already.
func (w *wire) setQuiet(d time.Duration) {
	w.quiet.Store(int64(d))
	_ = w.Conn.SetReadDeadline(time.Now().Add(d))
}

func (w *wire) limit() time.Duration { return time.Duration(w.quiet.Load()) }

// Read fails when nothing arrives for the limit; the broker's heartbeats arrive far more often.
func (w *wire) Read(p []byte) (int, error) {
	// Setting the deadline costs a timer: a twentieth of the limit is exact enough, and saves it
	// for most reads.
	if now := time.Now(); now.Sub(w.armed) > w.limit()/20 {
		w.armed = now
		if err := w.Conn.SetReadDeadline(now.Add(w.limit())); err != nil {
			return 0, err
		}
	}
	return w.Conn.Read(p)
}

// Write fails when the other side takes nothing for the limit, unless it said that it would not.
func (w *wire) Write(p []byte) (int, error) {
	written := 0
	for {
		if err := w.Conn.SetWriteDeadline(time.Now().Add(w.limit())); err != nil {
			return written, err
		}
		n, err := w.Conn.Write(p[written:])
		written += n
		// Bytes that were taken show that the other side lives, and under an alarm its silence is
		// expected: its heartbeats, which Read waits for, tell whether it is there.
		if errors.Is(err, os.ErrDeadlineExceeded) && (n > 0 || w.blocked.Load()) {
			continue
		}
		return written, err
	}
}

// SetDeadline does nothing: see the type.
func (w *wire) SetDeadline(time.Time) error { return nil }

// SetReadDeadline does nothing: see the type.
func (w *wire) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing: see the type.
func (w *wire) SetWriteDeadline(time.Time) error { return nil }
