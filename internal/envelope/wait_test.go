package envelope

import (
	"testing"
	"time"

	"github.com/stepwell/stepwell/internal/queue"
)

func TestAWaitThatTravelsIsNeverShortenedAndOneThatIsOverIsGone(t *testing.T) {
	e := hand()
	e.Wait = Wait{Remaining: 90*time.Second + time.Nanosecond, Whole: time.Hour}
	q := e.Encode()
	if w, ok := WaitOf(q); !ok || w != (Wait{Remaining: 90*time.Second + time.Millisecond, Whole: time.Hour}) {
		t.Errorf("it travels as %+v, %t", w, ok)
	}
	after := Wait{Remaining: time.Second, Whole: time.Hour}
	if w, ok := WaitOf(after.On(q)); !ok || w != after {
		t.Errorf("after a hop: %+v, %t", w, ok)
	}
	over := Wait{}.On(q)
	if w, ok := WaitOf(over); ok || over.Headers[hWait] != nil {
		t.Errorf("over, it says %+v", w)
	}
	if _, ok := WaitOf(hand().Encode()); ok || hand().Encode().Headers[hWait] != nil {
		t.Error("a message that waits for nothing says that it does")
	}
	if w, _ := WaitOf(q); w.Whole != time.Hour || w.Remaining < 90*time.Second {
		t.Errorf("a message that was published again says %+v of the first one's wait", w)
	}
}

func TestAWaitThatNobodyCanReadIsNoneAndOneThatIsTooLongIsCut(t *testing.T) {
	of := func(v any) queue.Message { return queue.Message{Headers: map[string]any{hWait: v}} }
	for _, v := range []any{"", "5", "x/5", "5/x", "0/5", "-5/5", "5/-5", "6/5", "/", 5, true, []any{"5/5"}} {
		if w, ok := WaitOf(of(v)); ok || w != (Wait{}) {
			t.Errorf("%v is %+v, %t", v, w, ok)
		}
	}
	if w, ok := WaitOf(of([]byte("5/5"))); !ok || w != (Wait{5 * time.Millisecond, 5 * time.Millisecond}) {
		t.Errorf("of another client: %+v, %t", w, ok)
	}
	if w, ok := WaitOf(of("9000000000000000/9000000000000000")); !ok || w != (Wait{LongestWait, LongestWait}) {
		t.Errorf("too long: %+v, %t", w, ok)
	}
}
