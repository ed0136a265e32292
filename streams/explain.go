package streams

import (
	"context"
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
		return "kafka hangs up where TLS is to begin: is it a port without TLS, see " + s.list("kafka.tls.enabled", "kafka.brokers")
	case s.tls && s.login == "":
		return "kafka hangs up at once: does it want a login or a certificate, see " + s.list("kafka.sasl.mechanism", "kafka.tls.cert_file")
	case !s.tls && s.login == "":
		return "kafka hangs up at once: does it want TLS or a login, see " + s.list("kafka.tls.enabled", "kafka.sasl.mechanism")
	case !s.tls:
		return "kafka hangs up at once: does it want TLS, see " + s.setting("kafka.tls.enabled")
	}
	return "kafka hangs up at once"
}

// credentials are the settings of who logs in.
func (s *status) credentials() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.login {
	case "OAUTHBEARER":
		return s.setting("kafka.sasl.oauth.token_file") + " or " + s.setting("kafka.sasl.oauth.token_url")
	case "AWS_MSK_IAM":
		return "the credentials of AWS and their rights"
	}
	return s.list("kafka.sasl.username", "kafka.sasl.password")
}

// noMatch explains why nothing is read.
func (s *status) noMatch(pattern string) error {
	return fmt.Errorf("no topic matches %q yet, or this user may not see it: see %s", pattern, s.own("topic_pattern"))
}

// own is a setting of the stream.
func (s *status) own(key string) string { return s.setting("streams." + s.stream + "." + key) }

// list are settings, as a sentence has them.
func (s *status) list(keys ...string) string {
	var all []string
	for _, key := range keys {
		all = append(all, s.setting(key))
	}
	return strings.Join(all, ", ")
}

// Ping asks Kafka for a word. Where it says none the client tells what it was at when the time was
// over, which may be to look up a name.
func Ping(ctx context.Context, client *kgo.Client) error {
	err := client.Ping(ctx)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("no answer in time: %w", err)
	}
	return err
}

// Explain names the setting that an error is about which a client has with all of Kafka, as the
// status of a reader does; setting is [Config.Setting].
func Explain(setting func(key string) string, client *kgo.Client, err error) error {
	s := &status{setting: setting}
	s.connects(client)
	return s.explain(topicPartition{}, err)
}

// explain names the setting that an error is about.
func (s *status) explain(tp topicPartition, err error) error {
	topics := "topics"
	if s.pattern {
		topics = "topic_pattern"
	}
	var group *kgo.ErrGroupSession
	why := s.explainEntry(err)
	switch {
	case why != "":
		return fmt.Errorf("%s: %w", why, err)
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return fmt.Errorf("no right to read topic %s, see %s: %w", tp.topic, s.own(topics), err)
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return fmt.Errorf("topic %s does not exist, see %s: %w", tp.topic, s.own(topics), err)
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		return fmt.Errorf("no right to the group, see %s: %w", s.own("group"), err)
	case errors.Is(err, kerr.InvalidSessionTimeout):
		return fmt.Errorf("the broker allows no such session time-out, see %s: %w", s.setting("kafka.session_timeout"), err)
	case errors.As(err, &group):
		return fmt.Errorf("join the group: %w", group.Err)
	case tp.topic != "" && tp.partition < 0:
		return fmt.Errorf("read topic %s: %w", tp.topic, err)
	case tp.topic != "":
		return fmt.Errorf("read topic %s partition %d: %w", tp.topic, tp.partition, err)
	}
	return err
}

// explainEntry says why a client does not get in; empty: an error is about something else. Where
// the client, or who finds credentials, has no type for it, the text has to do.
func (s *status) explainEntry(err error) string {
	has := func(text string) bool { return strings.Contains(err.Error(), text) }
	var otherName x509.HostnameError
	var noCA x509.UnknownAuthorityError
	var notTLS tls.RecordHeaderError
	switch {
	case has("token for kafka: "), has("credentials of AWS: "): // first: it may be about another host
		return "no credentials to log in to kafka with, see " + s.credentials()
	case errors.Is(err, io.EOF), has("broker connection has died") && !s.everWell():
		return s.hungUp(err)
	case errors.As(err, &otherName):
		return "the certificate of kafka is another host's, see " + s.list("kafka.tls.server_name", "kafka.brokers")
	case errors.As(err, &noCA), errors.As(err, &notTLS), has("tls alert"), has("tls: "): // the last is also what kafka says of our certificate
		return "no TLS with kafka, see " + s.list("kafka.tls.enabled", "kafka.tls.ca_file", "kafka.tls.cert_file")
	case (has("invalid large response size") || has("invalid negative response size")) && !s.everWell():
		return "what answers does not speak as kafka does: is it a port of kafka's, see " + s.setting("kafka.brokers")
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		return "kafka refuses the login, see " + s.credentials()
	case errors.Is(err, kerr.UnsupportedSaslMechanism), errors.Is(err, kerr.IllegalSaslState):
		return "kafka wants another kind of login, or none, see " + s.setting("kafka.sasl.mechanism")
	}
	return ""
}

// everWell says whether the cluster was used at any time: then it is not the settings that are
// wrong.
func (s *status) everWell() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wasWell
}
