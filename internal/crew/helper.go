package crew

// Helper is a worker on its caller's goroutine. Benchmarks measure with it what a message costs.
type Helper struct{ w *worker }

// NewHelper makes a worker that has no place.
func (c *Crew) NewHelper() Helper { return Helper{newWorker(c)} }

// Serve handles what the roster hands out at once.
func (h Helper) Serve(r *Roster) { h.w.serve(r) }
