package proxy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// echo answers with what it gets.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				_, _ = io.Copy(c, c) // until somebody cuts it
				_ = c.Close()
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	return l.Addr().String()
}

func through(t *testing.T) (*Proxy, net.Conn) {
	t.Helper()
	p, err := New(echo(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return p, c
}

func ask(t *testing.T, c net.Conn, text []byte) time.Duration {
	t.Helper()
	began := time.Now()
	if _, err := c.Write(text); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(text))
	if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, text) {
		t.Fatalf("answer %q: %v", got, err)
	}
	return time.Since(began)
}

func TestInGoodWeatherEverythingPasses(t *testing.T) {
	_, c := through(t)
	ask(t, c, bytes.Repeat([]byte("well"), 100_000))
}

func TestLatencyAndTrickleTakeTheirTime(t *testing.T) {
	p, c := through(t)
	p.Set(Weather{Latency: 50 * time.Millisecond})
	if took := ask(t, c, []byte("x")); took < 100*time.Millisecond {
		t.Errorf("there and back in %s", took)
	}
	p.Set(Weather{Rate: 1000})
	if took := ask(t, c, make([]byte, 100)); took < 100*time.Millisecond {
		t.Errorf("100 bytes in %s", took)
	}
}

func TestWhatFellIntoAHoleArrivesWhenItIsGone(t *testing.T) {
	for _, way := range []Way{Up, Down} {
		p, c := through(t)
		p.Set(Weather{Hole: way})
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if err := c.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if n, err := c.Read(make([]byte, 1)); n != 0 {
			t.Fatalf("%d bytes came through: %v", n, err)
		}
		if err := c.SetReadDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		p.Set(Weather{})
		if n, err := c.Read(make([]byte, 1)); n != 1 {
			t.Errorf("nothing came afterwards: %v", err)
		}
	}
}

func TestCutAndResetEndConnections(t *testing.T) {
	p, c := through(t)
	ask(t, c, []byte("x"))
	p.Cut()
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("after a cut: %v", err)
	}
	p, c = through(t)
	ask(t, c, []byte("x"))
	p.Reset()
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("after a reset: %v", err)
	}
}

// frame is a frame of AMQP.
func frame(kind byte, payload []byte) []byte {
	b := []byte{kind, 0, 1}
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload)))
	return append(append(b, payload...), 0xCE)
}

func method(m Method, arguments int) []byte {
	return frame(1, append(binary.BigEndian.AppendUint32(nil, uint32(m)), make([]byte, arguments)...))
}

func TestMethodsAreFoundHoweverTheStreamIsCutIntoPieces(t *testing.T) {
	var stream []byte
	stream = append(stream, "AMQP\x00\x00\x09\x01"...)
	stream = append(stream, method(Publish, 20)...)
	stream = append(stream, frame(2, make([]byte, 30))...) // a content header
	stream = append(stream, frame(3, bytes.Repeat(method(Ack, 0), 9))...)
	stream = append(stream, frame(8, nil)...) // a heartbeat
	stream = append(stream, method(Ack, 9)...)
	for size := 1; size <= len(stream); size++ {
		f := &frames{greeting: 8}
		var found []Method
		for rest := stream; len(rest) > 0; {
			piece := rest[:min(size, len(rest))]
			rest = rest[len(piece):]
			for len(piece) > 0 {
				n, m, ok := f.next(piece)
				if ok {
					found = append(found, m)
				}
				piece = piece[n:]
			}
		}
		if len(found) != 2 || found[0] != Publish || found[1] != Ack {
			t.Fatalf("in pieces of %d: %v", size, found)
		}
	}
}

func TestAConnectionEndsAtTheMethod(t *testing.T) {
	p, c := through(t)
	shut := p.CutAt(Up, Ack, 2, false)
	first := append([]byte("AMQP\x00\x00\x09\x01"), method(Ack, 9)...)
	ask(t, c, first)
	if _, err := c.Write(method(Ack, 9)); err != nil {
		t.Fatal(err)
	}
	<-shut
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("something came after the cut")
	}
}
