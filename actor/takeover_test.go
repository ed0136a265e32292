package actor_test

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/testbroker"
)

func TestWhatAKilledProcessHeldIsRunByTheNextOne(t *testing.T) {
	const n = 20
	tests := map[string]struct {
		role      string
		attempt   int
		committed int64 // at most, while it is held
	}{
		"killed in a first try": {"hold:+", 1, n},
		"killed in a retry":     {"hold:++", 2, n + 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBrokers(t, func(t *testing.T, w *world) {
				w.produce(several("good", n)...)
				w.produce(values("bad")...)
				first := w.work(t, test.role, nil)
				eventually(t, "the message is held", func() bool { return first.attempt("bad") == test.attempt })
				eventually(t, "what could be settled is committed", func() bool { return w.committed() == test.committed })
				first.kill(t)
				next := w.work(t, "usual", nil)
				eventually(t, "it ran to its end", func() bool { return next.attempt("bad") == 2 })
				eventually(t, "all is committed", func() bool { return w.committed() == n+1 })
				next.stop(t)
				for _, r := range several("good", n) {
					if next.attempt(string(r.Value)) != 0 {
						t.Errorf("%s was committed and ran again", r.Value)
					}
				}
			})
		})
	}
}

func TestWhatAKilledProcessHadDoneBeyondWhatItHeldIsNotRunAgain(t *testing.T) {
	const n = 200
	t.Parallel()
	onBrokers(t, func(t *testing.T, w *world) {
		w.produce(&kgo.Record{Key: []byte("bad"), Value: []byte("bad")})
		w.produce(several("good", n)...)
		env := settings{"CRASH_LIMIT": "0"} // no mark of what was under way beside what is done
		first := w.work(t, "hold:+", env)
		var beyond int64
		eventually(t, "all but the message that is held is committed, or said to be done", func() bool {
			beyond = w.doneBeyond(t)
			return w.committed()+beyond == n
		})
		if beyond == 0 {
			t.Fatal("nothing is behind the message that is held")
		}
		first.kill(t)
		next := w.work(t, "usual", env)
		eventually(t, "it ran to its end, and all is committed", func() bool { return next.attempt("bad") == 2 && w.committed() == n+1 })
		next.stop(t)
		for _, r := range several("good", n) {
			if next.attempt(string(r.Value)) != 0 {
				t.Errorf("%s ran again; %d were done beyond the commit", r.Value, beyond)
			}
		}
	})
}

// Every second message rests, so that each that is done takes two of the 4096 bytes that a commit
// may say, in base64.
func TestOfWhatIsDoneBetweenManyThatAreNotACommitTellsTheFirst1500AndTheRestIsCalledAgain(t *testing.T) {
	const n = 4000
	everywhere(t, func(t *testing.T, w *world) {
		w.topic += ".of-one-partition"
		w.createTopic(w.topic, 1)
		var records []*kgo.Record
		for i := range n / 2 {
			records = append(records, keyed(fmt.Sprintf("rests %d", i), ":fails")...)
			records = append(records, keyed(fmt.Sprintf("done %d", i), "a")...)
		}
		w.produce(records...)
		env := settings{"RETRY_IN_PLACE": "all", "RETRY_DELAY": "10m"}
		var first, second calls
		r := w.start(orders(func(_ context.Context, m *stepwell.Message) error { first.add(m); return ill(m) }), env)
		eventually(t, "one half rests", func() bool { return r.metric("stepwell_retries_in_place_total") == n/2 })
		r.end()
		if got := len(first.all()); got != n {
			t.Fatalf("%d calls of %d messages", got, n)
		}
		next := w.start(orders(func(_ context.Context, m *stepwell.Message) error { second.add(m); return ill(m) }), env)
		eventually(t, "that half rests again", func() bool { return next.metric("stepwell_retries_in_place_total") == n/2 })
		next.end()
		again := map[int64]bool{}
		for _, s := range second.all() {
			again[s.m.Origin.Offset] = true
		}
		known := 0
		for ; known < n/2 && !again[int64(2*known+1)]; known++ {
		}
		if known < 1450 || known > 1550 {
			t.Errorf("the next process knows of %d that are done", known)
		}
		if got := len(second.all()); got != n-known {
			t.Errorf("it called %d of %d, of which it knew %d", got, n, known)
		}
	})
}

// doneBeyond is how many records the group's commits say to be done beyond them, where they have no
// mark.
func (w *world) doneBeyond(t *testing.T) (sum int64) {
	t.Helper()
	offsets, err := kadm.NewClient(w.client).FetchOffsets(t.Context(), w.app+".orders")
	if err != nil {
		return -1
	}
	offsets.Each(func(o kadm.OffsetResponse) {
		text, ours := strings.CutPrefix(o.Metadata, "stepwell/2 ")
		raw, err := base64.RawStdEncoding.DecodeString(text)
		if !ours || err != nil {
			return
		}
		const head = 5 // the offset, the topic, no mark, the log, the epoch; then by turns how many are not done, and how many are
		for i := 0; len(raw) > 0; i++ {
			number, size := binary.Uvarint(raw)
			if i > head && (i-head)%2 == 1 {
				sum += int64(number)
			}
			raw = raw[size:]
		}
	})
	return sum
}

func TestAProcessKilledBetweenAFailureAndItsConfirmLosesNothing(t *testing.T) {
	onEachPrivate(t, func(t *testing.T, w *world, node *testbroker.Rabbit) {
		w.produce(values("warm", "bad-warm")...)
		first := w.work(t, "usual", nil)
		eventually(t, "it works", func() bool { return first.attempt("bad-warm") == 2 && w.committed() == 2 })
		node.Freeze()
		w.produce(values("bad", "good-1", "good-2")...) // of one key: the commit must stop before the first of them
		eventually(t, "all tried", func() bool { return first.attempt("good-2") == 1 })
		always(t, "nothing is committed past what is not confirmed", 3*time.Second, func() bool { return w.committed() == 2 })
		first.kill(t)
		node.Thaw()
		next := w.work(t, "usual", nil)
		eventually(t, "it ran to its end", func() bool { return next.attempt("bad") == 2 })
		eventually(t, "all is committed", func() bool { return w.committed() == 5 })
		next.stop(t)
	})
}

func TestAProcessKilledAfterItsOnDeadAndBeforeTheMessageIsSettledCallsItAgain(t *testing.T) {
	for name, retries := range map[string]int64{"after a first try": 0, "after a retry": 1} {
		t.Run(name, func(t *testing.T) {
			onBrokers(t, func(t *testing.T, w *world) {
				env := settings{"RETRY_COUNT": fmt.Sprint(retries)}
				w.produce(values("x")...)
				first := w.work(t, "takes:+", env)
				eventually(t, "OnDead has done its work", func() bool { return first.attempt("taken x") == 1 })
				// What is retried is committed once its first failure is parked, and not at once.
				eventually(t, "the first failure is committed", func() bool { return w.committed() == retries })
				always(t, "its end is not settled", time.Second, func() bool { return w.committed() == retries })
				first.kill(t)
				next := w.work(t, "takes", env)
				eventually(t, "it is called again", func() bool { return next.attempt("taken x") == 1 && w.committed() == 1 })
				next.stop(t)
				broker := w.broker()
				for _, kind := range []string{"instant", "dead_set"} {
					if n, err := ready(t.Context(), broker, w.queue("orders", kind)); n != 0 || err != nil {
						t.Errorf("%d in %s, %v: it was taken over", n, kind, err)
					}
				}
			})
		})
	}
}

func TestTwoProcessesShareTheWorkAndOneTakesOverAllOfAKilledOne(t *testing.T) {
	const n = 400
	t.Parallel()
	onBrokers(t, func(t *testing.T, w *world) {
		one, two := w.work(t, "usual", nil), w.work(t, "usual", nil)
		both := func(of string, attempt int) func() bool {
			return func() bool {
				for _, k := range []*worker{one, two} {
					found := false
					for _, r := range several(of, n) {
						found = found || k.attempt(string(r.Value)) == attempt
					}
					if !found {
						return false
					}
				}
				return true
			}
		}
		sent := int64(0)
		eventually(t, "both handle first tries", func() bool { // the second one may take a moment to join
			w.produce(several("good", n)...)
			sent += n
			return both("good", 1)()
		})
		w.produce(several("bad", n)...)
		sent += n
		eventually(t, "both handle retries", both("bad", 2))

		w.produce(several("bad-late", n)...)
		sent += n
		eventually(t, "the first one has some", func() bool { // which ones depends on who has their partition
			return slices.ContainsFunc(several("bad-late", n), func(r *kgo.Record) bool { return one.attempt(string(r.Value)) > 0 })
		})
		one.kill(t)
		w.produce(several("bad-later", n)...)
		sent += n
		eventually(t, "all is committed", func() bool { return w.committed() == sent })
		eventually(t, "the other one has all", func() bool {
			for _, r := range several("bad-later", n) {
				if two.attempt(string(r.Value)) != 2 {
					return false
				}
			}
			for _, r := range several("bad-late", n) {
				if two.attempt(string(r.Value)) != 2 && one.attempt(string(r.Value)) != 2 {
					return false
				}
			}
			return true
		})
		two.stop(t)
	})
}

func TestAGroupThatStartsAtTheLatestLosesNothingOnARestart(t *testing.T) {
	onOneRabbitMQ(t, func(t *testing.T, w *world) {
		latest := settings{"START": "latest"}
		w.produce(several("before", 8)...)
		y := newTally()
		first := w.start(orders(y.handler(failsOnce)), latest)
		first.ready()
		w.produce(values("while")...) // in one partition: the others are never read before the stop
		eventually(t, "the new one is handled", func() bool { return y.doneOf("while") == 1 })
		first.end()
		w.produce(several("between", 40)...)
		second := w.start(orders(y.handler(failsOnce)), latest)
		eventually(t, "all that came between are handled", func() bool { _, done := y.count(); return done == 41 })
		second.end()
		if n := y.triesOf("before-0"); n != 0 {
			t.Errorf("a record from before the start was handled")
		}
	})
}
