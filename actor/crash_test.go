package actor_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/internal/testbroker"
)

// ledgerVariable names the file to which an actor in a process of its own appends each call; where
// it is set, the test binary is that actor.
const ledgerVariable = "STEPWELL_TEST_LEDGER"

func TestMain(m *testing.M) {
	if path := os.Getenv(ledgerVariable); path != "" {
		child(path)
	}
	if path := os.Getenv(orderVariable); path != "" {
		playInOrder(path)
	}
	if role := os.Getenv(roleVariable); role != "" {
		play(role)
	}
	// Most of these tests wait for brokers: more of them than there are processors can do so at
	// once. The command line overrides this.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// child runs an actor whose every tenth record fails twice. Each call is in the ledger before its
// handler returns.
func child(path string) {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		panic(err)
	}
	actor.Main(actor.App{Streams: actor.Streams{"orders": {Handler: func(_ context.Context, m *stepwell.Message) error {
		e := entry{partition: m.Origin.Partition, offset: m.Origin.Offset, attempt: m.Attempt}
		e.failed = e.offset%10 == 3 && m.Attempt <= 2
		if _, err := file.Write(e.bytes()); err != nil {
			panic(err)
		}
		if e.failed {
			return errFlaky
		}
		return nil
	}}}})
}

// entry is one call of a handler in the ledger.
type entry struct {
	partition int32
	offset    int64
	attempt   int
	failed    bool
}

const entrySize = 16

func (e entry) bytes() []byte {
	b := make([]byte, 0, entrySize)
	b = binary.BigEndian.AppendUint32(b, uint32(e.partition))
	b = binary.BigEndian.AppendUint64(b, uint64(e.offset))
	b = binary.BigEndian.AppendUint16(b, uint16(e.attempt))
	failed := uint16(0)
	if e.failed {
		failed = 1
	}
	return binary.BigEndian.AppendUint16(b, failed)
}

type position struct {
	partition int32
	offset    int64
}

// ledger is what all processes wrote, read as it grows.
type ledger struct {
	file    *os.File
	tried   map[position]bool
	covered map[int32]int64 // by commits that were checked
	done    map[position]int
	entries int
}

func (l *ledger) read() error {
	data, err := io.ReadAll(l.file)
	if err != nil {
		return err
	}
	if len(data)%entrySize != 0 { // a write was under way: leave its part for the next time
		part := int64(len(data) % entrySize)
		data = data[:len(data)-int(part)]
		if _, err := l.file.Seek(-part, io.SeekCurrent); err != nil {
			return err
		}
	}
	for ; len(data) > 0; data = data[entrySize:] {
		p := position{int32(binary.BigEndian.Uint32(data)), int64(binary.BigEndian.Uint64(data[4:]))}
		l.tried[p] = true
		if binary.BigEndian.Uint16(data[14:]) == 0 {
			l.done[p]++
		}
		l.entries++
	}
	return nil
}

func TestNothingIsLostWhenTheProcessIsKilledFiveTimesAndRabbitMQTwice(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT RUN: the long crash test, because of -short")
	}
	t.Parallel()
	for _, release := range testbroker.Releases() {
		t.Run(release, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			node := testbroker.StartRabbitMQ(t, release, testbroker.RabbitOptions{})
			w.rabbit, w.seeds = node.URL, testbroker.Kafka(t)
			w.connect(kgo.SeedBrokers(w.seeds))
			w.createTopic(w.topic, 8)
			crash(t, w, node, 100_000)
		})
	}
}

// crash runs the scenario: records at a steady rate, kills at random moments, commits looked at all
// the time.
func crash(t *testing.T, w *world, node *testbroker.Rabbit, n int) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	path := filepath.Join(t.TempDir(), "ledger")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	l := &ledger{file: file, tried: map[position]bool{}, covered: map[int32]int64{}, done: map[position]int{}}

	proc, spawned := w.spawn(t, path), 1
	produced := make(chan error, 1)
	go func() { produced <- w.produceSlowly(n, 30*time.Second) }()

	events := []string{"kill", "kill", "rabbit", "kill", "kill", "rabbit", "kill"}
	next := time.After(after(random))
	check := time.NewTicker(50 * time.Millisecond)
	defer check.Stop()
	limit := time.After(5 * time.Minute)
	for len(l.done) < n || len(events) > 0 {
		select {
		case <-next:
			if len(events) == 0 {
				continue
			}
			switch events[0] {
			case "kill":
				proc.kill(t)
				proc = w.spawn(t, path)
				spawned++
			case "rabbit":
				node.Kill()
				node.Start()
			}
			t.Logf("%s with %d of %d done", events[0], len(l.done), n)
			events, next = events[1:], time.After(after(random))
		case <-check.C:
			w.commitsCover(t, l)
		case <-limit:
			t.Fatalf("after five minutes %d of %d are done, %d tried; first missing: %v", len(l.done), n, len(l.tried), missing(l, n, 8))
		}
	}
	if err := <-produced; err != nil {
		t.Fatal(err)
	}
	eventually(t, "everything is committed", func() bool { return w.committed() == int64(n) })
	eventually(t, "the last process is up and takes signals", func() bool {
		data, err := os.ReadFile(path + ".log")
		return err == nil && bytes.Count(data, []byte(" msg=start ")) == spawned
	})
	proc.stop(t)
	w.commitsCover(t, l)
	repeats := 0
	for _, times := range l.done {
		repeats += times - 1
	}
	t.Logf("%d records, %d calls, %d successes repeated, none lost", n, l.entries, repeats)
}

func after(random *rand.Rand) time.Duration {
	return time.Second + time.Duration(random.Int64N(int64(5*time.Second)))
}

// commitsCover fails when a committed offset is past a record that no handler ever saw.
func (w *world) commitsCover(t *testing.T, l *ledger) {
	offsets, err := kadm.NewClient(w.client).FetchOffsets(context.Background(), w.app+".orders")
	if err != nil {
		return // no coordinator yet
	}
	if err := l.read(); err != nil {
		t.Fatal(err)
	}
	offsets.Each(func(o kadm.OffsetResponse) {
		for at := l.covered[o.Partition]; at < o.At && o.Topic == w.topic; at++ {
			if !l.tried[position{o.Partition, at}] {
				t.Fatalf("partition %d is committed up to %d, but %d was never handled", o.Partition, o.At, at)
			}
			l.covered[o.Partition] = at + 1
		}
	})
}

func missing(l *ledger, n, partitions int) []position {
	var found []position
	for p := range partitions {
		for o := range n/partitions + 1 {
			if at := (position{int32(p), int64(o)}); l.done[at] == 0 && len(found) < 10 {
				found = append(found, at)
			}
		}
	}
	return found
}

// produceSlowly spreads n records evenly over the topic's 8 partitions and over the time.
func (w *world) produceSlowly(n int, over time.Duration) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(w.seeds), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer client.Close()
	const steps = 300
	tick := time.NewTicker(over / steps)
	defer tick.Stop()
	for i := 0; i < n; <-tick.C {
		var records []*kgo.Record
		for end := min(n, i+n/steps+1); i < end; i++ {
			records = append(records, &kgo.Record{Topic: w.topic, Partition: int32(i % 8), Key: fmt.Appendf(nil, "%d", i%1000), Value: make([]byte, 100)})
		}
		if err := client.ProduceSync(context.Background(), records...).FirstErr(); err != nil {
			return err
		}
	}
	return nil
}

// process is an actor in a process of its own.
type process struct{ cmd *exec.Cmd }

func (w *world) spawn(t *testing.T, ledger string) *process {
	cmd := exec.Command(program(t))
	cmd.Env = append(os.Environ(), ledgerVariable+"="+ledger,
		"APP_NAME="+w.app, "KAFKA_BROKERS="+w.seeds, "RABBITMQ_URL="+w.rabbit, "STREAMS_ORDERS_TOPICS="+w.topic,
		"RETRY_COUNT=5", "RETRY_DELAY=200ms", "KAFKA_SESSION_TIMEOUT=6s", "SERVER_ADDRESS=off")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log, err := os.OpenFile(ledger+".log", os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has ended, unless the test failed
		_ = cmd.Wait()
		if t.Failed() {
			if data, err := os.ReadFile(ledger + ".log"); err == nil {
				t.Logf("the end of the actor's log:\n%s", data[max(0, len(data)-4000):])
			}
		}
	})
	return p
}

func (p *process) kill(t *testing.T) {
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Wait() // says that it was killed
}

func (p *process) stop(t *testing.T) {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := p.cmd.Wait(); errors.As(err, &exit) {
		t.Errorf("the actor ended with %d", exit.ExitCode())
	}
}
