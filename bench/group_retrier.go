package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"
)

const retrierText = `HTTP calls that survive: they are posted on 64 connections by another process, which also receives them and answers at once. The retrier is package webhook in an actor, as the program has it, with its records and its
limit of 8 calls at once to one host. *accept*: until each call is answered with 202, which is once RabbitMQ has confirmed it; the first try is hours away. *calls*: calls that were accepted before are made, from the first to the last.
The hand-written program publishes what was posted as it came, persistent, waits for its confirm and answers 202; its consumer, with a prefetch of 16, has 8 workers that post and ack, one message each. It knows no host that is down, no wait, no cancel and no second try.
*alone* and *beside-dead*: calls are accepted and made at the same time, and beside them five times as many calls, 100,000 of them by default, wait for a host that takes connections and never answers, from the moment when the last of those was tried or put off; *beside-dead-later* begins two minutes after that.`

// retrierGroup asks what it costs to have HTTP calls made.
func retrierGroup() group {
	const share = 0.005
	of := func(name, what, base string, run func(context.Context, job, *meter) error, bars ...bar) benchCase {
		return benchCase{name: name, what: what, base: base, share: share, rabbitmq: true, run: run, bars: bars}
	}
	return group{
		name: "retrier", title: "HTTP calls", text: retrierText,
		columns: append(usual(), brokerCPU(), brokerOfBase(), noted("Put off a second", "hops", "%.0f")),
		cases: []benchCase{
			of("hand-accept", "hand-written: publish, confirm, 202", "", acceptByHand),
			of("retrier-accept", "retrier: POST /calls", "hand-accept", retrierAccepts, atLeast(0.9, ofBase())),
			of("hand-calls", "hand-written: consume, post, ack", "", callsByHand),
			of("retrier-calls", "retrier: calls to one host", "hand-calls", retrierCalls, atLeast(0.9, ofBase())),
			of("alone", "retrier: calls are accepted and made", "", besideDead(0, 0)),
			of("beside-dead", "the same beside a host that is dead, at once", "alone", besideDead(5, 0)),
			of("beside-dead-later", "the same, two minutes later", "alone", besideDead(5, 2*time.Minute), atLeast(0.9, ofBase())),
		},
	}
}

// between runs f with a child that posts and receives.
func between(ctx context.Context, f func(l *load) error) (err error) {
	l, err := openLoad(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.end()) }()
	return f(l)
}

// retrierAccepts measures until the last call is stored.
func retrierAccepts(ctx context.Context, j job, m *meter) error {
	return between(ctx, func(l *load) error {
		r := &retrier{job: j}
		return r.run(ctx, func(ctx context.Context) error {
			// The first one makes the queue, which is left alone for two seconds.
			if err := l.post(ctx, r.calls(), callTo(l.address, `,"after":"24h"`), posters); err != nil {
				return err
			}
			m.begin()
			err := l.post(ctx, r.calls(), callTo(l.address, `,"after":"24h"`), j.Records)
			m.end()
			return err
		}, m)
	})
}

// retrierCalls accepts all in a process that makes none, and measures another that does.
func retrierCalls(ctx context.Context, j job, m *meter) error {
	return between(ctx, func(l *load) error {
		first := &retrier{job: j, settings: []string{"MODES=api"}, keep: true}
		if err := first.run(ctx, func(ctx context.Context) error { return l.post(ctx, first.calls(), callTo(l.address, ""), j.Records) }, nil); err != nil {
			return err
		}
		var handled atomic.Int64
		r := &retrier{job: j, handled: &handled}
		return r.run(ctx, func(ctx context.Context) error {
			began := time.Now()
			err := made(ctx, l, j.Records, m)
			m.note("hops", float64(handled.Load()-j.Records)/time.Since(began).Seconds())
			return err
		}, m)
	})
}

// made measures from the first call that is made to the last.
func made(ctx context.Context, l *load, count int64, m *meter) error {
	if err := l.await(ctx, 1); err != nil {
		return err
	}
	m.begin()
	err := l.await(ctx, count)
	m.end()
	return err
}

// besideDead measures calls to a host that is well, while so many times as many wait for another.
func besideDead(times int64, later time.Duration) func(context.Context, job, *meter) error {
	return func(ctx context.Context, j job, m *meter) error {
		// Its backlog takes connections, and nobody accepts them.
		silent, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		defer silent.Close()
		var handled atomic.Int64
		return between(ctx, func(l *load) error {
			r := &retrier{job: j, handled: &handled}
			return r.run(ctx, func(ctx context.Context) error {
				dead := times * j.Records
				if err := l.post(ctx, r.calls(), callTo(silent.Addr().String(), ""), dead); err != nil {
					return err
				}
				if err := reached(ctx, &handled, dead); err != nil {
					return err
				}
				if err := waitFor(ctx, later); err != nil {
					return err
				}
				before, began := handled.Load(), time.Now()
				m.begin()
				err := l.post(ctx, r.calls(), callTo(l.address, ""), j.Records)
				if err == nil {
					err = l.await(ctx, j.Records)
				}
				m.end()
				if dead > 0 {
					m.note("hops", float64(handled.Load()-before-j.Records)/time.Since(began).Seconds())
				}
				return err
			}, m)
		})
	}
}

// reached returns when so much was counted.
func reached(ctx context.Context, n *atomic.Int64, want int64) error {
	for n.Load() < want {
		if err := waitFor(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

func waitFor(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
