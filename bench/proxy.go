package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
)

// proxy leads connections on to a broker until it is cut.
type proxy struct {
	target   string
	listener net.Listener
	running  sync.WaitGroup
	once     sync.Once

	mu    sync.Mutex
	conns []net.Conn
	dead  bool
}

// newProxy listens, and returns the URL under which the broker is then found.
func newProxy(ctx context.Context, broker string) (p *proxy, through string, err error) {
	u, err := url.Parse(broker)
	if err != nil {
		return nil, "", fmt.Errorf("URL of RabbitMQ: %w", err)
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", fmt.Errorf("listen: %w", err)
	}
	p = &proxy{target: u.Host, listener: l}
	u.Host = l.Addr().String()
	p.running.Go(func() { p.accept(ctx) })
	return p, u.String(), nil
}

func (p *proxy) accept(ctx context.Context) {
	var dialer net.Dialer
	for {
		in, err := p.listener.Accept()
		if err != nil {
			return // cut
		}
		out, err := dialer.DialContext(ctx, "tcp", p.target)
		if err != nil {
			_ = in.Close()
			continue
		}
		if !p.keep(in, out) {
			return
		}
		p.running.Go(func() { p.lead(in, out) })
		p.running.Go(func() { p.lead(out, in) })
	}
}

// lead copies one direction; its end is that of both.
func (p *proxy) lead(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	_ = to.Close()
	_ = from.Close()
}

func (p *proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns = append(p.conns, conns...)
	if p.dead {
		p.close()
	}
	return !p.dead
}

func (p *proxy) close() {
	for _, c := range p.conns {
		_ = c.Close()
	}
}

// cut ends all connections and takes no more.
func (p *proxy) cut() { p.once.Do(p.end) }

func (p *proxy) end() {
	p.mu.Lock()
	p.dead = true
	p.close()
	p.mu.Unlock()
	_ = p.listener.Close()
	p.running.Wait()
}
