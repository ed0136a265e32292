package streams

import "slices"

// memoryLimit is how many offsets of partitions that went away may be remembered.
const memoryLimit = 100_000

// memory keeps the last assignment of partitions that are not ours now, so that what was settled beyond their last commit is not
// handled again should they come back. Reader.mu guards it.
type memory struct {
	gone  map[topicPartition]*partition
	order []topicPartition // oldest first
}

func newMemory() *memory { return &memory{gone: map[topicPartition]*partition{}} }

// keep remembers p and forgets the oldest beyond the limit, but never a partition whose worker still runs: its successor has
// to wait for it.
func (m *memory) keep(p *partition) {
	m.take(p.topicPartition)
	m.gone[p.topicPartition] = p
	m.order = append(m.order, p.topicPartition)
	total := 0
	for i := len(m.order) - 1; i >= 0; i-- {
		q := m.gone[m.order[i]]
		total += q.held()
		if total > memoryLimit && q.isDone() {
			delete(m.gone, m.order[i])
			m.order = slices.Delete(m.order, i, i+1)
		}
	}
}

// take hands the remembered assignment over, if there is one.
func (m *memory) take(tp topicPartition) *partition {
	p := m.gone[tp]
	if p != nil {
		delete(m.gone, tp)
		m.order = slices.DeleteFunc(m.order, func(o topicPartition) bool { return o == tp })
	}
	return p
}

// orBefore is the assignment before p where p handed nothing out, and so knows no more than that one. A member that cannot reach the group may be
// given a partition, and lose it, several times before it reads.
func (p *partition) orBefore() *partition {
	if p == nil || !p.isDone() {
		return p
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.before == nil || p.forgotten {
		return p
	}
	return p.before
}

// held is how many offsets p keeps in memory.
func (p *partition) held() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.window.Len() + 1
}

func (p *partition) isDone() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}
