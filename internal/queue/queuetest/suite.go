// Package queuetest says with tests what queue.Broker promises. Every broker passes them: the one
// in memory on a false clock, RabbitMQ on each version there is.
package queuetest

import (
	"testing"

	"github.com/stepwell/stepwell/internal/queue"
)

// Place is where a test works: a broker that does not run yet.
type Place struct {
	Broker queue.Broker
	// MaxMessageSize is what Broker takes, in bytes; at most 1 MiB, so that a test can go beyond
	// it.
	MaxMessageSize int
	// Delete removes a queue when a test is over; nil: nothing outlives the broker.
	Delete func(name string)
	// Exchange makes a topic exchange for as long as the test lasts, and returns what publishes to
	// it and says whether a queue has it, or several have.
	Exchange func(t *testing.T, name string) (publish func(key string, m queue.Message) (taken bool))
}

// Run runs all tests. in prepares a place for each, maybe in a bubble of testing/synctest or in
// parallel, and calls test there.
func Run(t *testing.T, in func(t *testing.T, test func(t *testing.T, p Place))) {
	// Maps, so that tests run in another order each time: none may rest on one before it.
	groups := []map[string]func(*testing.T, *world){declaring(), publishing(), consuming(), binding(), walking(), parting(), following(), ending()}
	for _, group := range groups {
		for name, test := range group {
			t.Run(name, func(t *testing.T) {
				in(t, func(t *testing.T, p Place) { test(t, start(t, p)) })
			})
		}
	}
}
