package memory

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell/internal/queue"
)

// bindingTimeout is how long a message waits for a binding that takes it: the streams of an actor
// bind their queues one by one as it starts.
const bindingTimeout = 10 * time.Second

// binding has a queue get what is published to an exchange with such a key.
type binding struct{ exchange, key string }

// bind binds the queue. As in RabbitMQ it stays bound by what it was declared with before. The lock
// must be held.
func (l *list) bind(exchange string, keys []string) {
	for _, key := range keys {
		if b := (binding{exchange, key}); !slices.Contains(l.bindings, b) {
			l.bindings = append(l.bindings, b)
		}
	}
}

// takes says whether the queue gets what is published to the exchange with this key.
func (l *list) takes(exchange, key string) bool {
	return slices.ContainsFunc(l.bindings, func(b binding) bool { return b.exchange == exchange && matches(b.key, key) })
}

// matches says whether the key of a binding takes a routing key as in a topic exchange: words are
// what is between dots, * is one word and # none or more. An empty key has no word. (RabbitMQ,
// "Topics" among its tutorials; what it says of empty words was tried.)
func matches(binding, key string) bool {
	want, words := split(binding), split(key)
	// Of the last # that was met: what follows it is tried at each word in turn.
	behind, at := -1, 0
	for i, j := 0, 0; i < len(want) || j < len(words); {
		switch {
		case i < len(want) && want[i] == "#":
			i++
			behind, at = i, j
		case i < len(want) && j < len(words) && (want[i] == "*" || want[i] == words[j]):
			i++
			j++
		case behind >= 0 && at < len(words):
			at++
			i, j = behind, at
		default:
			return false
		}
	}
	return true
}

func split(key string) []string {
	if key == "" {
		return nil
	}
	return strings.Split(key, ".")
}

// Exchange is an exchange of the type topic that is somebody else's. It is there as soon as it is
// named.
type Exchange struct {
	Broker *Broker
	Name   string
}

// Publish puts a message into each queue that is bound to the exchange by a key that takes this
// one, and returns when it is in them. Where there is none it waits for one, until ctx ends or 10 s
// are over: then its error names the bindings that there are. Others are queue.ErrTooLarge,
// queue.ErrClosed, and queue.ErrUnavailable after the same time.
func (x Exchange) Publish(ctx context.Context, key string, m queue.Message) error {
	if err := fits(x.Broker, m); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, bindingTimeout)
	defer cancel()
	unbound := false
	err := x.Broker.await(ctx, func() (bool, error) {
		open := x.Broker.running && !x.Broker.down && !x.Broker.blocked
		taken := open && x.put(key, m)
		unbound = open && !taken
		return taken, nil
	})
	if unbound && ctx.Err() != nil {
		return fmt.Errorf("no queue is bound by a key that takes it; %s: %w", x.bindings(), ctx.Err())
	}
	return err
}

// put puts a message into the queues that take it, and says whether there are any. The lock must be
// held.
func (x Exchange) put(key string, m queue.Message) (taken bool) {
	by := &queue.Foreign{Exchange: x.Name, RoutingKey: key}
	for _, l := range x.Broker.queues {
		if l.takes(x.Name, key) {
			l.append(&item{m: clone(m), by: by})
			taken = true
		}
	}
	return taken
}

// bindings are all that there are, of this exchange and of others, whose name may be meant.
func (x Exchange) bindings() string {
	x.Broker.mu.Lock()
	defer x.Broker.mu.Unlock()
	var all []string
	for name, l := range x.Broker.queues {
		for _, b := range l.bindings {
			all = append(all, fmt.Sprintf("%s to exchange %s by key %s", name, b.exchange, b.key))
		}
	}
	if len(all) == 0 {
		return "there are no bindings"
	}
	slices.Sort(all)
	return "bound are " + strings.Join(all, ", ")
}
