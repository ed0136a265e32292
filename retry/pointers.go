package retry

import "sync"

// pointers knows whether Kafka hands out the records that pointers point to. Once it did not, one
// at a time is tried: an answer may take fetchTime, and those that wait for it would have all
// workers.
type pointers struct {
	mu     sync.Mutex
	trying int
	failed error // why the last try failed; nil: it did not
}

// begin says whether one may be tried now: where it may not, why the last one failed.
func (p *pointers) begin() (failed error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed != nil && p.trying > 0 {
		return p.failed
	}
	p.trying++
	return nil
}

// end tells how a try ended.
func (p *pointers) end(failed error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trying--
	p.failed = failed
}
