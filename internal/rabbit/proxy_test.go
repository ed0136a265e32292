package rabbit

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// proxy stands between a broker and us. It knows nothing of what it carries, but where some methods
// of the broker's are to disappear.
type proxy struct {
	url    string
	to     string
	listen net.Listener
	owned  sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool
	held  chan struct{} // not nil while nothing passes; closed to go on
	gone  func(class, method uint16) bool
}

func newProxy(t *testing.T, target string) *proxy { return newThief(t, target, nil) }

// newThief is a proxy that lets the methods of the broker's disappear which gone names.
func newThief(t *testing.T, target string, gone func(class, method uint16) bool) *proxy {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{to: u.Host, conns: map[net.Conn]bool{}, gone: gone}
	if p.listen, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	u.Host = p.listen.Addr().String()
	p.url = u.String()
	p.owned.Go(p.accept)
	t.Cleanup(func() {
		_ = p.listen.Close()
		p.pass()
		p.cut()
		p.owned.Wait()
	})
	return p
}

func (p *proxy) accept() {
	for {
		in, err := p.listen.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", p.to)
		if err != nil {
			_ = in.Close()
			continue
		}
		p.keep(in, out)
		p.owned.Go(func() { p.carry(in, out) })
		if p.gone == nil {
			p.owned.Go(func() { p.carry(out, in) })
		} else {
			p.owned.Go(func() { p.steal(out, in) })
		}
	}
}

func (p *proxy) keep(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		p.conns[c] = true
	}
}

func (p *proxy) carry(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		if held := p.holding(); held != nil {
			<-held
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// steal carries whole frames from the broker, but for methods that are to disappear.
func (p *proxy) steal(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	const header, isMethod = 7, 1
	in := bufio.NewReader(from)
	for {
		head, err := in.Peek(header)
		if err != nil {
			return
		}
		frame := make([]byte, header+int(binary.BigEndian.Uint32(head[3:]))+1)
		if _, err := io.ReadFull(in, frame); err != nil {
			return
		}
		if frame[0] == isMethod && p.gone(binary.BigEndian.Uint16(frame[7:]), binary.BigEndian.Uint16(frame[9:])) {
			continue
		}
		if _, err := to.Write(frame); err != nil {
			return
		}
	}
}

func (p *proxy) holding() chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}

// cut ends all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
	clear(p.conns)
}

// hold lets nothing pass, in either direction, as a network that swallows packets.
func (p *proxy) hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = make(chan struct{})
}

// pass ends hold.
func (p *proxy) pass() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held != nil {
		close(p.held)
		p.held = nil
	}
}
