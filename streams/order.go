package streams

import (
	"fmt"

	"github.com/stepwell/stepwell/internal/task"
)

// Handle does the work for one message. How many run at once, and which, is said by [Calls.Order]
// and [Calls.Concurrency]. Its context lives through a stop for the drain and ends with a cause:
// [ErrRevoked], [ErrLost] or that of the work context. After [task.Abandoned] the offset is never
// committed and nothing more of the partition is handed out; its next owner reads from there. A
// panic is not caught. One that ends its goroutine with runtime.Goexit ends the reader with an
// error, and its message stays unsettled.
type Handle = task.Handle

// Order says which messages of a partition may be handled at the same time.
type Order int

// The orders.
const (
	// OrderKey: messages of one key one after another, in the order of their offsets; different
	// keys side by side. A record without a key has no order, an empty key is a key.
	OrderKey Order = iota
	// OrderPartition: all messages of a partition one after another.
	OrderPartition
	// OrderNone: any.
	OrderNone
)

// ParseOrder reads key, partition or none.
func ParseOrder(s string) (Order, error) {
	switch s {
	case "", "key":
		return OrderKey, nil
	case "partition":
		return OrderPartition, nil
	case "none":
		return OrderNone, nil
	}
	return 0, fmt.Errorf("order %q: want key, partition or none", s)
}
