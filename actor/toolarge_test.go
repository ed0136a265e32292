package actor_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/embedded/memory"
)

// noise does not compress.
func noise(n int) []byte {
	b := make([]byte, n)
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(b) // never fails
	return b
}

// takesLittle makes the world's queues refuse what is larger than 100 KiB.
func (w *world) takesLittle() settings {
	const limit = 100 << 10
	if w.brokers != nil {
		w.brokers.Queues().(*memory.Broker).MaxMessageSize = limit
	}
	return settings{"RABBITMQ_MAX_MESSAGE_SIZE": "100KiB"}
}

func (r *running) replayAll() {
	r.t.Helper()
	if status, answer := r.do("POST", "/v1/dead_set/replay", `{"count":100,"stream":"orders"}`); status != 200 {
		r.t.Fatalf("replay: %d %v", status, answer)
	}
}

func TestARecordTooLargeForTheQueuesIsShownAndReplayedFromKafka(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var c calls
		var healed atomic.Bool
		app := orders(failsBig(&c, &healed))
		s := app.Streams["orders"]
		s.OnDead = func(context.Context, *stepwell.Message, error) error { // tries are left
			t.Error("OnDead was called for what is too large")
			return nil
		}
		app.Streams["orders"] = s
		r := w.start(app, w.takesLittle())
		big := &kgo.Record{Key: []byte("big"), Value: noise(300 << 10), Headers: []kgo.RecordHeader{{Key: "h", Value: []byte{0, 1}}}}
		w.produce(append(values("before"), big)...)
		w.produce(values("after")...)
		for replays := range 2 { // a failure after a replay stores a pointer again
			r.showsBig(big, replays)
			healed.Store(replays == 1)
			r.replayAll()
			eventually(t, "the large one is handled again", func() bool { return len(c.all()) == replays+2 })
		}
		r.queuesEmpty()
		for i, s := range c.all() {
			if diff := differs(big, &s.m); diff != "" || s.m.Attempt != 1 || s.m.Replays != i {
				t.Errorf("call %d, attempt %d after %d replays: differs in %q", i, s.m.Attempt, s.m.Replays, diff)
			}
		}
	})
}

func TestAReplayOfARecordThatKafkaNoLongerHasComesBackAndSaysSo(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var c calls
		var healed atomic.Bool
		r := w.start(orders(failsBig(&c, &healed)), w.takesLittle())
		big := &kgo.Record{Key: []byte("big"), Value: noise(300 << 10)}
		w.produce(big)
		r.deadCount(1)
		var to kadm.Offsets
		to.AddOffset(w.topic, big.Partition, big.Offset+1, -1)
		if gone, err := kadm.NewClient(w.client).DeleteRecords(t.Context(), to); err != nil || gone.Error() != nil {
			t.Fatal(err, gone.Error())
		}
		healed.Store(true)
		for _, reason := range []string{stepwell.ReasonTooLarge, stepwell.ReasonGone} {
			eventually(t, "it rests there with reason "+reason, func() bool { all := r.dead(10); return len(all) == 1 && all[0]["reason"] == reason })
			eventually(t, "it says that its value is gone", func() bool { return strings.Contains(fmt.Sprint(r.dead(10)[0]["value_error"]), "no longer has") })
			r.replayAll()
		}
		r.deadCount(1)
		if n := len(c.all()); n != 1 {
			t.Errorf("%d calls, want the first alone", n)
		}
	})
}

// failsBig records the calls for the key big, and fails them until it is healed.
func failsBig(c *calls, healed *atomic.Bool) stepwell.Handler {
	return func(_ context.Context, m *stepwell.Message) error {
		if string(m.Key) != "big" {
			return nil
		}
		c.add(m)
		if healed.Load() {
			return nil
		}
		return errFlaky
	}
}

// showsBig waits until the record is alone in the dead set, after so many replays, and shown as it
// should.
func (r *running) showsBig(big *kgo.Record, replays int) {
	r.t.Helper()
	var seen map[string]any
	eventually(r.t, "it rests in the dead set", func() bool {
		all, _ := r.peek(10) // it may not be there yet
		if len(all) == 1 {
			seen = all[0]
		}
		return len(all) == 1 && seen["replays"] == float64(replays)
	})
	const part = 64 << 10
	want := map[string]any{
		"reason": stepwell.ReasonTooLarge, "error": errFlaky.Error(), "attempts": 1.0, "attempts_total": float64(replays + 1),
		"truncated": true, "size": float64(len(big.Value)), "encoding": "base64", "value": base64.StdEncoding.EncodeToString(big.Value[:part]),
		"key": "big", "value_error": nil,
	}
	for name, value := range want {
		if seen[name] != value {
			r.t.Errorf("%s is %.100v, want %.100v", name, seen[name], value)
		}
	}
}
