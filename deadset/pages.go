package deadset

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/stepwell/stepwell/internal/queue"
)

const (
	// MaxPages is how many pages a dead set may have.
	MaxPages = 512
	// emptyLife is for how long an empty page that nobody uses is kept: a sort that follows soon
	// need not wait for new ones.
	emptyLife = 10 * time.Minute
	// mostDropped is how many pages are deleted at a time, since each takes a moment of the lease.
	mostDropped = 8
	// probeEvery is how often depths are asked for a page that was not there, unless messages left
	// the queue where they arrive: RabbitMQ logs an error each time that it is not.
	probeEvery = time.Minute
)

// A dead set is one queue, in which the dead arrive. More than a window holds nobody can look at
// there without turning the queue around, so what is more can be sorted into pages: queues that
// hold no more than a window does.
//
// All of them together are the dead set, oldest first: the pages by their numbers, then the queue
// where the dead arrive. Nothing says which pages there are but the broker. They are a run that
// begins at page 0, since they are made in that order and deleted from the end: a look goes on
// until one is missing. Empty ones may lie between those that have messages. One of these that
// somebody deleted is made again, see [Pages.mend].
//
// All are walked with one lease, that of the queue where the dead arrive. So two processes never
// walk at the same time, and who loses the lease with its connection loses all that it holds.
//
// A trash is made of such pages, too, see [Trash], of which those that were filled first are the
// first to be empty. Their numbers go round: they are two runs of half the numbers each, and once
// the first of them is empty it comes behind the second, see [pages.turn].

// PageOf names a page of the dead set whose queue is given.
func PageOf(deadSet string, k int) string { return pagePrefix(deadSet) + strconv.Itoa(k) }

func pagePrefix(deadSet string) string { return deadSet + ".page." }

// arrivals is the number of the part that is no page: it comes behind all of them.
const arrivals = MaxPages

// part is one of the queues of a dead set, under its lease.
type part struct {
	queue.Lease
	queue  string
	number int // of the page; arrivals: none
	// ttl is for how long it keeps a message; 0: for good.
	ttl time.Duration
	// depth is how many messages it had when it was found.
	depth int
}

func (p part) isPage() bool { return p.number < arrivals }

// pages knows which pages there are. Its methods may be called from any goroutine.
type pages struct {
	broker queue.Broker
	queue  string // where the dead arrive; empty: nowhere, since this is a trash
	prefix string // of the names of pages
	// ttl is for how long a page keeps a message; 0: for good, and there is one run.
	ttl   time.Duration
	bytes int  // that a walk may keep
	kept  bool // none of them is ever deleted

	// mu guards the fields below.
	mu sync.Mutex
	// tops are how many pages each run had at the last look.
	tops [2]int
	// gaps are pages of each run that were missing then, before others that were there.
	gaps [2][]int
	// turned says that the second run by its names is the first by its numbers.
	turned bool
	// arrived is how many messages were where they arrive when depths were last asked for, probed
	// when a page more was.
	arrived int
	probed  time.Time
	// empty is since when a page has been seen empty at each look.
	empty map[int]time.Time
	// fits is how many messages fit into a page, as the last one showed that was filled; 0: as many
	// as a window holds.
	fits int
	// proven are the pages that were seen to be as they must be, for the operation that sorts.
	proven    map[int]bool
	operation string
	// enough says that no more of them are needed, as far as is known.
	enough bool
}

// newPages are those of a dead set; with a ttl they are those of its trash.
func newPages(cfg *Config, ttl time.Duration) *pages {
	p := &pages{broker: cfg.Broker, queue: cfg.Queue, prefix: pagePrefix(cfg.Queue), bytes: cfg.WalkBytes, kept: cfg.KeepPages, empty: map[int]time.Time{}}
	if ttl > 0 {
		p.queue, p.prefix, p.ttl = "", trashPrefix(cfg.Queue, ttl), ttl
	}
	return p
}

// spec is the queue of a page.
func (p *pages) spec(k int) queue.Spec {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.turned {
		k = (k + p.size()) % MaxPages
	}
	return queue.Spec{Name: p.prefix + strconv.Itoa(k), Kind: queue.DeadSet, TTL: p.ttl}
}

// saw notes whether a page is empty.
func (p *pages) saw(k int, empty, missing bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if missing {
		delete(p.proven, k)
	}
	switch _, known := p.empty[k]; {
	case missing || !empty:
		delete(p.empty, k)
	case !known:
		p.empty[k] = time.Now()
	}
}

// parts are the queues of the dead set, those with the oldest messages first. The last is that
// where the dead arrive; a trash has none such.
func (p *pages) parts(ctx context.Context, lease queue.Lease) (all []part, err error) {
	var on queue.Lease
	var spec queue.Spec
	err = p.find(true, func(of queue.Spec) (int, error) {
		on, spec = lease.On(of), of
		return on.Depth(ctx)
	}, func(k, depth int) {
		all = append(all, part{on, spec.Name, k, p.ttl, depth})
	})
	if err != nil {
		return nil, err
	}
	if p.queue == "" {
		return p.inOrder(ctx, all)
	}
	depth, err := lease.Depth(ctx)
	if err != nil {
		return nil, err
	}
	return append(all, part{lease, p.queue, arrivals, 0, depth}), nil
}

// depthOf is how many messages the parts have.
func depthOf(all []part) (depth int) {
	for _, p := range all {
		depth += p.depth
	}
	return depth
}

// pagedIn is how many of them are in pages.
func pagedIn(all []part) (depth int) {
	for _, p := range all {
		if p.isPage() {
			depth += p.depth
		}
	}
	return depth
}

// pageIn is the page of that number; nil: the parts have none.
func pageIn(parts []part, number int) *part {
	i := slices.IndexFunc(parts, func(p part) bool { return p.number == number })
	if i < 0 {
		return nil
	}
	return &parts[i]
}

// lastOf is the number of the last page that has messages; below 0: none has.
func lastOf(parts []part) int {
	for _, p := range slices.Backward(parts) {
		if p.isPage() && p.depth > 0 {
			return p.number
		}
	}
	return -1
}

// used is how many pages have messages.
func used(parts []part) (n int) {
	for _, p := range parts {
		if p.isPage() && p.depth > 0 {
			n++
		}
	}
	return n
}

// depth is how many messages the dead set has, and how many of them are in pages. What is moved
// meanwhile may be counted twice, and is not left out.
func (p *pages) depth(ctx context.Context) (depth, paged int, err error) {
	arrived, err := p.broker.Depth(ctx, p.queue)
	if err != nil {
		return 0, 0, err
	}
	err = p.find(p.mayBeMore(arrived), func(of queue.Spec) (int, error) { return p.broker.Depth(ctx, of.Name) }, func(_, n int) { paged += n })
	return arrived + paged, paged, err
}

// mayBeMore says whether to look for more pages than there were.
func (p *pages) mayBeMore(arrived int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	more := arrived < p.arrived || time.Since(p.probed) >= probeEvery
	p.arrived = arrived
	if more {
		p.probed = time.Now()
	}
	return more
}

// stale says whether pages have been empty for so long that they may go.
func (p *pages) stale(life time.Duration) bool {
	for run := range p.runs() {
		if p.isStale(p.last(run), life) {
			return true
		}
	}
	return false
}

// isStale says so of one page.
func (p *pages) isStale(k int, life time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	since, is := p.empty[k]
	return is && !p.kept && time.Since(since) >= life
}

// drop deletes some of the pages that have been empty for so long, from the last one of a run on,
// so that no gap comes about, and says whether there are more. The lease must be held since the
// parts were found: nobody publishes to a page without it, and what a process published that has
// lost the lease is unacked where it came from.
func (p *pages) drop(ctx context.Context, all []part, life time.Duration) (more bool, err error) {
	dropped := 0
	for run := range p.runs() {
		for k := p.last(run); p.isStale(k, life); k = p.last(run) {
			of := pageIn(all, k)
			if of == nil || of.depth > 0 {
				break
			}
			if dropped == mostDropped {
				return true, nil
			}
			if err := of.Drop(ctx); err != nil {
				return false, err
			}
			dropped++
			p.dropped(run, k)
		}
	}
	return false, nil
}

// dropped notes that the last page of a run is gone.
func (p *pages) dropped(run, k int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.empty, k)
	p.tops[run] = k - run*p.size()
}

// last is the number of the last page of a run; one that no page has: there is none.
func (p *pages) last(run int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tops[run] == 0 {
		return -1
	}
	return run*p.size() + p.tops[run] - 1
}

// fit notes how many messages a page has that is full.
func (p *pages) fit(count int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fits = count
}

// wanted are the pages that so many more messages take, and that were not proven yet for the
// operation: the last one that has messages, where it may have room, and those behind it, up to the
// end. They are in use from now on.
func (p *pages) wanted(operation string, last, depth, messages, end int) (wanted []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.operation != operation || p.proven == nil {
		p.operation, p.proven = operation, map[int]bool{}
	}
	each := cmp.Or(p.fits, queue.WindowSize)
	from := last + 1
	if last >= 0 && depth < queue.WindowSize {
		from = last
		messages = max(0, messages-max(0, each-depth))
	}
	to := min(end, MaxPages, last+1+(messages+each-1)/each)
	for k := from; k < to; k++ {
		delete(p.empty, k)
		if !p.proven[k] {
			wanted = append(wanted, k)
		}
	}
	for run := range p.runs() {
		p.tops[run] = max(p.tops[run], min(p.size(), to-run*p.size()))
	}
	p.enough = true
	return wanted
}

// still are the pages that were proven for the operation, as long as they are enough.
func (p *pages) still(operation string) (proven map[int]bool, enough bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.proven), p.enough && p.operation == operation
}

// wantMore is for a sort that found no page to fill.
func (p *pages) wantMore() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.enough = false
}

// prove notes that pages are as they must be, and returns all that are.
func (p *pages) prove(operation string, some []int) map[int]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range some {
		if p.operation == operation {
			p.proven[k] = true
		}
	}
	return maps.Clone(p.proven)
}
