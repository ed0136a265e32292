package deadset_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/deadset"
	"github.com/stepwell/stepwell/internal/filter"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/rabbit"
)

// withTrash has the pages of the trash go when the test is over.
func withTrash(t *testing.T, url, name string) {
	var names []string
	for k := range 16 {
		names = append(names, deadset.TrashOf(name, keep, k))
	}
	t.Cleanup(func() { deleteQueues(t, url, names...) })
}

// inTrash are the messages in the trash as its queues hand them out, each as often as it is there.
func inTrash(t *testing.T, b queue.Broker, name string) (all []string) {
	t.Helper()
	free(t, b, name)
	for k := range 16 {
		page := deadset.TrashOf(name, keep, k)
		if _, err := b.Depth(t.Context(), page); errors.Is(err, queue.ErrMissing) {
			break
		}
		all = append(all, ids(t, b, page)...)
	}
	return all
}

// emptyTrash takes all out of the trash.
func emptyTrash(t *testing.T, b queue.Broker, name string) {
	t.Helper()
	for k := range 16 {
		page := deadset.TrashOf(name, keep, k)
		if _, err := b.Depth(t.Context(), page); errors.Is(err, queue.ErrMissing) {
			break
		}
		empty(t, b, page)
	}
}

func TestADeleteToTheTrashThatIsKilledLosesNothingMovesNothingTwiceAndIsTakenUpByAnother(t *testing.T) {
	// Of what has arrived, and of pages.
	for sort, marks := range map[bool][]string{
		false: append(publishMarks(), "pages proven:1", "page read:2", "page filled:1", "page filled:2"),
		true:  {"walk confirmed:25", "walk acked:2", "confirmed:25", "page filled:2"},
	} {
		t.Run(fmt.Sprint("sorted ", sort), func(t *testing.T) {
			killing(t, "trash", sort, marks, func(t *testing.T, k killed) {
				defer emptyTrash(t, k, k.cfg.Queue)
				paged, arrived := everythingIn(t, k, k.cfg.Queue)
				left, gone := slices.Concat(paged, arrived), inTrash(t, k, k.cfg.Queue)
				if got := once(slices.Concat(gone, left)); !slices.Equal(got, from(0, buried)) || len(gone)+len(left) > buried+twice {
					t.Errorf("it left %v, in the trash %v", left, gone)
				}
				k.goesOn(t, "trash")
				paged, arrived = everythingIn(t, k, k.cfg.Queue)
				if gone = inTrash(t, k, k.cfg.Queue); !slices.Equal(gone, from(0, buried)) || len(paged)+len(arrived) > 0 {
					t.Errorf("after another went on: in pages %v, arrived %v, in the trash %v", paged, arrived, gone)
				}
			})
		})
	}
}

func TestADeleteByCountToTheTrashThatIsKilledLosesNothingAndTakesTheOldestAlone(t *testing.T) {
	killing(t, "trash by count", true, []string{"walk confirmed:25", "walk acked:2", "page filled:1"}, func(t *testing.T, k killed) {
		defer emptyTrash(t, k, k.cfg.Queue)
		left, _ := everythingIn(t, k, k.cfg.Queue)
		gone := inTrash(t, k, k.cfg.Queue)
		if got := once(slices.Concat(gone, left)); !slices.Equal(got, from(0, buried)) || len(left) < buried-30 || !slices.Equal(left, from(buried-len(left), len(left))) {
			t.Errorf("left %v, in the trash %v", left, gone)
		}
	})
}

func TestARestoreThatIsKilledLosesNothingBringsNothingBackTwiceAndIsTakenUpByAnother(t *testing.T) {
	onRabbitMQ(t, 0, func(t *testing.T, url string, b queue.Broker, cfg deadset.Config) {
		withTrash(t, url, cfg.Queue)
		s := killedSet(b, cfg.Queue)
		for _, mark := range publishMarks() {
			t.Run(mark, func(t *testing.T) {
				buryIn(t, b, cfg.Queue, buried)
				free(t, b, cfg.Queue)
				if done := thrownAway(t, s); done != buried {
					t.Fatalf("%d deleted", done)
				}
				free(t, b, cfg.Queue)
				if !wasKilled(t, start(t, "restore", url, cfg.Queue, mark)) {
					t.Fatalf("it never came to the mark %s", mark)
				}
				back, gone := idsWhenFree(t, b, cfg.Queue), inTrash(t, b, cfg.Queue)
				if got := once(slices.Concat(back, gone)); !slices.Equal(got, from(0, buried)) {
					t.Errorf("restored %v, in the trash %v", back, gone)
				}
				if wasKilled(t, start(t, "restore", url, cfg.Queue, "")) {
					t.Fatal("the one that goes on was killed, too")
				}
				back, gone = idsWhenFree(t, b, cfg.Queue), inTrash(t, b, cfg.Queue)
				if !slices.Equal(back, from(0, buried)) || len(gone) > 0 {
					t.Errorf("after another went on: restored %v, in the trash %v", back, gone)
				}
				empty(t, b, cfg.Queue)
			})
		}
	})
}

// thrownAway deletes all, to the trash.
func thrownAway(t *testing.T, s *deadset.Set) (done int) {
	t.Helper()
	c := choose(t, s, deadset.Selection{Filter: filter.All(), Before: time.Now(), Operation: "op_1"})
	for more := true; more; {
		r, err := c.Trash(t.Context(), s.Trash(keep), nil, everything)
		if err != nil && !errors.Is(err, queue.ErrUnavailable) && !errors.Is(err, queue.ErrLeased) && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		done += r.Done
		more = err != nil || r.More
	}
	return done
}

func TestWhatIsDeletedOnRabbitMQIsSeenAndRestoredByAnotherProcess(t *testing.T) {
	onRabbitMQ(t, 4500, func(t *testing.T, url string, b queue.Broker, cfg deadset.Config) {
		withTrash(t, url, cfg.Queue)
		cfg.TrashPages = 8
		s := withPages(t, url, cfg, 8)
		sorted(t, s, "op")
		if r, err := s.Trash(keep).Delete(t.Context(), "op_1", 4300); err != nil || r != (deadset.Result{Requested: 4300, Done: 4300, Left: 200}) {
			t.Fatalf("%+v, %v", r, err)
		}
		another := cfg
		another.Broker, _ = runRabbit(t, url)
		s = deadset.New(another)
		list, err := s.Trash(keep).Find(t.Context(), deadset.Query{Limit: 4300, MovedBy: "op_1"})
		if err != nil || list.Matched != 4300 || list.Messages[4299].ID != "t:0:4299" {
			t.Fatalf("%d in the trash, %+v, %v", list.Matched, list.Span, err)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if done := restore(t, s, deadset.Selection{Filter: filter.IDs([]string{"t:0:4299", "t:0:7"}), Before: time.Now(), Operation: "op_2"}); done != 2 {
			t.Errorf("%d restored", done)
		}
		if got := idsWhenFree(t, b, cfg.Queue); !slices.Equal(got, []string{"t:0:7", "t:0:4299"}) {
			t.Errorf("restored: %v", got)
		}
	})
}

// RabbitMQ itself drops what has been there for long enough, and looks at the rest go on meanwhile.
func TestATrashOnRabbitMQEmptiesItself(t *testing.T) {
	onRabbitMQ(t, 300, func(t *testing.T, url string, b queue.Broker, cfg deadset.Config) {
		const short = 2 * time.Second
		cfg.TrashPages = 8
		name := deadset.TrashOf(cfg.Queue, short, 0)
		t.Cleanup(func() { deleteQueues(t, url, name) })
		s := deadset.New(cfg)
		if r, err := s.Trash(short).Delete(t.Context(), "op_1", 300); err != nil || r.Done != 300 {
			t.Fatalf("%+v, %v", r, err)
		}
		for left := 1; left > 0; {
			list, err := s.Trash(short).Find(t.Context(), deadset.Query{Limit: 1})
			if err != nil && !errors.Is(err, queue.ErrLeased) && !errors.Is(err, queue.ErrUnavailable) {
				t.Fatal(err)
			}
			if err == nil {
				left = list.Depth
			}
		}
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		n, err := b.Depth(t.Context(), name)
		for errors.Is(err, queue.ErrUnavailable) { // a busy queue does not answer in time
			n, err = b.Depth(t.Context(), name)
		}
		if n != 0 || err != nil {
			t.Errorf("%d are still there, %v", n, err)
		}
	})
}

func TestWithoutTheRightToMakeItsQueuesNothingIsDeletedIntoTheTrash(t *testing.T) {
	onRabbitMQ(t, 5, func(t *testing.T, url string, b queue.Broker, cfg deadset.Config) {
		checks := rabbit.New(rabbit.Config{URLs: []string{url}, DeclareOnlyCheck: true, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
		run(t, checks)
		cfg.Broker, cfg.TrashPages = checks, 8
		s := deadset.New(cfg)
		r, err := s.Trash(keep).Delete(t.Context(), "op_1", 3)
		if !errors.Is(err, deadset.ErrNoPage) || !strings.Contains(err.Error(), deadset.TrashOf(cfg.Queue, keep, 0)+" is missing") || r.Done != 0 || r.Left != 5 {
			t.Errorf("%+v, %v", r, err)
		}
		if done, err := throw(t, s, everythingOf("op_2")); !errors.Is(err, deadset.ErrNoPage) || done != 0 {
			t.Errorf("%d deleted, %v", done, err)
		}
		if got := idsWhenFree(t, b, cfg.Queue); !slices.Equal(got, from(0, 5)) {
			t.Errorf("left: %v", got)
		}
	})
}
