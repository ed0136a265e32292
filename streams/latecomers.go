package streams

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
)

// latecomers knows which topics this process has seen missing, or made anew: all that is in them
// came after the group began. It is told of a pattern that matches nothing as of a topic.
type latecomers struct {
	mu     sync.Mutex
	topics map[string]bool
	ids    map[string]kadm.TopicID // as they were seen last
}

func newLatecomers() *latecomers {
	return &latecomers{topics: map[string]bool{}, ids: map[string]kadm.TopicID{}}
}

// missed notes that there is no such topic.
func (l *latecomers) missed(topic string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.topics[topic] = true
}

// saw notes which topic of that name there is; a zero id says nothing.
func (l *latecomers) saw(topic string, id kadm.TopicID) {
	if id == (kadm.TopicID{}) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if was, known := l.ids[topic]; known && was != id {
		l.topics[topic] = true
	}
	l.ids[topic] = id
}

// has is asked for a topic of TOPICS, or one that a pattern matches.
func (l *latecomers) has(topic, pattern string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.topics[topic] || pattern != "" && l.topics[pattern]
}
