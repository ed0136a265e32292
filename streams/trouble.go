package streams

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// troubleLasts is how long an error of a poll counts that is not met again: that a fetch went
	// well and brought nothing, a client does not say.
	troubleLasts = 15 * time.Second
	// sayAgain is how long another error about the same thing is not logged.
	sayAgain = 10 * time.Second
)

// matter is what a trouble is about.
type matter struct {
	of work
	tp topicPartition // partition -1: the topic; no topic: all of them
}

// work is what a reader does with Kafka.
type work int

const (
	reaching work = iota + 1
	reading
	committing
	beginning
)

// said is what the log has when a trouble with it begins, and when it ends.
func (w work) said() (begins, ends string) {
	switch w {
	case reaching:
		return "Kafka cannot be used", "Kafka can be used again"
	case reading:
		return "reading from Kafka fails and is tried again", "reading from Kafka goes on"
	case beginning:
		return "it cannot be found out where a topic begins, which is read once it can", "it is known where a topic begins"
	case committing:
	}
	return "a commit failed and will be tried again", "commits are stored again"
}

// lasts is how long a trouble counts that is not met again: a topic whose beginning is not known is
// met when it was looked for.
func (w work) lasts() time.Duration {
	if w == beginning {
		return 2*healInterval + troubleLasts
	}
	return troubleLasts
}

// trouble is what is wrong with one matter now.
type trouble struct {
	text    string
	since   time.Time
	at      time.Time // met last
	logged  time.Time
	told    string // what was logged then
	lasting bool   // until somebody says that it is over
}

// status collects what is known of the cluster, and logs when a trouble begins and when it ends.
type status struct {
	log     *slog.Logger
	stream  string
	pattern bool
	setting func(key string) string

	mu       sync.Mutex
	tls      bool   // is spoken with the brokers
	login    string // the mechanism, if there is one
	isMember bool
	wellAt   time.Time
	wasWell  bool // ever
	troubles map[matter]trouble
}

func newStatus(cfg Config) *status {
	return &status{
		log: cfg.Logger.With("stream", cfg.Stream), stream: cfg.Stream, pattern: cfg.Pattern != "", setting: cfg.Setting,
		troubles: map[matter]trouble{},
	}
}

// joined notes that we are a member of the group.
func (s *status) joined() {
	s.mu.Lock()
	news := !s.isMember
	s.isMember = true
	s.mu.Unlock()
	if news {
		s.log.Info("joined the consumer group")
	}
}

func (s *status) left() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isMember = false
}

// moved tells which partitions came or went. Nothing comes or goes in many rebalances.
func (s *status) moved(level slog.Level, how string, parts map[string][]int32) {
	if len(parts) > 0 {
		s.log.Log(context.Background(), level, how, "partitions", ranges(parts))
	}
}

// ranges writes partitions as orders:0-3,7.
func ranges(parts map[string][]int32) string {
	var text strings.Builder
	var last topicPartition
	run := false // last ends one
	for i, tp := range inOrder(parts) {
		next := i > 0 && tp.topic == last.topic && tp.partition == last.partition+1
		if run && !next {
			fmt.Fprintf(&text, "-%d", last.partition)
		}
		switch {
		case next:
		case i > 0 && tp.topic == last.topic:
			fmt.Fprintf(&text, ",%d", tp.partition)
		default:
			if i > 0 {
				text.WriteByte(' ')
			}
			fmt.Fprintf(&text, "%s:%d", tp.topic, tp.partition)
		}
		run, last = next, tp
	}
	if run {
		fmt.Fprintf(&text, "-%d", last.partition)
	}
	return text.String()
}

// polled notes that records arrived: the cluster is well.
func (s *status) polled() {
	s.mu.Lock()
	s.wellAt, s.wasWell = time.Now(), true
	s.endLocked(func(m matter, _ trouble) bool { return m.of == reaching || m.of == reading && m.tp.topic == "" })
}

// fetched notes that a fetch of a partition went well.
func (s *status) fetched(tp topicPartition) {
	s.mu.Lock()
	s.endLocked(func(m matter, _ trouble) bool {
		return m.of == reading && m.tp.topic == tp.topic && (m.tp.partition == tp.partition || m.tp.partition < 0)
	})
}

// reached notes the result of a look at the cluster: why it cannot be used at all, or which topics
// cannot be read.
func (s *status) reached(err error, topics map[string]error) {
	if err == nil {
		s.mu.Lock()
		s.wasWell = true
		s.endLocked(func(m matter, _ trouble) bool {
			return m.of == reaching || m.of == reading && m.tp.partition < 0 && topics[m.tp.topic] == nil
		})
	} else {
		s.note(matter{of: reaching}, err, true)
	}
	for _, topic := range slices.Sorted(maps.Keys(topics)) {
		s.note(matter{reading, topicPartition{topic, -1}}, topics[topic], true)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wellAt = time.Now()
	if err != nil || !s.isMember {
		s.wellAt = time.Time{} // look again soon
	}
}

// wantsLook says whether the cluster is to be asked how it is: it was not seen to be well for a
// while, or something was missing.
func (s *status) wantsLook() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for m := range s.troubles {
		if m.of == reading && m.tp.partition < 0 {
			return true
		}
	}
	return time.Since(s.wellAt) > idleAfter
}

// committed notes the result of a commit.
func (s *status) committed(err error) {
	if err != nil {
		s.note(matter{of: committing}, err, true)
		return
	}
	s.end(func(m matter, _ trouble) bool { return m.of == committing })
}

// begins notes whether it is known where a topic begins.
func (s *status) begins(topic string, err error) {
	is := matter{beginning, topicPartition{topic, -1}}
	if err != nil {
		s.note(is, err, false)
		return
	}
	s.end(func(m matter, _ trouble) bool { return m == is })
}

// isUnbegun says that it was not known lately where a topic begins.
func isUnbegun(s *status, topic string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.troubles[matter{beginning, topicPartition{topic, -1}}]
	return known
}

// unread notes an error of a poll; lasting is one that the client does not try to overcome.
func (s *status) unread(tp topicPartition, err error, lasting bool) {
	s.note(matter{reading, tp}, err, lasting)
}

// gone drops what was wrong with partitions that are not ours any more.
func (s *status) gone(parts []topicPartition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, tp := range parts {
		delete(s.troubles, matter{reading, tp})
	}
}

func (s *status) note(m matter, err error, lasting bool) {
	text, now := err.Error(), time.Now()
	s.mu.Lock()
	was, known := s.troubles[m]
	is := trouble{text: text, since: now, at: now, logged: was.logged, told: was.told, lasting: lasting}
	if known {
		is.since = was.since
	}
	news := !known || text != was.told && now.Sub(was.logged) > sayAgain
	if news {
		is.logged, is.told = now, text
	}
	s.troubles[m] = is
	s.mu.Unlock()
	if news {
		begins, _ := m.of.said()
		s.log.Warn(begins, append(m.attrs(), "error", text)...)
	}
}

// age ends troubles that nobody has met for a while, though Kafka can be reached: of a broker that
// hangs most calls have no result for longer than that.
func (s *status) age(now time.Time) {
	s.mu.Lock()
	_, away := s.troubles[matter{of: reaching}]
	s.endLocked(func(m matter, t trouble) bool { return !away && !t.lasting && now.Sub(t.at) > m.of.lasts() })
}

func (s *status) end(over func(matter, trouble) bool) {
	s.mu.Lock()
	s.endLocked(over)
}

// endLocked gives the lock back.
func (s *status) endLocked(over func(matter, trouble) bool) {
	if len(s.troubles) == 0 {
		s.mu.Unlock()
		return
	}
	ended := map[matter]trouble{}
	for m, t := range s.troubles {
		if over(m, t) {
			ended[m] = t
			delete(s.troubles, m)
		}
	}
	s.mu.Unlock()
	for m, t := range ended {
		_, ends := m.of.said()
		s.log.Info(ends, append(m.attrs(), "after", time.Since(t.since).Round(time.Second))...)
	}
}

// attrs name a matter in the log.
func (m matter) attrs() (attrs []any) {
	if m.tp.topic != "" {
		attrs = append(attrs, "topic", m.tp.topic)
		if m.tp.partition >= 0 {
			attrs = append(attrs, "partition", m.tp.partition)
		}
	}
	return attrs
}

// maxTold is how many troubles the status tells: an error of a whole cluster is one for each
// partition.
const maxTold = 5

// read returns whether we are a member and all that is wrong.
func (s *status) read() (joined bool, text string) {
	s.age(time.Now())
	s.mu.Lock()
	defer s.mu.Unlock()
	matters := slices.SortedFunc(maps.Keys(s.troubles), func(a, b matter) int {
		return cmp.Or(cmp.Compare(a.of, b.of), cmp.Compare(a.tp.topic, b.tp.topic), cmp.Compare(a.tp.partition, b.tp.partition))
	})
	var all []string
	for _, m := range matters[:min(len(matters), maxTold)] {
		if text := s.troubles[m].text; !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	text = strings.Join(all, "; ")
	if more := len(matters) - maxTold; more > 0 {
		text = fmt.Sprintf("%s; and %d more", text, more)
	}
	return s.isMember, text
}
