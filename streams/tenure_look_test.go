package streams

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/crew"
	"github.com/stepwell/stepwell/internal/ledger"
	"github.com/stepwell/stepwell/internal/task"
)

const (
	keySize, smallSize, bigSize = 8, 100, 1000
	smallOnes, bigOnes          = 10, 10 // of a fetch
	fetchesAStep                = 4
)

// fetchHolds is what one fetch holds, in bytes: so that a step is a whole number of them.
func fetchHolds() int64 {
	return footprint(smallOnes+bigOnes, smallOnes*(keySize+smallSize)+bigOnes*(keySize+bigSize))
}

// fetchOf is one fetch, by partition: small records of one key in partition 0, and large ones with
// keys of their own in partition bigIn.
func fetchOf(round, bigIn int, next *[2]int64) (of [2]*kgo.FetchPartition) {
	of = [2]*kgo.FetchPartition{{}, {}}
	add := func(partition int, key string, size int) {
		of[partition].Records = append(of[partition].Records, &kgo.Record{
			Topic: "t", Partition: int32(partition), Offset: next[partition], Key: []byte(key), Value: make([]byte, size),
		})
		next[partition]++
		of[partition].HighWatermark = next[partition]
	}
	for i := range bigOnes {
		add(bigIn, fmt.Sprintf("%05d %02d", round, i), bigSize)
	}
	for range smallOnes {
		add(0, "the same", smallSize)
	}
	return of
}

// waiting is the memory of the values that wait, in the reader and in its crew, by partition and
// offset.
func (in *intake) waiting() map[string]*byte {
	memory := map[string]*byte{}
	for _, p := range in.parts.all() {
		p.mu.Lock()
		note := func(offset int64, value []byte) {
			memory[fmt.Sprint(p.partition, ":", offset)] = unsafe.SliceData(value)
		}
		for _, c := range p.backlog.chunks {
			for _, r := range c.records {
				note(r.Offset, r.Value)
			}
		}
		p.roster.Since(0, func(e *crew.Entry) bool { note(e.Offset, e.Message.Value); return true })
		p.mu.Unlock()
	}
	return memory
}

// owners judges what each look does with what waits.
type owners struct {
	t     *testing.T
	in    *intake
	came  map[string]int64 // how much had been fetched before each record
	owned map[string]int64 // and before it was given memory of its own
}

// look has the intake look, and judges what it did.
func (o *owners) look() {
	before := o.in.waiting()
	for record := range before {
		if _, known := o.came[record]; !known {
			o.came[record] = o.in.tenure.fetched - fetchHolds()
		}
	}
	o.in.letGo()
	oldest := o.in.tenure.fetched
	for record, memory := range o.in.waiting() {
		since, again := o.owned[record]
		switch {
		case memory != before[record] && again:
			o.t.Errorf("%s is given memory of its own at %d and again at %d", record, since, o.in.tenure.fetched)
		case memory != before[record]:
			o.owned[record] = o.in.tenure.fetched
		case !again:
			oldest = min(oldest, o.came[record])
		}
	}
	inFlight := footprint(int(o.in.load.records.Load()), int(o.in.load.bytes.Load()))
	if kept := o.in.tenure.fetched - oldest; kept > inFlight+3*o.in.tenure.step {
		o.t.Errorf("at %d: what waits keeps %d bytes of fetches alive, and %d are in flight", o.in.tenure.fetched, kept, inFlight)
	}
}

func TestWhatWaitsIsGivenMemoryOfItsOwnOnceAndWhatIsHandledInTurnNever(t *testing.T) {
	const fetches = 100
	for _, test := range []struct {
		name    string
		order   Order
		bigIn   int
		blocked bool // small ones are not done until the end
		behind  int  // where they are: fetches that wait for their turn
	}{
		{name: "for its key", order: OrderKey, blocked: true},
		{name: "for its partition", order: OrderPartition, bigIn: 1, blocked: true},
		{name: "for its turn alone", order: OrderPartition, behind: 20},
		{name: "for nothing", order: OrderKey},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				end, turns := make(chan struct{}), make(chan struct{}, (smallOnes+bigOnes)*fetches)
				looks := 0
				r, err := New(Config{
					Stream: "orders", Group: Group{ID: "g"}, Topics: []string{"t"}, Window: Window{Bytes: int(8 * fetchesAStep * fetchHolds())},
					Calls: Calls{Concurrency: 2, Order: test.order, Fetched: func(uint32) { looks++ }},
				}, func(_ context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
					if test.blocked && len(m.Value) == smallSize {
						<-end
					} else {
						<-turns
					}
					return task.Settled
				})
				if err != nil {
					t.Fatal(err)
				}
				r.life = t.Context()
				over, dismiss := context.WithCancel(t.Context())
				go r.crew.Run(over)
				for partition := range int32(2) {
					r.parts.assign(topicPartition{"t", partition}, []*fetcher{newFetcher(false)}).begin(ledger.At(0, 0), false)
				}
				var next [2]int64
				o := owners{t: t, in: r.intake, came: map[string]int64{}, owned: map[string]int64{}}
				for round := range fetches {
					for partition, f := range fetchOf(round, test.bigIn, &next) {
						if len(f.Records) > 0 {
							r.intake.receive(topicPartition{"t", int32(partition)}, f, [16]byte{})
						}
					}
					for range smallOnes + bigOnes {
						if round >= test.behind {
							turns <- struct{}{}
						}
					}
					time.Sleep(time.Second) // what is behind a slow call is taken from its worker by then
					synctest.Wait()
					r.parts.flush()
					o.look()
				}
				if (len(o.owned) > 0) != test.blocked {
					t.Errorf("%d records were given memory of their own", len(o.owned))
				}
				if looks != fetches/fetchesAStep {
					t.Errorf("%d looks at %d fetches, want one at every %d", looks, fetches, fetchesAStep)
				}
				close(end)
				close(turns)
				dismiss()
				synctest.Wait()
			})
		})
	}
}
