package queue_test

import (
	"testing"

	"github.com/stepwell/stepwell/internal/queue"
)

func TestHeadersOfTheBrokerAreToldFromThoseOfMessages(t *testing.T) {
	for name, brokers := range map[string]bool{
		"x-death": true, "x-death-count": true, "x-first-death-queue": true, "x-first-death-exchange": true, "x-last-death-reason": true,
		"x-delivery-count": true, "x-acquired-count": true, "CC": true, "BCC": true,
		"x-stepwell": false, "x-first": false, "x-delivery-counts": false, "x-tenant": false, "cc": false, "death": false, "": false,
	} {
		if queue.OfBroker(name) != brokers {
			t.Errorf("%q: %t", name, !brokers)
		}
	}
}
