package deadset_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell/deadset"
	"github.com/stepwell/stepwell/embedded/memory"
	"github.com/stepwell/stepwell/internal/filter"
)

// exported are the lines of an export.
func exported(t *testing.T, s *deadset.Set, of filter.Filter) (all []deadset.Entry, x deadset.Export) {
	t.Helper()
	x, err := s.Export(t.Context(), of)
	if err == nil {
		err = x.Each(t.Context(), func(e deadset.Entry) error { all = append(all, e); return nil })
	}
	if err != nil {
		t.Fatal(err)
	}
	return all, x
}

func TestAnExportHasKeysValuesAndHeadersWholeAndChangesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, s *deadset.Set) {
		large := strings.Repeat("x", 100<<10)
		e := deadOf(0, time.Now())
		e.Message.Value = []byte(`{"note":"` + large + `"}`)
		e.Message.Key = []byte(large[:20<<10])
		put(t, b, dead, e.Encode())
		put(t, b, dead, deadOf(1, time.Now()).Encode())
		all, x := exported(t, s, filter.Filter{})
		if len(all) != 2 || x.Matched != 2 || x.Depth != 2 || !x.Complete {
			t.Fatalf("%d, %+v", len(all), x.Span)
		}
		value, _ := all[0].Value.(json.RawMessage)
		if all[0].Encoding != "json" || string(value) != string(e.Message.Value) || all[0].Truncated || all[0].KeyTruncated || all[0].Key != large[:20<<10] {
			t.Errorf("%d bytes of %d, as %s", len(value), len(e.Message.Value), all[0].Encoding)
		}
		f, err := filter.Parse(map[string]string{"error": "cause b"}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if all, x := exported(t, s, f); len(all) != 1 || x.Matched != 1 || all[0].ID != "t:0:1" {
			t.Errorf("%+v", all)
		}
		synctest.Wait() // what was held is given back beside the answer
		if depth(t, b, dead) != 2 {
			t.Error("something moved")
		}
	})
}

func TestAnExportReadsFromKafkaWhatIsOnlyThereAndSaysWhatItCannotRead(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		whole := strings.Repeat("y", 100<<10)
		for i := range 3 {
			e := deadOf(i, time.Now())
			e.Message.Value = []byte(whole)
			e.Point()
			put(t, b, dead, e.Encode())
		}
		s := deadset.New(deadset.Config{App: "a", Stream: "s", Queue: dead, Instant: ready, Broker: b, Source: source(func(ctx context.Context, offset int64) (string, bool, error) {
			if offset == 1 {
				<-ctx.Done() // Kafka hangs
				return "", false, ctx.Err()
			}
			return whole, true, nil
		})})
		all, _ := exported(t, s, filter.Filter{})
		if len(all) != 3 || all[0].Value != whole || all[0].ValueError != "" || all[1].ValueError == "" || all[2].ValueError == "" {
			t.Errorf("%d, %q, %q", len(all), all[1].ValueError, all[2].ValueError)
		}
	})
}

func TestAnExportSaysWhatItDidNotSeeAndEndsWhereNobodyReadsOn(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, s *deadset.Set) {
		bury(t, b, 2100)
		if all, x := exported(t, s, filter.Filter{}); len(all) != 2000 || x.Unsorted != 100 || x.Complete {
			t.Errorf("%d, %+v", len(all), x.Span)
		}
		x, err := s.Export(t.Context(), filter.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		away, calls := errors.New("away"), 0
		if err := x.Each(t.Context(), func(deadset.Entry) error { calls++; return away }); !errors.Is(err, away) || calls != 1 {
			t.Errorf("%v after %d", err, calls)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := x.Each(ctx, func(deadset.Entry) error { calls++; return nil }); !errors.Is(err, context.Canceled) || calls != 1 {
			t.Errorf("%v after %d", err, calls)
		}
	})
}

// An export that is larger than a walk may hold has the lease part by part.
func TestAnExportLosesNothingThatOthersMoveWhileItIsWritten(t *testing.T) {
	for name, move := range map[string]func(t *testing.T, s *deadset.Set) error{
		"back to where the dead arrive": func(t *testing.T, s *deadset.Set) error {
			_, err := s.Pages().Back(t.Context(), nil, everything)
			return err
		},
		"into the trash, and out of it": func(t *testing.T, s *deadset.Set) error {
			all := deadset.Selection{Filter: filter.All(), Before: time.Now(), Operation: "op_delete"}
			c, err := s.Choose(all)
			if err != nil {
				return err
			}
			trash := s.Trash(72 * time.Hour)
			if _, err := c.Trash(t.Context(), trash, nil, everything); err != nil {
				return err
			}
			back, err := trash.Choose(deadset.Selection{Filter: filter.All(), Before: time.Now(), Operation: "op_undo", MovedBy: "op_delete"})
			if err != nil {
				return err
			}
			_, err = back.Restore(t.Context(), nil, everything)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
				cfg := deadset.Config{App: "a", Stream: "s", Queue: dead, Instant: ready, Broker: b, WalkBytes: 4000, Pages: 8, TrashPages: 8}
				s, other := deadset.New(cfg), deadset.New(cfg)
				bury(t, b, 20)
				sorted(t, s, "op_sort")
				buryMore(t, b, 20, 5)
				x, err := s.Export(t.Context(), filter.All())
				if err != nil || x.Matched != 25 {
					t.Fatal(x.Matched, err)
				}
				written := 0
				err = x.Each(t.Context(), func(deadset.Entry) error {
					if written++; written == 19 { // the last page was read, and nobody has the lease
						return move(t, other)
					}
					return nil
				})
				if err == nil || !strings.Contains(err.Error(), "was changed while it was written") {
					t.Errorf("an export of what was moved meanwhile: %v, %d written", err, written)
				}
				if there, _, err := s.Pages().Count(t.Context()); err != nil || there != 25 {
					t.Errorf("of 25 messages %d are there, %v", there, err)
				}
			})
		})
	}
}
