package config_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stepwell/stepwell/config"
)

// secret is in no name, default or text of this package.
const secret = "qZ7xW9"

// said is all that a person gets to see of a configuration.
func said(s config.Source) string {
	cfg, err := config.Load(s)
	if err != nil {
		return err.Error()
	}
	var out bytes.Buffer
	if err := cfg.Print(&out); err != nil {
		return err.Error()
	}
	var number struct {
		DB int `koanf:"db"`
	}
	if err := cfg.Unmarshal("", &number); err != nil {
		out.WriteString(err.Error())
	}
	return out.String() + strings.Join(cfg.Warnings(), "\n")
}

func TestSecretsAreShownNowhere(t *testing.T) {
	tests := []struct {
		name, file string
		variables  []string
	}{
		{"a token that looks like a URL", "", []string{"SERVER_TOKEN=a://" + secret}},
		{"a URL of another kind", "", []string{"RABBITMQ_URL=http://u:" + secret + "@h/"}},
		{"no URL at all", "", []string{"RABBITMQ_URL=::%" + secret}},
		{"a password with a # in a URL", "", []string{"RABBITMQ_URL=amqp://u:1#" + secret + "@h/"}},
		{"a password with a / in a URL", "", []string{"RABBITMQ_URL=amqp://u:1/" + secret + "@h/"}},
		{"a password with a comma in a URL", "", []string{"RABBITMQ_URL=amqp://u:1," + secret + "@h/"}},
		{"a password among a URL's parameters", "", []string{"RABBITMQ_URL=amqp://h/?password=" + secret}},
		{"a URL in another setting", "", []string{"KAFKA_BROKERS=amqp://u:" + secret + "@h:1"}},
		{"a secret in place of its file's name", "", []string{"SERVER_TOKEN_FILE=" + secret}},
		{"a file that is only a secret", secret, nil},
		{"a password that YAML takes for an alias", "rabbitmq:\n  password: *" + secret, nil},
		{"a password that YAML takes for a tag", "rabbitmq:\n  password: !" + secret + " {", nil},
		{"a password that YAML takes for a map", "rabbitmq:\n  password: {" + secret + "}", nil},
		{"a password that YAML takes for a list", "rabbitmq:\n  password: [" + secret + "]", nil},
		{"a password of two lines", "rabbitmq:\n  password: \"" + secret + "\n" + secret + "\"", nil},
		{"a password swallowed by a list that was not closed", "start: [\n  password: " + secret + "]", nil},
		{"a value where settings should stand", "rabbitmq: " + secret, nil},
		{"a user's own setting of another type", "", []string{"APP_DB=" + secret}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := source(test.variables...)
			if test.file != "" {
				s.File = filepath.Join(t.TempDir(), "c.yaml")
				write(t, s.File, test.file)
			}
			if got := said(s); strings.Contains(got, secret) {
				t.Errorf("said:\n%s", got)
			}
		})
	}
}

func TestASecretComesFromItsFileWithoutTheLineBreak(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	tests := []struct{ name, content, secret, says string }{
		{"with a line break", "t0p\n", "t0p", ""},
		{"with that of Windows", "t0p\r\n", "t0p", ""},
		{"without one", "t0p", "t0p", ""},
		{"with two, of which one may be wanted", "t0p \n\n", "t0p \n", ""},
		{"empty", "\n", "", "RABBITMQ_PASSWORD_FILE: names an empty file"},
		{"huge", strings.Repeat("x", 1<<17), "", "above 64KiB"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			write(t, file, test.content)
			cfg, err := config.Load(source("RABBITMQ_PASSWORD_FILE=" + file))
			switch {
			case test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)):
				t.Errorf("got %v, want %s", err, test.says)
			case test.says == "" && (err != nil || cfg.RabbitMQ.Password != test.secret):
				t.Errorf("got %+v, %v", cfg, err)
			}
		})
	}
}

func TestNoMixOfSettingsShowsASecret(t *testing.T) {
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	write(t, token, drawn+secret)
	rapid.Check(t, func(t *rapid.T) {
		odd := rapid.SampledFrom([]string{"", "x", "0", "-1", "true", "a:1", "amqp://h/", "[", "earliest", "12h"})
		s := source(
			"KAFKA_SASL_PASSWORD="+secret, "KAFKA_SASL_MECHANISM="+odd.Draw(t, "mechanism"), "RABBITMQ_PASSWORD="+secret,
			"RABBITMQ_URL="+odd.Draw(t, "first URL")+",amqp://u:"+secret+"@h"+odd.Draw(t, "rest"),
			rapid.SampledFrom([]string{"SERVER_TOKEN=" + drawn + secret, "SERVER_TOKEN_FILE=" + token}).Draw(t, "token"),
			"SERVER_ADDRESS="+odd.Draw(t, "address"), "RETRY_COUNT="+odd.Draw(t, "count"), "STREAMS_ORDERS_START="+odd.Draw(t, "start"),
		)
		if got := said(s); strings.Contains(got, secret) {
			t.Errorf("said:\n%s", got)
		}
	})
}

func FuzzNoVariablePanicsOrShowsASecret(f *testing.F) {
	f.Add("RETRY_COUNT", "x")
	f.Add("RABBITMQ_URL", "amqp://u:p@h/")
	f.Add("SERVER_TOKEN_FILE", "/")
	f.Add("APP_A_B", "\x00")
	f.Add("STREAMS_ORDERS_TOPIC_PATTERN", "(")
	f.Add("STREAMS_ORDERS_CHANNELS_SLOW_RETRY_COUNT", "x")
	f.Add("STREAMS_ORDERS_CHANNELS_SLO_TOPICS", "x")
	f.Fuzz(func(t *testing.T, name, value string) {
		if strings.Contains(name+value, secret) || strings.HasSuffix(name, "_FILE") && value != "/" {
			t.Skip("shows what the fuzzer made itself, or reads what it likes")
		}
		if got := said(withChannel(config.Stream{}, config.Channel{}, "KAFKA_SASL_PASSWORD="+secret, "SERVER_TOKEN="+drawn+secret, "APP_DB="+secret, name+"="+value)); strings.Contains(got, secret) {
			t.Errorf("said:\n%s", got)
		}
	})
}

func FuzzNoFilePanicsOrShowsASecret(f *testing.F) {
	f.Add("", "")
	f.Add("retry:\n  count: 7\n", "\nlog: {level: debug}")
	f.Add("rabbitmq:\n  url: [a, {b: c}]\n", "")
	f.Add("? [a, b]\n: 3\n1: 2\n", "\n# end")
	f.Add("app: {name: {x: y}}\nstreams: {orders: {topics: {a: b}}}\n", "")
	f.Add("retry.count: 3\nretry: {count: 3}\n", "\napp: 3")
	f.Add("streams: {orders: {channels: {slow: {retry: {count: x}}, slo: 3}}}\n", "")
	f.Add("streams.orders.channels: {slow: 3}\n", "\nstreams: {orders: {channels: }}")
	f.Fuzz(func(t *testing.T, before, after string) {
		if strings.ContainsAny(before, "\"'|>") || strings.Contains(before+after, secret) {
			t.Skip("makes the secret a part of something else's text")
		}
		s := withChannel(config.Stream{}, config.Channel{})
		s.File = filepath.Join(t.TempDir(), "c.yaml")
		content := before + "\nserver:\n  token: " + drawn + secret + after
		if err := os.WriteFile(s.File, []byte(content), 0o600); err != nil {
			t.Skip(err)
		}
		if got := said(s); strings.Contains(got, secret) {
			t.Errorf("said:\n%s\nof\n%s", got, content)
		}
	})
}
