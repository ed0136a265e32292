package main

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell/actortest"
	"github.com/stepwell/stepwell/embedded"
)

// settings are those of docs/MIGRATING.md, but for where the brokers are.
var settings = []string{
	"STREAMS_ORDERS_TOPICS=orders.v1", "STREAMS_REFUNDS_TOPICS=refunds.v1",
	"RETRY_COUNT=5", "RETRY_DELAY=5s", "STREAMS_REFUNDS_RETRY_COUNT=10", "STREAMS_REFUNDS_RETRY_DELAY=1m",
}

var errAway = errors.New("away")

// run starts the program with these settings beside those of the page, and ends it with the test.
func run(t *testing.T, s *shop, brokers *embedded.Brokers, more ...string) *actortest.Actor {
	t.Helper()
	app := s.app()
	app.Brokers = brokers
	return actortest.Start(t, app, append(slices.Clone(settings), more...)...)
}

func produce(t *testing.T, brokers *embedded.Brokers, topic string, values ...string) {
	t.Helper()
	for _, value := range values {
		if err := brokers.Produce(t.Context(), &kgo.Record{Topic: topic, Value: []byte(value)}); err != nil {
			t.Fatal(err)
		}
	}
}

// calls is how often the bank was called, by call.
func (b *bank) calls() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	calls := map[string]int{}
	for _, call := range b.done {
		calls[call]++
	}
	return calls
}

func TestEachOrderAndRefundIsTriedAsOftenAndAsLateAsBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := map[string]int{"charge flaky": 2, "charge never": 99, "refund flaky": 1, "refund never": 99}
		s := &shop{bank: bank{fails: func(call string) error {
			if call == "charge stolen" || call == "refund stolen" {
				return errRefused
			}
			if left[call] > 0 {
				left[call]--
				return errAway
			}
			return nil
		}}}
		brokers := embedded.New(embedded.Options{Topics: map[string]int32{"orders.v1": 1, "refunds.v1": 1}, VirtualNetwork: true})
		run(t, s, brokers, "SERVER_ADDRESS=off")
		produce(t, brokers, "orders.v1", `{"ID":"small"}`, `{"ID":"stolen"}`, `{"ID":"flaky"}`, `{"ID":"never"}`, `no JSON`)
		produce(t, brokers, "refunds.v1", `{"ID":"small"}`, `{"ID":"stolen"}`, `{"ID":"flaky"}`, `{"ID":"never"}`)
		for _, test := range []struct {
			after time.Duration
			want  map[string]int
		}{
			{50 * time.Second, map[string]int{
				"charge small": 1, "charge stolen": 1, "charge flaky": 3, "charge never": 6,
				"refund small": 1, "refund stolen": 1, "refund flaky": 1, "refund never": 1,
			}},
			{15 * time.Minute, map[string]int{
				"charge small": 1, "charge stolen": 1, "charge flaky": 3, "charge never": 6,
				"refund small": 1, "refund stolen": 1, "refund flaky": 2, "refund never": 11,
			}},
		} {
			time.Sleep(test.after)
			if got := s.calls(); !maps.Equal(got, test.want) {
				t.Errorf("calls after another %s: %v, want %v", test.after, got, test.want)
			}
		}
	})
}

// The old routes were asked by ?queue=orders&count=10; the stream's name is all that changes.
func TestWhatDiedIsSeenAndReplayedByRoutesThatNobodyHadToWrite(t *testing.T) {
	var away atomic.Bool
	away.Store(true)
	s := &shop{bank: bank{fails: func(string) error {
		if away.Load() {
			return errAway
		}
		return nil
	}}}
	brokers := embedded.New(embedded.Options{Topics: map[string]int32{"orders.v1": 1, "refunds.v1": 1}})
	a := run(t, s, brokers, "RETRY_DELAY=10ms")
	produce(t, brokers, "orders.v1", `{"ID":"17"}`, `no JSON`)
	a.Await("both are dead", func() bool { return len(a.Dead("orders")) == 2 })
	if got := s.calls(); got["charge 17"] != 6 {
		t.Errorf("calls: %v, want 6 of order 17", got)
	}
	away.Store(false)
	var replayed struct{ Done int }
	if status := ask(t, a, "POST", "/v1/dead_set/replay?stream=orders&count=10", &replayed); status != http.StatusOK || replayed.Done != 2 {
		t.Errorf("a replay: %d, %d replayed", status, replayed.Done)
	}
	a.Await("the order is charged, and what is no JSON dead again", func() bool { return s.calls()["charge 17"] == 7 && len(a.Dead("orders")) == 1 })
}

// ask returns the status.
func ask(t *testing.T, a *actortest.Actor, method, path string, answer any) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, a.URL(path), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(answer); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode
}
