package main

import (
	"fmt"
	"net"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// gatherMost is how many bytes may wait to be written; then who writes waits.
const gatherMost = 64 << 10

// dialByHand connects as the hand-written programs do: what is sent while a write is under way goes
// out in the next one, many messages at once.
func dialByHand(url string) (*amqp.Connection, error) {
	dial := amqp.DefaultDial(30 * time.Second)
	conn, err := amqp.DialConfig(url, amqp.Config{Dial: func(network, address string) (net.Conn, error) {
		conn, err := dial(network, address)
		if err != nil {
			return nil, err
		}
		g := &gathered{Conn: conn}
		g.change.L = &g.mu
		go g.send()
		return g, nil
	}})
	if err != nil {
		return nil, fmt.Errorf("connect to RabbitMQ: %w", err)
	}
	return conn, nil
}

type gathered struct {
	net.Conn
	mu     sync.Mutex
	change sync.Cond
	out    []byte
	err    error // of the write that failed, or net.ErrClosed
}

// Write takes p over.
func (g *gathered) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.err == nil && len(g.out) > gatherMost {
		g.change.Wait()
	}
	if g.err != nil {
		return 0, g.err
	}
	g.out = append(g.out, p...)
	g.change.Broadcast()
	return len(p), nil
}

// Close ends the goroutine that sends.
func (g *gathered) Close() error {
	g.fail(net.ErrClosed)
	return g.Conn.Close()
}

func (g *gathered) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err == nil {
		g.err = err
	}
	g.change.Broadcast()
}

func (g *gathered) send() {
	var now []byte
	for {
		g.mu.Lock()
		for g.err == nil && len(g.out) == 0 {
			g.change.Wait()
		}
		if g.err != nil && len(g.out) == 0 {
			g.mu.Unlock()
			return
		}
		now, g.out = g.out, now[:0]
		g.change.Broadcast()
		g.mu.Unlock()
		if _, err := g.Conn.Write(now); err != nil {
			g.fail(err)
			return
		}
	}
}
