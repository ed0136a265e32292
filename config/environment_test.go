package config_test

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/config"
)

func TestAVariableThatIsNotOursIsReadNowhere(t *testing.T) {
	tests := []struct{ name, variable, warning, mistake string }{
		{"a service called kafka", "KAFKA_PORT=tcp://10.0.0.1:9092", "", ""},
		{"its protocol", "KAFKA_PORT_9092_TCP_PROTO=tcp", "", ""},
		{"its host", "KAFKA_SERVICE_HOST=10.0.0.1", "", ""},
		{"its named port", "RABBITMQ_SERVICE_PORT_AMQP=5672", "", ""},
		{"a service called streams-orders", "STREAMS_ORDERS_PORT=tcp://10.0.0.1:80", "", ""},
		{"a port that a person set", "KAFKA_PORT=9092", "KAFKA_PORT is not known", ""},
		{"a typing error", "KAFKA_BROKRES=x", "did you mean KAFKA_BROKERS?", ""},
		{"a later version's setting", "RETRY_SPREAD=2", "RETRY_SPREAD is not known and not read\n", ""},
		{"a typing error in a stream's setting", "STREAMS_ORDERS_TOPCIS=x", "did you mean STREAMS_ORDERS_TOPICS?", ""},
		{"a stream that nobody registers", "STREAMS_REFUNDS_TOPICS=x", "", "STREAMS_REFUNDS_TOPICS: no code registers such a stream"},
		{"a stream whose id begins like ours", "STREAMS_ORDERS_EU_RETRY_COUNT=1", "", "no code registers such a stream"},
		{"a typing error in one word", "CONCURENCY=3", "CONCURENCY is not known and not read; did you mean CONCURRENCY?", ""},
		{"a typing error in the name of the file", "CONFIG_FIEL=x", "did you mean CONFIG_FILE?", ""},
		{"a section in one word", "DEADSET_WALK_BYTES=1", "did you mean DEAD_SET_WALK_BYTES?", ""},
		{"a secret's file", "SERVER_TOKEN_FIEL=x", "did you mean SERVER_TOKEN_FILE?", ""},
		{"a setting that there is not", "SERVER_PORT=80", "SERVER_PORT is not known and not read\n", ""},
		{"somebody else's", "PATH=/bin", "", ""},
		{"far from all of ours", "CONCERTO=x", "", ""},
		{"a shell's", "LOGNAME=x", "", ""},
		{"a foreign section", "SERVE_STATIC=x", "", ""},
		{"the user's", "APP_ANYTHING=1", "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			cfg, err := config.Load(source(test.variable))
			if test.mistake != "" {
				if err == nil || !strings.Contains(err.Error(), test.mistake) {
					t.Errorf("got %v, want %s", err, test.mistake)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(cfg.Warnings(), "\n"); !strings.Contains(got+"\n", test.warning) || (test.warning == "") != (got == "") {
				t.Errorf("warns %q, want %q", got, test.warning)
			}
		})
	}
}

func TestThePrefixStandsBeforeEveryVariable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	write(t, file, "concurrency: 7\n")
	cfg := load(t, config.Source{
		EnvPrefix: "X_", Streams: map[string]config.Stream{"a-b": {}},
		Environ: []string{
			"X_APP_NAME=shop", "X_KAFKA_BROKERS=k:1", "X_RABBITMQ_URL=amqp://h/", "X_STREAMS_A_B_TOPICS=t , u,", "X_CONFIG_FILE=" + file,
			"X_APP_LEVEL=3", "RETRY_COUNT=9", "APP_LEVEL=4", "STREAMS_NOBODY_TOPICS=t", "X_RETRY_CUONT=9",
		},
	})
	s := cfg.Stream("a-b")
	if cfg.App.Name != "shop" || s.Concurrency != 7 || *s.Retry.Count != 3 || !slices.Equal(s.Topics, []string{"t", "u"}) {
		t.Errorf("got %+v", s)
	}
	var own struct{ Level int }
	if err := cfg.Unmarshal("", &own); err != nil || own.Level != 3 {
		t.Errorf("level %d, %v", own.Level, err)
	}
	if w := cfg.Warnings(); len(w) != 1 || !strings.Contains(w[0], "X_RETRY_COUNT") {
		t.Errorf("warnings %q", w)
	}
	var out bytes.Buffer
	if err := cfg.Print(&out); err != nil || !strings.Contains(out.String(), "\nX_STREAMS_A_B_TOPICS ") {
		t.Errorf("%v, printed:\n%s", err, &out)
	}
	last := strings.Fields(out.String()[strings.LastIndex(strings.TrimSuffix(out.String(), "\n"), "\n"):])
	if !slices.Equal(last, []string{"X_APP_LEVEL", "******", "environment"}) {
		t.Errorf("of the program's own is printed %q", last)
	}
}

func TestWarningsStandBesideMistakesSinceTheyMayExplainThem(t *testing.T) {
	s := source("KAFKA_BROKERS=", "KAFKA_BROKRES=k:1", "RETRY_COUNT=many")
	s.Environ = slices.DeleteFunc(s.Environ, func(e string) bool { return strings.HasPrefix(e, "KAFKA_BROKERS=") })
	_, err := config.Load(s)
	if err == nil {
		t.Fatal("no mistake")
	}
	lines := strings.Split(err.Error(), "\n")
	wants := []string{"the configuration has mistakes", "KAFKA_BROKERS", "RETRY_COUNT", "warning: KAFKA_BROKRES is not known"}
	if len(lines) != len(wants) {
		t.Fatalf("says\n%v", err)
	}
	for i, want := range wants {
		if !strings.Contains(lines[i], want) {
			t.Errorf("line %d is %q, want %s", i+1, lines[i], want)
		}
	}
}

// A program that was left on embedded brokers has all that it needs, and loses all that it keeps.
func TestSettingsThatLeadToBrokersAreWarnedOfBesideAnAppsOwn(t *testing.T) {
	s := source("KAFKA_SESSION_TIMEOUT=20s", "RABBITMQ_CONSUMER_TIMEOUT=1h")
	if w := load(t, s).Warnings(); len(w) > 0 {
		t.Errorf("of configured brokers: %q", w)
	}
	s.Embedded = true
	if w := load(t, s).Warnings(); len(w) != 1 || !strings.HasPrefix(w[0], "set and not used") || !strings.HasSuffix(w[0], ": KAFKA_BROKERS, RABBITMQ_URL") {
		t.Errorf("warnings %q", w)
	}
	s.Environ = append(s.Environ, "KAFKA_TLS_ENABLED=true", "KAFKA_SASL_MECHANISM=PLAIN", "KAFKA_SASL_USERNAME=u", "KAFKA_SASL_PASSWORD="+secret)
	if w := load(t, s).Warnings(); len(w) != 1 || !strings.HasSuffix(w[0], ": KAFKA_BROKERS, KAFKA_TLS_ENABLED, KAFKA_SASL_MECHANISM, KAFKA_SASL_USERNAME, KAFKA_SASL_PASSWORD, RABBITMQ_URL") {
		t.Errorf("warnings %q", w)
	}
	s.Environ = []string{"KAFKA_SESSION_TIMEOUT=20s"}
	if w := load(t, s).Warnings(); len(w) > 0 {
		t.Errorf("without any: %q", w)
	}
}

func TestPrintSaysWhereEachValueCameFrom(t *testing.T) {
	s := source("RETRY_COUNT=5", "WINDOW_BYTES=1048576")
	s.File = filepath.Join(t.TempDir(), "c.yaml")
	write(t, s.File, "retry:\n  delay: 90m\nserver:\napp:\n  db:\n    pool: 3\n")
	var out bytes.Buffer
	if err := load(t, s).Print(&out); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	for _, want := range []string{
		"APP_DB_POOL ****** file",
		"APP_NAME shop code",
		"KAFKA_CLIENT_ID shop default",
		"RABBITMQ_URL amqp://u:******@h/ environment RABBITMQ_URL",
		"RABBITMQ_CONSUMER_TIMEOUT 30m default",
		"STREAMS_ORDERS_TOPICS orders.v1 code",
		"STREAMS_ORDERS_GROUP shop.orders default",
		"STREAMS_ORDERS_RETRY_COUNT 5 environment RETRY_COUNT",
		"STREAMS_ORDERS_RETRY_DELAY 1h30m file " + s.File,
		"STREAMS_ORDERS_WINDOW_BYTES 1MiB environment WINDOW_BYTES",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("no line %q in\n%s", want, &out)
		}
	}
}
