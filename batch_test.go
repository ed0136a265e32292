package stepwell_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stepwell/stepwell"
)

// batchOf is one message for each value.
func batchOf(values ...string) *stepwell.Batch {
	var all []*stepwell.Message
	for _, v := range values {
		all = append(all, &stepwell.Message{ID: v, Value: []byte(v)})
	}
	return stepwell.NewBatch(all...)
}

// kinds are what becomes of a batch's messages when its handler returned err.
func kinds(b *stepwell.Batch, err error) (of []stepwell.Kind) {
	verdicts := b.Verdicts(err)
	for i := range b.Messages() {
		var verdict error
		if verdicts != nil {
			verdict = verdicts[i]
		}
		of = append(of, stepwell.VerdictOf(verdict).Kind)
	}
	return of
}

func TestWhatABatchsMarksAndItsErrorMeanForEachMessage(t *testing.T) {
	const done, retry, dead, skipped, snoozed = stepwell.Done, stepwell.Retry, stepwell.Dead, stepwell.Skipped, stepwell.Snoozed
	tests := []struct {
		name string
		mark func(b *stepwell.Batch, m []*stepwell.Message)
		err  error
		want []stepwell.Kind
	}{
		{"nothing marked, no error: all are done", func(*stepwell.Batch, []*stepwell.Message) {}, nil, []stepwell.Kind{done, done, done}},
		{"nothing marked, an error: all failed", func(*stepwell.Batch, []*stepwell.Message) {}, errCard, []stepwell.Kind{retry, retry, retry}},
		{"an error that is a verdict is that of all", func(*stepwell.Batch, []*stepwell.Message) {}, stepwell.DeadLetter(errCard), []stepwell.Kind{dead, dead, dead}},
		{"what is marked goes its own way", func(b *stepwell.Batch, m []*stepwell.Message) { b.Fail(m[1], errCard) }, nil, []stepwell.Kind{done, retry, done}},
		{"any verdict marks", func(b *stepwell.Batch, m []*stepwell.Message) {
			b.Fail(m[0], stepwell.Skip("old"))
			b.Fail(m[1], stepwell.Snooze(1))
			b.Fail(m[2], stepwell.DeadLetter(nil))
		}, nil, []stepwell.Kind{skipped, snoozed, dead}},
		{"done holds beside an error", func(b *stepwell.Batch, m []*stepwell.Message) { b.Done(m[0]) }, errCard, []stepwell.Kind{done, retry, retry}},
		{"a failure is not taken back", func(b *stepwell.Batch, m []*stepwell.Message) {
			b.Done(m[0])
			b.Fail(m[0], errCard)
			b.Done(m[0])
		}, nil, []stepwell.Kind{retry, done, done}},
		{"a failure beside a skip is a failure", func(b *stepwell.Batch, m []*stepwell.Message) {
			b.Fail(m[0], stepwell.Skip("old"))
			b.Fail(m[0], errCard)
		}, nil, []stepwell.Kind{retry, done, done}},
		{"a nil verdict is a failure", func(b *stepwell.Batch, m []*stepwell.Message) { b.Fail(m[2], nil) }, nil, []stepwell.Kind{done, done, retry}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := batchOf("1", "2", "3")
			test.mark(b, b.Messages())
			if got := kinds(b, test.err); !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestToMarkAStrangerPanicsSinceItsFailureWouldBeLost(t *testing.T) {
	b := batchOf("1")
	for name, mark := range map[string]func(){
		"Fail": func() { b.Fail(&stepwell.Message{}, errCard) },
		"Done": func() { b.Done(b.Messages()[0].Clone()) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			mark()
		}()
	}
}

func TestABatchMayBeMarkedFromManyGoroutines(t *testing.T) {
	b := batchOf(make([]string, 100)...)
	var all sync.WaitGroup
	for i, m := range b.Messages() {
		all.Go(func() {
			if i%2 == 0 {
				b.Fail(m, errCard)
			} else {
				b.Done(m)
			}
		})
	}
	all.Wait()
	for i, kind := range kinds(b, errCard) {
		if want := []stepwell.Kind{stepwell.Retry, stepwell.Done}[i%2]; kind != want {
			t.Errorf("message %d: %v, want %v", i, kind, want)
		}
	}
}

func TestAJSONBatchLeavesOutWhatCannotBeDecoded(t *testing.T) {
	b := batchOf("1", "x", "3", "", "5")
	b.Messages()[3].Value = nil
	called := 0
	err := stepwell.JSONBatch(func(_ context.Context, v []int, part *stepwell.Batch) error {
		called++
		if want := []int{1, 3, 0, 5}; !slices.Equal(v, want) {
			t.Errorf("values %v, want %v", v, want)
		}
		if m := part.Messages(); len(m) != 4 || m[1] != b.Messages()[2] {
			t.Errorf("%d messages beside %d values", len(m), len(v))
		}
		part.Fail(part.Messages()[1], stepwell.Skip("old"))
		part.Done(part.Messages()[3])
		return errCard
	})(t.Context(), b)
	if called != 1 || err != errCard {
		t.Fatalf("%d calls, error %v", called, err)
	}
	verdicts := b.Verdicts(err)
	if v := stepwell.VerdictOf(verdicts[1]); v.Kind != stepwell.Dead || v.Reason != stepwell.ReasonDecode {
		t.Errorf("what cannot be decoded: %v %q", v.Kind, v.Reason)
	}
	want := []stepwell.Kind{stepwell.Retry, stepwell.Dead, stepwell.Skipped, stepwell.Retry, stepwell.Done}
	if got := kinds(b, err); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestAJSONBatchThatPanicsKeepsItsMarks(t *testing.T) {
	b := batchOf("x", "2", "3")
	func() {
		defer func() { _ = recover() }()
		_ = stepwell.JSONBatch(func(_ context.Context, _ []int, part *stepwell.Batch) error {
			part.Done(part.Messages()[0])
			panic("oops")
		})(t.Context(), b)
	}()
	want := []stepwell.Kind{stepwell.Dead, stepwell.Done, stepwell.Retry}
	if got := kinds(b, errCard); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestAJSONBatchOfNothingButJunkIsNotCalled(t *testing.T) {
	b := batchOf("x", "y")
	err := stepwell.JSONBatch(func(context.Context, []int, *stepwell.Batch) error {
		t.Error("called")
		return nil
	})(t.Context(), b)
	if want := []stepwell.Kind{stepwell.Dead, stepwell.Dead}; err != nil || !slices.Equal(kinds(b, err), want) {
		t.Errorf("got %v, error %v", kinds(b, err), err)
	}
}

func TestADecoderThatIsAwaySaysSoForItsMessage(t *testing.T) {
	b := batchOf("1")
	_ = stepwell.DecodedBatch(func([]byte) (int, error) { return 0, stepwell.Snooze(1) },
		func(context.Context, []int, *stepwell.Batch) error { return nil })(t.Context(), b)
	if got := kinds(b, nil); got[0] != stepwell.Snoozed {
		t.Errorf("got %v", got)
	}
}

func TestAValueWhoseDecodingPanicsFailsAloneOfItsBatch(t *testing.T) {
	b := stepwell.NewBatch(&stepwell.Message{Value: []byte("a")}, &stepwell.Message{Value: []byte("b")}, &stepwell.Message{Value: []byte("c")})
	decode := func(data []byte) (string, error) {
		if data[0] == 'b' {
			panic("b cannot be decoded")
		}
		return string(data), nil
	}
	var came []string
	err := stepwell.DecodedBatch(decode, func(_ context.Context, v []string, _ *stepwell.Batch) error {
		came = v
		return nil
	})(t.Context(), b)
	verdicts := b.Verdicts(err)
	if !slices.Equal(came, []string{"a", "c"}) || verdicts[0] != nil || verdicts[2] != nil {
		t.Errorf("%v were handled, with %v", came, verdicts)
	}
	if of := stepwell.VerdictOf(verdicts[1]); of.Kind != stepwell.Retry || !strings.Contains(verdicts[1].Error(), "panic: b cannot be decoded") {
		t.Errorf("the one that cannot be decoded: %v", verdicts[1])
	}
}

// Whatever the values are: each message is either in the call, with the value that it has by
// itself, or dead for its own junk.
func FuzzJSONBatch(f *testing.F) {
	f.Add([]byte("1"), []byte(`{"ID":"7"}`), []byte("\xff"))
	f.Add([]byte(""), []byte("null"), []byte(`{"ID":7}`))
	f.Fuzz(func(t *testing.T, first, second, third []byte) {
		var all []*stepwell.Message
		for _, v := range [][]byte{first, second, third, nil} {
			all = append(all, &stepwell.Message{Value: v})
		}
		b := stepwell.NewBatch(all...)
		seen := map[*stepwell.Message]order{}
		err := stepwell.JSONBatch(func(_ context.Context, v []order, part *stepwell.Batch) error {
			if len(v) != len(part.Messages()) {
				t.Fatalf("%d values for %d messages", len(v), len(part.Messages()))
			}
			for i, m := range part.Messages() {
				seen[m] = v[i]
			}
			return nil
		})(t.Context(), b)
		verdicts := b.Verdicts(err)
		for i, m := range all {
			var want order
			bad := m.Value != nil && json.Unmarshal(m.Value, &want) != nil
			got, called := seen[m]
			dead := verdicts != nil && stepwell.VerdictOf(verdicts[i]).Reason == stepwell.ReasonDecode
			if called == bad || dead != bad || called && got != want {
				t.Errorf("%q: called %v with %v, dead %v, want %v", m.Value, called, got, dead, want)
			}
		}
	})
}

func ExampleBatch() {
	var store stepwell.BatchHandler = func(ctx context.Context, b *stepwell.Batch) error {
		for _, m := range b.Messages() {
			if len(m.Value) == 0 {
				b.Fail(m, stepwell.DeadLetter(errors.New("nothing in it"))) // this one alone
			}
		}
		return nil // all others are stored
	}
	b := stepwell.NewBatch(&stepwell.Message{Value: []byte("1")}, &stepwell.Message{})
	err := store(context.Background(), b)
	for _, verdict := range b.Verdicts(err) {
		fmt.Println(stepwell.VerdictOf(verdict).Kind)
	}
	// Output:
	// done
	// dead
}

func ExampleJSONBatch() {
	store := stepwell.JSONBatch(func(ctx context.Context, v []payment, b *stepwell.Batch) error {
		fmt.Println(len(v), "payments")
		return nil
	})
	b := stepwell.NewBatch(&stepwell.Message{Value: []byte(`{"Order": "7"}`)}, &stepwell.Message{Value: []byte("junk")})
	err := store(context.Background(), b)
	fmt.Println(stepwell.VerdictOf(b.Verdicts(err)[1]).Reason)
	// Output:
	// 1 payments
	// decode
}

func TestWhatAHandlerDoesToTheListOfABatchChangesNoMessagesVerdict(t *testing.T) {
	messages := []*stepwell.Message{{ID: "c"}, {ID: "a"}, {ID: "b"}}
	for name, spoil := range map[string]func([]*stepwell.Message){
		"sorted": func(all []*stepwell.Message) {
			slices.SortFunc(all, func(x, y *stepwell.Message) int { return strings.Compare(x.ID, y.ID) })
		},
		"filtered": func(all []*stepwell.Message) { _ = append(all[:0], all[1:]...) },
		"emptied":  func(all []*stepwell.Message) { clear(all) },
	} {
		b := stepwell.NewBatch(messages...)
		c, a := messages[0], messages[1]
		spoil(b.Messages())
		b.Fail(c, errors.New("of c"))
		b.Done(a)
		if got := fmt.Sprint(b.Verdicts(errors.New("of all"))); got != "[of c <nil> of all]" {
			t.Errorf("%s: %s", name, got)
		}
	}
}
