package actor_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/internal/envelope"
)

// withSlow is an app whose stream orders has a channel slow.
func withSlow(h stepwell.Handler, slow actor.Channel) actor.App {
	return actor.App{Streams: actor.Streams{"orders": {Handler: h, Channels: actor.Channels{"slow": slow}}}}
}

func hands(*stepwell.Message) error { return stepwell.To("slow") }

// seeing is a handler that notes what it sees.
func seeing(c *calls, verdict func(m *stepwell.Message) error) stepwell.Handler {
	return func(_ context.Context, m *stepwell.Message) error {
		c.add(m)
		return verdict(m)
	}
}

func fails(*stepwell.Message) error { return errFlaky }
func works(*stepwell.Message) error { return nil }

// ofSlow asks for something in the dead set of the channel.
func (r *running) ofSlow(method, path string) (int, map[string]any) {
	r.t.Helper()
	return r.do(method, path+"?stream=orders&channel=slow&count=100", "")
}

// slowDead waits until the channel's dead set has n messages.
func (r *running) slowDead(n int) (all []map[string]any) {
	r.t.Helper()
	eventually(r.t, fmt.Sprintf("%d messages in the channel's dead set", n), func() bool {
		status, answer := r.ofSlow("GET", "/v1/dead_set")
		if status != 200 {
			return false
		}
		all = all[:0]
		for _, m := range answer["messages"].([]any) {
			all = append(all, m.(map[string]any))
		}
		return len(all) == n
	})
	return all
}

// slowEmpty waits until nothing is in the channel's queues.
func (r *running) slowEmpty() {
	r.t.Helper()
	eventually(r.t, "the channel's queues are empty", func() bool {
		channels, _ := r.status("orders")["channels"].([]any)
		queues, read := channels[0].(map[string]any)["queues"].(map[string]any)
		for _, n := range queues {
			if n.(float64) != 0 {
				return false
			}
		}
		return read
	})
}

func TestAKnownChannelGetsTheMessageAsItCameAndItsOwnBudgetCountsFromZero(t *testing.T) {
	for _, test := range []struct {
		name    string
		env     settings
		handing int // the attempt that hands over
		calls   int // that come before, and this one: one was put off
	}{
		{"at once", nil, 1, 1},
		{"after failures and a snooze", nil, 3, 4},
		{"at once, of a stream without retries", settings{"STREAMS_ORDERS_RETRY_ENABLED": "false"}, 1, 1},
		{"after failures and a snooze in place", settings{"STREAMS_ORDERS_RETRY_ENABLED": "false"}, 3, 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			everywhere(t, func(t *testing.T, w *world) {
				var first, slow calls
				r := w.start(withSlow(seeing(&first, func(m *stepwell.Message) error {
					switch m.Value = append(m.Value[:0:0], "changed"...); {
					case m.Attempt == 2 && m.Snoozes == 0:
						return stepwell.Snooze(time.Second)
					case m.Attempt < test.handing:
						return errFlaky
					}
					return stepwell.To("slow")
				}), actor.Channel{Handler: seeing(&slow, fails)}), settings{"STREAMS_ORDERS_CHANNELS_SLOW_RETRY_COUNT": "2"}.with(test.env))
				record := &kgo.Record{Key: []byte{0, 255}, Value: []byte("x"), Headers: []kgo.RecordHeader{{Key: "h", Value: nil}, {Key: "h", Value: []byte{}}, {Key: "h", Value: []byte{0}}}}
				w.produce(record)
				dead := r.slowDead(1)[0]
				id := fmt.Sprintf("%s:%d:%d@slow", w.topic, record.Partition, record.Offset)
				if dead["id"] != id || dead["channel"] != "slow" || dead["stream"] != "orders" || dead["attempts"] != 3.0 || dead["attempts_total"] != 3.0 || dead["reason"] != stepwell.ReasonExhausted {
					t.Errorf("dead: %v", dead)
				}
				seen := slow.all()
				if len(seen) != 3 {
					t.Fatalf("%d calls in the channel, want 3", len(seen))
				}
				for i, s := range seen {
					if diff := differs(record, &s.m); diff != "" || s.m.Attempt != i+1 || s.m.ID != id || s.m.Channel != "slow" || s.m.Stream != "orders" || s.m.Snoozes != 0 {
						t.Errorf("call %d: attempt %d of %s in %q, differs in %q", i+1, s.m.Attempt, s.m.ID, s.m.Channel, diff)
					}
				}
				if !seen[0].m.FirstFailed.IsZero() {
					t.Error("it came to the channel as one that failed")
				}
				if n := len(first.all()); n != test.calls {
					t.Errorf("%d calls of the stream, want %d", n, test.calls)
				}
				eventually(t, "it is committed", func() bool { return w.committed() == 1 })
				if _, answer := r.do("GET", "/v1/dead_set?stream=orders&count=9", ""); fmt.Sprint(answer["depth"]) != "0" && test.env == nil {
					t.Errorf("the stream's own dead set: %v", answer)
				}
			})
		})
	}
}

func TestToAnUnknownChannelIsAFailureThatNamesIt(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var first, slow calls
		r := w.start(withSlow(seeing(&first, func(m *stepwell.Message) error {
			if string(m.Value) == "misdirected" {
				return fmt.Errorf("pay later: %w", stepwell.To("slwo"))
			}
			return stepwell.To("slow")
		}), actor.Channel{Handler: seeing(&slow, func(*stepwell.Message) error { return stepwell.To("slow") })}), settings{"RETRY_COUNT": "1"})
		w.produce(values("misdirected", "goes round")...)
		dead := r.deadCount(1)[0]
		if want := `not pay later: handed over to channel "slwo": stream "orders" has no such channel; its channels are: slow; did you mean slow?`; dead["error"] != want ||
			dead["error_type"] != "stepwell.To" || dead["attempts"] != 2.0 {
			t.Errorf("dead of the stream: %v, want %s", dead, want)
		}
		dead = r.slowDead(1)[0]
		if want := `not handed over to channel "slow": its message is in channel "slow", and a channel hands over to none`; dead["error"] != want || dead["attempts"] != 2.0 {
			t.Errorf("dead of the channel: %v, want %s", dead, want)
		}
		r.queuesEmptyBut(w.queue("orders", "dead_set"))
	})
}

// queuesEmptyBut waits until the stream's queues but one are empty.
func (r *running) queuesEmptyBut(dead string) {
	r.t.Helper()
	eventually(r.t, "the other queues are empty", func() bool {
		for name, n := range r.depths() {
			if n != 0 && name != dead {
				return false
			}
		}
		return true
	})
}

func TestAStreamOfOnePartitionWorksAsFastAsItsChannelHasWorkers(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		const records, takes, workers = 400, 100 * time.Millisecond, 20
		var done atomic.Int64
		r := w.start(withSlow(func(_ context.Context, m *stepwell.Message) error { return hands(m) },
			actor.Channel{Handler: func(context.Context, *stepwell.Message) error {
				time.Sleep(takes)
				done.Add(1)
				return nil
			}}), settings{"STREAMS_ORDERS_ORDER": "partition", "STREAMS_ORDERS_CONCURRENCY": "1", "STREAMS_ORDERS_CHANNELS_SLOW_CONCURRENCY": fmt.Sprint(workers)})
		r.ready()
		all := several("x", records)
		for _, x := range all {
			x.Key = []byte("one partition")
		}
		began := time.Now()
		w.produce(all...)
		eventually(t, "all are done", func() bool { return done.Load() >= records })
		perSecond := records / time.Since(began).Seconds()
		t.Logf("%.0f a second", perSecond)
		if perSecond < 100 { // 200 where the machine has nothing else to do; one worker would do 10
			t.Errorf("%.0f a second", perSecond)
		}
	})
}

func TestAReplayOfAChannelsDeadMessageReturnsToTheChannel(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var first, slow calls
		r := w.start(withSlow(seeing(&first, hands), actor.Channel{Handler: seeing(&slow, func(m *stepwell.Message) error {
			if m.Replays == 0 {
				return stepwell.DeadLetter(errFlaky)
			}
			return nil
		})}), nil)
		w.produce(values("x")...)
		r.slowDead(1)
		if status, answer := r.ofSlow("POST", "/v1/dead_set/replay"); status != 200 || answer["done"] != 1.0 {
			t.Fatalf("replay: %d %v", status, answer)
		}
		eventually(t, "it is called again", func() bool { return len(slow.all()) == 2 })
		if m := slow.all()[1].m; m.Replays != 1 || m.Attempt != 1 || m.Channel != "slow" || !strings.HasSuffix(m.ID, "@slow") {
			t.Errorf("it came back as %s, attempt %d after %d replays, in %q", m.ID, m.Attempt, m.Replays, m.Channel)
		}
		r.slowEmpty()
		if n := len(first.all()); n != 1 {
			t.Errorf("%d calls of the stream's handler", n)
		}
	})
}

// A channel remembers what it was handed over. Of a message that came twice, as after a crash, one
// copy may have been handed over and the other have died in the stream: when that one is replayed
// and handed over, it must not look like the first.
func TestAReplayedMessageThatIsHandedOverAgainIsNotTakenForARepeat(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var first, slow calls
		r := w.start(withSlow(seeing(&first, hands), actor.Channel{Handler: seeing(&slow, works)}), nil)
		w.produce(values("x")...)
		eventually(t, "it is handled in the channel", func() bool { return len(slow.all()) == 1 })
		r.slowEmpty()
		died := envelope.Envelope{Message: first.all()[0].m, AttemptsTotal: 1, DiedAt: time.Now()}
		died.Failure = envelope.Failure{Reason: stepwell.ReasonDeadLetter, At: died.DiedAt}
		stored := make(chan error, 1)
		w.broker().Publisher("test").Publish(t.Context(), w.queue("orders", "dead_set"), died.Encode(), func(err error) { stored <- err })
		if err := <-stored; err != nil {
			t.Fatal(err)
		}
		r.deadCount(1)
		r.replayAll()
		eventually(t, "it is handled in the channel again", func() bool { return len(slow.all()) == 2 })
		if m := slow.all()[1].m; m.Replays != 1 || m.ID != slow.all()[0].m.ID {
			t.Errorf("it is %s after %d replays", m.ID, m.Replays)
		}
		r.slowEmpty()
	})
}

func TestARecordThatAnOperatorWantsAgainIsHandedOverAgain(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var slow calls
		r := w.start(withSlow(func(_ context.Context, m *stepwell.Message) error { return hands(m) }, actor.Channel{Handler: seeing(&slow, works)}), nil)
		w.produce(values("x")...)
		eventually(t, "it was handled in the channel and is committed", func() bool { return len(slow.all()) == 1 && w.committed() == 1 })
		r.slowEmpty()
		w.rewind()
		eventually(t, "it is handled in the channel again", func() bool { return len(slow.all()) >= 2 })
		r.slowEmpty()
	})
}

func TestAMessageTooLargeToBeHandedOverRestsInTheChannelsDeadSetAndIsReplayedFromKafka(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var slow calls
		r := w.start(withSlow(func(_ context.Context, m *stepwell.Message) error { return hands(m) }, actor.Channel{Handler: seeing(&slow, works)}), w.takesLittle())
		big := &kgo.Record{Key: []byte("big"), Value: noise(300 << 10), Headers: []kgo.RecordHeader{{Key: "h", Value: []byte{0, 1}}}}
		w.produce(big)
		if dead := r.slowDead(1)[0]; dead["reason"] != stepwell.ReasonTooLarge || dead["channel"] != "slow" || dead["size"] != float64(len(big.Value)) {
			t.Errorf("dead: %v", dead["reason"])
		}
		if status, answer := r.ofSlow("POST", "/v1/dead_set/replay"); status != 200 {
			t.Fatalf("replay: %d %v", status, answer)
		}
		eventually(t, "the channel's handler has it", func() bool { return len(slow.all()) == 1 })
		if m := slow.all()[0].m; differs(big, &m) != "" || m.Channel != "slow" {
			t.Errorf("it differs in %q", differs(big, &m))
		}
		r.slowEmpty()
	})
}

func TestAChannelHasItsOwnMiddlewareAndOnDead(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var slow, ofStream, ofChannel calls
		var around []string
		named := func(name string) stepwell.Middleware {
			return func(next stepwell.Handler) stepwell.Handler {
				return func(ctx context.Context, m *stepwell.Message) error {
					around = append(around, m.Channel+" "+name) // one message, one call after another
					return next(ctx, m)
				}
			}
		}
		app := withSlow(func(_ context.Context, m *stepwell.Message) error { return hands(m) }, actor.Channel{
			Handler: seeing(&slow, fails), Use: []stepwell.Middleware{named("channel")},
			OnDead: func(_ context.Context, m *stepwell.Message, _ error) error { ofChannel.add(m); return nil },
		})
		s := app.Streams["orders"]
		s.Use = []stepwell.Middleware{named("stream")}
		s.OnDead = func(_ context.Context, m *stepwell.Message, _ error) error { ofStream.add(m); return nil }
		app.Streams["orders"], app.Use = s, []stepwell.Middleware{named("app")}
		r := w.start(app, settings{"STREAMS_ORDERS_CHANNELS_SLOW_RETRY_COUNT": "0"})
		w.produce(values("x")...)
		eventually(t, "the channel's takes it over", func() bool { return len(ofChannel.all()) == 1 })
		r.slowEmpty()
		if n := len(ofStream.all()); n != 0 || len(slow.all()) != 1 {
			t.Errorf("the stream's OnDead was called %d times", n)
		}
		r.end()
		if want := []string{" app", " stream", "slow app", "slow channel"}; !slices.Equal(around, want) {
			t.Errorf("around the handlers were %q, want %q", around, want)
		}
	})
}

func TestAPauseOfAStreamHoldsItsChannelsToo(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var slow calls
		var handed atomic.Int64
		r := w.start(withSlow(func(_ context.Context, m *stepwell.Message) error {
			handed.Add(1)
			return stepwell.To("slow")
		}, actor.Channel{Handler: seeing(&slow, fails)}), settings{"RETRY_COUNT": "1000", "RETRY_DELAY": "50ms"})
		w.produce(values("x")...)
		eventually(t, "it fails and comes back", func() bool { return len(slow.all()) > 2 })
		if status, _ := r.do("POST", "/v1/streams/orders/pause", ""); status != 200 {
			t.Fatal(status)
		}
		held := w.queue("orders.channel.slow", "instant")
		eventually(t, "it waits to be tried", func() bool {
			channels := r.status("orders")["channels"].([]any)
			queues, _ := channels[0].(map[string]any)["queues"].(map[string]any)
			return queues[held] == 1.0
		})
		before := len(slow.all())
		always(t, "it is not called", 300*time.Millisecond, func() bool { return len(slow.all()) == before })
		r.do("POST", "/v1/streams/orders/resume", "")
		eventually(t, "it is called again", func() bool { return len(slow.all()) > before })
	})
}

func TestMetricsTellAChannelFromItsStream(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var slow calls
		r := w.start(withSlow(func(_ context.Context, m *stepwell.Message) error { return hands(m) }, actor.Channel{Handler: seeing(&slow, fails)}),
			settings{"STREAMS_ORDERS_CHANNELS_SLOW_RETRY_COUNT": "1"})
		w.produce(values("x", "y")...)
		r.slowDead(2)
		const stream, channel = `stepwell_stream="orders"`, `stepwell_channel="slow"`
		for _, want := range []string{
			`messaging_process_duration_seconds_count{messaging_operation_name="process",messaging_system="kafka",` + stream + `,stepwell_verdict="handed_over"} 2`,
			`stepwell_retries_total{` + channel + `,` + stream + `} 2`,
			`stepwell_retries_total{` + stream + `} 0`,
			`stepwell_dead_set_died_total{` + channel + `,stepwell_reason="exhausted",` + stream + `} 2`,
			`stepwell_dead_set_messages{` + channel + `,` + stream + `} 2`,
			`stepwell_dead_set_messages{` + stream + `} 0`,
			`stepwell_queue_messages{` + channel + `,stepwell_queue="` + w.queue("orders.channel.slow", "dead_set") + `",` + stream + `} 2`,
			`stepwell_handler_inflight{` + channel + `,` + stream + `} 0`,
		} {
			eventually(t, want, func() bool {
				_, answer := r.do("GET", "/metrics", "")
				return strings.Contains(answer["text"].(string), "\n"+want)
			})
		}
	})
}
