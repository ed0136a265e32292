package records

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell/internal/testbroker"
)

// BenchmarkRecords tells how long a change takes until its writer and until another process knows
// it, how many can be made a second, and how long a process needs that starts beside 10,000.
func BenchmarkRecords(b *testing.B) {
	for _, node := range testbroker.RabbitMQs(b) {
		b.Run(node.Version, func(b *testing.B) {
			w := &world{Broker: connect(b, node.URL), t: b, log: fmt.Sprintf("records-bench-%d", time.Now().UnixNano())}
			b.Cleanup(func() { remove(b, node.URL, w.log) })
			one := w.ready(w.store())
			other := w.ready((&world{Broker: connect(b, node.URL), t: b, log: w.log}).store())
			const most = 10_000
			began := time.Now()
			fill(b, one, 0, most)
			rate := most / time.Since(began).Seconds()
			began = time.Now()
			late := (&world{Broker: connect(b, node.URL), t: b, log: w.log}).store()
			w.ready(late)
			start := time.Since(began)
			if all, err := late.All("k"); err != nil || len(all) != most {
				b.Fatalf("%d records, %v", len(all), err)
			}
			var stored, told time.Duration
			for n := 0; b.Loop(); n++ {
				began := time.Now()
				w.set(one, "1", n)
				stored += time.Since(began)
				for want := fmt.Sprint(n); ; time.Sleep(50 * time.Microsecond) {
					if r, _, _ := other.Get("k", "1"); string(r.Value) == want {
						break
					}
				}
				told += time.Since(began)
			}
			b.ReportMetric(rate, "changes/s") // here, since the loop forgets what was reported before it
			b.ReportMetric(float64(start.Milliseconds()), "ms-start")
			b.ReportMetric(float64(stored.Microseconds())/1000/float64(b.N), "ms-stored")
			b.ReportMetric(float64(told.Microseconds())/1000/float64(b.N), "ms-told")
		})
	}
}

// fill stores the records from … to-1, of 200 bytes, many at a time.
func fill(t testing.TB, s *Store, from, to int) {
	t.Helper()
	var g sync.WaitGroup
	next := make(chan int)
	for range 100 {
		g.Go(func() {
			for i := range next {
				err := s.Change(context.Background(), "k", fmt.Sprint(i), func(r Record) (Record, error) {
					r.Value = json.RawMessage(fmt.Sprintf(`"%0150d"`, i))
					return r, nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := from; i < to; i++ {
		next <- i
	}
	close(next)
	g.Wait()
}
