package actor_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
)

// part starts a process of the app that runs these modes alone. Where it does not read it is not
// told where Kafka is, nor which topics there are.
func (w *world) part(app actor.App, modes string, more ...settings) *running {
	w.t.Helper()
	env := settings{"MODES": modes}
	for _, s := range more {
		maps.Copy(env, s)
	}
	if modes != "streams" {
		env["KAFKA_BROKERS"], env["STREAMS_ORDERS_TOPICS"] = "", ""
	}
	r := w.start(app, env)
	r.ready()
	return r
}

// byValue is an app whose handlers note what they see: "bad" fails until somebody heals it, "slow"
// is handed over, and all others are done.
func byValue(first, slow *calls, healed *atomic.Bool) actor.App {
	return withSlow(seeing(first, func(m *stepwell.Message) error {
		switch v := string(m.Value); {
		case v[:3] == "bad" && m.Attempt == 1, v[:3] == "die" && !healed.Load():
			return errFlaky
		case v[:4] == "slow":
			return stepwell.To("slow")
		}
		return nil
	}), actor.Channel{Handler: seeing(slow, works)})
}

func TestOneProcessReadsAndAnotherRetriesAndEachGoesOnWithoutTheOther(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var healed atomic.Bool
		var read, retried, slow, none calls
		reader := w.part(byValue(&read, &none, &healed), "streams")
		retrier := w.part(byValue(&retried, &slow, &healed), "retries,channels")
		w.produce(values("good 1", "bad 1", "slow 1")...)
		eventually(t, "the other process retries what failed", func() bool { return retried.of("bad 1", 2) == 1 })
		eventually(t, "and has what was handed over", func() bool { return slow.of("slow 1", 1) == 1 })
		eventually(t, "all is committed", func() bool { return w.committed() == 3 })

		retrier.end()
		w.produce(values("good 2", "bad 2", "slow 2")...)
		eventually(t, "the reader goes on alone, and loses nothing of what it parks", func() bool { return read.of("good 2", 1) == 1 && w.committed() == 6 })
		if n := read.of("bad 2", 2) + none.of("slow 2", 1) + retried.of("bad 2", 2); n != 0 {
			t.Errorf("%d calls of what no process runs now", n)
		}
		reader.end()

		retrier = w.part(byValue(&retried, &slow, &healed), "retries,channels")
		eventually(t, "who retries goes on alone", func() bool { return retried.of("bad 2", 2) == 1 && slow.of("slow 2", 1) == 1 })
		w.produce(values("good 3")...)
		retrier.end()
		if n := retried.of("good 3", 1); n != 0 || len(none.all()) != 0 {
			t.Errorf("%d calls where nobody reads, %d in a channel that does not run", n, len(none.all()))
		}
		w.part(byValue(&read, &none, &healed), "streams")
		eventually(t, "the reader goes on where it was", func() bool { return read.of("good 3", 1) == 1 })
		for _, s := range read.all() {
			if s.m.Attempt != 1 {
				t.Errorf("who reads retried %s", s.m.Value)
			}
		}
		for _, s := range retried.all() {
			if s.m.Attempt == 1 {
				t.Errorf("who retries read %s", s.m.Value)
			}
		}
	})
}

func TestTheAPIAlonePeeksReplaysAndDeletes(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var healed atomic.Bool
		var read, retried, slow calls
		api := w.part(byValue(&read, &slow, &healed), "api")
		reader := w.start(byValue(&retried, &slow, &healed), settings{"MODES": "streams,retries", "RETRY_COUNT": "1"})
		w.produce(values("die 1", "die 2", "die 3")...)
		dead := api.deadCount(3)
		if len(dead) != 3 {
			t.Fatalf("%d dead", len(dead))
		}
		if status, answer := reader.do("GET", "/v1/dead_set?stream=orders&count=1", ""); status != 404 || answer["detail"] != "/v1 is not served by this process (MODES=streams,retries): ask one whose modes have api" {
			t.Errorf("who has no API answers %d %v", status, answer)
		}
		if status, _ := reader.do("GET", "/readyz", ""); status != 200 {
			t.Errorf("its probe says %d", status)
		}
		healed.Store(true)
		if status, answer := api.do("POST", "/v1/dead_set/replay?stream=orders&count=2", ""); status != 200 || answer["done"] != 2.0 {
			t.Fatalf("replay: %d %v", status, answer)
		}
		eventually(t, "who retries has them", func() bool {
			n := 0
			for _, s := range retried.all() {
				n += s.m.Replays
			}
			return n == 2
		})
		if status, answer := api.do("DELETE", "/v1/dead_set?stream=orders&count=9", ""); status != 200 || answer["done"] != 1.0 {
			t.Errorf("delete: %d %v", status, answer)
		}
		api.queuesEmpty()
		if n := len(read.all()); n != 0 {
			t.Errorf("%d calls in a process that has the API alone", n)
		}
	})
}

func TestAProcessTellsWhatItRuns(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var healed atomic.Bool
		var c calls
		app, log := logged(byValue(&c, &c, &healed))
		r := w.part(app, "retries,api")
		if _, _, text := r.health(); !hasAll(text, "[+] modes: retries, api; left to other processes: streams, channels", "stream orders: its topics are not read here (MODES=retries,api)") {
			t.Errorf("/readyz says %s", text)
		}
		_, answer := r.do("GET", "/v1/streams", "")
		if of := r.status("orders"); fmt.Sprint(answer["modes"]) != "[retries api]" || of["reads"] != false || of["stuck"] != false || of["error"] != nil || !strings.Contains(fmt.Sprint(of["channels"]), "runs:false") {
			t.Errorf("/v1/streams says %v of %v", of, answer["modes"])
		}
		_, metrics := r.do("GET", "/metrics", "")
		if !hasAll(metrics["text"].(string), `stepwell_mode{stepwell_mode="retries"} 1`, `stepwell_mode{stepwell_mode="streams"} 0`) {
			t.Error("the metrics do not say it")
		}
		if !log.said(`"msg":"start"`, `"modes":"retries,api"`) {
			t.Error("the start line does not say it")
		}
	})
}

func TestARetiredStreamIsReadNoMoreAndDrains(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var healed atomic.Bool
		var before, after, slow calls
		first := w.start(withSlow(seeing(&before, func(m *stepwell.Message) error {
			if string(m.Value) == "slow 1" {
				return stepwell.To("slow")
			}
			return errFlaky
		}), actor.Channel{Handler: func(ctx context.Context, _ *stepwell.Message) error { <-ctx.Done(); return ctx.Err() }}), settings{"RETRY_COUNT": "0", "SHUTDOWN_TIMEOUT": "6s"})
		w.produce(values("die 1", "slow 1")...)
		first.deadCount(1)
		eventually(t, "all is committed", func() bool { return w.committed() == 2 })
		first.end()
		w.produce(values("never read")...)

		app, log := logged(byValue(&after, &slow, &healed))
		r := w.start(app, settings{"STREAMS_ORDERS_RETIRED": "true", "KAFKA_BROKERS": "", "STREAMS_ORDERS_TOPICS": "", "RETRY_COUNT": "0"})
		r.ready()
		if !log.said(`"msg":"start"`, `"retired":"orders"`) {
			t.Error("the start line does not say that it is not read")
		}
		eventually(t, "its channel goes on", func() bool { return slow.of("slow 1", 1) == 1 })
		r.deadCount(1)
		if of := r.status("orders"); !strings.Contains(fmt.Sprint(of["channels"]), "runs:true") {
			t.Errorf("a channel that runs: %v", of)
		}
		if of := r.status("orders"); of["retired"] != true || of["reads"] != false || of["empty_since"] != nil || of["may_go"] != nil {
			t.Errorf("with a dead message it says %v", of)
		}
		healed.Store(true)
		r.replayAll()
		eventually(t, "its retries go on", func() bool { return after.of("die 1", 1) == 1 })
		eventually(t, "it says that it is empty", func() bool { return r.status("orders")["empty_since"] != nil })
		if of := r.status("orders"); of["may_go"] != nil {
			t.Errorf("it may go at once: %v", of)
		}
		eventually(t, "/readyz says so too", func() bool { // a look that is not answered in time begins the time anew
			_, _, text := r.health()
			return hasAll(text, "stream orders: retired: its topics are read no more", "its queues are empty since")
		})
		if n := after.of("never read", 1); n != 0 {
			t.Errorf("it was read %d times", n)
		}
	})
}

func TestAWaitGoesThroughQueuesThatAnotherProcessDeclared(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var failed, back atomic.Int64
		app := actor.App{Streams: actor.Streams{"orders": {Handler: func(_ context.Context, m *stepwell.Message) error {
			if m.Attempt == 1 {
				failed.Store(time.Now().UnixNano())
				return stepwell.RetryAfter(errFlaky, 6*time.Second)
			}
			back.Store(time.Now().UnixNano())
			return nil
		}}}}
		slow := settings{"RETRY_DELAY": "60s"} // none of its queues fits
		w.part(app, "retries,channels", slow)
		w.part(app, "streams", slow)
		w.produce(values("x")...)
		eventually(t, "it comes back", func() bool { return back.Load() > 0 })
		// It waits twice for 2 s, once in each process: until its queues are old enough for who has
		// declared them, and then for who has found them.
		if took := time.Duration(back.Load() - failed.Load()); took < 6*time.Second || took > 11500*time.Millisecond {
			t.Errorf("what was to wait for 6s came after %s", took)
		}
	})
}

func TestARetiredStreamIsNotEmptyWhileAMessageWaitsThatAnotherProcessPutOff(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var put atomic.Int64
		app := actor.App{Streams: actor.Streams{"orders": {Handler: func(_ context.Context, m *stepwell.Message) error {
			if put.Add(1) == 1 {
				return errFlaky
			}
			return stepwell.Snooze(time.Hour)
		}}}}
		retired := settings{"STREAMS_ORDERS_RETIRED": "true"}
		first := w.part(app, "streams")
		looks := w.part(app, "api", retired)
		w.produce(values("x")...)
		eventually(t, "parked", func() bool { return w.committed() == 1 })
		first.end()
		w.part(app, "retries", retired)
		eventually(t, "snoozed", func() bool { return put.Load() == 2 })
		waits := w.queue("orders", "delay.3600000")
		eventually(t, "all know of the queue", func() bool { return looks.depths()[waits] == 1 && looks.status("orders")["empty_since"] == nil })
		always(t, "a message waits", time.Second, func() bool { return looks.status("orders")["empty_since"] == nil })
	})
}
