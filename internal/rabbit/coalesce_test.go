package rabbit

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// counted counts the writes that reach it.
type counted struct {
	net.Conn
	writes atomic.Int32
}

func (c *counted) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// coalescing returns both ends: what is written to the first comes out of the other.
func coalescing(t *testing.T) (c *coalescer, below *counted, other net.Conn) {
	t.Helper()
	near, other := net.Pipe()
	below = &counted{Conn: near}
	w := newWire(below, time.Hour)
	c = newCoalescer(w, w)
	t.Cleanup(func() { _, _ = other.Close(), c.Close() })
	return c, below, other
}

func TestWhatIsWrittenDuringAWriteGoesOutTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, below, other := coalescing(t)
		var want []byte
		for i := range 100 {
			p := []byte{byte(i), byte(i)}
			want = append(want, p...)
			if _, err := c.Write(p); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // the first is under way, and nobody reads
		}
		got := make([]byte, len(want))
		if _, err := io.ReadFull(other, got); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%v, err %v", got, err)
		}
		if n := below.writes.Load(); n != 2 {
			t.Errorf("%d writes, want 2", n)
		}
	})
}

func TestAWriterWaitsWhileTooMuchIsToBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, other := coalescing(t)
		write := func(n int) <-chan error {
			done := make(chan error, 1)
			go func() {
				_, err := c.Write(make([]byte, n))
				done <- err
			}()
			synctest.Wait()
			return done
		}
		first, second, third := write(10), write(2*writeBehind), write(1)
		if len(first) != 1 || len(second) != 1 {
			t.Fatal("a writer waits though nothing does: one under way, and one long frame")
		}
		if len(third) != 0 {
			t.Fatal("a writer does not wait though the limit is exceeded")
		}
		if _, err := io.ReadFull(other, make([]byte, 10+2*writeBehind+1)); err != nil {
			t.Fatal(err)
		}
		if err := <-third; err != nil {
			t.Error(err)
		}
	})
}

func TestTheLastFrameIsSentBeforeAConnectionCloses(t *testing.T) {
	c, _, other := coalescing(t)
	go func() {
		for range 3 {
			_, _ = c.Write([]byte("bye"))
		}
		_ = c.Close()
	}()
	if got, err := io.ReadAll(other); err != nil || string(got) != "byebyebye" {
		t.Errorf("%q, err %v", got, err)
	}
}

func TestACloseDoesNotWaitForWhoDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, _ := coalescing(t)
		_, _ = c.Write([]byte("bye"))
		synctest.Wait()
		began := time.Now()
		_ = c.Close()
		if took := time.Since(began); took != farewell {
			t.Errorf("it took %s, want %s", took, farewell)
		}
		if _, err := c.Write([]byte("more")); err == nil {
			t.Error("a write after the end is no error")
		}
	})
}

func TestAWriteThatFailsEndsReadsAndWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, other := net.Pipe()
		defer other.Close()
		w := newWire(&failing{Conn: near}, time.Hour)
		c := newCoalescer(w, w)
		defer c.Close()
		read := make(chan error, 1)
		go func() {
			_, err := c.Read(make([]byte, 1))
			read <- err
		}()
		_, _ = c.Write([]byte("x"))
		if err := <-read; !errors.Is(err, errFailing) {
			t.Errorf("the reader is told %v", err)
		}
		if _, err := c.Write([]byte("x")); !errors.Is(err, errFailing) {
			t.Errorf("the next writer is told %v", err)
		}
	})
}

var errFailing = errors.New("no route to host")

type failing struct{ net.Conn }

func (f *failing) Write([]byte) (int, error) { return 0, errFailing }

func TestADrainWaitsUntilAllIsWrittenOrCannotBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, other := coalescing(t)
		c.drain() // there is nothing
		for range 2 {
			_, _ = c.Write([]byte("x"))
			synctest.Wait()
		}
		drained := make(chan struct{})
		go func() { c.drain(); close(drained) }()
		for range 2 {
			synctest.Wait()
			select {
			case <-drained:
				t.Fatal("something is not written yet")
			default:
			}
			if _, err := io.ReadFull(other, make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
		}
		<-drained
		_, _ = c.Write([]byte("x"))
		go func() { _ = other.Close() }()
		c.drain()
	})
}
