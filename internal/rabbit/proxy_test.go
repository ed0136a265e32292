package rabbit

import (
	"net"
	"net/url"
	"sync"
	"testing"
)

// proxy stands between a broker and us, and knows nothing of what it carries.
type proxy struct {
	url    string
	to     string
	listen net.Listener
	owned  sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool
	held  chan struct{} // not nil while nothing passes; closed to go on
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{to: u.Host, conns: map[net.Conn]bool{}}
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
		p.owned.Go(func() { p.carry(out, in) })
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
