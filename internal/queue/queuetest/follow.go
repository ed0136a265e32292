package queuetest

import (
	"context"
	"errors"
	"testing"

	"github.com/stepwell/stepwell/internal/queue"
)

func following() map[string]func(*testing.T, *world) {
	return map[string]func(*testing.T, *world){
		"ALogIsReadInOrderByAllFromWhereTheyLike": readByAll,
		"WhoFollowsALogThatIsDeletedIsTold":       logIsDeleted,
	}
}

// log declares a log, which goes with the test.
func (w *world) log(t *testing.T) string {
	t.Helper()
	name := w.instant + ".log"
	if err := w.Declare(within(t), []queue.Spec{{Name: name, Kind: queue.Log}}); err != nil {
		t.Fatalf("Declare: %v", err)
	}
	t.Cleanup(func() {
		if w.place.Delete != nil {
			w.place.Delete(name)
		}
	})
	return name
}

// follow hands entries to the channel until the test or ctx ends, and tells why it ended.
func (w *world) follow(ctx context.Context, t *testing.T, name string, from int64) (<-chan queue.Entry, <-chan error) {
	entries, ended := make(chan queue.Entry, 10_000), make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ended <- w.Follow(ctx, name, from, func(e queue.Entry) { entries <- e })
	}()
	t.Cleanup(func() { cancel(); <-done })
	return entries, ended
}

func readByAll(t *testing.T, w *world) {
	name := w.log(t)
	const stored, later = 1200, 10
	w.fill(t, name, 0, stored)
	all, ended := w.follow(t.Context(), t, name, 0)
	tail, _ := w.follow(t.Context(), t, name, stored-100)
	both := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			for who, entries := range map[int]<-chan queue.Entry{0: all, stored - 100: tail} {
				if i < who {
					continue
				}
				if e := await(t, entries, "an entry"); e.ID != id(i) || e.Offset != int64(i) || string(e.Body) != "x" {
					t.Fatalf("who began at %d: entry %d is %+v", who, i, e)
				}
			}
		}
	}
	both(0, stored)
	w.fill(t, name, stored, stored+later)
	both(stored, stored+later)
	nothing(t, ended, "the end of Follow")
	ctx, cancel := context.WithCancel(t.Context())
	_, ended = w.follow(ctx, t, name, 0)
	cancel()
	if err := await(t, ended, "the end of Follow"); !errors.Is(err, context.Canceled) {
		t.Errorf("Follow: %v", err)
	}
}

func logIsDeleted(t *testing.T, w *world) {
	_, ended := w.follow(t.Context(), t, w.instant+".none", 0)
	if err := await(t, ended, "the end of Follow"); !errors.Is(err, queue.ErrMissing) {
		t.Errorf("a log that is not there: %v", err)
	}
	if w.place.Delete == nil {
		return // nobody can
	}
	name := w.log(t)
	w.fill(t, name, 0, 1)
	entries, ended := w.follow(t.Context(), t, name, 0)
	await(t, entries, "an entry")
	w.place.Delete(name)
	if err := await(t, ended, "the end of Follow"); err == nil || errors.Is(err, queue.ErrUnavailable) && !errors.Is(err, queue.ErrMissing) {
		t.Errorf("a log that was deleted: %v", err)
	}
}
