package deadset

import "github.com/stepwell/stepwell/internal/queue"

// View is view, for the fuzz test.
func View(d queue.Delivery) Entry {
	entry, _ := view(d)
	return entry
}
