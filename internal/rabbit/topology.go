package rabbit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell/internal/queue"
)

// topology knows the queues that were declared, and declares again what vanished. Any goroutine may
// use it.
type topology struct {
	b *Broker
	// turn has room for one: who declares queues has put a value there, so that no two create the
	// same.
	turn chan struct{}
	// repair is readable when a queue was found missing; see missing.
	repair chan struct{}
	// young is the length of until, so that publishers look without a lock.
	young atomic.Int32

	// mu guards the fields below.
	mu sync.Mutex
	// specs are the queues that are kept, targets first.
	specs []queue.Spec
	// made counts how often a queue was created by this process.
	made map[string]int
	// lacks has the queues that were missing, and are not known to be declared since.
	lacks map[string]bool
	// until is when a queue that is being created, or was just created, may be published to.
	until map[string]time.Time
	// compared are the queues that are known to have our arguments.
	compared map[string]bool
	// proven are those of [Broker.Prove] that were not seen to be gone since.
	proven map[string]bool
	// sure are the queues that were declared on the session on, and not found missing since.
	sure map[string]bool
	on   *session
}

func newTopology(b *Broker) *topology {
	return &topology{
		b: b, turn: make(chan struct{}, 1), repair: make(chan struct{}, 1), until: map[string]time.Time{},
		made: map[string]int{}, lacks: map[string]bool{}, compared: map[string]bool{}, proven: map[string]bool{},
		sure: map[string]bool{},
	}
}

// Declare makes the queues that are missing and remembers all of them; see queue.Broker.
func (b *Broker) Declare(ctx context.Context, specs []queue.Spec) error {
	ordered := slices.Clone(specs)
	slices.SortStableFunc(ordered, func(x, y queue.Spec) int { return cmp.Compare(rank(x.Kind), rank(y.Kind)) })
	b.topology.doubt(ordered...)
	for {
		s, err := b.session(ctx)
		if err != nil {
			return fmt.Errorf("declare queues: %w", err)
		}
		created, err := b.topology.ensure(ctx, s, ordered)
		// A session that breaks says nothing about the queues: the next one is asked.
		if err != nil && (!s.alive() || isCut(err)) && sleep(ctx, cutPause) {
			continue
		}
		if err != nil {
			return fmt.Errorf("declare queues: %w", err)
		}
		// Before the wait: should ctx end it, the queues are there all the same, and are looked
		// after.
		b.topology.remember(ordered)
		if names := b.topology.uncompared(ordered); len(names) > 0 {
			b.config.Logger.Warn("the arguments of queues could not be compared, since the RabbitMQ user has no right to configure them: "+
				"with others than the command topology prints, messages can be lost", "queues", names)
		}
		if len(created) > 0 && !sleep(ctx, settleTime) {
			return fmt.Errorf("declare queues: wait after creating: %w", ctx.Err())
		}
		return nil
	}
}

// cutPause is how long a declaration waits whose connection was cut, which is known a moment before
// the session has ended.
const cutPause = 50 * time.Millisecond

// isCut says that the error is about the connection, not about what was asked: the client's own
// errors, and those of the network.
func isCut(err error) bool {
	var e *amqp.Error
	if errors.As(err, &e) {
		return e != amqp.ErrChannelMax && (!e.Server || e.Code == amqp.ConnectionForced || e.Code == amqp.InternalError)
	}
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF)
}

// rank orders targets before those that point to them.
func rank(k queue.Kind) int {
	switch k {
	case queue.DeadSet:
		return 0
	case queue.Instant:
		return 1
	default:
		return 2
	}
}

// ensure declares the queues one after another, and returns the names of those it created, also
// beside an error, which is the first. What goes wrong with one queue must not keep others from
// being made, but for those that point to it.
func (t *topology) ensure(ctx context.Context, s *session, specs []queue.Spec) (created []string, first error) {
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	failed := map[string]bool{}
	for _, spec := range specs {
		if ctx.Err() != nil {
			return created, ctx.Err()
		}
		if failed[spec.Target] {
			failed[spec.Name] = true
			continue
		}
		made, err := t.declare(s, spec)
		if err == nil && spec.Kind == queue.Source && !t.b.config.DeclareOnlyCheck {
			err = s.bind(spec)
		}
		if made {
			created = append(created, spec.Name)
		}
		first = cmp.Or(first, err)
		failed[spec.Name] = err != nil
		if err != nil && s.lostOver(err) {
			return created, first
		}
	}
	return created, first
}

// declare makes the queue unless it is there, and compares its arguments. One that is sure is only
// looked at: if it were deleted after the look, it would be made anew without a word. With
// DeclareOnlyCheck it makes none, but one that is deleted in between; without the right to
// configure the queue the look is all.
func (t *topology) declare(s *session, spec queue.Spec) (made bool, err error) {
	args, err := Arguments(spec)
	if err != nil {
		return false, err
	}
	sure := isSure(t, s, spec.Name) // before the look: who misses the queue after it has it repaired again
	_, err = s.inspect(spec.Name)
	missing := code(err) == amqp.NotFound
	if missing {
		t.doubt(spec)
	}
	switch {
	case missing && t.b.config.DeclareOnlyCheck:
		return false, fmt.Errorf("queue %s is missing, and %s=check forbids to create it: %w", spec.Name, t.b.config.Setting("rabbitmq.declare"), err)
	case err != nil && !missing:
		return false, err
	}
	if !missing && sure {
		return false, nil
	}
	absent := missing
	missing = t.lacked(spec.Name, missing)
	defer t.leave(spec.Name, missing)()
	err = s.declare(spec.Name, args)
	if err == nil || code(err) > 0 {
		t.compare(spec.Name, err == nil)
	}
	if err != nil {
		return false, t.refusal(spec.Name, absent, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.on != s {
		t.on, t.sure = s, map[string]bool{}
	}
	t.sure[spec.Name] = true
	if missing {
		t.made[spec.Name]++
		delete(t.lacks, spec.Name)
	}
	return missing, nil
}

// isSure says that the queue was declared on the session, and not found missing since.
func isSure(t *topology, s *session, name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.on == s && t.sure[name]
}

// doubt has the queues be declared though they are there.
func (t *topology) doubt(specs ...queue.Spec) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, spec := range specs {
		delete(t.sure, spec.Name)
	}
}

// forget is for a queue that is gone: another one of its name may have other arguments, and is
// young. A queue that is kept is declared again, and compared then: it may be long until something
// is published to it, and nobody would hear meanwhile that what it held is gone.
func (t *topology) forget(name string) {
	t.mu.Lock()
	if t.proven[name] {
		delete(t.compared, name)
	}
	delete(t.proven, name)
	delete(t.sure, name)
	t.mu.Unlock()
	if t.keeps(name) {
		t.missing(name)
	}
}

// prove notes that the queue was declared, and need not be kept.
func (t *topology) prove(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.proven[name] = true
}

// lacked says whether the queue is missing, or was and came back by a declaration whose answer was
// lost: it is as young as one that was answered.
func (t *topology) lacked(name string, missing bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if missing {
		t.lacks[name] = true
	}
	return t.lacks[name]
}

// creations returns how often the queue was created here. A consumer of an earlier one may never be
// told that it is gone.
func (t *topology) creations(name string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.made[name]
}

func (t *topology) remember(specs []queue.Spec) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, spec := range specs {
		if !slices.ContainsFunc(t.specs, func(known queue.Spec) bool { return known.Name == spec.Name }) {
			t.specs = append(t.specs, spec)
		}
	}
	slices.SortStableFunc(t.specs, func(x, y queue.Spec) int { return cmp.Compare(rank(x.Kind), rank(y.Kind)) })
}

// kept are the queues that are looked after.
func (t *topology) kept() []queue.Spec {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.specs)
}

// keeps tells whether the queue is one of those that are declared again.
func (t *topology) keeps(name string) bool {
	return slices.ContainsFunc(t.kept(), func(spec queue.Spec) bool { return spec.Name == name })
}

// missing says that the queue was found missing. It does not wait: lanes and consumers call it, and
// hold their messages back meanwhile, and looks at depths do.
func (t *topology) missing(name string) {
	t.doubt(queue.Spec{Name: name})
	signal(t.repair)
}

// run looks at all queues when a session begins and when one was found missing, and at bindings now
// and then.
func (t *topology) run(ctx context.Context) {
	var seen *session
	wait := t.b.config.backoff()
	again := time.NewTicker(t.b.config.BindInterval)
	defer again.Stop()
	for {
		s, changed := t.b.consume.current()
		if s == nil || s == seen {
			select {
			case <-ctx.Done():
				return
			case <-changed:
				continue
			case <-again.C:
				t.bindAgain(ctx, s)
				continue
			case <-t.repair:
				// As if the session were new: all queues are looked at again.
				seen = nil
				continue
			}
		}
		err := t.heal(ctx, s, t.kept())
		if ctx.Err() != nil {
			return
		}
		if err != nil && s.alive() {
			t.b.trouble.set("topology", err.Error())
			sleep(ctx, wait.next())
			continue
		}
		seen = s
		wait.reset()
		t.b.trouble.clear("topology")
	}
}

// heal declares again what is missing. What the queue held is gone: the warning in the log is all
// that tells of it.
func (t *topology) heal(ctx context.Context, s *session, specs []queue.Spec) error {
	created, err := t.ensure(ctx, s, specs)
	for _, name := range created {
		t.b.config.Logger.Warn("queue was missing and has been declared again", "queue", name)
	}
	if err == nil {
		for _, spec := range specs {
			t.b.trouble.clear("queue " + spec.Name)
		}
	}
	return err
}
