package actor_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/deadset"
	"github.com/stepwell/stepwell/internal/queue"
)

// dying is an app whose messages all die at once, until it is told to work.
func dying(works *atomic.Bool) actor.App {
	return orders(func(context.Context, *stepwell.Message) error {
		if works.Load() {
			return nil
		}
		return stepwell.DeadLetter(errors.New("no"))
	})
}

// numbered are n records of one partition, so that they die in their order.
func numbered(n int) []*kgo.Record {
	var records []*kgo.Record
	for i := range n {
		records = append(records, &kgo.Record{Key: []byte("one key"), Value: fmt.Appendf(nil, "%d", i)})
	}
	return records
}

func valuesOf(dead []map[string]any) string {
	var all []string
	for _, m := range dead {
		all = append(all, fmt.Sprint(m["value"]))
	}
	return strings.Join(all, " ")
}

func TestPeekingChangesNothingHoweverOften(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var works atomic.Bool
		r := w.start(dying(&works), nil)
		w.produce(numbered(10)...)
		first := valuesOf(r.deadCount(10))
		if first != "0 1 2 3 4 5 6 7 8 9" {
			t.Fatalf("dead set shows %s", first)
		}
		broker := w.broker()
		for i := range 150 { // each as another process would, which shares no walk
			set := deadset.New(deadset.Config{App: w.app, Stream: "orders", Queue: w.queue("orders", "dead_set"), Instant: w.queue("orders", "instant"), Broker: broker})
			var page deadset.Page
			eventually(t, "nobody else walks", func() bool {
				var err error
				if page, err = set.Peek(t.Context(), 1+i%12); err != nil && !errors.Is(err, queue.ErrLeased) {
					t.Fatal(err)
				}
				return err == nil
			})
			if err := set.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			var shown []string
			for _, m := range page.Messages {
				shown = append(shown, fmt.Sprintf("%s", m.Value))
			}
			if again := strings.Join(shown, " "); again != first[:min(2*(1+i%12)-1, len(first))] || page.Depth != 10 {
				t.Fatalf("peek %d of %d shows %s", i, page.Depth, again)
			}
		}
		for range 100 { // and many of one process
			if again := valuesOf(r.dead(10)); again != first {
				t.Fatalf("a later peek shows %s", again)
			}
		}
		if few := valuesOf(r.dead(3)); few != "0 1 2" {
			t.Errorf("peek of 3 shows %s", few)
		}
		eventually(t, "all is back", func() bool { return r.depths()[w.queue("orders", "dead_set")] == 10 })
	})
}

func TestReplayGivesAFullBudgetAndWhatStillFailsComesBackOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var c calls
		r := w.start(orders(failing(&c)), settings{"RETRY_COUNT": "1"})
		w.produce(numbered(3)...)
		r.deadCount(3)
		status, answer := r.do("POST", "/v1/dead_set/replay", `{"count":"2","topic_entity":"orders"}`)
		// What was replayed may be dead again before the walk looks at what is left.
		if left, _ := answer["left"].(float64); status != 200 || answer["done"] != 2.0 || left < 1 || left > 3 {
			t.Fatalf("replay: %d %v", status, answer)
		}
		eventually(t, "ten calls", func() bool { return len(c.all()) == 3*2+2*2 })
		dead := r.deadCount(3)
		replayed := 0
		for _, m := range dead {
			if m["replays"] == 1.0 {
				replayed++
				if m["attempts"] != 2.0 || m["attempts_total"] != 4.0 {
					t.Errorf("after its replay: %v", m)
				}
			}
		}
		if replayed != 2 {
			t.Errorf("%d messages know of their replay, want 2", replayed)
		}
	})
}

func TestDeleteTakesTheOldestAndLeavesTheNewest(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var works atomic.Bool
		r := w.start(dying(&works), nil)
		w.produce(numbered(10)...)
		r.deadCount(10)
		status, answer := r.do("DELETE", "/v1/dead_set", `{"count":"8","topic-entity":"orders"}`)
		if status != 200 || answer["done"] != 8.0 || answer["left"] != 2.0 {
			t.Fatalf("delete: %d %v", status, answer)
		}
		if left := valuesOf(r.dead(10)); left != "8 9" {
			t.Errorf("left: %s", left)
		}
	})
}

func TestReplayOfMoreThanThereIsDoesWhatThereIs(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var works atomic.Bool
		r := w.start(dying(&works), nil)
		w.produce(numbered(5)...)
		r.deadCount(5)
		works.Store(true)
		status, answer := r.do("POST", "/v1/dead_set/replay", `{"count":1000,"stream":"orders"}`)
		if status != 200 || answer["done"] != 5.0 || answer["requested"] != 1000.0 || answer["left"] != 0.0 {
			t.Fatalf("replay: %d %v", status, answer)
		}
		r.queuesEmpty()
	})
}

func TestMistakesInARequestAreNamedAndMoveNothing(t *testing.T) {
	tests := []struct {
		name, method, path, body string
		status                   int
		says                     string
	}{
		{"count 0", "GET", "/v1/dead_set?count=0&stream=orders", "", 400, "count"},
		{"negative count", "GET", "/v1/dead_set?count=-1&stream=orders", "", 400, "count"},
		{"count in words", "GET", "/v1/dead_set?count=abc&stream=orders", "", 400, "count"},
		{"count beyond the limit", "DELETE", "/v1/dead_set", `{"count":1000000000,"stream":"orders"}`, 400, "count"},
		{"no count", "DELETE", "/v1/dead_set", `{"stream":"orders"}`, 400, "count"},
		{"no stream", "POST", "/v1/dead_set/replay", `{"count":1}`, 400, "stream"},
		{"unknown stream", "POST", "/v1/dead_set/replay", `{"count":1,"stream":"ordres"}`, 400, "ordres"},
		{"unknown channel", "POST", "/v1/dead_set/replay", `{"count":1,"stream":"orders","channel":"fast"}`, 400, "fast"},
		{"malformed JSON", "POST", "/v1/dead_set/replay", `{"count":1,`, 400, "JSON"},
		{"unknown stream to pause", "POST", "/v1/streams/ordres/pause", "", 404, "ordres"},
	}
	everywhere(t, func(t *testing.T, w *world) {
		var works atomic.Bool
		r := w.start(dying(&works), nil)
		w.produce(numbered(2)...)
		r.deadCount(2)
		for _, test := range tests {
			status, answer := r.do(test.method, test.path, test.body)
			if text := fmt.Sprint(answer["error"]); status != test.status || !strings.Contains(text, test.says) {
				t.Errorf("%s: %d %s", test.name, status, text)
			}
		}
		if left := valuesOf(r.dead(10)); left != "0 1" {
			t.Errorf("left: %s", left)
		}
	})
}

func TestTwoInstancesNeverWorkOnOneDeadSetAtOnceAndReplayEachMessageOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		const n = 300
		var works atomic.Bool
		var replayed calls
		app := orders(func(_ context.Context, m *stepwell.Message) error {
			if !works.Load() {
				return stepwell.DeadLetter(errors.New("no"))
			}
			replayed.add(m)
			return nil
		})
		one, two := w.start(app, nil), w.start(app, nil)
		w.produce(numbered(n)...)
		one.deadCount(n)
		works.Store(true)
		done := make(chan float64)
		for _, r := range []*running{one, two} {
			go func() {
				total := 0.0
				defer func() { done <- total }()
				for {
					status, answer := r.do("POST", "/v1/dead_set/replay", `{"count":70,"stream":"orders"}`)
					switch {
					case status == 409: // the other one is at it
					case status != 200:
						t.Errorf("replay: %d %v", status, answer)
						return
					case answer["done"] == 0.0:
						return
					default:
						total += answer["done"].(float64)
					}
				}
			}()
		}
		if total := <-done + <-done; total != n {
			t.Errorf("replayed %v, want %d", total, n)
		}
		eventually(t, "all handled", func() bool { return len(replayed.all()) >= n })
		one.queuesEmpty()
		if got := len(replayed.all()); got != n {
			t.Errorf("%d calls after the replays, want %d", got, n)
		}
	})
}

func TestAPeekOfMoreThanOneAnswerShowsSaysThatItIsCut(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var works atomic.Bool
		r := w.start(dying(&works), settings{"DEAD_SET_WALK_BYTES": "1KiB"})
		w.produce(numbered(6)...)
		eventually(t, "all are dead", func() bool { return r.depths()[w.queue("orders", "dead_set")] == 6 })
		_, all := r.do("GET", "/v1/dead_set?count=6&stream=orders", "")
		shown := len(all["messages"].([]any))
		if shown == 0 || shown >= 6 || all["cut"] != true || all["depth"] != 6.0 {
			t.Errorf("%d shown, depth %v, cut %v", shown, all["depth"], all["cut"])
		}
		if _, one := r.do("GET", "/v1/dead_set?count=1&stream=orders", ""); len(one["messages"].([]any)) != 1 || one["cut"] != false || one["depth"] != 6.0 {
			t.Errorf("of one: %v", one)
		}
		if status, answer := r.do("DELETE", "/v1/dead_set", `{"count":6,"stream":"orders"}`); status != 200 || answer["done"] != 6.0 {
			t.Errorf("a delete is not cut: %d %v", status, answer)
		}
	})
}
