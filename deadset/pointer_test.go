package deadset_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/deadset"
	"github.com/stepwell/stepwell/embedded/memory"
	"github.com/stepwell/stepwell/internal/envelope"
)

// source answers by offset.
type source func(ctx context.Context, offset int64) (value string, found bool, err error)

func (s source) Record(ctx context.Context, at stepwell.Origin) (m stepwell.Message, found bool, err error) {
	value, found, err := s(ctx, at.Offset)
	return stepwell.Message{Key: []byte("k"), Value: []byte(value)}, found, err
}

// peekPointers shows pointers to values of 100,000 bytes at the offsets 0 … n-1, read from the
// source.
func peekPointers(t *testing.T, n int, from deadset.Source, check func(all []deadset.Entry)) {
	t.Helper()
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		for i := range n {
			e := envelope.Envelope{Failure: envelope.Failure{Reason: stepwell.ReasonTooLarge}, Message: stepwell.Message{
				ID: "t", Attempt: 1, Value: make([]byte, 100_000), Origin: stepwell.Origin{Topic: "t", Offset: int64(i)},
			}}
			e.Point()
			put(t, b, dead, e.Encode())
		}
		s := deadset.New(deadset.Config{App: "a", Stream: "s", Queue: dead, Instant: ready, Broker: b, WalkBytes: 1 << 20, Source: from})
		page, err := s.Peek(t.Context(), n)
		if err != nil || len(page.Messages) != n {
			t.Fatalf("%d messages, %v", len(page.Messages), err)
		}
		check(page.Messages)
		synctest.Wait() // all is given back
		if depth, err := b.Depth(t.Context(), dead); depth != n || err != nil {
			t.Errorf("%d of %d left, %v", depth, n, err)
		}
		time.Sleep(2 * time.Second) // the page is forgotten
		synctest.Wait()
	})
}

func TestAPeekShowsWhatKafkaHasOfAPointerElseWhyNot(t *testing.T) {
	value := strings.Repeat("x", 100_000)
	tests := map[string]struct {
		source source
		shown  bool
		says   string
	}{
		"there":         {func(context.Context, int64) (string, bool, error) { return value, true, nil }, true, ""},
		"gone":          {func(context.Context, int64) (string, bool, error) { return "", false, nil }, false, "no longer has"},
		"another one":   {func(context.Context, int64) (string, bool, error) { return "y", true, nil }, false, "another one"},
		"Kafka is away": {func(context.Context, int64) (string, bool, error) { return "", false, errors.New("no broker") }, false, "no broker"},
		"Kafka does not answer": {func(ctx context.Context, _ int64) (string, bool, error) {
			<-ctx.Done()
			return "", false, ctx.Err()
		}, false, "cannot be read now"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			peekPointers(t, 1, test.source, func(all []deadset.Entry) {
				e := all[0]
				if e.Size != 100_000 || e.Truncated != test.shown || (e.Value == value[:64<<10]) != test.shown || (e.Key == "k") != test.shown {
					t.Errorf("shown with size %d, truncated %t, key %v", e.Size, e.Truncated, e.Key)
				}
				if !strings.Contains(e.ValueError, test.says) || (e.ValueError == "") != test.shown {
					t.Errorf("says %q", e.ValueError)
				}
			})
		})
	}
}

func TestAPeekReadsAsMuchFromKafkaAsAWalkMayKeepAndSaysWhatItLeftOut(t *testing.T) {
	value := strings.Repeat("x", 100_000)
	reads := 0
	there := source(func(context.Context, int64) (string, bool, error) { reads++; return value, true, nil })
	peekPointers(t, 40, there, func(all []deadset.Entry) {
		if first, last := all[0], all[39]; reads != 16 || first.ValueError != "" || !strings.Contains(last.ValueError, "too many") {
			t.Errorf("%d read; %q, %q", reads, first.ValueError, last.ValueError)
		}
	})
}

func TestAPeekSpendsTenSecondsWithKafkaAtMost(t *testing.T) {
	slow := source(func(ctx context.Context, _ int64) (string, bool, error) { <-ctx.Done(); return "", false, ctx.Err() })
	began := time.Time{}
	peekPointers(t, 3, source(func(ctx context.Context, offset int64) (string, bool, error) {
		if offset == 0 {
			began = time.Now()
		}
		return slow(ctx, offset)
	}), func([]deadset.Entry) {
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("took %v", took)
		}
	})
}
