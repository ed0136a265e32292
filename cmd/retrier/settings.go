package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/config"
	"github.com/stepwell/stepwell/webhook"
)

// settings are the retrier's own, below app in the file or APP_… in the environment.
type settings struct {
	// Hosts may be called, and no others; none: public addresses.
	Hosts []string `koanf:"hosts"`
	// Secrets are entries name=whsec_…; SecretsFile has one a line.
	Secrets     []string `koanf:"secrets"`
	SecretsFile string   `koanf:"secrets_file"`
	// Workflows are waits by name, as a list or as 5s,10s.
	Workflows map[string]any `koanf:"workflows"`
	// Timeout is for one request, HostLimit how many a host has at once.
	Timeout   time.Duration `koanf:"timeout"`
	HostLimit int           `koanf:"host_limit"`
	// BodyLimit is the largest body that is accepted.
	BodyLimit int64 `koanf:"body_limit" unit:"bytes"`
	// Records says whether workflows can be made at run time, and calls cancelled.
	Records bool        `koanf:"records"`
	TLS     tlsSettings `koanf:"tls"`
}

// tlsSettings are for requests to https.
type tlsSettings struct {
	CAFile   string `koanf:"ca_file"`
	CertFile string `koanf:"cert_file"`
	KeyFile  string `koanf:"key_file"`
}

// longest is what all waits of a call may be together.
const longest = 30 * 24 * time.Hour

// defaultBodyLimit is in bytes: calls are small, and each is in memory while it is made.
const defaultBodyLimit = 1 << 20

// readSettings reads them, with what is usual where nobody says otherwise, and where something
// cannot be read, which is in the error: APP_HOST in place of APP_HOSTS is, too.
func readSettings(c *config.Config) (*settings, error) {
	s := &settings{Timeout: 10 * time.Second, HostLimit: 8, BodyLimit: defaultBodyLimit, Records: true}
	return s, c.UnmarshalStrict("", s)
}

// check names all that is wrong with the settings, a line each.
func check(c *config.Config) error {
	s, wrong := readSettings(c)
	_, wrongWorkflows := s.workflows()
	_, wrongTLS := s.TLS.client()
	return errors.Join(wrong, wrongWorkflows, wrongTLS, s.calls(), s.fits(c))
}

// calls asks package webhook about its part of the settings, one at a time: so each of its
// complaints has the name of the variable that it is about.
func (s *settings) calls() error {
	fromFile, err := s.fileSecrets()
	errs := []error{err}
	ask := func(variable string, c webhook.Config) {
		c.Enqueue = func(context.Context, string, stepwell.Message, time.Duration) error { return actor.ErrRefused }
		_, err := webhook.NewHandler(c)
		if err == nil {
			return
		}
		for line := range strings.SplitSeq(strings.TrimPrefix(err.Error(), "webhook: "), "\n") {
			errs = append(errs, fmt.Errorf("%s: %s", variable, line))
		}
	}
	ask("APP_HOSTS", webhook.Config{Hosts: s.Hosts})
	ask("APP_SECRETS", webhook.Config{Secrets: s.Secrets})
	ask("APP_SECRETS_FILE", webhook.Config{Secrets: fromFile})
	// What is not above 0 is named by fits.
	ask("APP_TIMEOUT", webhook.Config{Timeout: max(s.Timeout, 0)})
	ask("APP_HOST_LIMIT", webhook.Config{HostLimit: max(s.HostLimit, 0)})
	return errors.Join(errs...)
}

// fits checks the settings against those of the stream. What is accepted must find room in the
// queues, and so must its failures; a request must be given up before its handler is; and the
// stream's tries must not end before the call's.
func (s *settings) fits(c *config.Config) error {
	const room = 256 << 10 // for what is filled in, a failure, and headers of the envelope
	var errs []error
	of := c.Stream(stream)
	if of.Retry.Policy != "linear" || *of.Retry.Count < tries {
		errs = append(errs, fmt.Errorf("RETRY_COUNT and RETRY_POLICY are not for the retrier, whose calls bring their own waits: %d tries of policy %s would end some of them early", *of.Retry.Count, of.Retry.Policy))
	}
	errs = append(errs, ownWaits(of.Retry)...)
	if s.Timeout >= of.HandlerTimeout {
		errs = append(errs, fmt.Errorf("APP_TIMEOUT of %s must be below HANDLER_TIMEOUT of %s", s.Timeout, of.HandlerTimeout))
	}
	if s.BodyLimit <= 0 || s.BodyLimit > int64(c.RabbitMQ.MaxMessageSize)-room {
		errs = append(errs, fmt.Errorf("APP_BODY_LIMIT of %d bytes is not within 1 to %d, which is RABBITMQ_MAX_MESSAGE_SIZE less %d KiB",
			s.BodyLimit, c.RabbitMQ.MaxMessageSize-room, room>>10))
	}
	if s.Timeout <= 0 {
		errs = append(errs, fmt.Errorf("APP_TIMEOUT of %s must be above 0", s.Timeout))
	}
	if s.HostLimit <= 0 {
		errs = append(errs, fmt.Errorf("APP_HOST_LIMIT of %d must be above 0", s.HostLimit))
	}
	return errors.Join(errs...)
}

// ownWaits refuses waits of the stream, of which a call that fails has none: a setting that is
// taken and does nothing for it looks like a promise.
func ownWaits(r config.Retry) (errs []error) {
	refuse := func(name string, value any) {
		errs = append(errs, fmt.Errorf("RETRY_%s, or STREAMS_CALLS_RETRY_%[1]s, of %v is not for the retrier, whose calls bring their own waits: leave it out, and give waits with the call, or APP_WORKFLOWS_<NAME>", name, value))
	}
	if r.Delay != delay {
		refuse("DELAY", r.Delay)
	}
	if r.Step != 0 {
		refuse("STEP", r.Step)
	}
	if r.Jitter != 0 {
		refuse("JITTER", r.Jitter)
	}
	return errs
}

// fileSecrets are those of the file, in which lines with # are for people. What an entry must look
// like is package webhook's to say.
func (s *settings) fileSecrets() (all []string, err error) {
	if s.SecretsFile == "" {
		return nil, nil
	}
	text, err := os.ReadFile(s.SecretsFile)
	if err != nil {
		return nil, fmt.Errorf("APP_SECRETS_FILE: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			all = append(all, line)
		}
	}
	return all, nil
}

// workflows are the waits of each; the error has all that cannot be read.
func (s *settings) workflows() (map[string][]time.Duration, error) {
	all := map[string][]time.Duration{}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(s.Workflows)) {
		waits, err := readWaits(s.Workflows[name])
		if err != nil {
			errs = append(errs, fmt.Errorf("APP_WORKFLOWS_%s: workflow %q: %w", strings.ToUpper(name), name, err))
			continue
		}
		all[name] = waits
	}
	return all, errors.Join(errs...)
}

// readWaits reads waits from a text of the environment or a list of the file. A name with an
// underscore comes from the environment as a level, see [config.Config.Unmarshal].
func readWaits(value any) (waits []time.Duration, err error) {
	var texts []string
	switch v := value.(type) {
	case string:
		texts = strings.Split(v, ",")
	case []any:
		for _, entry := range v {
			texts = append(texts, fmt.Sprint(entry))
		}
	case map[string]any:
		return nil, errors.New("a name with an underscore can only stand in the file: a variable takes it for a level")
	default:
		return nil, errors.New("must be a list of waits, as 5s,10s,15s")
	}
	if len(texts) > tries {
		return nil, fmt.Errorf("%d waits are more than the %d tries that a call can have", len(texts), tries)
	}
	var sum time.Duration
	for _, text := range texts {
		d, err := time.ParseDuration(strings.TrimSpace(text))
		if err != nil || d < 0 {
			return nil, fmt.Errorf("%q is no wait such as 5s or 1h30m", text)
		}
		if sum += d; d > longest || sum > longest {
			return nil, fmt.Errorf("its waits are more than the %s that a call can take", longest)
		}
		waits = append(waits, d)
	}
	return waits, nil
}

// client is the side of TLS that calls have. A wrong path shows at the start, not at the first
// call.
func (t tlsSettings) client() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	var errs []error
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		c.RootCAs = x509.NewCertPool()
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("APP_TLS_CA_FILE: %w", err))
		case !c.RootCAs.AppendCertsFromPEM(pem):
			errs = append(errs, fmt.Errorf("APP_TLS_CA_FILE: %s has no certificate in PEM", t.CAFile))
		}
	}
	switch {
	case (t.CertFile == "") != (t.KeyFile == ""):
		errs = append(errs, errors.New("APP_TLS_CERT_FILE and APP_TLS_KEY_FILE go together: one of them is missing"))
	case t.CertFile != "":
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			errs = append(errs, fmt.Errorf("APP_TLS_CERT_FILE and APP_TLS_KEY_FILE: %w", err))
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, errors.Join(errs...)
}
