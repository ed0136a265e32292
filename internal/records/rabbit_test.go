package records

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/stepwell/stepwell/chaos/proxy"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/rabbit"
	"github.com/stepwell/stepwell/internal/testbroker"
)

// writerOf names a log and its broker: the test binary is then a process that changes records until
// it is killed, and says which of its changes are stored.
const writerOf = "STEPWELL_TEST_RECORDS_WRITER"

func TestMain(m *testing.M) {
	if of := os.Getenv(writerOf); of != "" {
		writeForEver(of)
	}
	goleak.VerifyTestMain(m)
}

// connect makes a broker, as a process has one, and runs it until the test ends.
func connect(t testing.TB, url string) queue.Broker {
	t.Helper()
	b := rabbit.New(rabbit.Config{URLs: []string{url}, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	run(t, b.Run)
	return b
}

// onRabbit calls test with a log of its own on one of the releases.
func onRabbit(t *testing.T, test func(t *testing.T, w *world, url string)) {
	t.Helper()
	t.Parallel()
	for _, node := range testbroker.Sample(t, testbroker.RabbitMQs(t)) {
		t.Run(node.Version, func(t *testing.T) {
			t.Parallel()
			w := &world{Broker: connect(t, node.URL), t: t, log: fmt.Sprintf("records-%d", rand.Uint64())}
			t.Cleanup(func() { remove(t, node.URL, w.log) })
			test(t, w, node.URL)
		})
	}
}

// onOwn calls test with a node of its own, of each release, that it may kill.
func onOwn(t *testing.T, test func(t *testing.T, w *world, node *testbroker.Rabbit)) {
	t.Helper()
	t.Parallel()
	for _, version := range testbroker.Releases() {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			node := testbroker.StartRabbitMQ(t, version, testbroker.RabbitOptions{})
			test(t, &world{Broker: connect(t, node.URL), t: t, log: "app.records"}, node)
		})
	}
}

// remove deletes a queue, as an operator might.
func remove(t testing.TB, url, name string) {
	t.Helper()
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Errorf("delete %s: %v", name, err)
		return
	}
	defer func() { _ = conn.Close() }()
	ch, err := conn.Channel()
	if err == nil {
		_, err = ch.QueueDelete(name, false, false, false)
	}
	if err != nil {
		t.Errorf("delete %s: %v", name, err)
	}
}

func TestARecordInRabbitMQIsFoundByEveryProcess(t *testing.T) {
	onRabbit(t, func(_ *testing.T, w *world, _ string) { found(w) })
}

func TestNoChangeOfManyWritersInRabbitMQIsLost(t *testing.T) {
	onRabbit(t, func(_ *testing.T, w *world, _ string) { counted(w) })
}

func TestALogInRabbitMQThatIsDeletedBeginsAnew(t *testing.T) {
	onRabbit(t, func(t *testing.T, w *world, url string) {
		one, two := w.ready(w.store()), w.ready(w.store())
		for i := range 50 {
			w.set(one, fmt.Sprint(i), i)
		}
		remove(t, url, w.log)
		// Until the deletion is noticed what was there is still known.
		for _, s := range []*Store{one, two} {
			w.eventually("the records to be gone", func() bool {
				_, ok, err := s.Get("k", "7")
				return err == nil && !ok
			})
		}
		w.set(two, "a", 1)
		w.is(one, "a", "1")
	})
}

// eventually waits until is says true.
func (w *world) eventually(what string, is func() bool) {
	w.t.Helper()
	ctx := within(w.t)
	for tick := time.NewTicker(20 * time.Millisecond); !is(); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			w.t.Fatalf("waited in vain for %s", what)
		}
	}
}

// A lone node that is killed at once, also one whose log was just made, has all that was confirmed.
func TestWhatIsStoredOutlivesTheKillOfRabbitMQ(t *testing.T) {
	onOwn(t, func(t *testing.T, w *world, node *testbroker.Rabbit) {
		s := w.ready(w.store())
		for i := range 3 {
			w.set(s, "young", i)
			node.Kill()
			node.Start()
			w.is(s, "young", fmt.Sprint(i))
			w.is(w.ready(w.store()), "young", fmt.Sprint(i))
		}
	})
}

// writeForEver counts a record of its own up, and tells each number once it is stored.
func writeForEver(of string) {
	url, rest, _ := strings.Cut(of, " ")
	log, name, _ := strings.Cut(rest, " ")
	quiet := slog.New(slog.DiscardHandler)
	b := rabbit.New(rabbit.Config{URLs: []string{url}, Logger: quiet})
	ctx := context.Background()
	go func() { _ = b.Run(ctx) }()
	s := New(Config{Broker: b, Log: log, Logger: quiet})
	go func() { _ = s.Run(ctx) }()
	err := s.Sync(ctx)
	for n := 1; err == nil; n++ {
		err = s.Change(ctx, "k", name, func(r Record) (Record, error) {
			r.Value = fmt.Append(nil, n)
			return r, nil
		})
		fmt.Println(n)
	}
	fmt.Println(err)
	os.Exit(1)
}

func TestWhatAProcessStoredOutlivesItsKill(t *testing.T) {
	onRabbit(t, func(t *testing.T, w *world, url string) {
		s := w.ready(w.store())
		for round := range 5 {
			name := fmt.Sprint("of-", round)
			child := exec.CommandContext(within(t), os.Args[0])
			child.Env = append(os.Environ(), writerOf+"="+strings.Join([]string{url, w.log, name}, " "))
			out, err := child.StdoutPipe()
			if err == nil {
				err = child.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			// Killed after one more each time, in the midst of the next change.
			told, lines := 0, bufio.NewScanner(out)
			for told < 20+round && lines.Scan() {
				if _, err := fmt.Sscan(lines.Text(), &told); err != nil {
					t.Fatalf("the child says %q", lines.Text())
				}
			}
			_ = child.Process.Kill()
			for lines.Scan() { // what it told before it died counts, too
				_, _ = fmt.Sscan(lines.Text(), &told)
			}
			_ = child.Wait()
			r, ok, err := s.Latest(within(t), "k", name)
			var got int
			if _, e := fmt.Sscan(string(r.Value), &got); err != nil || e != nil || !ok || got < told || got > told+1 {
				t.Errorf("round %d: %q is there, %v, %v, and %d was told to be stored", round, r.Value, ok, err, told)
			}
		}
	})
}

// Each time it goes on where it was, and tells nothing before it has read to the end.
func TestANewcomerThatIsCutOffWhileItReadsComesToTheEndOfTheLog(t *testing.T) {
	onRabbit(t, func(t *testing.T, w *world, to string) {
		const most = 2000
		fill(t, w.ready(w.store()), 0, most)
		u, err := url.Parse(to)
		if err != nil {
			t.Fatal(err)
		}
		p, err := proxy.New(u.Host)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Close() })
		u.Host = p.Addr()
		// Each life of the connection is too short for all of the log.
		cut := p.CutAt(proxy.Down, proxy.Deliver, most/4, true)
		late := (&world{Broker: connect(t, u.String()), t: t, log: w.log}).store()
		ctx, known := within(t), make(chan error, 1)
		go func() {
			err := late.Sync(ctx)
			for err != nil && ctx.Err() == nil {
				err = late.Sync(ctx)
			}
			known <- err
		}()
		for cuts, over := 0, false; !over; {
			select {
			case <-cut:
				if _, err := late.All("k"); !errors.Is(err, ErrUnknown) {
					t.Errorf("cut off it tells what it has: %v", err)
				}
				cuts, cut = cuts+1, p.CutAt(proxy.Down, proxy.Deliver, most/4, true)
			case err := <-known:
				if over = true; err != nil || cuts < 3 {
					t.Fatalf("after %d cuts: %v", cuts, err)
				}
			}
		}
		if all, err := late.All("k"); err != nil || len(all) != most {
			t.Errorf("%d records, %v", len(all), err)
		}
	})
}

// The log is larger than it may be, and has dropped its beginning: what was written there once, and
// never again by anybody who wanted to change it, is still known to who reads what is left.
// Of what makes the log grow most is not from a store: others write what none can read, which takes
// a reader no time, and each of the hundred records is changed a few times in between.
func TestARecordOutlivesThatTheLogDropsItsBeginning(t *testing.T) {
	onRabbit(t, func(t *testing.T, w *world, url string) {
		s := w.ready(w.store())
		w.set(s, "kept", 7)
		large := strconv.Quote(strings.Repeat("x", MostValue-10))
		const changes, each = 500, 64 << 10
		var g errgroup.Group
		g.SetLimit(50)
		for i := range changes {
			g.Go(func() error {
				if err := w.others(5*queue.LogSize/4/changes/each, each); err != nil {
					return err
				}
				return s.Change(within(t), "k", fmt.Sprint(i%100), func(r Record) (Record, error) {
					r.Value = json.RawMessage(large)
					return r, nil
				})
			})
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		first := int64(-1)
		ctx, cancel := context.WithCancel(within(t))
		_ = w.Follow(ctx, w.log, 0, func(e queue.Entry) {
			if first < 0 {
				first = e.Offset
				cancel()
			}
		})
		if first < 1 {
			t.Errorf("the log begins with %d: nothing was dropped, and nothing shown", first)
		}
		late := (&world{Broker: connect(t, url), t: t, log: w.log}).store()
		// All of it is a lot to read on a machine that is busy: then the answer is that it is not
		// known yet.
		for tries := 0; late.Sync(within(t)) != nil && tries < 5; tries++ {
			t.Log("it is being read")
		}
		w.is(late, "kept", "7")
		if all, err := late.All("k"); err != nil || len(all) != 101 {
			t.Errorf("%d records, %v", len(all), err)
		}
	})
}

// others has others write so many entries to the log that no store can read, of so many bytes each.
func (w *world) others(count, size int) error {
	p := w.Publisher("others")
	stored := make(chan error, count)
	for range count {
		p.Publish(w.t.Context(), w.log, queue.Message{Body: make([]byte, size)}, func(err error) { stored <- err })
	}
	var all error
	for range count {
		all = errors.Join(all, <-stored)
	}
	return all
}
