package streams

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Status is how a reader is doing.
type Status struct {
	Paused bool
	// Joined says that the reader is a member of its group and knows where its partitions begin. It may have none all the same.
	Joined     bool
	Partitions int
	// InFlight and InFlightBytes count what was read and is not settled; Span also what is settled behind the first of these.
	InFlight, InFlightBytes, Span int64
	// Lag is how many records lie behind the settled ones in the partitions of this reader, as far as it has seen.
	Lag int64
	// Oldest is, of the first unsettled records of all partitions, the one that has been first for the longest. Nil: all that was read is settled.
	Oldest *Oldest
	// LastProgress is when a message was settled last, zero before the first.
	LastProgress time.Time
	// Err says what is wrong now and which setting to look at; empty: nothing is.
	Err string
}

// Status may be asked at any time.
func (r *Reader) Status() Status {
	r.flushAll()
	s := Status{
		Paused:       r.pause.on.Load(),
		LastProgress: r.load.lastProgress(),
		InFlight:     r.load.records.Load(), InFlightBytes: r.load.bytes.Load(), Span: r.load.span.Load(),
	}
	for _, p := range r.all() {
		s.Partitions++
		s.Lag += p.lag()
		if o, open := p.oldestOpen(); open && (s.Oldest == nil || o.before(*s.Oldest)) {
			s.Oldest = &o
		}
	}
	s.Joined, s.Err = r.status.read()
	return s
}

// troubleLasts is how long an error of a poll counts that nothing has contradicted.
const troubleLasts = 15 * time.Second

// status collects what is known of the cluster. It logs each trouble once.
type status struct {
	log      *slog.Logger
	stream   string
	pattern  bool
	mu       sync.Mutex
	isMember bool
	wellAt   time.Time
	// what is wrong, by who noticed it
	reach, polling, commit string
	pollingAt              time.Time
}

func newStatus(cfg Config) *status {
	return &status{log: cfg.Logger, stream: cfg.Stream, pattern: cfg.Pattern != ""}
}

func (s *status) joined() { s.set(func() { s.isMember = true }) }

func (s *status) left() { s.set(func() { s.isMember = false }) }

// polled notes that records arrived: the cluster is well.
func (s *status) polled() {
	s.set(func() {
		s.wellAt = time.Now()
		s.reach, s.polling = "", ""
	})
}

// sinceWell is how long ago the cluster was seen to be well.
func (s *status) sinceWell() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.wellAt)
}

// reached notes the result of a look at the cluster.
func (s *status) reached(err error) {
	s.note("the stream cannot read Kafka", &s.reach, err)
	s.set(func() {
		s.wellAt = time.Now()
		if err != nil || !s.isMember {
			s.wellAt = time.Time{} // look again soon
		}
	})
}

// committed notes the result of a commit.
func (s *status) committed(err error) {
	s.note("a commit failed and will be tried again", &s.commit, err)
}

// trouble notes an error of a poll.
func (s *status) trouble(tp topicPartition, err error) {
	s.note("polling met an error", &s.polling, s.explain(tp, err))
	s.set(func() { s.pollingAt = time.Now() })
}

func (s *status) note(what string, where *string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	s.mu.Lock()
	news := text != *where
	*where = text
	s.mu.Unlock()
	if news && text != "" {
		s.log.Warn(what, "stream", s.stream, "error", text)
	}
}

func (s *status) set(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn()
}

// read returns whether we are a member and all that is wrong.
func (s *status) read() (joined bool, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.pollingAt) > troubleLasts {
		s.polling = ""
	}
	var all []string
	for _, t := range []string{s.reach, s.polling, s.commit} {
		if t != "" {
			all = append(all, t)
		}
	}
	return s.isMember, strings.Join(all, "; ")
}

// explain names the setting that an error is about.
func (s *status) explain(tp topicPartition, err error) error {
	own := "STREAMS_" + strings.ToUpper(strings.ReplaceAll(s.stream, "-", "_"))
	topics := own + "_TOPICS"
	if s.pattern {
		topics = own + "_TOPIC_PATTERN"
	}
	var group *kgo.ErrGroupSession
	var noCA x509.UnknownAuthorityError
	var notTLS tls.RecordHeaderError
	switch {
	case errors.Is(err, io.EOF):
		return fmt.Errorf("kafka hangs up at once: does it want TLS or a login, see KAFKA_TLS_ENABLED, KAFKA_SASL_MECHANISM: %w", err)
	case errors.As(err, &noCA), errors.As(err, &notTLS), strings.Contains(err.Error(), "tls alert"),
		strings.Contains(err.Error(), "tls: "): // a client has no type for the last two; the very last is also what kafka says of our certificate
		return fmt.Errorf("no TLS with kafka, see KAFKA_TLS_ENABLED, KAFKA_TLS_CA_FILE, KAFKA_TLS_CERT_FILE: %w", err)
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		return fmt.Errorf("kafka refuses the login, see KAFKA_SASL_USERNAME, KAFKA_SASL_PASSWORD: %w", err)
	case errors.Is(err, kerr.UnsupportedSaslMechanism), errors.Is(err, kerr.IllegalSaslState):
		return fmt.Errorf("kafka wants another kind of login, see KAFKA_SASL_MECHANISM: %w", err)
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return fmt.Errorf("no right to read topic %s, see %s: %w", tp.topic, topics, err)
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return fmt.Errorf("topic %s does not exist, see %s: %w", tp.topic, topics, err)
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		return fmt.Errorf("no right to the group, see %s_GROUP: %w", own, err)
	case errors.Is(err, kerr.InvalidSessionTimeout):
		return fmt.Errorf("the broker allows no such session time-out, see KAFKA_SESSION_TIMEOUT: %w", err)
	case errors.As(err, &group):
		return fmt.Errorf("join the group: %w", group.Err)
	case tp.topic != "":
		return fmt.Errorf("read topic %s partition %d: %w", tp.topic, tp.partition, err)
	}
	return err
}
