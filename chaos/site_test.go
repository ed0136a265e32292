package chaos

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell/chaos/ledger"
	"github.com/stepwell/stepwell/chaos/proxy"
	"github.com/stepwell/stepwell/internal/testbroker"
)

const (
	partitions = 4
	rate       = 400 // records a second
	retries    = 3
	mostBytes  = 40 << 20 // of a record
	// linger is how long the load goes on after the faults.
	linger = 2 * time.Second
	// patience is how long nothing may happen before a run is judged as it is; settleLimit bounds
	// the whole wait.
	patience    = 30 * time.Second
	settleLimit = 6 * time.Minute
	// forwardLimit is how long a delay queue may keep what has expired, once its broker has come
	// back: RabbitMQ asks the instant queue again after three minutes.
	forwardLimit = 200 * time.Second
)

// site is a Kafka and a RabbitMQ for scenarios that run one after the other.
type site struct {
	release, child string
	beside         string                 // what every second actor is in place of child; empty: none
	actors         int                    // that live at first; 0: two
	jumper         func() (string, error) // builds an actor whose clock jumps
	retrier        func() (string, error) // builds the retrier
	rabbit         *testbroker.Rabbit     // of a cluster the first node
	rabbits        []*testbroker.Rabbit   // all nodes of a cluster, which is reached without a proxy; else none
	kafka          *testbroker.Cluster
}

// scenario is what happens to a run under load.
type scenario struct {
	name  string
	short bool // part of the selection for every day
	env   settings
	parts []string // the MODES of its actors, one each; none: two actors with all
	jumps bool     // the actors' clocks can jump
	lone  bool     // not among several
	calls bool     // its processes are retriers
	exact bool     // and only kills repeat what they do
	mib   int      // that an actor may need; 0: as many as usual
	fault func(r *run)
}

// settings are environment variables of the actors.
type settings map[string]string

// run is one scenario under way.
type run struct {
	*site
	t                 *testing.T
	random            *rand.Rand
	app, topic        string
	client            *kgo.Client
	toRabbit, toKafka *proxy.Proxy
	program           string // the actors'
	env               settings
	parts             []string
	delays            []time.Duration // that some actors have instead of the usual one
	actors            []*process      // that run
	every             []*process      // that ran or run
	ledger            string
	watch             *watch
	load              *load
	edits             *edits // that somebody asks for; nil: nobody does
	posts             *posts // of retriers; nil: the processes are actors
	most              holds  // that an actor may have in the end
	end               ledger.End
	connections       []*amqp.Connection
	dragged           int            // dead messages with headers of the broker
	mortal            bool           // records kill the processes, which are started again
	single            bool           // nothing but what died twice may be twice in the dead set
	deaths            map[string]int // messages of the dead sets, by their ids and when they died
	complaints        []string       // of what is wrong beside what the ledger shows
}

// test runs the scenario and fails when anything is lost, or is not as it should be.
func (s *site) test(t *testing.T, c scenario, random *rand.Rand) {
	report := s.perform(t, c, random)
	if n := len(report.Lost); n > 0 {
		t.Errorf("%d records are lost: %v", n, report.Lost[:min(n, 10)])
	}
	for _, w := range report.Wrong {
		t.Error(w)
	}
}

// perform runs the scenario and judges it.
func (s *site) perform(t *testing.T, c scenario, random *rand.Rand) ledger.Report {
	if c.calls {
		return s.performCalls(t, c, random)
	}
	r := s.start(t, c, random)
	r.until("work goes on", time.Minute, func() bool { done, _ := r.watch.done(); return done > 200 })
	r.ripen()
	began := time.Now()
	c.fault(r)
	healed, before := time.Now(), r.watch.length()
	r.pause(linger)
	r.load.stop()
	r.settle()
	r.upkeep()
	for _, p := range r.actors {
		p.stop()
	}
	r.end.Queues = r.empty()
	report, entries := r.watch.judge(r.end)
	r.judgeEdits(entries)
	report.Wrong = append(report.Wrong, r.complaints...)
	result := ledger.Summary{
		Scenario: c.name, RabbitMQ: s.rabbit.Version, Records: report.Records, Calls: report.Calls, Lost: len(report.Lost), Removed: report.Removed,
		Repeats: report.Repeats, Copies: report.Copies, Resting: report.Resting, Kills: r.kills(), Wrong: len(report.Wrong),
		Fault: healed.Sub(began), Recovery: ledger.Recovery(entries[before:], healed),
	}
	t.Log(result)
	keep(t, result)
	return report
}

func (s *site) start(t *testing.T, c scenario, random *rand.Rand) *run {
	r := s.quiet(t, c, random)
	for range max(cmp.Or(s.actors, 2), len(c.parts)) {
		r.spawn()
	}
	r.load = r.startLoad()
	return r
}

// quiet is a run without actors and load.
func (s *site) quiet(t *testing.T, c scenario, random *rand.Rand) *run {
	name := fmt.Sprintf("c%d", time.Now().UnixNano()%1e12)
	r := &run{site: s, t: t, random: random, app: name, topic: name + ".v1", env: c.env, parts: c.parts, most: s.most(c)}
	r.end.Reasons, r.deaths = map[ledger.Position]string{}, map[string]int{}
	r.program = s.child
	if c.jumps {
		program, err := s.jumper()
		r.check(err)
		r.program = program
	}
	if s.rabbits == nil {
		r.toRabbit, r.toKafka = r.proxy(s.rabbitHost(t)), r.proxy(s.kafka.Bootstrap)
	}
	var err error
	r.client, err = kgo.NewClient(kgo.SeedBrokers(strings.Split(s.kafka.Bootstrap, ",")...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MetadataMinAge(time.Second), kgo.ProducerBatchMaxBytes(mostBytes))
	r.check(err)
	t.Cleanup(r.client.Close)
	making, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r.check(testbroker.MakeTopic(making, r.client, r.topic, partitions, map[string]*string{"max.message.bytes": kadm.StringPtr(fmt.Sprint(mostBytes))}))
	r.ledger = filepath.Join(t.TempDir(), "ledger")
	r.watch = r.startWatch()
	if r.env["CHAOS_SOURCE"] != "" {
		t.Cleanup(func() {
			_, err := r.channel().QueueDelete(r.foreign(), false, false, false)
			r.check(err)
		})
	}
	return r
}

// rabbitHost is where RabbitMQ listens.
func (s *site) rabbitHost(t *testing.T) string {
	t.Helper()
	u, err := url.Parse(s.rabbit.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

func (r *run) proxy(to string) *proxy.Proxy {
	r.t.Helper()
	p, err := proxy.New(to)
	r.check(err)
	r.t.Cleanup(func() {
		if err := p.Close(); err != nil {
			r.t.Error(err)
		}
	})
	return p
}

// settle waits until all that was produced is done or rests in the dead set, or nothing happens any
// longer.
func (r *run) settle() {
	limit, last, since := time.Now().Add(settleLimit), -1, time.Now()
	for time.Now().Before(limit) && (time.Since(since) < patience || time.Since(since) < forwardLimit && r.forwarding() > 0) {
		done, calls := r.watch.progress()
		if calls != last {
			last, since = calls, time.Now()
		}
		if r.end.Held > 0 && time.Since(since) > patience/2 {
			break
		}
		if r.mortal {
			r.revive()
		}
		if done && r.watch.committed(r.load.ends()) && r.waiting() == 0 {
			return
		}
		r.pause(100 * time.Millisecond)
	}
	if r.end.Held == 0 { // else what is missing may be what an operator took
		r.t.Log("not all was settled in time")
		r.tellWhatWaits()
	}
}

// tellWhatWaits logs what the actors say of themselves, so that a reader can tell work that is
// slow, and what the guard against crashes holds back, from what stands still.
func (r *run) tellWhatWaits() {
	ctx, cancel := r.shortly()
	defer cancel()
	for _, p := range r.actors {
		for _, path := range []string{"/readyz?verbose", "/v1/streams"} {
			status, text, err := p.do(ctx, http.MethodGet, path, "")
			r.t.Logf("process %d, %s: %d %v\n%s", p.cmd.Process.Pid, path, status, err, text)
		}
	}
}

// ripen waits for the queue of waits that no policy has, which is declared when the first message
// asks for one. A queue that is younger than about a second does not outlive the kill of its only
// node.
func (r *run) ripen() {
	const age = 2 * time.Second
	if r.env["CHAOS_JOBS"] != "" || r.env["CHAOS_SOURCE"] != "" {
		r.pause(age) // the first jobs have asked for it, and some are done
		return
	}
	if r.env["CHAOS_FAIL_EVERY"] != "" || r.env["RETRY_IN_PLACE"] != "" {
		return // nobody asks for one, or it is spent in the process
	}
	there := r.within(20*time.Second, func() bool {
		conn, err := r.dial()
		if err != nil {
			return false
		}
		defer func() { _ = conn.Close() }() // it was only asked
		ch, err := conn.Channel()
		if err == nil {
			_, err = ch.QueueDeclarePassive(r.queue(rung), true, false, false, false, nil)
		}
		return err == nil
	})
	if !there { // as where failures are forgotten, which the judge is to find
		r.t.Log("nobody has asked for a queue of other waits")
	}
	r.pause(age)
}

// rung is the kind of that queue: of waits of 1.5 seconds a second is spent there, and the rest.
const rung = "delay.1000"

// forwarding is how many messages are in queues but their dead sets, also those that expired and
// that no consumer is shown. What is shared between processes stays where it is.
func (r *run) forwarding() (n int) {
	for line := range strings.Lines(r.rabbit.Ctl("-q", "list_queues", "name", "messages")) {
		fields := strings.Fields(line)
		if len(fields) == 2 && strings.HasPrefix(fields[0], r.app+".") && !isDead(fields[0]) && fields[0] != r.app+".records" {
			if count, err := strconv.Atoi(fields[1]); err == nil && count > 0 {
				r.t.Logf("still in %s: %d", fields[0], count)
				n += count
			}
		}
	}
	return n
}

// pause lets some time pass.
func (r *run) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-r.t.Context().Done():
	}
}

// until waits for the condition, and fails the test where it does not come.
func (r *run) until(what string, most time.Duration, ok func() bool) {
	r.t.Helper()
	if !r.within(most, ok) {
		r.t.Fatalf("not within %s: %s", most, what)
	}
}

// within waits for the condition, and reports whether it came in time.
func (r *run) within(most time.Duration, ok func() bool) bool {
	limit := time.Now().Add(most)
	for !ok() {
		if time.Now().After(limit) {
			return false
		}
		r.pause(50 * time.Millisecond)
	}
	return true
}

// shortly bounds one question to a broker.
func (r *run) shortly() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 3*time.Second)
}

// complain notes what is wrong, and lets the run go on.
func (r *run) complain(format string, args ...any) {
	r.complaints = append(r.complaints, fmt.Sprintf(format, args...))
}

func (r *run) check(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}
