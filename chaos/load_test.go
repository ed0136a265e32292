package chaos

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell/chaos/ledger"
)

// load produces records at a steady rate, whatever happens, until it is stopped.
type load struct {
	r     *run
	end   context.CancelFunc
	ended chan struct{}

	mu   sync.Mutex
	made int             // sequence numbers given
	next map[int32]int64 // the end of each partition
	err  error
}

func (r *run) startLoad() *load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{r: r, end: cancel, ended: make(chan struct{}), next: map[int32]int64{}}
	go func() {
		defer close(l.ended)
		l.run(ctx)
	}()
	r.t.Cleanup(func() { cancel(); <-l.ended })
	return l
}

func (l *load) run(ctx context.Context) {
	const tick = 20 * time.Millisecond
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for ; ctx.Err() == nil; <-ticker.C {
		for range rate / int(time.Second/tick) {
			l.produce(l.number(1), usual)
		}
	}
}

// burst produces n more at once, all of which fail twice.
func (l *load) burst(n int) {
	for first := l.number(4 * n); n > 0; n-- {
		l.produce(first-first%4+4*n-1, usual)
	}
}

// large produces n records of that text at once, which come in few batches.
func (l *load) large(n int, text string) {
	first := l.number(n)
	for i := range n {
		l.produce(first+i, special{text: text})
	}
}

// special is what follows the number in a record's value, and the reason with which such a record
// must end in the dead set, if it must.
type special struct{ text, reason string }

// usual are records of some weight.
var usual = special{text: strings.Repeat("0", 200)}

// once produces one record that fails twice, unless it comes to something else.
func (l *load) once(s special) {
	first := l.number(4)
	l.produce(first-first%4+3, s)
}

// number takes so many sequence numbers and returns the first.
func (l *load) number(n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.made += n
	return l.made - n
}

// produce hands the record over to the client, which tries for ever: it has none in doubt at the
// end.
func (l *load) produce(n int, s special) {
	record := ledger.Record{Key: n % 50, Sequence: n}
	l.r.client.Produce(context.Background(), &kgo.Record{
		Topic: l.r.topic, Partition: int32((n + n/40) % partitions),
		Key: fmt.Append(nil, record.Key), Value: fmt.Appendf(nil, "%d %s", n, s.text),
	}, func(k *kgo.Record, err error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if err != nil {
			l.err = err
			return
		}
		l.next[k.Partition] = max(l.next[k.Partition], k.Offset+1)
		p := ledger.Position{Partition: k.Partition, Offset: k.Offset}
		if s.reason != "" {
			l.r.watch.doom(p, s.reason)
		}
		l.r.watch.produced(p, record)
	})
}

// stop ends the load and waits until Kafka has all of it.
func (l *load) stop() {
	l.r.t.Helper()
	l.end()
	<-l.ended
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	l.r.check(l.r.client.Flush(ctx))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.r.check(l.err)
}

func (l *load) ends() map[int32]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.next)
}
