package chaos

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell/chaos/ledger"
)

func (r *run) queue(kind string) string { return r.app + ".orders." + kind }

// delay is what a failed message waits.
func (r *run) delay() time.Duration {
	d, err := time.ParseDuration(cmp.Or(r.env["RETRY_DELAY"], "300ms"))
	r.check(err)
	return d
}

// delayed is the kind of the queue in which failed messages wait.
func (r *run) delayed() string { return delayed(r.delay()) }

func delayed(d time.Duration) string { return fmt.Sprintf("delay.%d", d.Milliseconds()) }

// kinds are the queues of a run; all but the dead sets must be empty in the end.
func (r *run) kinds() []string {
	all := []string{"instant", r.delayed()}
	for _, d := range r.delays {
		all = append(all, delayed(d))
	}
	for _, kind := range slices.Clone(all) {
		all = append(all, ofChannel+kind)
	}
	return append(all, ofChannel+deadSet, deadSet)
}

const (
	// ofChannel is what the kinds of the channel's queues begin with.
	ofChannel = "channel." + ledger.Channel + "."
	deadSet   = "dead_set"
)

func isDead(queue string) bool { return strings.HasSuffix(queue, deadSet) }

// channel opens a channel to RabbitMQ itself, not through the proxy, which ends with the run.
func (r *run) channel() *amqp.Channel {
	r.t.Helper()
	ch, err := r.tryChannel()
	r.check(err)
	return ch
}

func (r *run) tryChannel() (*amqp.Channel, error) {
	conn, err := r.dial()
	if err != nil {
		return nil, err
	}
	if r.connections == nil {
		r.t.Cleanup(r.disconnect)
	}
	r.connections = append(r.connections, conn)
	return conn.Channel()
}

// dial connects to the first node that answers.
func (r *run) dial() (*amqp.Connection, error) {
	if r.rabbits == nil {
		return amqp.Dial(r.rabbit.URL)
	}
	var errs []error
	for _, node := range r.rabbits {
		conn, err := amqp.Dial(node.URL)
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// disconnect closes all connections that the run has opened itself. Their nodes may have been
// killed since.
func (r *run) disconnect() {
	for _, conn := range r.connections {
		_ = conn.Close()
	}
	r.connections = r.connections[:0]
}

// ask has RabbitMQ tell of each kind of queue how many messages can be had, and who consumes. The
// error is about those that it does not tell of.
func (r *run) ask() (map[string]amqp.Queue, error) {
	conn, err := r.dial()
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }() // it was only asked
	told, errs := map[string]amqp.Queue{}, []error(nil)
	for _, kind := range r.kinds() {
		ch, err := conn.Channel() // of its own: a queue that is not there closes it
		if err != nil {
			return nil, err
		}
		q, err := ch.QueueDeclarePassive(r.queue(kind), true, false, false, false, nil)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		told[kind] = q
	}
	return told, errors.Join(errs...)
}

// waiting is how many messages wait for another try; one where nobody can tell.
func (r *run) waiting() int {
	queues, err := r.ask()
	if err != nil {
		return 1
	}
	n := 0
	for kind, q := range queues {
		if !isDead(kind) {
			n += q.Messages
		}
	}
	return n
}

// empty takes everything out of the queues, deletes them, and returns what it was.
func (r *run) empty() map[string][]ledger.Position {
	r.t.Helper()
	queues, err := r.ask()
	found := map[string][]ledger.Position{}
	for _, kind := range r.kinds() {
		name := r.queue(kind)
		if _, ok := queues[kind]; !ok {
			r.complain("queue %s is gone, and nobody has declared it again: %v", name, err)
			continue
		}
		found[name] = r.all(r.consume(name, true))
		if kind == deadSet && r.dragged > 0 {
			r.complain("%d messages in the dead set have headers that the broker wrote in another queue", r.dragged)
		}
		if kind == deadSet {
			r.once()
		}
	}
	ch := r.channel()
	for _, kind := range r.kinds() {
		_, err := ch.QueueDelete(r.queue(kind), false, false, false)
		r.check(err)
	}
	return found
}

// consume takes the queue's messages; without acks it holds them, on a connection of its own that
// stays open.
func (r *run) consume(name string, ack bool) <-chan amqp.Delivery {
	r.t.Helper()
	const all = math.MaxUint16 // a consumer without a prefetch gets 2000 of a quorum queue
	ch := r.channel()
	r.check(ch.Qos(all, 0, false))
	deliveries, err := ch.Consume(name, "", ack, false, false, false, nil)
	r.check(err)
	return deliveries
}

// had are the messages that consume held, once the queue has no others: what is taken away
// uncounted would be called lost.
func (r *run) had(name string, deliveries <-chan amqp.Delivery) []ledger.Position {
	r.t.Helper()
	all := r.all(deliveries)
	q, err := r.channel().QueueDeclarePassive(name, true, false, false, false, nil)
	r.check(err)
	if q.Messages > 0 {
		r.complain("%d messages of %s could not be counted", q.Messages, name)
	}
	return all
}

// all reads positions until nothing more comes.
func (r *run) all(deliveries <-chan amqp.Delivery) []ledger.Position {
	r.t.Helper()
	const quiet = 500 * time.Millisecond // what the actors gave back when they ended may be on its way
	var all []ledger.Position
	for {
		select {
		case d, ok := <-deliveries:
			if !ok {
				return all
			}
			all = append(all, r.position(&d))
		case <-time.After(quiet):
			return all
		}
	}
}

// position reads the message's id: topic:partition:offset.
func (r *run) position(d *amqp.Delivery) ledger.Position {
	r.t.Helper()
	if d.Headers["x-death"] != nil && isDead(d.RoutingKey) { // where messages are only published
		r.dragged++
	}
	p := r.idOf(d)
	if head, _ := d.Headers["x-stepwell"].(string); isDead(d.RoutingKey) {
		for word := range strings.FieldsSeq(head) {
			if reason, ok := strings.CutPrefix(word, "reason="); ok {
				r.end.Reasons[p] = reason
			}
		}
		if death := deathOf(d); death != d.MessageId {
			r.deaths[death]++
		}
	}
	return p
}

// deathOf names a dead message by its id and when it died: one may die twice.
func deathOf(d *amqp.Delivery) string {
	head, _ := d.Headers["x-stepwell"].(string)
	for word := range strings.FieldsSeq(head) {
		if strings.HasPrefix(word, "died=") {
			return d.MessageId + " " + word
		}
	}
	return d.MessageId
}

func (r *run) idOf(d *amqp.Delivery) ledger.Position {
	id, channel, _ := strings.Cut(d.MessageId, "@")
	id, _, _ = strings.Cut(id, "~") // what an edit added
	if here := strings.HasPrefix(d.RoutingKey, r.queue(ofChannel)); here != (channel == ledger.Channel) {
		r.complain("a message with the id %q is in %s", d.MessageId, d.RoutingKey)
	}
	parts := strings.Split(id, ":")
	if len(parts) != 3 || parts[0] != r.topic {
		r.complain("a message with the id %q is in %s", d.MessageId, d.RoutingKey)
		return ledger.Position{Partition: -1, Offset: -1}
	}
	partition, err := strconv.ParseInt(parts[1], 10, 32)
	r.check(err)
	offset, err := strconv.ParseInt(parts[2], 10, 64)
	r.check(err)
	return ledger.Position{Partition: int32(partition), Offset: offset}
}
