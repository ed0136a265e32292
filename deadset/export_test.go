package deadset

import "github.com/stepwell/stepwell/internal/queue"

// View shows a message, for the fuzz test.
func View(d queue.Delivery) Entry { return find(d).entry() }

// Used is how many bytes are remembered.
func Used(x *Index) int64 { return x.used.Load() }
