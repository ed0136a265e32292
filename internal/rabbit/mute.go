package rabbit

import (
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell/internal/queue"
)

// statLimit is for how long RabbitMQ waits for a quorum queue that is asked for its depth; here a
// little less, since no two clocks are the same.
const statLimit = 240 * time.Millisecond

// errMute: nobody knows how many messages the queue has.
var errMute = fmt.Errorf("%w: the queue has not told RabbitMQ in time how many messages it has", queue.ErrUnavailable)

// count asks how many messages are ready in the queue, and how many consumers it has. Of a queue
// that does not answer in time, as on a busy machine, RabbitMQ says that there are none of either;
// whoever believed that would take a full dead set for an empty one. The error is errMute then.
// What the way there and back takes does not count: a broker may be far away.
func (s *session) count(name string) (amqp.Queue, error) {
	state, took, err := s.timed(name)
	if err == nil && state.Messages == 0 && state.Consumers == 0 && took-time.Duration(s.trip.Load()) >= statLimit {
		return state, errMute
	}
	return state, err
}

// muteLooks is how many looks in a row a queue does not answer that is taken for mute.
const muteLooks = 4

// isMute says that the queue answers nobody. Whoever asked it for a consumer would wait until the
// connection is cut for that, which others use too: after callLimit by us, after about a minute by
// RabbitMQ itself. Only of a quorum queue RabbitMQ gives an answer at all then.
func (s *session) isMute(name string) bool {
	// Of the trips to the broker and back, and of the looks, the shortest: each may be held up by a
	// busy machine, but no look at a mute queue is shorter than RabbitMQ's wait for it.
	trip, took := time.Hour, time.Hour
	for range muteLooks {
		began := time.Now()
		ch, err := s.channel()
		if err != nil {
			return false
		}
		trip = min(trip, time.Since(began))
		began = time.Now()
		state, err := s.look(ch, name)
		took = min(took, time.Since(began))
		if err != nil || s.closeChannel(ch) != nil || state.Messages > 0 || state.Consumers > 0 || took < statLimit {
			return false
		}
	}
	return took-trip >= statLimit/2
}
