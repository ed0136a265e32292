package memory_test

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/stepwell/stepwell/embedded/memory"
	"github.com/stepwell/stepwell/internal/queue"
)

// model is a dead set as it should be: what it has in order, and how many of the first a window
// holds, some acked.
type model struct {
	b     *memory.Broker
	p     queue.Publisher
	lease queue.Lease
	next  int

	ids    []string
	window queue.Window // nil: none is open
	held   []queue.Delivery
	acked  map[string]bool
}

func TestAnySequenceOfWalksAndCutsKeepsTheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := memory.New()
		ctx, cancel := context.WithCancel(context.Background())
		var running sync.WaitGroup
		running.Go(func() { _ = b.Run(ctx) })
		defer func() { cancel(); running.Wait() }()
		if err := b.Declare(ctx, []queue.Spec{{Name: "dead", Kind: queue.DeadSet}}); err != nil {
			t.Fatal(err)
		}
		m := &model{b: b, p: b.Publisher("test")}
		t.Repeat(map[string]func(*rapid.T){
			"": m.check, "publish": m.publish, "open": m.open, "ack": m.ack, "release": m.release, "close": m.close, "cut": m.cut,
		})
	})
}

func (m *model) publish(t *rapid.T) {
	id := strconv.Itoa(m.next)
	m.next++
	told := make(chan error, 1)
	m.p.Publish(context.Background(), "dead", queue.Message{ID: id}, func(err error) { told <- err })
	if err := <-told; err != nil {
		t.Fatal(err)
	}
	m.ids = append(m.ids, id)
}

func (m *model) open(t *rapid.T) {
	if m.window != nil {
		t.Skip("a window is open")
	}
	var err error
	if m.lease == nil {
		if m.lease, err = m.b.Lease(context.Background(), "dead"); err != nil {
			t.Fatal(err)
		}
	}
	most := rapid.IntRange(1, 10).Draw(t, "most")
	if m.window, err = m.lease.Window(context.Background(), most, 1<<20); err != nil {
		t.Fatal(err)
	}
	if m.held, err = queue.Gather(context.Background(), m.window); err != nil {
		t.Fatal(err)
	}
	m.acked = map[string]bool{}
	var ids []string
	for _, d := range m.held {
		ids = append(ids, d.ID)
	}
	if want := m.ids[:min(most, len(m.ids))]; !slices.Equal(ids, want) || m.window.Depth() != len(m.ids) {
		t.Fatalf("the window shows %v of %d, not %v of %d", ids, m.window.Depth(), want, len(m.ids))
	}
}

func (m *model) pick(t *rapid.T) queue.Delivery {
	if m.window == nil || len(m.held) == 0 {
		t.Skip("nothing is held")
	}
	return rapid.SampledFrom(m.held).Draw(t, "delivery")
}

func (m *model) ack(t *rapid.T) {
	d := m.pick(t)
	d.Ack()
	m.acked[d.ID] = true
}

func (m *model) release(t *rapid.T) {
	d := m.pick(t)
	d.Release() // it stays until the window ends
}

func (m *model) close(t *rapid.T) {
	if m.window == nil {
		t.Skip("no window is open")
	}
	depth, err := m.window.Close(context.Background())
	m.ended()
	if err != nil || depth != len(m.ids) {
		t.Fatalf("Close: depth %d, not %d, error %v", depth, len(m.ids), err)
	}
}

func (m *model) cut(t *rapid.T) {
	m.b.SetUp(false)
	m.b.SetUp(true)
	for _, d := range m.held {
		d.Ack() // too late
	}
	if m.window != nil {
		if _, err := m.window.Close(context.Background()); err == nil {
			t.Fatal("a window closed in good order after its connection was cut")
		}
	}
	m.lease = nil
	m.ended()
}

// ended takes out what was acked before the window ended.
func (m *model) ended() {
	m.ids = slices.DeleteFunc(m.ids, func(id string) bool { return m.acked[id] })
	m.window, m.held, m.acked = nil, nil, nil
}

func (m *model) check(t *rapid.T) {
	waiting := len(m.held) - len(m.acked)
	depth, err := m.b.Depth(context.Background(), "dead")
	if want := len(m.ids) - len(m.acked) - waiting; err != nil || depth != want {
		t.Fatalf("%d ready, not %d; %v", depth, want, err)
	}
}
