package chaos

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell/chaos/ledger"
)

// retriers are faults of processes of the retrier: calls are posted to any of them, and a receiver
// counts what they make of them.
func retriers() []scenario {
	var all []scenario
	add := func(name string, exact bool, fault func(r *run)) {
		all = append(all, scenario{name: "calls: " + name, calls: true, exact: exact, fault: fault})
	}
	add("no fault at all", true, func(r *run) { r.pause(time.Second) })
	add("a process is stopped, three times", true, stopAnActor)
	add("a process is killed, three times", true, killAnActor)
	add("all processes are killed at once", true, killAllActors)
	for _, mark := range []string{"publish", "published", "confirmed", "parked", "ack", "acked", "recorded"} {
		add("a process dies at: "+mark, true, func(r *run) { r.diesAt(mark) })
	}
	add("RabbitMQ is killed, twice", false, killRabbitMQ)
	add("RabbitMQ and a process are killed at once", false, killRabbitMQAndAnActor)
	add("processes are killed under a memory alarm", false, func(r *run) {
		r.memoryAlarm(func() {
			for range 3 {
				r.killOne()
				r.pause(2 * time.Second)
			}
		})
	})
	add("connections are cut to RabbitMQ", false, func(r *run) { r.often(r.toRabbit.Cut) })
	add("the receiver is away, and a process is killed", false, func(r *run) { r.posts.without(&r.posts.away) })
	add("the receiver hangs, and a process is killed", false, func(r *run) { r.posts.without(&r.posts.hangs) })
	all[2].short = true
	return all
}

// without kills a process while the receiver does not do what it should.
func (c *posts) without(h *hold) {
	h.Store(true)
	c.r.pause(4 * time.Second)
	c.r.killOne()
	c.r.pause(2 * time.Second)
	h.Store(false)
}

const (
	callRate = 100 // calls a second
	// callsAtOnce is how many calls a process of the retrier has under way, or settled and not yet
	// acked: its kill repeats no more.
	callsAtOnce = 64 + 50
	// knownWithin is how long after the answer to a cancel another process may begin a try.
	knownWithin = time.Second
)

// What becomes of a call is said by its number. A wait is a try more.
const (
	succeeds  = iota // at its first try
	recovers         // at its third
	follows          // a workflow that was made at run time, and recovers at its second
	falls            // never, and has an on_failure
	dies             // never, and has none
	cancelled        // never, for half a minute, and is cancelled before
)

// budget is how many tries calls of each fate have.
var budget = [...]int{succeeds: 2, recovers: 4, follows: 4, falls: 3, dies: 2, cancelled: 62}

func fate(number int) int {
	return [...]int{succeeds, succeeds, recovers, recovers, follows, follows, falls, dies, cancelled, succeeds}[number%10]
}

// posts are the calls that are posted to retriers, and what came of it.
type posts struct {
	r        *run
	exact    bool // only kills repeat requests
	receiver *httptest.Server
	away     hold // the receiver answers 503
	hangs    hold // the receiver does not answer

	stop    context.CancelFunc
	posters sync.WaitGroup

	mu        sync.Mutex
	random    *rand.Rand
	addresses []string // of the processes that run
	workflow  string   // the newest that was confirmed
	made      int      // numbers given
	all       []*posted
	requests  int
	wrong     []string
}

// posted is a call that was answered with 202, or may be one.
type posted struct {
	accepted bool
	gone     time.Time // when its cancel was confirmed
	tries    int
	done     bool
	fallback int // how often its on_failure was made, in answer to which it is over
	late     time.Duration
}

// newPosts has a receiver, and posts nothing yet.
func (r *run) newPosts(exact bool) *posts {
	c := &posts{r: r, exact: exact, random: rand.New(rand.NewPCG(r.random.Uint64(), 1))}
	c.receiver = httptest.NewServer(http.HandlerFunc(c.receive))
	r.t.Cleanup(c.receiver.Close)
	return c
}

// start posts calls until it is stopped.
func (c *posts) start() {
	ctx, cancel := context.WithCancel(context.Background())
	c.stop = cancel
	c.r.t.Cleanup(func() {
		cancel()
		c.away.Store(false)
		c.hangs.Store(false)
		c.posters.Wait()
	})
	for range 8 {
		c.posters.Go(func() { c.post(ctx) })
	}
	c.posters.Go(func() { c.makeWorkflows(ctx) })
}

// spawned notes where another process will listen.
func (c *posts) spawned(address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addresses = append(c.addresses, address)
}

// ended notes that nobody listens there any more.
func (c *posts) ended(address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addresses = slices.DeleteFunc(c.addresses, func(a string) bool { return a == address })
}

// anAddress is where one of the processes listens, or will; empty: all are dead.
func (c *posts) anAddress() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.addresses) == 0 {
		return ""
	}
	return c.addresses[c.random.IntN(len(c.addresses))]
}

// ask sends a request to one of the processes; 0 is no answer.
func (c *posts) ask(ctx context.Context, method, path, body string) (status int, text string) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+c.anAddress()+path, strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }() // it was read, or the process died
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(all)
}

// post posts calls until ctx ends.
func (c *posts) post(ctx context.Context) {
	tick := time.NewTicker(8 * time.Second / callRate)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		c.mu.Lock()
		number, workflow, p := c.made, c.workflow, &posted{}
		if fate(number) == follows && workflow == "" {
			c.mu.Unlock()
			continue
		}
		c.made++
		c.all = append(c.all, p)
		c.mu.Unlock()
		// What is under way when ctx ends is waited for: it may be accepted.
		status, text := c.ask(context.WithoutCancel(ctx), http.MethodPost, "/calls", c.body(number, workflow))
		c.mu.Lock()
		switch p.accepted = status == http.StatusAccepted; status {
		case 0, http.StatusAccepted, http.StatusServiceUnavailable:
		default:
			c.wrong = append(c.wrong, fmt.Sprintf("call %d: %d %s", number, status, text))
		}
		c.mu.Unlock()
		if p.accepted && fate(number) == cancelled {
			c.posters.Go(func() { c.cancel(context.WithoutCancel(ctx), number, p) })
		}
	}
}

func (c *posts) body(number int, workflow string) string {
	_, port, err := net.SplitHostPort(c.receiver.Listener.Addr().String())
	if err != nil {
		panic(err)
	}
	call := map[string]any{"id": fmt.Sprint(number), "request": map[string]any{"url": "http://localhost:" + port + "/hook"}}
	switch fate(number) {
	case succeeds, dies:
		call["waits"] = []string{"300ms"}
	case recovers:
		call["waits"] = []string{"200ms", "300ms", "1s"}
	case follows:
		call["workflow"] = workflow
	case falls:
		call["waits"] = []string{"200ms", "300ms"}
		call["on_failure"] = map[string]any{"url": "http://localhost:" + port + "/failed"}
	case cancelled:
		call["waits"] = strings.Split(strings.Repeat("500ms,", 60)+"500ms", ",")
	}
	text, err := json.Marshal(call)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// cancel cancels a call while it is tried, and asks until that is confirmed.
func (c *posts) cancel(ctx context.Context, number int, p *posted) {
	c.r.pause(time.Second)
	for range 60 {
		if status, _ := c.ask(ctx, http.MethodDelete, fmt.Sprintf("/calls/%d", number), ""); status == http.StatusOK {
			c.mu.Lock()
			p.gone = time.Now()
			c.mu.Unlock()
			return
		}
		c.r.pause(500 * time.Millisecond)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wrong = append(c.wrong, fmt.Sprintf("call %d could not be cancelled within half a minute", number))
}

// makeWorkflows makes one after another. Calls that name the last one are posted to any process.
func (c *posts) makeWorkflows(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		name := fmt.Sprintf("w%d", n)
		status, _ := c.ask(ctx, http.MethodPost, "/retry_workflow", fmt.Sprintf(`{"name":%q,"retry_delays":[200,300,400]}`, name))
		if status == http.StatusOK {
			c.mu.Lock()
			c.workflow = name
			c.mu.Unlock()
		}
		c.r.pause(100 * time.Millisecond)
	}
}

// receive is called by the processes.
func (c *posts) receive(w http.ResponseWriter, req *http.Request) {
	came := time.Now()
	c.hangs.wait(req.Context())
	w.WriteHeader(c.answer(req, came))
}

func (c *posts) answer(req *http.Request, came time.Time) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	id, _, _ := strings.Cut(req.Header.Get("Webhook-Id"), ":")
	number := -1
	if _, err := fmt.Sscan(id, &number); err != nil || number < 0 || number >= len(c.all) {
		c.wrong = append(c.wrong, fmt.Sprintf("a request with the id %q, which nobody posted", req.Header.Get("Webhook-Id")))
		return http.StatusNotFound
	}
	p := c.all[number]
	if req.URL.Path == "/failed" {
		p.fallback++
		return http.StatusOK
	}
	p.tries++
	if !p.gone.IsZero() {
		p.late = max(p.late, came.Sub(p.gone))
	}
	switch f := fate(number); {
	case c.away.Load():
		return http.StatusServiceUnavailable
	case f == succeeds, f == recovers && p.tries > 2, f == follows && p.tries > 1:
		p.done = true
		return http.StatusOK
	}
	return http.StatusInternalServerError
}

// open is how many accepted calls are not over, and how many requests came.
func (c *posts) open() (n, requests int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for number, p := range c.all {
		if p.accepted && !p.over(fate(number)) {
			n++
		}
	}
	return n, c.requests
}

// over says whether nothing is to come any more; of what dies the dead set tells.
func (p *posted) over(fate int) bool {
	switch fate {
	case falls:
		return p.fallback > 0
	case cancelled:
		return !p.gone.IsZero()
	}
	return p.done || p.tries >= budget[fate]
}

// performCalls runs a scenario of retriers and judges it.
func (s *site) performCalls(t *testing.T, c scenario, random *rand.Rand) ledger.Report {
	program, err := s.retrier()
	if err != nil {
		t.Fatal(err)
	}
	r := &run{site: s, t: t, random: random, app: fmt.Sprintf("c%d", time.Now().UnixNano()%1e12), program: program, env: c.env}
	r.toRabbit = r.proxy(s.rabbitHost(t))
	r.ledger = filepath.Join(t.TempDir(), "retrier")
	t.Cleanup(r.deleteCalls)
	r.posts = r.newPosts(c.exact)
	for range 3 {
		r.spawn()
	}
	r.posts.start()
	r.until("work goes on", time.Minute, func() bool { _, requests := r.posts.open(); return requests > 200 })
	r.pause(2 * time.Second) // the queues are young before, and may be lost with a node
	began := time.Now()
	c.fault(r)
	healed := time.Now()
	r.pause(linger)
	r.posts.stop()
	r.posts.posters.Wait()
	r.settleCalls()
	report := r.posts.judge(r.posts.deadSet())
	for _, p := range r.actors {
		p.stop()
	}
	report.Wrong = append(report.Wrong, r.complaints...)
	result := ledger.Summary{
		Scenario: c.name, RabbitMQ: s.rabbit.Version, Records: report.Records, Calls: report.Calls, Lost: len(report.Lost),
		Repeats: report.Repeats, Resting: report.Resting, Kills: r.kills(), Wrong: len(report.Wrong), Fault: healed.Sub(began),
	}
	t.Log(result)
	keep(t, result)
	return report
}

// settleCalls waits until all that was accepted is over, and nothing comes any more. A host that
// was away is asked again within a minute.
func (r *run) settleCalls() {
	const patience, quiet = 75 * time.Second, 3 * time.Second
	limit, last, since := time.Now().Add(settleLimit), -1, time.Now()
	for time.Now().Before(limit) && time.Since(since) < patience {
		open, requests := r.posts.open()
		if requests != last {
			last, since = requests, time.Now()
		}
		if open == 0 && time.Since(since) > quiet {
			return
		}
		r.pause(100 * time.Millisecond)
	}
	r.t.Log("not all was settled in time")
	r.tellWhatWaits()
}

// deadSet has the ids in the dead set, and how often each is there.
func (c *posts) deadSet() map[string]int {
	c.r.t.Helper()
	status, text := 0, ""
	c.r.until("the dead set is told", time.Minute, func() bool {
		status, text = c.ask(c.r.t.Context(), http.MethodGet, "/v1/dead_set/export?stream=calls", "")
		return status == http.StatusOK
	})
	ids := map[string]int{}
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		var m struct{ ID string }
		c.r.check(json.Unmarshal(bytes.TrimSpace(lines.Bytes()), &m))
		ids[m.ID]++
	}
	return ids
}

// judge says what is lost and what else is wrong.
func (c *posts) judge(dead map[string]int) ledger.Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	report := ledger.Report{Calls: c.requests, Resting: len(dead), Wrong: c.wrong}
	for number, p := range c.all {
		if !p.accepted {
			continue
		}
		report.Records++
		f := fate(number)
		isDead := dead[fmt.Sprint(number)] > 0
		if !p.over(f) || !p.done && !isDead && f != falls && f != cancelled {
			report.Lost = append(report.Lost, ledger.Position{Offset: int64(number)})
			continue
		}
		if !p.done && f != cancelled && p.tries < budget[f] {
			report.Wrong = append(report.Wrong, fmt.Sprintf("call %d was given up after %d tries, not %d", number, p.tries, budget[f]))
		}
		usual := [...]int{succeeds: 1, recovers: 3, follows: 2, falls: 3, dies: 2, cancelled: p.tries}[f]
		report.Repeats += max(0, p.tries-usual) + max(0, p.fallback-1)
		if p.late > knownWithin {
			report.Wrong = append(report.Wrong, fmt.Sprintf("call %d was tried %s after its cancel was confirmed", number, p.late))
		}
		if isDead && f != cancelled && p.tries < budget[f] {
			report.Wrong = append(report.Wrong, fmt.Sprintf("call %d is in the dead set after %d tries", number, p.tries))
		}
	}
	if most := c.r.kills() * callsAtOnce; c.exact && report.Repeats > most {
		report.Wrong = append(report.Wrong, fmt.Sprintf("%d requests were repeated, and %d may be after %d kills", report.Repeats, most, c.r.kills()))
	}
	return report
}

// deleteCalls removes the queues of the run.
func (r *run) deleteCalls() {
	ch := r.channel()
	for name := range strings.Lines(r.rabbit.Ctl("-q", "list_queues", "name")) {
		if name = strings.TrimSpace(name); strings.HasPrefix(name, r.app+".") {
			_, err := ch.QueueDelete(name, false, false, false)
			r.check(err)
		}
	}
}

// buildRetrier makes the program, with marks at which it can be made to die, once.
func buildRetrier(t *testing.T) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		path := filepath.Join(t.TempDir(), "retrier")
		out, err := exec.CommandContext(t.Context(), "go", "build", "-tags", "failpoint", "-o", path, "../cmd/retrier").CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("build the retrier: %w: %s", err, out)
		}
		return path, nil
	})
}
