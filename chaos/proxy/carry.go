package proxy

import (
	"net"
	"time"
)

// carry moves data in one direction until either side ends.
func (p *Proxy) carry(t *pair, way Way) {
	from, to, f := t.client, t.server, &frames{greeting: len("AMQP\x00\x00\x09\x01")}
	if way == Down {
		from, to, f = t.server, t.client, &frames{}
	}
	defer func() {
		_ = from.Close()
		_ = to.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.pairs, t)
	}()
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		data, trapped := p.pass(buf[:n], way, f)
		if p.send(to, data, way) != nil || err != nil {
			return
		}
		if trapped != nil {
			t.end(func(c *net.TCPConn) { _ = c.SetLinger(0) })
			close(trapped.shut)
			return
		}
	}
}

// pass looks at the methods in data and returns what of it may pass, and the trap that one of them
// shut.
func (p *Proxy) pass(data []byte, way Way, f *frames) ([]byte, *trap) {
	for at := 0; at < len(data); {
		began := at
		n, method, found := f.next(data[at:])
		at += n
		if !found {
			continue
		}
		if t := p.hit(way, method); t != nil {
			if t.after {
				return data, t
			}
			return data[:began], t // at most: the head of the frame may have passed, which is no frame
		}
	}
	return data, nil
}

// hit counts the method, and returns the trap when it shuts.
func (p *Proxy) hit(way Way, m Method) *trap {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.trap
	if t == nil || t.way != way || t.method != m {
		return nil
	}
	if t.left--; t.left > 0 {
		return nil
	}
	p.trap = nil
	return t
}

// send writes data as the weather allows.
func (p *Proxy) send(to net.Conn, data []byte, way Way) error {
	for len(data) > 0 {
		w, changed := p.now()
		switch {
		case w.Hole == way:
			<-changed
			continue
		case w.Latency > 0:
			wait(w.Latency, changed)
		}
		piece := len(data)
		if w.Rate > 0 {
			piece = min(piece, max(1, w.Rate/100))
			wait(time.Second*time.Duration(piece)/time.Duration(w.Rate), changed)
		}
		if _, err := to.Write(data[:piece]); err != nil {
			return err
		}
		data = data[piece:]
	}
	return nil
}

func wait(d time.Duration, changed <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-changed:
	}
}

func (p *Proxy) now() (Weather, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.weather, p.changed
}
