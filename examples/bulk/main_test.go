package main

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/embedded"
)

// Both forms write every order once, and leave out the one that the table does not take, which
// comes to the dead set alone.
func TestEveryOrderIsInTheTableOnceButTheOneThatItDoesNotTake(t *testing.T) {
	for _, test := range []struct {
		name    string
		streams func(*store) actor.Streams
	}{{"in batches", (*store).streams}, {"one by one", (*store).oneByOne}} {
		t.Run(test.name, func(t *testing.T) {
			s, err := open(t.Context(), filepath.Join(t.TempDir(), "orders.db"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.db.Close() })
			const n = 1200
			brokers := embedded.New(embedded.Options{Topics: map[string]int32{"orders.v1": 4}})
			app := actor.App{Name: "bulk", Streams: test.streams(s), Brokers: brokers}
			cfg, err := actor.Load(app, []string{"SERVER_ADDRESS=off", "STREAMS_ORDERS_TOPICS=orders.v1", "RETRY_COUNT=1", "RETRY_DELAY=100ms"})
			if err != nil {
				t.Fatal(err)
			}
			a, err := actor.New(cfg, app)
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- a.Run(ctx) }()
			defer func() {
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}()
			var records []*kgo.Record
			for i := range n {
				total := i
				if i == 700 {
					total = -1
				}
				records = append(records, &kgo.Record{Topic: "orders.v1", Key: fmt.Append(nil, i), Value: fmt.Appendf(nil, `{"ID":"%d","Total":%d}`, i, total)})
			}
			began := time.Now()
			if err := brokers.Produce(ctx, records...); err != nil {
				t.Fatal(err)
			}
			dead := "bulk.orders.dead_set"
			within(t, "all but one are in the table, and that is dead", func() bool {
				depth, err := brokers.Queues().Depth(ctx, dead)
				return err == nil && depth == 1 && s.rows(t) == n-1
			})
			t.Logf("%d orders took %s", n, time.Since(began).Round(time.Millisecond))
		})
	}
}

// Two streams may read the same record, and each has something of its own to do with it.
func TestARecordThatTwoStreamsReadIsThereOnceOfEach(t *testing.T) {
	s, err := open(t.Context(), filepath.Join(t.TempDir(), "orders.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.db.Close() })
	for _, stream := range []string{"orders", "returns", "orders"} {
		m := &stepwell.Message{Stream: stream, ID: "orders.v1:0:1"}
		if err := s.one(t.Context(), Order{ID: "1"}, m); err != nil {
			t.Fatal(err)
		}
		m.ID = "orders.v1:0:2"
		if err := s.many(t.Context(), []Order{{ID: "2"}}, stepwell.NewBatch(m)); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.rows(t); n != 4 {
		t.Errorf("%d rows of two records in two streams", n)
	}
}

func (s *store) rows(t *testing.T) (n int) {
	t.Helper()
	if err := s.db.QueryRowContext(t.Context(), `SELECT count(*) FROM orders`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func within(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("not within a minute: %s", what)
		}
	}
}
