package deadset_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/deadset"
	"github.com/stepwell/stepwell/embedded/memory"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/queue"
)

const dead, ready = "a.s.dead_set", "a.s.instant"

// inBubble runs the test on a false clock with a broker that has a dead set and an instant queue.
func inBubble(t *testing.T, test func(t *testing.T, b *memory.Broker, s *deadset.Set)) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New()
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() { ended <- b.Run(ctx) }()
		t.Cleanup(func() { cancel(); <-ended })
		if err := b.Declare(ctx, []queue.Spec{{Name: dead, Kind: queue.DeadSet}, {Name: ready, Kind: queue.Instant, Target: dead}}); err != nil {
			t.Fatal(err)
		}
		test(t, b, deadset.New(deadset.Config{App: "a", Stream: "s", Queue: dead, Instant: ready, Broker: b, WalkBytes: 1 << 20, Index: deadset.NewIndex(1 << 20)}))
	})
}

// bury puts n envelopes into the dead set, the i-th with value i.
func bury(t *testing.T, b queue.Broker, n int) {
	t.Helper()
	buryIn(t, b, dead, n)
}

func buryIn(t *testing.T, b queue.Broker, name string, n int) {
	t.Helper()
	buryFrom(t, b, name, 0, n)
}

// buryMore puts n more into the dead set, from value first on.
func buryMore(t *testing.T, b queue.Broker, first, n int) {
	t.Helper()
	buryFrom(t, b, dead, first, n)
}

func buryFrom(t *testing.T, b queue.Broker, name string, first, n int) {
	t.Helper()
	told := make(chan error, n)
	p := b.Publisher("test")
	for i := first; i < first+n; i++ {
		e := envelope.Envelope{
			AttemptsTotal: 4, DiedAt: time.Now(),
			Failure: envelope.Failure{Reason: stepwell.ReasonExhausted, Error: "away", At: time.Now()},
			Message: stepwell.Message{ID: fmt.Sprint("t:0:", i), Stream: "s", Value: fmt.Append(nil, i), Attempt: 4, Origin: stepwell.Origin{Topic: "t", Offset: int64(i)}},
		}
		p.Publish(t.Context(), name, e.Encode(), func(err error) { told <- err })
	}
	for range n {
		if err := <-told; err != nil {
			t.Fatal(err)
		}
	}
}

func put(t *testing.T, b queue.Broker, name string, m queue.Message) {
	t.Helper()
	done := make(chan error)
	b.Publisher("test").Publish(t.Context(), name, m, func(err error) { done <- err })
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func peek(t *testing.T, s *deadset.Set, count int) string {
	t.Helper()
	time.Sleep(2 * time.Second) // on the false clock: no page of an earlier peek
	page, err := s.Peek(t.Context(), count)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait() // all is given back
	var all []string
	for _, m := range page.Messages {
		all = append(all, fmt.Sprintf("%s", m.Value))
	}
	return strings.Join(all, " ")
}

func depth(t *testing.T, b *memory.Broker, name string) int {
	t.Helper()
	n, err := b.Depth(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestAPeekShowsTheOldestAndChangesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, s *deadset.Set) {
		bury(t, b, 5)
		for range 30 {
			if got := peek(t, s, 3); got != "0 1 2" {
				t.Fatalf("peek shows %s", got)
			}
		}
		if got := peek(t, s, 100); got != "0 1 2 3 4" || depth(t, b, dead) != 5 {
			t.Errorf("peek of all shows %s", got)
		}
	})
}

func TestReplayMovesTheOldestWithAFullBudgetAndOnceMoreReplayed(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, s *deadset.Set) {
		bury(t, b, 5)
		r, err := s.Replay(t.Context(), 3)
		if err != nil || r != (deadset.Result{Requested: 3, Done: 3, Left: 2}) {
			t.Fatalf("%+v, %v", r, err)
		}
		if got := peek(t, s, 10); got != "3 4" {
			t.Errorf("left: %s", got)
		}
		lease, err := b.Lease(t.Context(), ready)
		if err != nil {
			t.Fatal(err)
		}
		w, err := lease.Window(t.Context(), 10, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		all, err := queue.Gather(t.Context(), w)
		for i, d := range all {
			e, err := envelope.Decode(d.Message)
			if err != nil || string(e.Message.Value) != fmt.Sprint(i) || e.Message.Attempt != 1 || e.Message.Replays != 1 || e.AttemptsTotal != 4 || !e.DiedAt.IsZero() {
				t.Errorf("replayed: %+v, %v", e, err)
			}
		}
		if err != nil || len(all) != 3 {
			t.Errorf("%d replayed, %v", len(all), err)
		}
	})
}

func TestALargeCountGoesInWindowsAndStopsAtTheDepthOfTheStart(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, s *deadset.Set) {
		bury(t, b, 4500)
		r, err := s.Delete(t.Context(), 4400)
		if err != nil || r.Done != 4400 || r.Left != 100 {
			t.Fatalf("%+v, %v", r, err)
		}
		r, err = s.Replay(t.Context(), 100_000)
		if err != nil || r.Done != 100 || r.Left != 0 || depth(t, b, ready) != 100 {
			t.Fatalf("%+v, %v", r, err)
		}
	})
}

func TestAWalkKeepsWithinItsBytesAndStillDoesAll(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, s *deadset.Set) {
		for range 8 {
			put(t, b, dead, queue.Message{ID: "x", Body: make([]byte, 400<<10)})
		}
		r, err := s.Delete(t.Context(), 8)
		if err != nil || r.Done != 8 || depth(t, b, dead) != 0 {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

func TestWhatNobodyCanReadCanBeSeenReplayedAndDeleted(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, s *deadset.Set) {
		for range 2 {
			put(t, b, dead, queue.Message{ID: "junk", Body: []byte{0xff, 0}, Headers: map[string]any{"x-stepwell": int64(-3)}})
		}
		page, err := s.Peek(t.Context(), 1)
		if err != nil || page.Messages[0].Reason != stepwell.ReasonUndecodable || page.Messages[0].Value != "/wA=" {
			t.Fatalf("%+v, %v", page, err)
		}
		if r, err := s.Replay(t.Context(), 1); err != nil || r.Done != 1 || depth(t, b, ready) != 1 {
			t.Errorf("%+v, %v", r, err)
		}
		if r, err := s.Delete(t.Context(), 1); err != nil || r.Done != 1 || depth(t, b, dead) != 0 {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

func TestAReplayWhileTheBrokerIsAwayMovesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, s *deadset.Set) {
		bury(t, b, 2)
		b.SetUp(false)
		if r, err := s.Replay(t.Context(), 2); !errors.Is(err, queue.ErrUnavailable) || r.Done != 0 || r.Left != deadset.Unknown {
			t.Errorf("%+v, %v", r, err)
		}
		b.SetUp(true)
		if depth(t, b, dead) != 2 || depth(t, b, ready) != 0 {
			t.Error("something moved")
		}
	})
}

func TestAReplayThatIsCutOffLeavesEachMessageWhereItWasOrInBothPlaces(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, s *deadset.Set) {
		bury(t, b, 3)
		b.Delete(ready) // publishes wait for their queue
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan deadset.Result)
		go func() {
			r, err := s.Replay(ctx, 3)
			if err == nil {
				t.Error("no error")
			}
			ended <- r
		}()
		synctest.Wait()
		b.SetUp(false) // the walk's session ends while its publishes are under way
		b.SetUp(true)
		cancel()
		if r := <-ended; r.Done != 0 || r.Stopped == "" {
			t.Errorf("%+v", r)
		}
		if depth(t, b, dead) != 3 {
			t.Errorf("%d left", depth(t, b, dead))
		}
	})
}

func TestTwoWalksNeverWorkAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, s *deadset.Set) {
		bury(t, b, 1)
		lease, err := b.Lease(t.Context(), dead)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Peek(t.Context(), 1); !errors.Is(err, queue.ErrLeased) {
			t.Errorf("peek: %v", err)
		}
		if _, err := s.Delete(t.Context(), 1); !errors.Is(err, queue.ErrLeased) {
			t.Errorf("delete: %v", err)
		}
		lease.Release()
		if r, err := s.Delete(t.Context(), 1); err != nil || r.Done != 1 {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

func TestAPeekAfterADeleteIsNeverAnOldPage(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, s *deadset.Set) {
		bury(t, b, 2)
		if _, err := s.Peek(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Delete(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		page, err := s.Peek(t.Context(), 2)
		if err != nil || len(page.Messages) != 1 {
			t.Errorf("%+v, %v", page, err)
		}
	})
}

func TestAPeekDuringAReplayIsNeverAnOldPage(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, s *deadset.Set) {
		bury(t, b, 2)
		if got := peek(t, s, 2); got != "0 1" {
			t.Fatalf("peek shows %s", got)
		}
		b.Delete(ready) // publishes wait for their queue
		ended := make(chan error)
		go func() { _, err := s.Replay(t.Context(), 1); ended <- err }()
		synctest.Wait()
		if page, err := s.Peek(t.Context(), 2); !errors.Is(err, queue.ErrLeased) {
			t.Errorf("%+v, %v", page, err)
		}
		<-ended
	})
}

func TestAPeekThatCameBetweenADeleteAndItsLeaseIsNotShownAfterIt(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, s *deadset.Set) {
		bury(t, b, 2)
		lease, err := b.Lease(t.Context(), dead)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error)
		go func() { _, err := s.Delete(t.Context(), 1); ended <- err }()
		synctest.Wait() // it waits for the lease
		lease.Release()
		if page, err := s.Peek(t.Context(), 2); err != nil || len(page.Messages) != 2 {
			t.Fatalf("%+v, %v", page, err)
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if page, err := s.Peek(t.Context(), 2); err != nil || len(page.Messages) != 1 {
			t.Errorf("%+v, %v", page, err)
		}
	})
}

func FuzzEveryMessageCanBeShownAsJSON(f *testing.F) {
	f.Add("id", []byte(`{"a":1}`), "x-stepwell", []byte("v2 at=t:1:2"))
	f.Add("\xff", []byte{0}, "sw-key", []byte{0xff})
	f.Add("\xff", []byte{0}, "sw-buried", []byte("\xff 2026-01-01T00:00:00Z \xff"))
	f.Fuzz(func(t *testing.T, id string, body []byte, name string, value []byte) {
		headers := map[string]any{"x-stepwell": "v2 at=t:1:2"}
		headers[name] = value
		entry := deadset.View(queue.Delivery{Message: queue.Message{ID: id, Body: body, Headers: headers}})
		if _, err := json.Marshal(entry); err != nil {
			t.Error(err)
		}
	})
}

func TestAWalkOfAnEmptyDeadSetLeavesNoneAndOneThatCouldNotLookSaysThatNobodyKnows(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, s *deadset.Set) {
		if r, err := s.Delete(t.Context(), 2); err != nil || r != (deadset.Result{Requested: 2}) {
			t.Errorf("%+v, %v", r, err)
		}
		bury(t, b, 2)
		f := &faulty{Broker: b, at: 2, crash: func() { b.SetUp(false) }} // between the lease and the window
		s = deadset.New(deadset.Config{App: "a", Stream: "s", Queue: dead, Instant: ready, Broker: f})
		if r, err := s.Delete(t.Context(), 2); err == nil || r != (deadset.Result{Requested: 2, Left: deadset.Unknown, Stopped: r.Stopped}) || r.Stopped == "" {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

func TestAPeekShowsTwoThousandAtMostAndHowManyThereAre(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, s *deadset.Set) {
		bury(t, b, 2100)
		page, err := s.Peek(t.Context(), 100_000)
		if err != nil || len(page.Messages) != 2000 || page.Depth != 2100 {
			t.Errorf("%d of %d, %v", len(page.Messages), page.Depth, err)
		}
	})
}
