package retry

import (
	"errors"
	"fmt"
	"hash/crc32"
	"math"
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

// Topology is the queues of a stream. Their names and arguments never change: a changed delay is another queue, and what waits
// in the old one drains into the same instant queue.
type Topology struct {
	// Instant is where messages are picked up to be tried again, DeadSet where they rest when no try is left.
	Instant, DeadSet string

	prefix string
	budget Budget
	width  int
}

// MaxWidth is how many queues a delay may have.
const MaxWidth = 16

// NewTopology names the queues; width is how many a delay has. It refuses delays that cannot be queues.
func NewTopology(app, stream string, delays []time.Duration, width int) (Topology, error) {
	prefix := app + "." + stream
	t := Topology{
		Instant: prefix + ".instant",
		DeadSet: prefix + ".dead_set",
		prefix:  prefix,
		budget:  Budget(delays),
		width:   width,
	}
	var problems []error
	if width < 1 || width > MaxWidth {
		problems = append(problems, fmt.Errorf("each delay of stream %s would have %d queues: want 1 … %d", stream, width, MaxWidth))
	}
	for i, d := range delays {
		if d < 0 || d > maxDelay {
			problems = append(problems, fmt.Errorf("retry %d of stream %s would wait %s: want 0s … %s", i+1, stream, d, maxDelay))
			break // those that follow are of the same kind
		}
	}
	if n := len(t.distinct()); n > MaxDelays {
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
	for _, ms := range t.distinct() {
		for n := range t.width {
			specs = append(specs, queue.Spec{
				Name: t.delayName(ms, n), Kind: queue.Delay, TTL: time.Duration(ms) * time.Millisecond, Target: t.Instant,
			})
		}
	}
	return specs
}

// Delay names the queue where a message waits after the attempt failed; false when that was the last one. Of several queues of a delay, a key has
// one.
func (t Topology) Delay(attempt int, m *stepwell.Message) (string, bool) {
	wait, ok := t.budget.Wait(attempt)
	place := uint32(m.Origin.Offset) //nolint:gosec // any number will do
	if m.Key != nil {
		place = crc32.ChecksumIEEE(m.Key)
	}
	return t.delayName(milliseconds(wait), int(place%uint32(t.width))), ok //nolint:gosec // at most MaxWidth
}

// Shortest names the delay queue with the shortest wait; false when there is none.
func (t Topology) Shortest() (string, bool) {
	all := t.distinct()
	if len(all) == 0 {
		return "", false
	}
	return t.delayName(all[0], 0), true
}

// Delays names the delay queues, the shortest first.
func (t Topology) Delays() []string {
	var names []string
	for _, ms := range t.distinct() {
		for n := range t.width {
			names = append(names, t.delayName(ms, n))
		}
	}
	return names
}

// Waits says every wait and the total.
func (t Topology) Waits() string { return t.budget.String() }

// delayName is that of the n-th queue of a delay. The first one's does not depend on how many there are.
func (t Topology) delayName(ms int64, n int) string {
	name := t.prefix + ".delay." + strconv.FormatInt(ms, 10)
	if n == 0 {
		return name
	}
	return name + "." + strconv.Itoa(n+1)
}

// distinct are the different delays in milliseconds, the shortest first.
func (t Topology) distinct() []int64 {
	var all []int64
	for _, d := range t.budget {
		ms := milliseconds(d)
		if len(all) == 0 || all[len(all)-1] != ms {
			all = append(all, ms)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// milliseconds rounds up: a message never comes early. A TTL of 0 is left to no broker.
func milliseconds(d time.Duration) int64 {
	return max(1, int64((d+time.Millisecond-1)/time.Millisecond))
}
