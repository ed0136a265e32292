package retry

import (
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/queue"
)

// MaxDelays is how many different delays a stream may have: each is a queue.
const MaxDelays = 24

// maxDelay is RabbitMQ's limit for a TTL.
const maxDelay = math.MaxUint32 * time.Millisecond

// Topology is the queues of a stream. Their names and arguments never change: a changed delay is
// another queue, and what waits in the old one drains into the same instant queue.
type Topology struct {
	// Instant is where messages are picked up to be tried again, DeadSet where they rest when no
	// try is left.
	Instant, DeadSet string

	prefix string
	budget Budget
	width  int
	jitter float64
	waits  [][]delay // the queues of each wait of the budget
}

// MaxWidth is how many queues a delay may have.
const MaxWidth = 16

const (
	// MaxJitter is how much shorter than its delay a wait may be, as a part of it.
	MaxJitter = 0.5
	// leastSpread is how many queues a delay has at least where there is jitter.
	leastSpread = 4
)

// NewTopology names the queues; width is how many a delay has. It refuses delays that cannot be
// queues.
//
// With jitter, which is 0 to [MaxJitter], a delay d has n queues, the larger of 4 and width, whose
// waits are d·(1 - jitter·k/n) for k from 0 to n-1, and a message goes to any of them. (What the
// broker moves at the end of a wait it moves in the order of the queue, so that waits cannot differ
// within one.)
func NewTopology(app, stream string, delays []time.Duration, width int, jitter float64) (Topology, error) {
	prefix := app + "." + stream
	t := Topology{
		Instant: prefix + ".instant",
		DeadSet: prefix + ".dead_set",
		prefix:  prefix,
		budget:  Budget(delays),
		width:   width,
		jitter:  jitter,
	}
	var problems []error
	if !(jitter >= 0 && jitter <= MaxJitter) {
		problems = append(problems, fmt.Errorf("the jitter of stream %s is %v: want 0 … %v", stream, jitter, MaxJitter))
	}
	if width < 1 || width > MaxWidth {
		problems = append(problems, fmt.Errorf("each delay of stream %s would have %d queues: want 1 … %d", stream, width, MaxWidth))
	}
	for i, d := range delays {
		if d < 0 || d > maxDelay {
			problems = append(problems, fmt.Errorf("retry %d of stream %s would wait %s: want 0s … %s", i+1, stream, d, maxDelay))
			break // those that follow are of the same kind
		}
	}
	of := map[int64][]delay{}
	for _, d := range t.budget {
		ms := milliseconds(d)
		if of[ms] == nil {
			of[ms] = t.queuesOf(ms)
		}
		t.waits = append(t.waits, of[ms])
	}
	if n := len(of); n > MaxDelays {
		problems = append(problems, fmt.Errorf("the retries of stream %s have %d different delays: at most %d, each is a queue", stream, n, MaxDelays))
	}
	return t, errors.Join(problems...)
}

// Specs are the queues to declare, targets before those that point to them.
func (t Topology) Specs() []queue.Spec {
	specs := []queue.Spec{
		{Name: t.DeadSet, Kind: queue.DeadSet},
		{Name: t.Instant, Kind: queue.Instant, Target: t.DeadSet},
	}
	for _, q := range t.delays() {
		specs = append(specs, queue.Spec{Name: q.name, Kind: queue.Delay, TTL: time.Duration(q.ms) * time.Millisecond, Target: t.Instant})
	}
	return specs
}

// Delay names the queue where a message waits after the attempt failed; false when that was the
// last one. Where a delay has several queues, messages of one key share one, and those without a
// key are spread by their offsets; with jitter any queue is taken.
func (t Topology) Delay(attempt int, m *stepwell.Message) (string, bool) {
	if _, ok := t.budget.Wait(attempt); !ok {
		return "", false
	}
	of := t.waits[attempt-1]
	if t.jitter > 0 {
		return of[rand.IntN(len(of))].name, true
	}
	place := uint32(m.Origin.Offset) //nolint:gosec // any number will do
	if m.Key != nil {
		place = crc32.ChecksumIEEE(m.Key)
	}
	return of[place%uint32(len(of))].name, true //nolint:gosec // at most MaxWidth
}

// Shortest is the delay queue with the shortest wait, and that; false when there is none.
func (t Topology) Shortest() (name string, wait time.Duration, ok bool) {
	all := t.delays()
	if len(all) == 0 {
		return "", 0, false
	}
	return all[0].name, time.Duration(all[0].ms) * time.Millisecond, true
}

// Delays names the delay queues, the shortest first.
func (t Topology) Delays() []string {
	var names []string
	for _, q := range t.delays() {
		names = append(names, q.name)
	}
	return names
}

// Waits says every wait, the total, and how many queues that takes.
func (t Topology) Waits() string {
	shorter := ""
	if t.jitter > 0 && len(t.budget) > 0 {
		shorter = fmt.Sprintf("; each up to %.4g %% shorter", 100*t.jitter)
	}
	return fmt.Sprintf("%s%s; %d queues", t.budget, shorter, len(t.Specs()))
}

// delay is one delay queue.
type delay struct {
	ms   int64
	name string
}

// delays are all delay queues, the shortest wait first.
func (t Topology) delays() []delay {
	var all []delay
	known := map[string]bool{}
	for _, of := range t.waits {
		for _, q := range of {
			if !known[q.name] {
				known[q.name] = true
				all = append(all, q)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b delay) int { return cmp.Compare(a.ms, b.ms) })
	return all
}

// delayPrefix is how the names of all delay queues begin; what follows is their wait.
func (t Topology) delayPrefix() string { return t.prefix + ".delay." }

// delayName is the name of the queue that holds a message for so long.
func (t Topology) delayName(ms int64) string { return t.delayPrefix() + strconv.FormatInt(ms, 10) }

// rungName is the queue of a wait that handlers may ask for.
func (t Topology) rungName(rung time.Duration) string { return t.delayName(milliseconds(rung)) }

// AllRungs names the queues of all waits that handlers may ask for. Each is made when it is first
// needed; which there are, as far as this process knows, is [Retrier.Rungs].
func (t Topology) AllRungs() (names []string) {
	for _, rung := range rungs() {
		names = append(names, t.rungName(rung))
	}
	return names
}

// queuesOf are the queues of a wait. A queue's name says how long it holds a message; the first
// one's does not depend on how many there are.
func (t Topology) queuesOf(ms int64) []delay {
	of := []delay{{ms, t.delayName(ms)}}
	if t.jitter > 0 {
		n := max(leastSpread, t.width)
		for k := 1; k < n; k++ {
			less := max(1, int64(math.Ceil(float64(ms)*(1-t.jitter*float64(k)/float64(n)))))
			of = append(of, delay{less, t.delayName(less)})
		}
		return of
	}
	for n := 1; n < t.width; n++ {
		of = append(of, delay{ms, t.delayName(ms) + "." + strconv.Itoa(n+1)})
	}
	return of
}

// milliseconds rounds up: a message never comes early. A TTL of 0 is left to no broker.
func milliseconds(d time.Duration) int64 {
	return max(1, int64((d+time.Millisecond-1)/time.Millisecond))
}
