package streams

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
)

// connects notes how a client gets in, to explain why it does not.
func (s *status) connects(client *kgo.Client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cfg, ok := client.OptValue(kgo.DialTLSConfig).(*tls.Config); ok {
		s.tls = cfg != nil
	}
	if all, ok := client.OptValue(kgo.SASL).([]sasl.Mechanism); ok && len(all) > 0 {
		s.login = all[0].Name()
	}
}

// hungUp explains that a broker closed the connection, which says nothing of why.
func (s *status) hungUp(err error) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var first *kgo.ErrFirstReadEOF
	switch {
	case s.wasWell:
		return "kafka hangs up, as a broker does that stops or starts again"
	case s.tls && errors.As(err, &first) && strings.Contains(err.Error(), "immediately after a dial"): // the client has no other sign
		return "kafka hangs up where TLS is to begin: is it a port without TLS, see KAFKA_TLS_ENABLED, KAFKA_BROKERS"
	case s.tls && s.login == "":
		return "kafka hangs up at once: does it want a login or a certificate, see KAFKA_SASL_MECHANISM, KAFKA_TLS_CERT_FILE"
	case !s.tls && s.login == "":
		return "kafka hangs up at once: does it want TLS or a login, see KAFKA_TLS_ENABLED, KAFKA_SASL_MECHANISM"
	case !s.tls:
		return "kafka hangs up at once: does it want TLS, see KAFKA_TLS_ENABLED"
	}
	return "kafka hangs up at once"
}

// credentials are the settings of who logs in.
func (s *status) credentials() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.login {
	case "OAUTHBEARER":
		return "KAFKA_SASL_OAUTH_TOKEN_FILE or KAFKA_SASL_OAUTH_TOKEN_URL"
	case "AWS_MSK_IAM":
		return "the credentials of AWS and their rights"
	}
	return "KAFKA_SASL_USERNAME, KAFKA_SASL_PASSWORD"
}

// noMatch explains why nothing is read.
func (s *status) noMatch(pattern string) error {
	return fmt.Errorf("no topic matches %q yet, or this user may not see it: see %s_TOPIC_PATTERN", pattern, s.own())
}

// own is how the names of the stream's settings begin.
func (s *status) own() string {
	return "STREAMS_" + strings.ToUpper(strings.ReplaceAll(s.stream, "-", "_"))
}

// Explain names the setting that an error is about which a client has with all of Kafka, as the status of a reader does.
func Explain(client *kgo.Client, err error) error {
	s := &status{}
	s.connects(client)
	return s.explain(topicPartition{}, err)
}

// explain names the setting that an error is about.
func (s *status) explain(tp topicPartition, err error) error {
	own := s.own()
	topics := own + "_TOPICS"
	if s.pattern {
		topics = own + "_TOPIC_PATTERN"
	}
	var group *kgo.ErrGroupSession
	var otherName x509.HostnameError
	var noCA x509.UnknownAuthorityError
	var notTLS tls.RecordHeaderError
	switch {
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%s: %w", s.hungUp(err), err)
	case errors.As(err, &otherName):
		return fmt.Errorf("the certificate of kafka is another host's, see KAFKA_TLS_SERVER_NAME, KAFKA_BROKERS: %w", err)
	case errors.As(err, &noCA), errors.As(err, &notTLS), strings.Contains(err.Error(), "tls alert"),
		strings.Contains(err.Error(), "tls: "): // a client has no type for the last two; the very last is also what kafka says of our certificate
		return fmt.Errorf("no TLS with kafka, see KAFKA_TLS_ENABLED, KAFKA_TLS_CA_FILE, KAFKA_TLS_CERT_FILE: %w", err)
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		return fmt.Errorf("kafka refuses the login, see %s: %w", s.credentials(), err)
	case errors.Is(err, kerr.UnsupportedSaslMechanism), errors.Is(err, kerr.IllegalSaslState):
		return fmt.Errorf("kafka wants another kind of login, or none, see KAFKA_SASL_MECHANISM: %w", err)
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
	case tp.topic != "" && tp.partition < 0:
		return fmt.Errorf("read topic %s: %w", tp.topic, err)
	case tp.topic != "":
		return fmt.Errorf("read topic %s partition %d: %w", tp.topic, tp.partition, err)
	}
	return err
}
