package deadset_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stepwell/stepwell/deadset"
	"github.com/stepwell/stepwell/internal/failpoint"
	"github.com/stepwell/stepwell/internal/filter"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/rabbit"
)

// childVariable says what a process of a test is to do, where and to which dead set:
// "sort amqp://… a.dead_set".
const childVariable = "DEADSET_TEST_CHILD"

func TestMain(m *testing.M) {
	if task := strings.Fields(os.Getenv(childVariable)); len(task) == 3 {
		if err := child(task[0], task[1], task[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	if built != "" {
		_ = os.RemoveAll(built) // a folder of temporary files
	}
	os.Exit(code)
}

// built is the folder of the program with marks; empty: no test needed it.
var built string

// pageBytes makes pages, and what a walk holds, of about 20 of the test's messages.
const pageBytes = 6000

// killedSet is the dead set as all processes of a test see it.
func killedSet(b queue.Broker, name string) *deadset.Set {
	return deadset.New(killedConfig(b, name))
}

func killedConfig(b queue.Broker, name string) deadset.Config {
	return deadset.Config{
		App: "a", Stream: "s", Queue: name, Instant: strings.TrimSuffix(name, "dead_set") + "instant", Broker: b, Pages: 16, TrashPages: 16, WalkBytes: pageBytes,
	}
}

// wideSet is one of which a walk shows all.
func wideSet(b queue.Broker, name string) *deadset.Set {
	cfg := killedConfig(b, name)
	cfg.WalkBytes = 0
	return deadset.New(cfg)
}

// tasks are what a process can do, one turn of it, and whether there is more.
func tasks(s, wide *deadset.Set) map[string]func(context.Context) (more bool, err error) {
	chosen := func(act func(deadset.Choice, context.Context) (deadset.Turn, error)) func(context.Context) (bool, error) {
		return func(ctx context.Context) (bool, error) {
			c, err := s.Choose(deadset.Selection{Filter: filter.All(), Before: time.Now(), Operation: "op_1"})
			if err != nil {
				return false, err
			}
			t, err := act(c, ctx)
			return t.More || t.Done > 0, err // it is over when a fresh look finds nothing
		}
	}
	return map[string]func(context.Context) (bool, error){
		"sort": func(ctx context.Context) (bool, error) {
			t, err := s.Pages().Sort(ctx, nil, "op_1", everything)
			return t.More, err
		},
		"unsort": func(ctx context.Context) (bool, error) {
			t, err := s.Pages().Back(ctx, nil, everything)
			return t.More, err
		},
		"replay": chosen(func(c deadset.Choice, ctx context.Context) (deadset.Turn, error) {
			return c.Replay(ctx, nil, everything)
		}),
		"delete": chosen(func(c deadset.Choice, ctx context.Context) (deadset.Turn, error) {
			return c.Delete(ctx, nil, everything)
		}),
		"trash": chosen(func(c deadset.Choice, ctx context.Context) (deadset.Turn, error) {
			return c.Trash(ctx, s.Trash(keep), nil, everything)
		}),
		"trash by count": func(ctx context.Context) (bool, error) {
			_, err := s.Trash(keep).Delete(ctx, "op_2", 30)
			return false, err
		},
		"edit":       edits(s, "op_1"),
		"edit again": edits(s, "op_2"),
		"restore": func(ctx context.Context) (bool, error) {
			c, err := wide.Trash(keep).Choose(deadset.Selection{Filter: filter.All(), Before: time.Now(), Operation: "op_3", MovedBy: "op_1"})
			if err != nil {
				return false, err
			}
			t, err := c.Restore(ctx, nil, everything)
			return t.More || t.Done > 0, err
		},
		"replay by count": func(ctx context.Context) (bool, error) {
			_, err := s.Replay(ctx, 30)
			return false, err
		},
		"delete by count": func(ctx context.Context) (bool, error) {
			_, err := s.Delete(ctx, 30)
			return false, err
		},
	}
}

// edits is an edit of one message, which may have been done before.
func edits(s *deadset.Set, operation string) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		value := []byte("edited")
		_, err := s.Trash(keep).Edit(ctx, operation, "t:0:7", deadset.Edit{Value: &value})
		if errors.Is(err, deadset.ErrNotFound) {
			err = nil
		}
		return false, err
	}
}

// child does its task until there is no more to do, and waits for others that walk.
func child(task, url, name string) error {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	b := rabbit.New(rabbit.Config{URLs: []string{url}})
	var running sync.WaitGroup
	defer running.Wait()
	broker, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	running.Go(func() { _ = b.Run(broker) })
	turn := tasks(killedSet(b, name), wideSet(b, name))[strings.ReplaceAll(task, "_", " ")]
	for more := true; more; {
		var err error
		more, err = turn(ctx)
		switch {
		case ctx.Err() != nil:
			return errors.Join(ctx.Err(), err)
		case errors.Is(err, queue.ErrLeased), errors.Is(err, queue.ErrUnavailable):
			more = true // as operations do
		case err != nil:
			return err
		}
	}
	return nil
}

// marked is the test's own program with marks at which it can be made to die.
var marked = sync.OnceValues(func() (string, error) {
	var err error
	if built, err = os.MkdirTemp("", "deadset-test-"); err != nil {
		return "", err
	}
	path := filepath.Join(built, "child")
	out, err := exec.Command("go", "test", "-c", "-tags", "failpoint", "-o", path, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

// start starts a process that does the task, and dies at the mark where there is one.
func start(t *testing.T, task, url, name, mark string) *exec.Cmd {
	t.Helper()
	path, err := marked()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path)
	cmd.Env = append(os.Environ(), childVariable+"="+strings.Join([]string{strings.ReplaceAll(task, " ", "_"), url, name}, " "), failpoint.Variable+"="+mark)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// wasKilled waits for the process and says whether it was killed.
func wasKilled(t *testing.T, cmd *exec.Cmd) bool {
	t.Helper()
	err := cmd.Wait()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return true
	}
	if err != nil {
		t.Fatal(err)
	}
	return false
}

// everythingIn are the messages of a dead set as its queues hand them out, each as often as it is
// there: pages first, then what has arrived.
func everythingIn(t *testing.T, b queue.Broker, name string) (paged, arrived []string) {
	t.Helper()
	free(t, b, name)
	for k := range 16 {
		if _, err := b.Depth(t.Context(), deadset.PageOf(name, k)); errors.Is(err, queue.ErrMissing) {
			break
		}
		paged = append(paged, ids(t, b, deadset.PageOf(name, k))...)
	}
	return paged, ids(t, b, name)
}

// free waits until nobody has the lease: the broker frees that of a dead process some moments
// later.
func free(t *testing.T, b queue.Broker, name string) {
	t.Helper()
	_ = idsWhenFree(t, b, name)
}

// once are the ids without those that were there before.
func once(all []string) []string {
	seen := map[string]bool{}
	return slices.DeleteFunc(slices.Clone(all), func(id string) bool {
		again := seen[id]
		seen[id] = true
		return again
	})
}

// empty acks all that a queue has.
func empty(t *testing.T, b queue.Broker, name string) {
	t.Helper()
	l, err := b.Lease(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	w, err := l.Window(t.Context(), queue.WindowSize, 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	for d := range w.Deliveries() {
		d.Ack()
	}
	if _, err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// buried is how many messages a dead set has when a process is killed that works on it.
const buried = 60

// killing kills a process that does the task at each mark in turn, in a dead set that is sorted or
// not, and has the test look at what it left and at what another one makes of that.
func killing(t *testing.T, task string, sort bool, marks []string, test func(t *testing.T, k killed)) {
	onRabbitMQ(t, 0, func(t *testing.T, url string, b queue.Broker, cfg deadset.Config) {
		k := killed{b, url, cfg, withPages(t, url, deadset.Config{App: "a", Stream: "s", Queue: cfg.Queue, Instant: cfg.Instant, Broker: b}, 16)}
		withTrash(t, url, cfg.Queue)
		for _, mark := range marks {
			t.Run(mark, func(t *testing.T) {
				buryIn(t, b, cfg.Queue, buried)
				if sort {
					free(t, b, cfg.Queue)
					sorted(t, killedSet(b, cfg.Queue), "op")
				}
				if !wasKilled(t, start(t, task, url, cfg.Queue, mark)) {
					t.Fatalf("it never came to the mark %s", mark)
				}
				free(t, b, cfg.Queue)
				test(t, k)
				if _, err := k.looks.Delete(t.Context(), 10*buried); err != nil {
					t.Fatal(err)
				}
				empty(t, b, cfg.Instant)
			})
		}
	})
}

// killed is the dead set of which somebody was killed.
type killed struct {
	queue.Broker
	url   string
	cfg   deadset.Config
	looks *deadset.Set
}

// goesOn has another process do the task.
func (k killed) goesOn(t *testing.T, task string) {
	t.Helper()
	if wasKilled(t, start(t, task, k.url, k.cfg.Queue, "")) {
		t.Fatal("the one that goes on was killed, too")
	}
	free(t, k, k.cfg.Queue)
}

// windowMarks are those that a walk comes to.
func windowMarks() []string {
	return []string{"walk held:2", "walk published:3", "walk confirmed:25", "walk acked:2", "walk closed:2"}
}

// publishMarks are those of a walk that publishes.
func publishMarks() []string { return append(windowMarks(), "published:25", "confirmed:25") }

// twice is how many messages can be in two places when a process is killed: as many as a walk
// holds.
const twice = 30

func TestASortThatIsKilledLosesNothingMovesNothingTwiceAndIsTakenUpByAnother(t *testing.T) {
	marks := append(publishMarks(), "pages proven:1", "page filled:1", "page filled:2")
	killing(t, "sort", false, marks, func(t *testing.T, k killed) {
		paged, arrived := everythingIn(t, k, k.cfg.Queue)
		if got := once(append(paged, arrived...)); !slices.Equal(got, from(0, buried)) {
			t.Errorf("it left in pages %v, arrived %v", paged, arrived)
		}
		if got := listed(t, k.looks); !slices.Equal(got, from(0, buried)) {
			t.Errorf("a look shows %v", got)
		}
		k.goesOn(t, "sort")
		paged, arrived = everythingIn(t, k, k.cfg.Queue)
		if !slices.Equal(paged, from(0, buried)) || len(arrived) > 0 {
			t.Errorf("after another went on: in pages %v, arrived %v", paged, arrived)
		}
	})
}

func TestASortThatIsKilledWhileItFillsAPageThatWasThereIsTakenUpByAnother(t *testing.T) {
	onRabbitMQ(t, buried, func(t *testing.T, url string, b queue.Broker, cfg deadset.Config) {
		looks, all := withPages(t, url, cfg, 16), buried
		sorted(t, killedSet(b, cfg.Queue), "op")
		for _, mark := range []string{"page read:1", "walk confirmed:1", "page filled:1"} {
			buryFrom(t, b, cfg.Queue, all, 5)
			all += 5
			if !wasKilled(t, start(t, "sort", url, cfg.Queue, mark)) {
				t.Fatalf("it never came to the mark %s", mark)
			}
			free(t, b, cfg.Queue)
			if got := listed(t, looks); !slices.Equal(got, from(0, all)) {
				t.Errorf("%s: a look shows %v", mark, got)
			}
		}
		sorted(t, killedSet(b, cfg.Queue), "op_2")
		if paged, arrived := everythingIn(t, b, cfg.Queue); !slices.Equal(paged, from(0, all)) || len(arrived) > 0 {
			t.Errorf("after another went on: in pages %v, arrived %v", paged, arrived)
		}
	})
}

func TestAWayBackThatIsKilledLosesNothingAndIsTakenUpByAnother(t *testing.T) {
	killing(t, "unsort", true, publishMarks(), func(t *testing.T, k killed) {
		paged, arrived := everythingIn(t, k, k.cfg.Queue)
		if got := once(append(slices.Clone(arrived), paged...)); !slices.Equal(got, from(0, buried)) {
			t.Errorf("it left in pages %v, arrived %v", paged, arrived)
		}
		k.goesOn(t, "unsort")
		paged, arrived = everythingIn(t, k, k.cfg.Queue)
		if got := once(arrived); !slices.Equal(got, from(0, buried)) || len(paged) > 0 || len(arrived) > buried+twice {
			t.Errorf("after another went on: in pages %v, arrived %v", paged, arrived)
		}
		if n, err := k.Depth(t.Context(), deadset.PageOf(k.cfg.Queue, 0)); !errors.Is(err, queue.ErrMissing) {
			t.Errorf("there are pages still: %d, %v", n, err)
		}
	})
}

func TestAReplayOverPagesThatIsKilledLosesNothingAndIsTakenUpByAnother(t *testing.T) {
	for task, marks := range map[string][]string{"replay": publishMarks(), "replay by count": {"walk confirmed:25", "walk acked:2"}} {
		t.Run(task, func(t *testing.T) {
			killing(t, task, true, marks, func(t *testing.T, k killed) {
				left, _ := everythingIn(t, k, k.cfg.Queue)
				moved := idsWhenFree(t, k, k.cfg.Instant)
				if got := once(append(slices.Clone(moved), left...)); !slices.Equal(got, from(0, buried)) || !slices.Equal(left, from(buried-len(left), len(left))) {
					t.Errorf("left %v, moved %v", left, moved)
				}
				k.goesOn(t, "replay")
				left, arrived := everythingIn(t, k, k.cfg.Queue)
				moved = idsWhenFree(t, k, k.cfg.Instant)
				if got := once(moved); !slices.Equal(got, from(0, buried)) || len(left)+len(arrived) > 0 || len(moved) > buried+twice {
					t.Errorf("after another went on: left %v %v, moved %v", left, arrived, moved)
				}
			})
		})
	}
}

func TestADeleteOverPagesThatIsKilledRemovesTheOldestAloneAndIsTakenUpByAnother(t *testing.T) {
	for task, most := range map[string]int{"delete": buried, "delete by count": 30} {
		t.Run(task, func(t *testing.T) {
			killing(t, task, true, windowMarks(), func(t *testing.T, k killed) {
				left, _ := everythingIn(t, k, k.cfg.Queue)
				if !slices.Equal(left, from(buried-len(left), len(left))) || len(left) < buried-most {
					t.Errorf("left: %v", left)
				}
				k.goesOn(t, "delete")
				if left, arrived := everythingIn(t, k, k.cfg.Queue); len(left)+len(arrived) > 0 {
					t.Errorf("after another went on: %v %v", left, arrived)
				}
			})
		})
	}
}

// One sorts and is killed, while another deletes the oldest.
func TestOfTwoThatWalkAtOnceOneMayBeKilledAndTheOtherActsOnEachMessageOnce(t *testing.T) {
	onRabbitMQ(t, buried, func(t *testing.T, url string, b queue.Broker, cfg deadset.Config) {
		looks := withPages(t, url, cfg, 16)
		sorts, deletes := start(t, "sort", url, cfg.Queue, "walk confirmed:30"), start(t, "delete by count", url, cfg.Queue, "")
		if wasKilled(t, deletes) || !wasKilled(t, sorts) {
			t.Fatal("the wrong one was killed")
		}
		free(t, b, cfg.Queue)
		if got := listed(t, looks); !slices.Equal(got, from(30, buried-30)) {
			t.Errorf("left: %v", got)
		}
		sorted(t, looks, "op_2")
		if paged, arrived := everythingIn(t, b, cfg.Queue); !slices.Equal(paged, from(30, buried-30)) || len(arrived) > 0 {
			t.Errorf("in pages %v, arrived %v", paged, arrived)
		}
	})
}
