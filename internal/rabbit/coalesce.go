package rabbit

import (
	"bufio"
	"cmp"
	"io"
	"net"
	"sync"
	"time"
)

const (
	// readAhead is how much is read at once. The library reads 4 KiB, a few messages, at a time.
	readAhead = 64 << 10
	// writeBehind is how much may wait to be written; then writers wait.
	writeBehind = 64 << 10
)

// coalescer is what the AMQP library reads from and writes to. The library writes each message by
// itself; here those that come while a write is under way go out together in the next one, so that
// neither side handles a packet for each. A write that was taken has not been sent: only a confirm
// says that.
//
// It has no deadlines to set, which is meant: the library would wake a goroutine for each frame to
// set them, and wire keeps its own.
type coalescer struct {
	conn net.Conn // wire, or TLS on it
	wire *wire
	in   *bufio.Reader
	gone chan struct{} // closed when the goroutine that writes has ended

	// mu guards the fields below; change is signalled whenever one of them changes.
	mu     sync.Mutex
	change sync.Cond
	// out is what Write took and run has not taken yet: at most writeBehind, or one longer frame.
	out []byte
	// busy: run is writing what it took from out.
	busy bool
	// closed: run ends once out is empty.
	closed bool
	// err is why nothing is taken any more: a write that failed, or net.ErrClosed after Close.
	err error
}

var _ io.ReadWriteCloser = (*coalescer)(nil)

// newCoalescer starts a goroutine that ends after Close, or when a write fails.
func newCoalescer(conn net.Conn, w *wire) *coalescer {
	c := &coalescer{conn: conn, wire: w, in: bufio.NewReaderSize(conn, readAhead), gone: make(chan struct{})}
	c.change.L = &c.mu
	go c.run()
	return c
}

// Read is for one goroutine. After a write that failed it says why that did.
func (c *coalescer) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	if err != nil {
		err = cmp.Or(c.failed(), err)
	}
	return n, err
}

func (c *coalescer) failed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Write returns when there is room for p, at the latest when what waited before is written.
func (c *coalescer) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.err == nil && len(c.out) > 0 && len(c.out)+len(p) > writeBehind {
		c.change.Wait()
	}
	if c.err != nil {
		return 0, c.err
	}
	c.out = append(c.out, p...)
	c.change.Broadcast()
	return len(p), nil
}

// run writes what waits, until take says that there will be no more, or a write fails.
func (c *coalescer) run() {
	defer close(c.gone)
	var batch []byte
	for {
		batch = c.take(batch)
		if len(batch) == 0 {
			return
		}
		if _, err := c.conn.Write(batch); err != nil {
			c.fail(err)
			_ = c.wire.Close() // nobody may write for long: the reader is to know
			return
		}
	}
}

// take waits for something to write and exchanges it for the memory of what was written; nothing
// when there will be no more.
func (c *coalescer) take(written []byte) []byte {
	// The memory of one long frame is not kept for the life of the connection.
	if cap(written) > 2*writeBehind {
		written = nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy = false
	c.change.Broadcast()
	for len(c.out) == 0 && !c.closed && c.err == nil {
		c.change.Wait()
	}
	batch := c.out
	c.out, c.busy = written[:0], len(batch) > 0
	c.change.Broadcast()
	return batch
}

// drain waits until all is written, or cannot be.
func (c *coalescer) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.err == nil && (c.busy || len(c.out) > 0) {
		c.change.Wait()
	}
}

func (c *coalescer) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// What waited is dropped. No confirm will come for it, so that the lanes publish it again.
	c.err, c.out = err, nil
	c.change.Broadcast()
}

// Close writes what waits, as long as that takes no longer than a farewell, and closes the
// connection. The library calls it right after its last frame.
func (c *coalescer) Close() error {
	c.mu.Lock()
	c.closed = true
	if c.err == nil {
		c.err = net.ErrClosed
	}
	c.change.Broadcast()
	c.mu.Unlock()
	timer := time.NewTimer(farewell)
	defer timer.Stop()
	select {
	case <-c.gone:
	case <-timer.C:
	}
	err := c.conn.Close()
	<-c.gone
	return err
}
