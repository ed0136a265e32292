package streams

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
)

// audit knows which records are settled, over all members of a group, and holds the group's commits
// against it.
type audit struct {
	mu      sync.Mutex
	settled map[int32]map[int64]bool
	commits map[int32]int64
	samples int
	moves   int // samples that found a commit further on
	calls   int
	repeats int
	seen    map[int32]map[int64]bool
}

func newAudit() *audit {
	return &audit{settled: map[int32]map[int64]bool{}, commits: map[int32]int64{}, seen: map[int32]map[int64]bool{}}
}

func mark(in map[int32]map[int64]bool, o stepwell.Origin) (was bool) {
	if in[o.Partition] == nil {
		in[o.Partition] = map[int64]bool{}
	}
	was = in[o.Partition][o.Offset]
	in[o.Partition][o.Offset] = true
	return was
}

// call notes a call of the handler.
func (l *audit) call(m *stepwell.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	if mark(l.seen, m.Origin) {
		l.repeats++
	}
}

// settle must come before the reader is told.
func (l *audit) settle(m *stepwell.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	mark(l.settled, m.Origin)
}

func (l *audit) count() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.settled {
		n += len(s)
	}
	return n
}

func (l *audit) moved() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.moves
}

// check holds commits, read after all that is settled now, against the ledger.
func (l *audit) check(commits map[int32]int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.samples++
	moved := false
	for p, at := range commits {
		moved = moved || at > l.commits[p]
		if at < l.commits[p] {
			return fmt.Errorf("partition %d was committed at %d and is now at %d", p, l.commits[p], at)
		}
		for o := l.commits[p]; o < at; o++ {
			if !l.settled[p][o] {
				return fmt.Errorf("partition %d is committed at %d and %d is not settled", p, at, o)
			}
		}
		l.commits[p] = at
	}
	if moved {
		l.moves++
	}
	return nil
}

// watch samples the group's commits until the function it returns is called.
func (l *audit) watch(t testing.TB, w *world) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				commits, err := w.commits()
				if err == nil {
					err = l.check(commits)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		}
	}()
	return func() {
		cancel()
		<-done
		t.Logf("%d samples of the commits, %d calls, %d of them repeats", l.samples, l.calls, l.repeats)
	}
}
