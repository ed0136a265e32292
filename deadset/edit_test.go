package deadset_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// valued is an edit of the value alone.
func valued(text string) deadset.Edit { return deadset.Edit{Value: new([]byte(text))} }

// decoded is what is in a queue, which is empty then.
func decoded(t *testing.T, b queue.Broker, name string) (all []*envelope.Envelope) {
	t.Helper()
	for _, d := range take(t, b, name) {
		e, err := envelope.Decode(d.Message)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

func TestAnEditSendsACopyAndKeepsWhatWasThereUntilItIsUndone(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		e := deadOf(1, time.Now())
		e.Message.Key, e.Message.Headers = []byte("k"), []stepwell.Header{{Key: "h", Value: []byte("v")}}
		e.History = []envelope.Try{{Attempt: 3, At: time.Now(), Error: "before"}}
		bury(t, b, 1)
		put(t, b, dead, e.Encode())
		s := roomy(b)
		for n, by := range []deadset.Edit{
			valued("edited"),
			{Key: new([]byte), Headers: &[]stepwell.Header{{Key: "other"}}},
		} {
			operation := fmt.Sprint("op_", n)
			as, err := s.Trash(keep).Edit(t.Context(), operation, "t:0:1", by)
			if err != nil || as != "t:0:1~"+operation {
				t.Fatalf("%q, %v", as, err)
			}
			synctest.Wait()
			if left := listed(t, s); !slices.Equal(left, []string{"t:0:0"}) {
				t.Errorf("left %v", left)
			}
			synctest.Wait()
			if gone := trashed(t, s); !slices.Equal(gone, []string{"t:0:1"}) {
				t.Errorf("in the trash %v", gone)
			}
			synctest.Wait()
			sent := decoded(t, b, ready)
			if len(sent) != 1 {
				t.Fatalf("%d sent", len(sent))
			}
			m := sent[0].Message
			if m.ID != as || m.Attempt != 1 || m.Replays != 1 || m.Origin.Topic != "t" || len(sent[0].History) != 1 || sent[0].Mark().Operation != operation || !sent[0].DiedAt.IsZero() {
				t.Errorf("sent: %+v", sent[0])
			}
			want := map[bool]string{true: "edited k [{h v}]", false: "1  [{other }]"}[n == 0]
			if got := fmt.Sprintf("%s %s %s", m.Value, m.Key, m.Headers); got != want {
				t.Errorf("sent %q, want %q", got, want)
			}
			if n == 1 && (m.Key != nil || m.Headers[0].Value != nil) {
				t.Errorf("null became something: %#v, %#v", m.Key, m.Headers)
			}
			back := everythingOf("op_back")
			back.MovedBy = operation
			if done := restore(t, s, back); done != 1 {
				t.Fatalf("%d restored", done)
			}
			synctest.Wait()
			if left := listed(t, s); !slices.Equal(left, []string{"t:0:0", "t:0:1"}) {
				t.Errorf("restored: %v", left)
			}
			synctest.Wait()
		}
		if was := decoded(t, b, dead)[1].Message; string(was.Value) != "1" || string(was.Key) != "k" || was.Attempt != 4 {
			t.Errorf("it is not as it was: %+v", was)
		}
	})
}

func TestAnEditReachesIntoPagesAndTakesNothingElse(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		bury(t, b, 10)
		s := thrown(b, 64)
		sorted(t, s, "op")
		if _, err := s.Trash(keep).Edit(t.Context(), "op_1", "t:0:5", valued("x")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if left := listed(t, s); !slices.Equal(left, append(from(0, 5), from(6, 4)...)) {
			t.Errorf("left: %v", left)
		}
		synctest.Wait()
		if sent := ids(t, b, ready); !slices.Equal(sent, []string{"t:0:5~op_1"}) {
			t.Errorf("sent: %v", sent)
		}
	})
}

func TestWhatCannotBeEditedStaysWhereItIs(t *testing.T) {
	pointer := deadOf(7, time.Now())
	pointer.Point()
	for name, test := range map[string]struct {
		put    []queue.Message
		id     string
		by     deadset.Edit
		broker func(*memory.Broker)
		pages  int
		want   error
		says   string
	}{
		"an id that two have":        {put: []queue.Message{deadOf(1, time.Now()).Encode(), deadOf(1, time.Now().Add(time.Second)).Encode()}, id: "t:0:1", by: valued("x"), pages: 8, want: deadset.ErrCopies, says: "more than one"},
		"an id that none has":        {id: "t:0:9", by: valued("x"), pages: 8, want: deadset.ErrNotFound},
		"what nobody can read":       {put: []queue.Message{{ID: "foreign", Body: []byte("{")}}, id: "foreign", by: valued("x"), pages: 8, want: deadset.ErrNoEdit, says: "cannot be read"},
		"a key of what is in Kafka":  {put: []queue.Message{pointer.Encode()}, id: "t:0:7", by: deadset.Edit{Value: new([]byte), Headers: new([]stepwell.Header)}, pages: 8, want: deadset.ErrNoEdit, says: "only in Kafka"},
		"headers of what is there":   {put: []queue.Message{pointer.Encode()}, id: "t:0:7", by: deadset.Edit{Value: new([]byte), Key: new([]byte)}, pages: 8, want: deadset.ErrNoEdit, says: "only in Kafka"},
		"a part of what is in Kafka": {put: []queue.Message{pointer.Encode()}, id: "t:0:7", by: valued("x"), pages: 8, want: deadset.ErrNoEdit, says: "only in Kafka"},
		"into a trash that is full":  {id: "t:0:0", by: valued("x"), want: deadset.ErrNoPage},
		"to more than is taken":      {id: "t:0:0", by: valued(strings.Repeat("x", 4000)), pages: 8, broker: func(b *memory.Broker) { b.MaxMessageSize = 3000 }, want: queue.ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
				if test.broker != nil {
					test.broker(b)
				}
				bury(t, b, 1)
				for _, m := range test.put {
					put(t, b, dead, m)
				}
				s := thrown(b, test.pages)
				before := listed(t, s)
				synctest.Wait()
				if as, err := s.Trash(keep).Edit(t.Context(), "op_1", test.id, test.by); !errors.Is(err, test.want) || errors.Is(err, deadset.ErrHalfEdited) || !strings.Contains(fmt.Sprint(err), test.says) || as != "" {
					t.Errorf("%q, %v", as, err)
				}
				synctest.Wait()
				if left, sent := ids(t, b, dead), ids(t, b, ready); !slices.Equal(left, before) || len(sent) > 0 {
					t.Errorf("left %v of %v, sent %v", left, before, sent)
				}
			})
		})
	}
}

func TestAnEditedPointerIsARecordOfItsOwn(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		e := deadOf(7, time.Now())
		e.Point()
		put(t, b, dead, e.Encode())
		by := deadset.Edit{Value: new([]byte("x")), Key: new([]byte("k")), Headers: &[]stepwell.Header{}}
		if _, err := roomy(b).Trash(keep).Edit(t.Context(), "op_1", "t:0:7", by); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		sent := decoded(t, b, ready)
		if len(sent) != 1 || sent[0].Pointer || string(sent[0].Message.Value) != "x" || sent[0].HasPosition() {
			t.Errorf("sent: %+v", sent)
		}
	})
}

func TestACrashAtAnyStepOfAnEditLeavesTheMessageInTheDeadSetOrBothCopiesElsewhere(t *testing.T) {
	crashes(t, func(t *testing.T, ctx context.Context, b *memory.Broker, s *deadset.Set, crashed func() bool) {
		as, err := s.Trash(keep).Edit(ctx, "op_1", "t:0:2", valued("x"))
		if crashed() {
			mend(b)
		} else if err != nil || as != "t:0:2~op_1" {
			t.Errorf("without a crash: %q, %v", as, err)
		}
		synctest.Wait()
		left, kept, sent := ids(t, b, dead), inTrash(t, b, dead), ids(t, b, ready)
		isLeft, isSent := slices.Contains(left, "t:0:2"), len(sent) > 0
		switch {
		case !isLeft && (!isSent || len(kept) == 0), isSent && len(kept) == 0, len(left) < 3:
			t.Errorf("left %v, kept %v, sent %v, %v", left, kept, sent, err)
		case err == nil && isLeft && !crashed():
			t.Errorf("it was done, and left %v", left)
		case isSent && err != nil && !errors.Is(err, deadset.ErrHalfEdited):
			t.Errorf("the copy was sent, and nobody is told: %v", err)
		}
	})
}

// troubled is a broker that hinders an edit at some of its steps. Each is nil where it does not.
type troubled struct {
	queue.Broker
	lease func() error
	// depth says why nobody can tell how many messages a queue has.
	depth func(of string) error
	// prove is called when pages are about to be made, which is between the look of an edit and its
	// walk, and made when they are.
	prove func() error
	made  func(specs []queue.Spec)
	// publish says why a queue takes something not.
	publish func(to string) error
}

func (b troubled) Lease(ctx context.Context, name string) (queue.Lease, error) {
	if b.lease != nil {
		if err := b.lease(); err != nil {
			return nil, err
		}
	}
	return b.Broker.Lease(ctx, name)
}

func (b troubled) Depth(ctx context.Context, name string) (int, error) {
	if b.depth != nil {
		if err := b.depth(name); err != nil {
			return 0, err
		}
	}
	return b.Broker.Depth(ctx, name)
}

func (b troubled) Prove(ctx context.Context, specs []queue.Spec) (int, error) {
	if b.prove != nil {
		if err := b.prove(); err != nil {
			return 0, err
		}
	}
	n, err := b.Broker.Prove(ctx, specs)
	if b.made != nil {
		b.made(specs)
	}
	return n, err
}

func (b troubled) Publisher(name string) queue.Publisher {
	return picky{b.Broker.Publisher(name), b.publish}
}

type picky struct {
	queue.Publisher
	takes func(to string) error
}

func (p picky) Publish(ctx context.Context, to string, m queue.Message, done func(error)) {
	var err error
	if p.takes != nil {
		err = p.takes(to)
	}
	if err == nil {
		p.Publisher.Publish(ctx, to, m, done)
		return
	}
	told := make(chan struct{})
	go func() { defer close(told); done(err) }()
	<-told // an outcome may be there before anybody waits for it
}

// The other one died at the same moment, as one of which a second copy was on its way.
func TestAnEditTakesNoOtherMessageOfItsIDInPlaceOfOneThatIsTooLarge(t *testing.T) {
	for range 100 { // which of two that are ready a goroutine takes is by chance
		inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
			twin := deadOf(1, time.Now()).Encode()
			put(t, b, dead, twin)
			refused := false
			s := roomy(troubled{
				Broker: b, prove: func() error { put(t, b, dead, twin); return nil },
				publish: func(string) error {
					if refused {
						return nil
					}
					refused = true
					return queue.ErrTooLarge
				},
			})
			if as, err := s.Trash(keep).Edit(t.Context(), "op_1", "t:0:1", valued("x")); !errors.Is(err, queue.ErrTooLarge) {
				t.Errorf("%q, %v", as, err)
			}
			synctest.Wait()
			if left, sent := ids(t, b, dead), ids(t, b, ready); !slices.Equal(left, []string{"t:0:1", "t:0:1"}) || len(sent) > 0 {
				t.Errorf("left %v, sent %v", left, sent)
			}
		})
	}
}

// Nobody knows whether a copy that is not confirmed was stored, so it is never told as done.
func TestACopyThatIsNotConfirmedIsHalfAnEditAndSaysWhy(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		bury(t, b, 2)
		broken := errors.New("the connection broke")
		s := roomy(troubled{Broker: b, publish: func(to string) error { return map[string]error{ready: broken}[to] }})
		if as, err := s.Trash(keep).Edit(t.Context(), "op_1", "t:0:1", valued("x")); !errors.Is(err, deadset.ErrHalfEdited) || !errors.Is(err, broken) || as != "" {
			t.Errorf("%q, %v", as, err)
		}
		synctest.Wait()
		if left, kept := ids(t, b, dead), inTrash(t, b, dead); !slices.Equal(left, from(0, 2)) || !slices.Equal(kept, []string{"t:0:1"}) {
			t.Errorf("left %v, kept %v", left, kept)
		}
	})
}

func TestAnEditThatIsHinderedSaysWhyAndSendsNothing(t *testing.T) {
	broken := errors.New("the connection broke")
	once := func(err error) func() error {
		return func() error { now := err; err = nil; return now }
	}
	for name, test := range map[string]struct {
		by   func(t *testing.T, b *memory.Broker) troubled
		want error
		left int
	}{
		"the look finds nobody": {func(_ *testing.T, b *memory.Broker) troubled {
			return troubled{Broker: b, lease: once(broken)}
		}, broken, 1},
		"nobody knows what is in the trash": {func(_ *testing.T, b *memory.Broker) troubled {
			return troubled{Broker: b, depth: func(of string) error { return map[string]error{deadset.TrashOf(dead, keep, 0): broken}[of] }}
		}, broken, 1},
		"another took the message meanwhile": {func(t *testing.T, b *memory.Broker) troubled {
			return troubled{Broker: b, prove: func() error { synctest.Wait(); take(t, b, dead); return nil }}
		}, deadset.ErrNotFound, 0},
		"others fill each page that is made": {func(t *testing.T, b *memory.Broker) troubled {
			return troubled{Broker: b, made: func(specs []queue.Spec) {
				for _, of := range specs {
					buryIn(t, b, of.Name, 10)
				}
			}}
		}, queue.ErrLeased, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
				bury(t, b, 1)
				s := thrown(test.by(t, b), 64)
				if as, err := s.Trash(keep).Edit(t.Context(), "op_1", "t:0:0", valued("x")); !errors.Is(err, test.want) || errors.Is(err, deadset.ErrHalfEdited) || as != "" {
					t.Errorf("%q, %v", as, err)
				}
				synctest.Wait()
				if left, sent := ids(t, b, dead), ids(t, b, ready); len(left) != test.left || len(sent) > 0 {
					t.Errorf("left %v, sent %v", left, sent)
				}
			})
		})
	}
}

// The look before holds all messages for a moment longer, which a depth does not count.
func TestAnEditHasItsPageMadeAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		bury(t, b, 1)
		walks, pages := 0, 0
		s := roomy(troubled{Broker: b, prove: func() error { walks++; return nil }, made: func(specs []queue.Spec) { pages += len(specs) }})
		if _, err := s.Trash(keep).Edit(t.Context(), "op_1", "t:0:0", valued("x")); err != nil || walks != 1 || pages != 1 {
			t.Errorf("%d pages made for %d walks, %v", pages, walks, err)
		}
	})
}

// Else who looks within that second would believe that nothing keeps what they have edited.
func TestALookAtTheTrashDuringAnEditIsNotShownAfterIt(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		bury(t, b, 1)
		var s *deadset.Set
		s = roomy(troubled{Broker: b, made: func([]queue.Spec) {
			synctest.Wait()
			if kept := trashed(t, s); len(kept) > 0 {
				t.Errorf("before: %v", kept)
			}
			synctest.Wait()
		}})
		if _, err := s.Trash(keep).Edit(t.Context(), "op_1", "t:0:0", valued("x")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if kept := trashed(t, s); !slices.Equal(kept, from(0, 1)) {
			t.Errorf("after: %v", kept)
		}
	})
}

// A page of the console that is a second old knows one copy.
func TestAnEditLooksForItselfWhetherTheIDHasOneMessage(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		bury(t, b, 2)
		s := roomy(b)
		if got := listed(t, s); !slices.Equal(got, from(0, 2)) {
			t.Fatal(got)
		}
		synctest.Wait()
		if list, err := s.Find(t.Context(), deadset.Query{Limit: 10}); err != nil || list.Matched != 2 {
			t.Fatalf("%+v, %v", list.Span, err)
		}
		synctest.Wait()
		put(t, b, dead, deadOf(1, time.Now()).Encode())
		if as, err := s.Trash(keep).Edit(t.Context(), "op_1", "t:0:1", valued("x")); !errors.Is(err, deadset.ErrCopies) {
			t.Errorf("%q, %v", as, err)
		}
	})
}

func TestWhatKilledTheProcessIsEditedAsAllElse(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		e := deadOf(1, time.Now())
		e.Failure.Reason = stepwell.ReasonCrashLoop
		put(t, b, dead, e.Encode())
		if as, err := roomy(b).Trash(keep).Edit(t.Context(), "op_1", "t:0:1", valued("x")); err != nil || as != "t:0:1~op_1" {
			t.Fatalf("%q, %v", as, err)
		}
		synctest.Wait()
		if sent := ids(t, b, ready); !slices.Equal(sent, []string{"t:0:1~op_1"}) {
			t.Errorf("sent %v", sent)
		}
	})
}

func TestAnEditedCopyMayBeAsLargeAsIsSaidAndNotLarger(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		was := deadOf(1, time.Now()).Encode()
		edited := func(most int) ([]queue.Delivery, error) {
			put(t, b, dead, was)
			s := deadset.New(deadset.Config{App: "a", Stream: "s", Queue: dead, Instant: ready, Broker: b, TrashPages: 8, MaxEdited: most})
			_, err := s.Trash(keep).Edit(t.Context(), "op_1", "t:0:1", valued("edited"))
			synctest.Wait()
			return take(t, b, ready), err
		}
		sent, err := edited(0)
		if err != nil || len(sent) != 1 {
			t.Fatalf("without a limit: %v, %v", sent, err)
		}
		size := sent[0].Size()
		if sent, err = edited(size); err != nil || len(sent) != 1 {
			t.Errorf("of that size: %v, %v", sent, err)
		}
		kept := len(inTrash(t, b, dead))
		if sent, err = edited(size - 1); !errors.Is(err, queue.ErrTooLarge) || !strings.Contains(err.Error(), "rabbitmq.max_message_size") || len(sent) > 0 {
			t.Errorf("larger: %v, %v", sent, err)
		}
		if left := ids(t, b, dead); !slices.Equal(left, []string{"t:0:1"}) || len(inTrash(t, b, dead)) != kept {
			t.Errorf("left %v, %d in the trash, and %d before", left, len(inTrash(t, b, dead)), kept)
		}
	})
}
