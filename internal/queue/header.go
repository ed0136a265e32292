package queue

import "strings"

// OfBroker tells whether a broker writes this header. None of them may be published again: with
// x-death RabbitMQ 3.10 drops messages as going round in circles, the counts are believed, and CC
// and BCC route to other queues.
func OfBroker(name string) bool {
	switch name {
	case "CC", "BCC", "x-delivery-count", "x-acquired-count":
		return true
	}
	return strings.HasPrefix(name, "x-death") || strings.HasPrefix(name, "x-first-death-") || strings.HasPrefix(name, "x-last-death-")
}
