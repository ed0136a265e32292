package main

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell/actortest"
	"github.com/stepwell/stepwell/embedded"
)

// settings are those of docs/MIGRATING.md, but for where the brokers are.
var settings = []string{
	"STREAMS_ORDERS_TOPICS=orders.v1", "STREAMS_ORDERS_CHANNELS_SLOW_CONCURRENCY=10", "STREAMS_SEARCH_TOPICS=orders.v1",
	"RETRY_COUNT=5", "RETRY_DELAY=5s", "SERVER_ADDRESS=off",
}

func TestEachOrderGoesTheWayThatItWentBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := map[string]int{"charge flaky": 2, "charge never": 99, "index flaky": 1}
		s := &shop{bank: bank{fails: func(call string) error {
			if call == "charge stolen" {
				return fmt.Errorf("stolen: %w", errRefused)
			}
			if left[call] > 0 {
				left[call]--
				return errors.New("away")
			}
			return nil
		}}}
		brokers := embedded.New(embedded.Options{Topics: map[string]int32{"orders.v1": 1}, VirtualNetwork: true})
		app := s.app()
		app.Brokers = brokers
		actortest.Start(t, app, settings...)
		for _, o := range []string{
			`{"ID":"small","Items":1}`, `{"ID":"empty"}`, `{"ID":"large","Items":101}`, `{"ID":"stolen","Items":1}`,
			`{"ID":"flaky","Items":1}`, `{"ID":"never","Items":1}`,
		} {
			if err := brokers.Produce(t.Context(), &kgo.Record{Topic: "orders.v1", Value: []byte(o)}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		s.mu.Lock()
		calls := map[string]int{}
		for _, call := range s.done {
			calls[call]++
		}
		s.mu.Unlock()
		for call, want := range map[string]int{
			"charge small": 1, "charge empty": 0, "charge large": 1, "charge stolen": 1, "charge flaky": 3, "charge never": 6,
			"index small": 1, "index empty": 1, "index large": 1, "index stolen": 1, "index flaky": 2, "index never": 1,
		} {
			if calls[call] != want {
				t.Errorf("%s: %d calls, want %d", call, calls[call], want)
			}
		}
	})
}

func TestTheRouteOfItsOwnAnswers(t *testing.T) {
	w := httptest.NewRecorder()
	(&shop{}).app().HTTP.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/hello", nil))
	if w.Code != 200 || w.Body.String() != "hello" {
		t.Errorf("%d %q", w.Code, w.Body)
	}
}
