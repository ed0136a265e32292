package streams

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Causes with which the context of a handler ends before its work is done.
var (
	// ErrRevoked: the partition goes to another member of the group.
	ErrRevoked = errors.New("partition revoked")
	// ErrLost: the partition was lost without notice, or its log was cut.
	ErrLost = errors.New("partition lost")
	// ErrShutdown: the reader stops.
	ErrShutdown = errors.New("shutdown")
)

const (
	// mostGrace is how long a cancelled handler may take to return before it is left behind, and
	// how long tickets may take at least once the handlers have returned. Of a stop see grace.
	mostGrace = time.Second
)

// rebalancer is what becomes of partitions that come and go: those that come are made ours, those
// that go end in good order, or at once.
type rebalancer struct {
	*common
	gate    *gate
	parts   *assignments
	clients *clients
	commits *committer
	status  *status
}

// onAssigned gives each partition a ledger and a roster. It runs before the client asks where to
// begin, and with partitions we count as joined only once that is known, but for topics that the
// status names: what is produced to others after we say so is read, also by a group that begins at
// the latest.
func (r *rebalancer) onAssigned(_ context.Context, client *kgo.Client, assigned map[string][]int32) {
	r.commits.joined(client)
	if len(assigned) == 0 {
		r.status.joined()
		return
	}
	r.status.moved(slog.LevelInfo, "partitions assigned", assigned)
	r.gate.change(func() {
		mine, others := map[string][]int32{}, map[string][]int32{} // of the member, and not
		for _, tp := range inOrder(assigned) {
			r.clients.cease([]topicPartition{tp}) // what was not given up before
			if p := r.parts.assign(tp, r.clients.all); p != nil && p.fetcher != nil && !p.fetcher.member {
				others[tp.topic] = append(others[tp.topic], tp.partition)
			} else {
				mine[tp.topic] = append(mine[tp.topic], tp.partition)
			}
		}
		r.clients.divide(mine, others)
	})
}

// onRevoked lets the running calls end, commits what is settled and gives the partitions up. The
// group goes on meanwhile; it waits for us at most the rebalance time-out.
//
// None of them is read from here on: what came while calls end would fill the window, and nobody
// would run it.
//
// Until we give them up nobody else has them, so what is settled may be committed. Not so if the
// group had put us out and a stop comes while we join again.
func (r *rebalancer) onRevoked(_ context.Context, client *kgo.Client, revoked map[string][]int32) {
	if r.commits.isAnother() {
		r.status.moved(slog.LevelWarn, "partitions lost", revoked)
		r.drop(r.parts.pick(revoked), ErrLost)
		return
	}
	r.commits.joined(client)
	var parts []*partition
	r.gate.change(func() {
		r.clients.cease(inOrder(revoked))
		parts = r.parts.pick(revoked)
	})
	if len(parts) == 0 {
		return
	}
	r.handOver(parts, ErrRevoked)
	r.status.moved(slog.LevelInfo, "partitions revoked", revoked)
}

// handOver lets the calls of partitions end, commits what is settled, and gives them up.
func (r *rebalancer) handOver(parts []*partition, cause error) {
	limit, cancel := context.WithTimeout(r.life, r.cfg.Group.RevokeTimeout)
	defer cancel()
	r.drain(limit, parts, cause, mostGrace)
	limit, cancel = context.WithTimeout(r.life, commitTimeout)
	defer cancel()
	r.commits.commit(limit, parts)
	r.drop(parts, cause)
}

// onLost gives the partitions up at once: they may have another owner already.
func (r *rebalancer) onLost(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
	r.status.left()
	r.status.moved(slog.LevelWarn, "partitions lost", lost)
	r.drop(r.parts.pick(lost), ErrLost)
}

// drain stops handing out, waits for the calls that run while limit lives, then cancels them with
// cause, and waits for their tickets, for each of both as long as grace at most.
func (r *rebalancer) drain(limit context.Context, parts []*partition, cause error, grace time.Duration) {
	for _, p := range parts {
		p.stop()
	}
	r.part(parts)
	if !awaitAll(limit, parts) {
		for _, p := range parts {
			p.cancelCalls(cause)
		}
		returning, cancel := context.WithTimeout(r.life, grace)
		defer cancel()
		awaitAll(returning, parts)
	}
	confirming, cancel := context.WithTimeout(r.life, grace)
	defer cancel()
	either, stop := whileAny(limit, confirming)
	defer stop()
	r.awaitTickets(either, parts)
}

func awaitAll(ctx context.Context, parts []*partition) bool {
	for _, p := range parts {
		select {
		case <-p.done:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// awaitTickets waits for what is pending, but only while there is hope: a publisher without a
// connection does not confirm.
func (r *rebalancer) awaitTickets(ctx context.Context, parts []*partition) {
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for _, p := range parts {
		quiet := p.quieted()
		for waiting := true; waiting; {
			select {
			case <-quiet:
				waiting = false
			case <-ctx.Done():
				return
			case <-look.C:
				if r.cfg.ConfirmsHealthy != nil && !r.cfg.ConfirmsHealthy() {
					return
				}
			}
		}
	}
}

// whileAny returns a context that lives as long as one of a and b.
func whileAny(a, b context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(a))
	var mu sync.Mutex
	left := 2
	gone := func() {
		mu.Lock()
		defer mu.Unlock()
		if left--; left == 0 {
			cancel()
		}
	}
	stopA, stopB := context.AfterFunc(a, gone), context.AfterFunc(b, gone)
	return ctx, func() { stopA(); stopB(); cancel() }
}

// drop forgets that the partitions are ours, once nothing polls.
func (r *rebalancer) drop(parts []*partition, cause error) {
	if len(parts) == 0 {
		return
	}
	r.gate.change(func() {
		dropped := r.parts.drop(parts, cause)
		r.clients.cease(dropped)
		r.status.gone(dropped)
	})
}

// giveBack gives partitions up as a revoke does: nothing more of them is read, their calls may end,
// and what is settled is committed, with the word that nobody died.
func (r *rebalancer) giveBack(parts []*partition) {
	if len(parts) == 0 {
		return
	}
	r.gate.change(func() {
		for _, p := range parts {
			r.clients.cease([]topicPartition{p.topicPartition})
		}
		r.clients.member().PauseFetchTopics(parts[0].topic)
	})
	r.handOver(parts, ErrLost)
}

// part says in commits from now on that the partitions are parted with: whatever ends the process
// before their calls are over, a stop that took too long for instance, is nobody's fault.
func (r *rebalancer) part(parts []*partition) {
	for _, p := range parts {
		p.mu.Lock()
		p.ledger.Part(!p.suspects.deserted)
		p.mu.Unlock()
	}
	r.commits.hurry()
}
