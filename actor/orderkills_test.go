package actor_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/internal/testbroker"
)

// orderVariable names the file to which actors append a line for each call that begins and each
// that ends; where it is set, the test binary is such an actor.
const orderVariable = "STEPWELL_TEST_ORDER"

// playInOrder is that actor. The value says what becomes of a message: see ill.
func playInOrder(path string) {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		panic(err)
	}
	handle := func(_ context.Context, m *stepwell.Message) error {
		write := func(what string) {
			line := fmt.Appendf(nil, "%s %d %d %s %d %d\n", what, m.Origin.Partition, m.Origin.Offset, m.Key, m.Attempt, os.Getpid())
			if _, err := file.Write(line); err != nil {
				panic(err)
			}
		}
		write("begins")
		time.Sleep(time.Duration(rand.IntN(5)) * time.Millisecond)
		verdict := ill(m)
		switch kind := stepwell.VerdictOf(verdict).Kind; {
		case kind == stepwell.Dead, kind == stepwell.Retry && m.Attempt == 4:
			write("dies")
		case kind == stepwell.Retry:
			write("fails")
		default:
			write("done")
		}
		return verdict
	}
	orders := actor.Stream{Handler: handle}
	if os.Getenv(batchVariable) != "" {
		orders.Handler, orders.Batch = nil, inOrder(handle)
	}
	actor.Main(actor.App{Streams: actor.Streams{"orders": orders}})
}

// step is one line.
type step struct {
	what         string
	partition    int32
	offset       int64
	key          string
	attempt, pid int
}

// steps is what actors wrote by now.
func steps(t *testing.T, path string) (all []step) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	whole := data[:bytes.LastIndexByte(data, '\n')+1] // each line is one write, but a reader may see half of it
	for line := range strings.Lines(string(whole)) {
		var s step
		if _, err := fmt.Sscan(line, &s.what, &s.partition, &s.offset, &s.key, &s.attempt, &s.pid); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, s)
	}
	return all
}

// outOfOrder says what is wrong with the order of the calls of each key.
func outOfOrder(all []step) (wrong []string) {
	type place struct {
		partition int32
		key       string
	}
	offsets := map[place][]int64{} // of each key, as they were called
	over := map[position]bool{}    // done or dead
	last := map[position]int{}     // when the last call began
	tries := map[position]step{}   // the last one that began
	for at, s := range all {
		of, me := place{s.partition, s.key}, position{s.partition, s.offset}
		if s.what != "begins" {
			over[me] = over[me] || s.what == "done" || s.what == "dies"
			continue
		}
		for _, o := range offsets[of] {
			if before := (position{s.partition, o}); o < s.offset && !over[before] {
				wrong = append(wrong, fmt.Sprintf("%v of key %s is called, and %d is neither done nor dead", me, s.key, o))
			}
		}
		if before, ok := tries[me]; s.attempt != 1 && (!ok || before.pid != s.pid || before.attempt != s.attempt-1) {
			wrong = append(wrong, fmt.Sprintf("%v: attempt %d in process %d after %+v", me, s.attempt, s.pid, before))
		}
		if !slices.Contains(offsets[of], s.offset) {
			offsets[of] = append(offsets[of], s.offset)
		}
		last[me], tries[me] = at, s
	}
	for of, its := range offsets {
		if !slices.IsSorted(its) {
			wrong = append(wrong, fmt.Sprintf("key %s of partition %d was called in the order %v", of.key, of.partition, its))
		}
		slices.Sort(its)
		for i := 1; i < len(its); i++ {
			if last[position{of.partition, its[i-1]}] > last[position{of.partition, its[i]}] {
				wrong = append(wrong, fmt.Sprintf("key %s of partition %d: %d was called once more after the last call of %d", of.key, of.partition, its[i-1], its[i]))
			}
		}
	}
	return wrong
}

func TestTheOrderOfAKeySurvivesKillsAndRebalances(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT RUN: processes that are killed and replaced for a minute, because of -short")
	}
	t.Parallel()
	nodes := testbroker.RabbitMQs(t)
	for handled, load := range map[string]struct {
		node    testbroker.Node
		records int
		env     settings
	}{
		"one by one": {nodes[0], 4000, nil},
		"in batches": {nodes[len(nodes)-1], 1200, settings{batchVariable: "yes", "BATCH_SIZE": "50", "BATCH_WAIT": "20ms", "CONCURRENCY": "8"}},
	} {
		t.Run(handled+", RabbitMQ "+load.node.Version, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.rabbit, w.seeds = load.node.URL, testbroker.Kafka(t)
			w.connect(kgo.SeedBrokers(w.seeds))
			w.createTopic(w.topic, 4)
			t.Cleanup(w.deleteQueues)
			w.survive(t, load.records, 40*time.Second, load.env)
		})
	}
}

// survive runs two actors under a load of n records over so long. One of them is killed, or asked
// to stop, again and again, and another one started. env has further settings.
func (w *world) survive(t *testing.T, n int, over time.Duration, env settings) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	path := filepath.Join(t.TempDir(), "steps")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	spawn := func() *worker {
		inPlace := settings{orderVariable: path, "RETRY_IN_PLACE": "all", "RETRY_COUNT": "3", "RETRY_DELAY": "100ms", "RETRY_STEP": "100ms"}
		return w.work(t, "", inPlace.with(env))
	}
	living := []*worker{spawn(), spawn()}
	dead := 0
	produced := make(chan struct{})
	go func() {
		defer close(produced)
		tick := time.NewTicker(over / time.Duration(n))
		defer tick.Stop()
		for i := range n {
			<-tick.C
			word := ""
			switch {
			case i%100 == 17:
				word = "fails"
			case i%100 == 71:
				word = "dies"
			case i%10 == 3:
				word = fmt.Sprint(1 + i/10%3)
			}
			if word == "fails" || word == "dies" {
				dead++
			}
			w.client.Produce(context.Background(), &kgo.Record{Topic: w.topic, Key: fmt.Appendf(nil, "%d", i%60), Value: fmt.Appendf(nil, "%d:%s", i, word)}, nil)
		}
		_ = w.client.Flush(context.Background()) // what is missing is seen in the commits
	}()
	kills, stops := 0, 0
	for next, load := time.After(5*time.Second), true; load; {
		select {
		case <-produced:
			load = false
		case <-next:
			next = time.After(2*time.Second + time.Duration(random.Int64N(int64(4*time.Second))))
			i := random.IntN(len(living))
			if random.IntN(3) > 0 {
				living[i].kill(t)
				kills++
			} else {
				_ = living[i].cmd.Process.Signal(syscall.SIGTERM) // it ends beside the new one
				stops++
			}
			living[i] = spawn()
		}
	}
	within(t, 3*time.Minute, "all is committed", func() bool { return w.committed() == int64(n) })
	all := steps(t, path)
	for _, wrong := range outOfOrder(all) {
		t.Error(wrong)
	}
	done, died := map[position]bool{}, map[position]bool{}
	for _, s := range all {
		switch s.what {
		case "done":
			done[position{s.partition, s.offset}] = true
		case "dies":
			died[position{s.partition, s.offset}] = true
		}
	}
	if len(done) != n-dead || len(died) != dead {
		t.Errorf("%d are done and %d died, want %d and %d", len(done), len(died), n-dead, dead)
	}
	if rest := w.ready(t, "dead_set"); rest < dead {
		t.Errorf("%d messages are in the dead set, want %d", rest, dead)
	}
	t.Logf("%d records, %d steps, %d kills, %d stops", n, len(all), kills, stops)
}

// The judge of the test above must be able to find fault.
func TestCallsOfAKeyThatAreOutOfOrderAreSeen(t *testing.T) {
	line := func(what string, offset int64, attempt, pid int) step {
		return step{what, 0, offset, "k", attempt, pid}
	}
	for name, test := range map[string]struct {
		all  []step
		says string // empty: nothing is wrong
	}{
		"in order": {[]step{line("begins", 1, 1, 7), line("fails", 1, 1, 7), line("begins", 1, 2, 7), line("dies", 1, 2, 7), line("begins", 2, 1, 7), line("done", 2, 1, 7)}, ""},
		"again after a kill": {[]step{
			line("begins", 1, 1, 7), line("done", 1, 1, 7), line("begins", 2, 1, 7), line("begins", 1, 1, 8), line("done", 1, 1, 8), line("begins", 2, 1, 8),
		}, ""},
		"beside one that failed": {[]step{line("begins", 1, 1, 7), line("fails", 1, 1, 7), line("begins", 2, 1, 7)}, "is neither done nor dead"},
		"the dead one once more": {[]step{
			line("begins", 1, 1, 7), line("dies", 1, 1, 7), line("begins", 2, 1, 7), line("done", 2, 1, 7), line("begins", 1, 1, 8),
		}, "1 was called once more after the last call of 2"},
		"the later one first":            {[]step{line("begins", 2, 1, 7), line("done", 2, 1, 7), line("begins", 1, 1, 7), line("begins", 2, 1, 7)}, "was called in the order [2 1]"},
		"tries that go on beyond a kill": {[]step{line("begins", 1, 1, 7), line("fails", 1, 1, 7), line("begins", 1, 2, 8)}, "attempt 2 in process 8"},
	} {
		wrong := strings.Join(outOfOrder(test.all), "; ")
		if test.says == "" && wrong != "" || !strings.Contains(wrong, test.says) {
			t.Errorf("%s: %q, want %q", name, wrong, test.says)
		}
	}
}
