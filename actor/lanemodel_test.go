package actor

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/task"
	"github.com/stepwell/stepwell/streams"
)

const (
	longestCall = 2 * time.Second
	// longestEnd is how long a partition that was halted takes at most: a batch that runs, and one
	// that its lane calls at once.
	longestEnd = 2*longestCall + 100*time.Millisecond
)

// laneModel is a stream that gathers, to which anything may happen, and what it has to keep: each
// message ends once, none is called after its end or past one of its key that was given up, and
// what is halted ends soon, whoever has the seats.
type laneModel struct {
	*gathering
	t      *testing.T
	random *rand.Rand // mu guards it, and what changes below
	order  streams.Order
	parts  []*modelPart
	put    map[int64]*modelMessage // by offset, which all partitions count together
	calls  map[string]int64        // the last first try of a partition's key
	alone  *modelMessage
	paused bool
	mu     sync.Mutex
}

type modelPart struct {
	*origin
	m      *laneModel
	halted time.Time
	// left is the first message of a key that was given up.
	left map[string]int64
}

type modelMessage struct {
	of    *modelPart
	key   string
	ended int
	alone bool
}

func (m *laneModel) chance(percent int) bool { return m.random.IntN(100) < percent }

// Ended looks at how a message ended.
func (p *modelPart) Ended(offsets []int64, how task.Outcome) {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	for _, offset := range offsets {
		message := p.m.put[offset]
		if message.ended++; message.ended > 1 || message.of != p {
			p.m.t.Errorf("%d ended %d times, or another's", offset, message.ended)
		}
		if message.alone {
			p.m.alone = nil
		}
		if _, is := p.left[message.key]; !is && how == task.Abandoned {
			p.left[message.key] = offset
		}
		if late := time.Since(p.halted); !p.halted.IsZero() && late > longestEnd {
			p.m.t.Errorf("%d ended %s after its partition was halted", offset, late)
		}
	}
}

// handle fails a part of what is tried first.
func (m *laneModel) handle(ctx context.Context, b *stepwell.Batch) error {
	m.mu.Lock()
	took := time.Duration(m.random.Int64N(int64(longestCall)))
	for _, of := range b.Messages() {
		offset := of.Origin.Offset
		message := m.put[offset]
		left, is := message.of.left[message.key]
		name := fmt.Sprint(message.of.partition, message.key)
		switch ordered := m.order != streams.OrderNone; {
		case message.ended > 0:
			m.t.Errorf("%d is called after its end", offset)
		case message.alone && len(b.Messages()) > 1:
			m.t.Errorf("%d is suspected, and called with others", offset)
		case ordered && is && left < offset:
			m.t.Errorf("%d is called though %d of its key was given up", offset, left)
		case ordered && of.Attempt == 1 && m.calls[name] > offset:
			m.t.Errorf("%d is called after %d", offset, m.calls[name])
		}
		if of.Attempt == 1 {
			m.calls[name] = offset
		}
		if of.Attempt < 3 && m.chance(20) {
			b.Fail(of, errUnavailable)
		}
	}
	m.mu.Unlock()
	task.Sleep(ctx, took)
	return nil
}

// step lets something happen.
func (m *laneModel) step(offset int64) {
	m.mu.Lock()
	at := m.random.IntN(len(m.parts))
	p, what := m.parts[at], m.random.IntN(100)
	pause := time.Duration(m.random.Int64N(int64(600 * time.Millisecond)))
	m.mu.Unlock()
	switch {
	case what < 60:
		m.gives(p, offset)
	case what < 70:
		m.ends(at, offset, what < 63)
	case what < 75:
		m.paused = !m.paused
		m.setPaused(m.paused)
	case what < 80:
		m.Flush()
	case what < 90:
		go func() { // a retry
			m.seats.Take(nil)
			time.Sleep(4 * pause)
			m.seats.Leave()
		}()
	default:
		time.Sleep(pause)
	}
}

// gives puts a message, which may be the suspect that runs.
func (m *laneModel) gives(p *modelPart, offset int64) {
	m.mu.Lock()
	message := &modelMessage{of: p, key: string(rune('a' + m.random.IntN(4)))}
	m.put[offset] = message
	if m.alone == nil && m.chance(10) {
		m.alone, message.alone = message, true
		p.mu.Lock()
		p.alone = offset
		p.mu.Unlock()
	}
	m.mu.Unlock()
	msg := &stepwell.Message{ID: fmt.Sprint(offset), Key: []byte(message.key), Attempt: 1, Origin: stepwell.Origin{Partition: p.partition, Offset: offset}}
	m.gather(context.Background(), msg, task.NewTicket(p, offset, &worker{began: time.Now()}))
}

// ends halts a partition, or loses it, and has another one in its place.
func (m *laneModel) ends(at int, offset int64, lost bool) {
	m.mu.Lock()
	p := m.parts[at]
	p.halted = time.Now()
	m.parts[at] = m.part(int32(offset))
	m.mu.Unlock()
	p.halt()
	if lost {
		p.cancel()
	}
	m.Flush()
	m.gives(p, offset) // from a worker that was about to
}

func (m *laneModel) part(n int32) *modelPart {
	p := &modelPart{origin: newOrigin(), m: m, left: map[string]int64{}}
	p.partition = n
	return p
}

func TestWhateverHappensEachGatheredMessageEndsOnceAndInTime(t *testing.T) {
	for seed := range uint64(1000) {
		random := rand.New(rand.NewPCG(seed, 0))
		m := &laneModel{t: t, random: random, put: map[int64]*modelMessage{}, calls: map[string]int64{}}
		atOnce := 1 + random.IntN(4)
		m.order = []streams.Order{streams.OrderKey, streams.OrderPartition, streams.OrderNone}[random.IntN(3)]
		gather(t, atOnce, m.order, m.handle, func(g *gathering) {
			m.gathering = g
			m.parts = []*modelPart{m.part(-1), m.part(-2)}
			for offset := range int64(150) {
				m.step(offset + 1)
			}
			m.Resume()
			time.Sleep(time.Hour)
			synctest.Wait()
			for offset, message := range m.put {
				if message.ended != 1 {
					t.Errorf("%d ended %d times", offset, message.ended)
				}
			}
			for range atOnce {
				if !m.seats.Take(nil) {
					t.Error("a seat was not given back")
				}
			}
			for range atOnce {
				m.seats.Leave()
			}
		})
		if t.Failed() {
			t.Fatalf("seed %d, order %v, %d at once", seed, m.order, atOnce)
		}
	}
}
