// Package proxy is a TCP proxy that misbehaves on command: it cuts, resets, swallows, delays and
// trickles, and can do so exactly at a given method of AMQP.
package proxy

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Way is one direction of the connections.
type Way int

// The directions, as the client sees them.
const (
	Up   Way = iota + 1 // to the server
	Down                // from the server
)

// Weather is what happens to all that passes. The zero value is good weather.
type Weather struct {
	// Hole swallows that direction: what is sent waits until the weather changes, as TCP would send
	// it again.
	Hole Way
	// Latency delays each piece of data, in either direction.
	Latency time.Duration
	// Rate is how many bytes a second pass, in either direction and on each connection; 0: any
	// number.
	Rate int
}

// Proxy leads to one address. It is for tests, and takes connections until Close.
type Proxy struct {
	target *net.TCPAddr
	listen *net.TCPListener
	owned  sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	pairs   map[*pair]bool
	weather Weather
	changed chan struct{} // closed and replaced when the weather changes
	trap    *trap
}

// trap cuts a connection at a method.
type trap struct {
	way    Way
	method Method
	left   int // hits until it shuts
	after  bool
	shut   chan struct{}
}

// pair is a client's connection and ours to the server.
type pair struct{ client, server *net.TCPConn }

// New makes a proxy on a free port of the loopback, which leads to target.
func New(target string) (*Proxy, error) {
	to, err := net.ResolveTCPAddr("tcp", target)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", target, err)
	}
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	p := &Proxy{target: to, listen: l, pairs: map[*pair]bool{}, changed: make(chan struct{})}
	p.owned.Go(p.accept)
	return p, nil
}

// Addr is where the proxy listens.
func (p *Proxy) Addr() string { return p.listen.Addr().String() }

// Connections is how many clients are connected.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.pairs)
}

// Close ends all connections and waits until nothing runs.
func (p *Proxy) Close() error {
	err := p.listen.Close()
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.Set(Weather{})
	p.Cut()
	p.owned.Wait()
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close the proxy: %w", err)
	}
	return nil
}

// Set changes the weather, also for what is under way.
func (p *Proxy) Set(w Weather) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.weather = w
	close(p.changed)
	p.changed = make(chan struct{})
}

// Cut closes all connections in order: what was on its way may still arrive.
func (p *Proxy) Cut() { p.end(func(*net.TCPConn) {}) }

// Reset ends all connections with a TCP reset.
func (p *Proxy) Reset() { p.end(func(c *net.TCPConn) { _ = c.SetLinger(0) }) }

func (p *Proxy) end(prepare func(*net.TCPConn)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for pair := range p.pairs {
		pair.end(prepare)
	}
	clear(p.pairs)
}

func (t *pair) end(prepare func(*net.TCPConn)) {
	for _, c := range []*net.TCPConn{t.client, t.server} {
		prepare(c)
		_ = c.Close()
	}
}

// CutAt resets the connection that carries the n-th method of this kind from now on, before the
// method passes or just after it. The channel is closed when that has happened.
func (p *Proxy) CutAt(way Way, m Method, n int, after bool) <-chan struct{} {
	t := &trap{way: way, method: m, left: n, after: after, shut: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trap = t
	return t.shut
}

func (p *Proxy) accept() {
	for {
		client, err := p.listen.AcceptTCP()
		if err != nil {
			return
		}
		server, err := net.DialTCP("tcp", nil, p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		t := &pair{client, server}
		if !p.keep(t) {
			t.end(func(*net.TCPConn) {})
			return
		}
		p.owned.Go(func() { p.carry(t, Up) })
		p.owned.Go(func() { p.carry(t, Down) })
	}
}

func (p *Proxy) keep(t *pair) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.pairs[t] = true
	return true
}
