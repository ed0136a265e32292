package envelope

import (
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
)

// A message-id has 255 bytes. Where an ID is cut, or its channel is left out, two messages are one,
// and the second is acked uncalled.
func TestIDsInAChannelStayApartHoweverLongTheyAre(t *testing.T) {
	channel := strings.Repeat("c", 60)
	tests := []struct{ name, id, want string }{
		{"a usual one", "orders.v1:0:7", "orders.v1:0:7@slow"},
		{"the longest that stays", strings.Repeat("t", 195), strings.Repeat("t", 195) + "@slow"},
		{"one more", strings.Repeat("t", 196), ""},
		{"a stranger's", strings.Repeat("t", 255), ""},
	}
	for _, test := range tests {
		got := inChannel(test.id, "slow")
		if test.want != "" && got != test.want || len(got) > maxID || !strings.HasSuffix(got, "@slow") {
			t.Errorf("%s: %s", test.name, got)
		}
	}
	seen := map[string]string{}
	for _, id := range []string{ID(strings.Repeat("t", 190), 1, 2), ID(strings.Repeat("t", 190), 1, 3), ID(strings.Repeat("u", 249), 1, 2), strings.Repeat("v", 255), strings.Repeat("v", 254) + "w"} {
		e := hand()
		e.Message.ID = id
		e.HandOver(channel)
		q := e.Encode()
		if q.ID != e.Message.ID || !strings.HasSuffix(q.ID, "@"+channel) {
			t.Errorf("%s is stored as %s", id, q.ID)
		}
		if other := seen[q.ID]; other != "" {
			t.Errorf("%s and %s are both %s", other, id, q.ID)
		}
		seen[q.ID] = id
	}
}

func FuzzAnIDInAChannelIsThatOfNoOther(f *testing.F) {
	f.Add("orders.v1:0:7", "orders.v1:0:8", "slow")
	f.Add(strings.Repeat("t", 200), strings.Repeat("t", 201), strings.Repeat("c", 60))
	f.Add("a@slow", "a", "slow")
	f.Fuzz(func(t *testing.T, x, y, channel string) {
		if len(channel) > 60 {
			t.Skip("no channel is called so")
		}
		a, b := inChannel(x, channel), inChannel(y, channel)
		if (a == b) != (x == y) || len(a) > maxID || len(b) > maxID {
			t.Errorf("%q and %q are %q and %q in channel %q", x, y, a, b, channel)
		}
	})
}

func TestWhatIsHandedOverIsTheRecordBeforeItsFirstTry(t *testing.T) {
	e := failed()
	e.Message.Replays, e.Message.Snoozes, e.Log, e.Of, e.AttemptsTotal = 2, 3, 7, 9, 12
	e.DiedAt = time.Now()
	want := failed()
	e.HandOver("slow")
	_, got := trip(t, e)
	m := &got.Message
	if m.Attempt != 1 || m.Snoozes != 0 || !m.FirstFailed.IsZero() || got.AttemptsTotal != 0 || got.Of != 0 || len(got.History) != 0 || got.Failure != (Failure{}) || !got.DiedAt.IsZero() {
		t.Errorf("something of its tries is left: %+v", got)
	}
	if m.Replays != 2 || got.Log != 7 || m.Channel != "slow" {
		t.Errorf("replays %d, log %d, channel %q", m.Replays, got.Log, m.Channel)
	}
	m.ID, m.Channel, m.Replays = want.Message.ID, "", want.Message.Replays
	m.Attempt, m.FirstFailed, m.Snoozes = want.Message.Attempt, want.Message.FirstFailed, want.Message.Snoozes
	if !sameRecord(m, &want.Message) {
		t.Errorf("the record was %+v, is %+v", want.Message, *m)
	}
}

func TestWhatHasNoPlaceInALogIsNamedByItsTokenAndNotByAPositionThatAllWouldShare(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		e := &Envelope{Token: NewToken(), Message: stepwell.Message{Value: []byte("x"), Attempt: 1}}
		q, back := trip(t, e)
		if q.ID != e.Token || back.Message.ID != e.Token || back.Token != e.Token || back.HasPosition() {
			t.Fatalf("stored as %q and read as %q, with token %q of %q", q.ID, back.Message.ID, back.Token, e.Token)
		}
		seen[q.ID] = true
	}
	if len(seen) != 100 {
		t.Errorf("%d ids of 100 messages", len(seen))
	}
}

func TestWhatCameFromAQueueGetsOneTokenWhenItIsFirstStored(t *testing.T) {
	message := func() *Envelope {
		return &Envelope{Message: stepwell.Message{ID: "order-17", Attempt: 1, Origin: stepwell.Origin{Queue: &stepwell.QueueOrigin{Name: "payments"}}}}
	}
	first, second := message(), message()
	first.Encode()
	was := first.Token
	first.Encode()
	second.Encode()
	if was == "" || first.Token != was || second.Token == "" || second.Token == was {
		t.Errorf("tokens %q, then %q, and of another message %q", was, first.Token, second.Token)
	}
	if _, back := trip(t, first); back.Token != was {
		t.Errorf("read with token %q, want %q", back.Token, was)
	}
}

func TestATokenStaysThroughHandOverReplayAndAProgramThatDoesNotKnowIt(t *testing.T) {
	e := failed()
	e.Token = NewToken()
	e.Message.Origin = stepwell.Origin{}
	q, e := trip(t, e)
	want := e.Token
	// An older program keeps it as it keeps each word that it does not know.
	q.Headers[hHead] = strings.Replace(headOf(q), " token=", " newer=", 1)
	older, err := Decode(q)
	if err != nil || older.Token != "" {
		t.Fatalf("token %q, %v", older.Token, err)
	}
	older.Message.Attempt++
	q = older.Encode()
	q.Headers[hHead] = strings.Replace(headOf(q), " newer=", " token=", 1)
	if e, err = Decode(q); err != nil || e.Token != want {
		t.Fatalf("token %q after a program that does not know it, want %q: %v", e.Token, want, err)
	}
	e.HandOver("slow")
	_, e = trip(t, e)
	e.DiedAt = time.Now()
	_, e = trip(t, e)
	e.Replay()
	if _, e = trip(t, e); e.Token != want || want == "" {
		t.Errorf("token %q, want %q", e.Token, want)
	}
}
