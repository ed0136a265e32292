package deadset_test

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stepwell/stepwell/deadset"
	"github.com/stepwell/stepwell/embedded/memory"
)

// A page that somebody deletes by hand since it is empty would hide those behind it from who starts
// later: a run of pages goes as far as the first that is missing.
func TestAnEmptyPageThatSomebodyDeletedIsMadeAgainBeforeItHidesOthers(t *testing.T) {
	for name, in := range map[string]struct {
		page  func(k int) string
		fill  func(t *testing.T, s *deadset.Set)
		empty func(t *testing.T, s *deadset.Set) // its first page
		sees  func(t *testing.T, s *deadset.Set) []string
	}{
		"of a dead set": {
			page: func(k int) string { return deadset.PageOf(dead, k) },
			fill: func(t *testing.T, s *deadset.Set) { sorted(t, s, "op_1") },
			empty: func(t *testing.T, s *deadset.Set) {
				if _, err := s.Delete(t.Context(), 4); err != nil {
					t.Fatal(err)
				}
			},
			sees: listed,
		},
		"of a trash": {
			page: func(k int) string { return deadset.TrashOf(dead, keep, k) },
			fill: func(t *testing.T, s *deadset.Set) {
				if done, err := throw(t, s, everythingOf("op_1")); done != 9 || err != nil {
					t.Fatal(done, err)
				}
			},
			empty: func(t *testing.T, s *deadset.Set) {
				c, err := s.Trash(keep).Choose(everythingOf("op_2"))
				if err == nil {
					_, err = c.Restore(t.Context(), nil, 4)
				}
				if err != nil {
					t.Fatal(err)
				}
			},
			sees: trashed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
				bury(t, b, 9)
				var log bytes.Buffer
				cfg := deadset.Config{
					App: "a", Stream: "s", Queue: dead, Instant: ready, Broker: b, WalkBytes: 900, Pages: 8, TrashPages: 8,
					Logger: slog.New(slog.NewTextHandler(&log, nil)),
				}
				s := deadset.New(cfg)
				in.fill(t, s)
				in.empty(t, s)
				first := in.page(0)
				if n := depth(t, b, first); n != 0 {
					t.Fatalf("%d messages in the first page", n)
				}
				want := in.sees(t, s)
				synctest.Wait() // all is given back
				b.Delete(first)
				tidy := func() {
					if _, _, err := s.Pages().Depth(t.Context()); err != nil {
						t.Error(err)
					}
					if err := s.Pages().Tidy(t.Context()); err != nil {
						t.Error(err)
					}
				}
				tidy()
				tidy()
				if got := in.sees(t, deadset.New(cfg)); !slices.Equal(got, want) || len(want) != 5 {
					t.Errorf("who starts then sees %v, and there are %v", got, want)
				}
				if text := log.String(); strings.Count(text, "made again") != 1 || !strings.Contains(text, first) {
					t.Errorf("the log says %q", text)
				}
			})
		})
	}
}
