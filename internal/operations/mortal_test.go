package operations

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell/internal/outcomes"
)

// deadMessage is one that a replay may choose. Its first try fails, or is handled.
type deadMessage struct {
	id                string
	fails, sent, gone bool
}

// deadWorld is a dead set of which a look sees the oldest, and what became of those that were sent:
// that is told once of each, some time later.
type deadWorld struct {
	mu     sync.Mutex
	random *rand.Rand
	all    []*deadMessage
	sees   int // messages in a look
	late   time.Duration
	tally  outcomes.Tally
	sent   int
	// cutAfter is after how many messages more the broker is away; 0: it is not. unclear says that
	// a turn was cut off, and nobody has looked since.
	cutAfter int
	unclear  bool
	busy     bool // in a turn
}

func (w *deadWorld) set(change func(*deadWorld)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(w)
}

// Of is what was told so far.
func (w *deadWorld) Of(operations ...string) (map[string]outcomes.Tally, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return map[string]outcomes.Tally{operations[0]: w.tally}, nil
}

// look is what a look sees, and how many it does not; as all below, it is for who has mu.
func (w *deadWorld) look() (in []*deadMessage, unseen int) {
	for _, m := range w.all {
		if !m.gone {
			in = append(in, m)
		}
	}
	n := min(len(in), w.sees)
	return in[:n], len(in) - n
}

func (w *deadWorld) gone() (n int) {
	for _, m := range w.all {
		if m.gone {
			n++
		}
	}
	return n
}

func (w *deadWorld) publish(m *deadMessage) {
	if m.sent { // told twice, one that was there twice would hide another that is out
		return
	}
	m.sent = true
	w.sent++
	time.AfterFunc(time.Duration(w.random.Int64N(int64(w.late))), func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if m.fails {
			w.tally.Failed++
			return
		}
		w.tally.Handled++
		w.tally.Canary = append(w.tally.Canary, m.id)
	})
}

// cut is a turn that ends since the broker is away: of those that are out some are gone, and of
// these some are seen to be.
func (w *deadWorld) cut(t Turn, out []*deadMessage) (Turn, error) {
	gone := w.random.IntN(len(out) + 1)
	takeAway(out[:gone])
	w.unclear = true
	t.Done, t.More = w.random.IntN(gone+1), true
	return t, ErrAway
}

func takeAway(all []*deadMessage) {
	for _, m := range all {
		m.gone = true
	}
}

// life is that of one process. Once it is over nothing that the process does reaches anybody.
type life struct {
	left atomic.Int64 // steps until it is killed
	over atomic.Bool
}

// step is one message that is sent, or one write of the store. It reports whether the process lived
// to do it.
func (l *life) step() bool {
	if l.left.Add(-1) < 0 {
		l.over.Store(true)
	}
	return !l.over.Load()
}

// mortalStore is the store in the hands of a process that may be killed.
type mortalStore struct {
	Store
	life *life
}

func (s mortalStore) Change(ctx context.Context, id string, change func(State) (State, error)) (State, error) {
	if !s.life.step() {
		<-ctx.Done()
		return State{}, ctx.Err()
	}
	return s.Store.Change(ctx, id, change)
}

// mortalSet is the dead set in the hands of a process that may be killed.
type mortalSet struct {
	world *deadWorld
	life  *life
}

func (s *mortalSet) May(context.Context, *Request) error { return nil }

func (s *mortalSet) Waiting(context.Context) (int, error) { return 0, nil }

func (s *mortalSet) Sample(ctx context.Context, _ *Request) (Sample, error) {
	if s.life.over.Load() {
		<-ctx.Done()
		return Sample{}, ctx.Err()
	}
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	s.world.unclear = false
	in, unseen := s.world.look()
	return Sample{Matched: len(in), Unsorted: unseen}, nil
}

func (s *mortalSet) Turn(_ context.Context, enough <-chan struct{}, _ *Request, most int) (t Turn, err error) {
	w := s.world
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy {
		panic("two turns at once")
	}
	w.busy = true
	defer func() { w.busy = false }()
	in, unseen := w.look()
	for _, m := range in[:min(most, len(in))] {
		if isOver(enough) {
			t.More = true
			break
		}
		w.mu.Unlock()
		time.Sleep(time.Millisecond)
		w.mu.Lock()
		if !s.life.step() {
			w.unclear = true
			return t, context.Canceled
		}
		w.publish(m)
		t.Begun++
		out := in[:t.Begun]
		if w.cutAfter--; w.cutAfter == 0 {
			return w.cut(t, out)
		}
		if w.random.IntN(3) == 0 { // acks that came early
			takeAway(out)
		}
	}
	takeAway(in[:t.Begun])
	t.Done, t.Unseen = t.Begun, unseen
	t.More = t.More || t.Done == most
	return t, nil
}

func isOver(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// succession has each process that begins lead in a term of its own.
type succession struct{ terms *int64 }

func (succession) Await(ctx context.Context, _ <-chan struct{}) {
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
	}
}

func (s succession) Lead(ctx context.Context, serve func(context.Context, int64)) {
	*s.terms++
	serve(ctx, *s.terms)
}

func (succession) Refused() error { return nil }
