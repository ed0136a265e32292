package config_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/config"
)

var update = flag.Bool("update", false, "write docs/CONFIGURATION.md")

func TestDocumentationIsUpToDate(t *testing.T) {
	const path = "../docs/CONFIGURATION.md"
	var want bytes.Buffer
	if err := config.Document(&want); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Error("docs/CONFIGURATION.md is stale: go generate ./config")
	}
}

// source is a configuration without mistakes; more are further variables.
func source(more ...string) config.Source {
	return config.Source{
		AppName: "shop",
		Streams: map[string]config.Stream{"orders": {Topics: []string{"orders.v1"}}},
		Environ: append([]string{"KAFKA_BROKERS=a:9092,b:9092", "RABBITMQ_URL=amqp://u:p4ss@h/"}, more...),
	}
}

func load(t *testing.T, s config.Source) *config.Config {
	t.Helper()
	cfg, err := config.Load(s)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestDefaultsAreWhatTheDocumentationSays(t *testing.T) {
	cfg := load(t, source())
	s := cfg.Stream("orders")
	switch {
	case *s.Retry.Count != 3, !*s.Retry.Enabled, s.Retry.Delay != 5*time.Second, s.Retry.Step != 0:
		t.Errorf("retry: %+v", s.Retry)
	case s.Group != "shop.orders", s.Start != "earliest", s.WindowMessages != 10000, s.WindowBytes != 64<<20, s.HandlerTimeout != 5*time.Minute:
		t.Errorf("stream: %+v", s)
	case cfg.Server.Address != "localhost:8010", cfg.Shutdown.Timeout != 25*time.Second, cfg.RabbitMQ.ConfirmTimeout != time.Minute:
		t.Errorf("actor: %+v", cfg)
	case !slices.Equal(cfg.Kafka.Brokers, []string{"a:9092", "b:9092"}):
		t.Errorf("brokers: %v", cfg.Kafka.Brokers)
	}
}

func TestTheLargestWindowIsThatOfAnyStream(t *testing.T) {
	s := source("STREAMS_ORDERS_TOPICS=orders", "STREAMS_ORDERS_WINDOW_BYTES=1MiB", "STREAMS_PAYMENTS_WINDOW_BYTES=3MiB", "STREAMS_PAYMENTS_TOPICS=payments", "STREAMS_REFUNDS_WINDOW_BYTES=2MiB", "STREAMS_REFUNDS_TOPICS=refunds")
	s.Streams = map[string]config.Stream{"orders": {}, "payments": {}, "refunds": {}}
	if got := load(t, s).LargestWindow(); got != 3<<20 {
		t.Errorf("%d bytes, want 3 MiB", got)
	}
}

func TestAWindowThatNobodySetHasRoomForAllCalls(t *testing.T) {
	for _, test := range []struct {
		environ []string
		want    int
	}{
		{[]string{"CONCURRENCY=250"}, 10_000},
		{[]string{"CONCURRENCY=1000"}, 40_000},
		{[]string{"STREAMS_ORDERS_CONCURRENCY=1000"}, 40_000},
		{[]string{"CONCURRENCY=1000", "WINDOW_MESSAGES=10000"}, 10_000},
		{[]string{"CONCURRENCY=1000", "STREAMS_ORDERS_WINDOW_MESSAGES=500"}, 500},
		{[]string{"CONCURRENCY=1000", "WINDOW_SPAN=20000"}, 20_000},
	} {
		cfg := load(t, source(test.environ...))
		if got := cfg.Stream("orders").WindowMessages; got != test.want {
			t.Errorf("%v: a window of %d, want %d", test.environ, got, test.want)
		}
		var printed strings.Builder
		if err := cfg.Print(&printed); err != nil {
			t.Fatal(err)
		}
		if want := strconv.Itoa(test.want); !regexp.MustCompile(`(?m)^STREAMS_ORDERS_WINDOW_MESSAGES\W+` + want + `\b`).MatchString(printed.String()) {
			t.Errorf("%v: config print does not say %s:\n%s", test.environ, want, printed.String())
		}
	}
}

func TestTheNearerLayerWins(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	write(t, file, "retry:\n  count: 7\n  delay: 7s\nstreams:\n  orders:\n    retry:\n      delay: 8s\n")
	tests := []struct {
		name  string
		code  config.Retry
		file  string
		env   []string
		count int
		delay time.Duration
	}{
		{"code over the default", config.Retry{Count: new(0), Delay: time.Second}, "", nil, 0, time.Second},
		{"the file over the code, a stream's own over the shared", config.Retry{Count: new(0), Delay: time.Second}, file, nil, 7, 8 * time.Second},
		{"a shared variable under a stream's own in the file", config.Retry{}, file, []string{"RETRY_COUNT=9", "RETRY_DELAY=9s"}, 9, 8 * time.Second},
		{"a stream's own variable over all", config.Retry{}, file, []string{"RETRY_DELAY=9s", "STREAMS_ORDERS_RETRY_DELAY=10s"}, 7, 10 * time.Second},
		{"an empty variable is not set", config.Retry{}, "", []string{"RETRY_COUNT="}, 3, 5 * time.Second},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := source(test.env...)
			s.File = test.file
			s.Streams = map[string]config.Stream{"orders": {Topics: []string{"t"}, Retry: test.code}}
			r := load(t, s).Stream("orders").Retry
			if *r.Count != test.count || r.Delay != test.delay {
				t.Errorf("count %d, delay %v", *r.Count, r.Delay)
			}
		})
	}
}

func TestAPolicyOfTheEnvironmentLeavesWhatTheCodeSaysForItsOwnUnused(t *testing.T) {
	exponential := config.Retry{Policy: config.Exponential, Delay: time.Second, Factor: 3, MaxDelay: time.Minute}
	for policy, want := range map[string]int{"RETRY_POLICY=linear": 3, "STREAMS_ORDERS_RETRY_POLICY=linear": 3, "RETRY_POLICY=schedule RETRY_SCHEDULE=1s,2s": 2} {
		s := source(strings.Fields(policy)...)
		s.Streams = map[string]config.Stream{"orders": {Topics: []string{"t"}, Retry: exponential}}
		if r := load(t, s).Stream("orders").Retry; *r.Count != want || r.Policy == config.Exponential {
			t.Errorf("%s: %+v", policy, r)
		}
	}
	s := source()
	exponential.Policy = ""
	s.Streams = map[string]config.Stream{"orders": {Topics: []string{"t"}, Retry: exponential}}
	if _, err := config.Load(s); err == nil || !strings.Contains(err.Error(), "is not for RETRY_POLICY=linear: set STREAMS_ORDERS_RETRY_POLICY=exponential, or leave it out (from code)") {
		t.Errorf("a factor of the code for which nobody asks: %v", err)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestEachMistakeNamesItsSettingAndWhatIsAccepted(t *testing.T) {
	tests := []struct{ name, variable, says string }{
		{"no number", "RETRY_COUNT=many", `RETRY_COUNT: "many" is no whole number`},
		{"no duration", "STREAMS_ORDERS_RETRY_DELAY=5", `STREAMS_ORDERS_RETRY_DELAY: "5" is no duration`},
		{"no size", "WINDOW_BYTES=64MB", `WINDOW_BYTES: "64MB" is no size`},
		{"no boolean", "RETRY_ENABLED=perhaps", `RETRY_ENABLED: "perhaps" is no true or false`},
		{"unknown policy", "RETRY_POLICY=fibonacci", `RETRY_POLICY: "fibonacci" is not known; known: linear, exponential, schedule (from environment RETRY_POLICY)`},
		{"a policy misspelt beside its settings", "RETRY_POLICY=xponential RETRY_COUNT=5 RETRY_DELAY=1s RETRY_FACTOR=3 RETRY_MAX_DELAY=1m", `RETRY_POLICY: "xponential" is not known`},
		{"a trace's place that is not in the URL", "SERVER_TRACE_URL=https://traces.example.com/", `SERVER_TRACE_URL: "https://traces.example.com/" must be an http(s):// URL with {trace_id} in it`},
		{"a trace that chooses the host", "SERVER_TRACE_URL=https://{trace_id}.example.com/", "SERVER_TRACE_URL"},
		{"a trace that ends the host", "SERVER_TRACE_URL=https://traces.example.com{trace_id}", "SERVER_TRACE_URL"},
		{"a trace that is a script", "SERVER_TRACE_URL=javascript:alert({trace_id})", "SERVER_TRACE_URL"},
		{"a factor without its policy", "RETRY_FACTOR=3", `RETRY_FACTOR: "3" is not for RETRY_POLICY=linear: set RETRY_POLICY=exponential, or leave it out (from`},
		{"a step with another policy", "STREAMS_ORDERS_RETRY_POLICY=exponential STREAMS_ORDERS_RETRY_STEP=3s", `STREAMS_ORDERS_RETRY_STEP: "3s" is not for STREAMS_ORDERS_RETRY_POLICY=exponential: set STREAMS_ORDERS_RETRY_POLICY=linear, or leave it out (from`},
		{"a factor that shrinks", "RETRY_POLICY=exponential RETRY_FACTOR=0.9", `RETRY_FACTOR: "0.9" is not within 1 to 100`},
		{"a factor that is none", "RETRY_POLICY=exponential RETRY_FACTOR=NaN", `RETRY_FACTOR: "NaN" is no number`},
		{"a factor that makes too many queues", "RETRY_POLICY=exponential RETRY_FACTOR=1.1 RETRY_COUNT=100", `RETRY_FACTOR: "1.1" makes 71 different waits, each a queue, and 24 are the limit: from 1.34 on it fits`},
		{"a longest wait below the first", "RETRY_POLICY=exponential RETRY_DELAY=2h", `RETRY_MAX_DELAY: "1h" must not be below RETRY_DELAY`},
		{"a longest wait beyond RabbitMQ's limit", "RETRY_POLICY=exponential RETRY_MAX_DELAY=1200h", "2^32-1"},
		{"a schedule without waits", "RETRY_POLICY=schedule", `RETRY_POLICY: "schedule" needs RETRY_SCHEDULE: the waits, with commas, as in 1s,10s,1m`},
		{"a stream's schedule without waits", "STREAMS_ORDERS_RETRY_POLICY=schedule", `STREAMS_ORDERS_RETRY_POLICY: "schedule" needs STREAMS_ORDERS_RETRY_SCHEDULE: the waits`},
		{"a schedule with a gap", "RETRY_POLICY=schedule RETRY_SCHEDULE=1s,,10s", `RETRY_SCHEDULE: "1s,,10s" item 2 is no duration`},
		{"a schedule with an item that is no duration", "RETRY_POLICY=schedule RETRY_SCHEDULE=1s,10", `RETRY_SCHEDULE: "1s,10" item 2 is no duration`},
		{"a schedule with a gap and an item that is no duration", "RETRY_POLICY=schedule RETRY_SCHEDULE=1s,,banana", `"1s,,banana" item 2 is no duration such as 500ms, 5s or 1h30m; item 3 is no duration`},
		{"a schedule with no wait at all", "RETRY_POLICY=schedule RETRY_SCHEDULE=1s,0s", `RETRY_SCHEDULE: "1s,0s" must be above 0`},
		{"a schedule with too many queues", "RETRY_POLICY=schedule RETRY_SCHEDULE=" + seconds(25), "has 25 different waits, each a queue, and 24 are the limit: its first 24 fit (from"},
		{"a schedule with too many queues, some twice", "RETRY_POLICY=schedule RETRY_SCHEDULE=1s,1s," + seconds(25), "24 are the limit: its first 26 fit (from"},
		{"a count beside a schedule", "RETRY_POLICY=schedule RETRY_SCHEDULE=1s RETRY_COUNT=3", `RETRY_COUNT: "3" is not for RETRY_POLICY=schedule: leave it out, the list in RETRY_SCHEDULE says it (from`},
		{"a first wait beside a schedule of its own", "RETRY_POLICY=schedule STREAMS_ORDERS_RETRY_SCHEDULE=1s RETRY_DELAY=3s", `RETRY_DELAY: "3s" is not for RETRY_POLICY=schedule: leave it out, the list in STREAMS_ORDERS_RETRY_SCHEDULE says it (from`},
		{"a schedule without its policy", "RETRY_SCHEDULE=1s,2s", `RETRY_SCHEDULE: "1s,2s" is not for RETRY_POLICY=linear: set RETRY_POLICY=schedule, or leave it out (from`},
		{"a schedule of one stream without its policy", "STREAMS_ORDERS_RETRY_SCHEDULE=1s", `: set STREAMS_ORDERS_RETRY_POLICY=schedule, or leave it out (from`},
		{"a schedule of one stream beside a policy for all", "RETRY_POLICY=exponential STREAMS_ORDERS_RETRY_SCHEDULE=1s", `is not for RETRY_POLICY=exponential: set STREAMS_ORDERS_RETRY_POLICY=schedule, or`},
		{"a longest wait without its policy", "RETRY_MAX_DELAY=3h", `RETRY_MAX_DELAY: "3h" is not for RETRY_POLICY=linear: set RETRY_POLICY=exponential, or`},
		{"waits in place that are no number", "RETRY_IN_PLACE=some", `RETRY_IN_PLACE: "some" is neither all nor a number of waits from 0 to 1000`},
		{"fewer waits in place than none", "STREAMS_ORDERS_RETRY_IN_PLACE=-1", `STREAMS_ORDERS_RETRY_IN_PLACE: "-1" is neither all nor a number`},
		{
			"a rest that is too long for commits", "RETRY_IN_PLACE=all RETRY_DELAY=5m RETRY_STEP=5m RETRY_COUNT=6",
			`RETRY_IN_PLACE: "all" lets a message rest for 20m before retry 4, and 15m is the most of one wait in place: RETRY_IN_PLACE=3, or RETRY_COUNT=3 fits (30m in place)`,
		},
		{
			"rests that are too long together", "RETRY_POLICY=exponential RETRY_DELAY=1m RETRY_MAX_DELAY=15m RETRY_COUNT=9 STREAMS_ORDERS_RETRY_IN_PLACE=8",
			`STREAMS_ORDERS_RETRY_IN_PLACE: "8" lets a message rest for 1h15m in its first 8 waits, and 1h is the most in place: STREAMS_ORDERS_RETRY_IN_PLACE=7 fits (1h in place)`,
		},
		{
			"a schedule that does not fit in place", "RETRY_IN_PLACE=all RETRY_POLICY=schedule RETRY_SCHEDULE=1s,1m,16m",
			`RETRY_IN_PLACE: "all" lets a message rest for 16m before retry 3, and 15m is the most of one wait in place: RETRY_IN_PLACE=2 fits (1m1s in place)`,
		},
		{
			"a first rest that is too long", "RETRY_IN_PLACE=1 RETRY_DELAY=16m",
			`before retry 1, and 15m is the most of one wait in place: RETRY_IN_PLACE=0, or RETRY_DELAY=15m fits `,
		},
		{"waits in place where all are", "RETRY_ENABLED=false RETRY_IN_PLACE=all", `RETRY_IN_PLACE: "all" is not for RETRY_ENABLED=false: leave it out, all waits are in place (from`},
		{"more jitter than half", "RETRY_JITTER=0.6", `RETRY_JITTER: "0.6" is not within 0 to 0.5`},
		{"a wait beyond RabbitMQ's limit", "RETRY_DELAY=1200h", "2^32-1"},
		{"too many queues", "RETRY_STEP=1s RETRY_COUNT=25", `RETRY_COUNT: "25" makes 25 different waits with RETRY_STEP=1s, each a queue, and 24 are the limit: RETRY_COUNT=24, or RETRY_STEP=0s fits`},
		{
			"a last wait beyond RabbitMQ's limit", "STREAMS_ORDERS_RETRY_STEP=1000h",
			`STREAMS_ORDERS_RETRY_STEP: "1000h" makes wait 3, of 5s + 2 × 1000h, longer than 2^32-1 ms (49 days), RabbitMQ's limit: STREAMS_ORDERS_RETRY_STEP=596h31m21s, or RETRY_COUNT=2 fits`,
		},
		{"handlers longer than the consumer time-out allows", "HANDLER_TIMEOUT=16m", "RABBITMQ_CONSUMER_TIMEOUT"},
		{"a misspelt stream", "STREAMS_ORDRES_TOPICS=t", "did you mean STREAMS_ORDERS_TOPICS"},
		{"a start that is no time", "START=yesterday", `START: "yesterday" is neither`},
		{"a broker without port", "KAFKA_BROKERS=localhost", "is not host:port"},
		{"a URL of another kind", "RABBITMQ_URL=http://h/", "amqp://"},
		{"dropping beside retries", "ON_FAILURE=drop", "nothing is dropped"},
		{"a secret twice", "SERVER_TOKEN=f4a1c09be27d5386f4a1 SERVER_TOKEN_FILE=/dev/null", "both set"},
		{"TLS files without TLS", "KAFKA_TLS_CA_FILE=/x", "KAFKA_TLS_ENABLED"},
		{"a CA that is not there", "KAFKA_TLS_ENABLED=true KAFKA_TLS_CA_FILE=/nowhere", "KAFKA_TLS_CA_FILE"},
		{"a size beyond all memory", "WINDOW_BYTES=9999999999GiB", "is no size"},
		{"a broker without host", "KAFKA_BROKERS=:9092", `KAFKA_BROKERS: ":9092" is not host:port`},
		{"a URL without host", "RABBITMQ_URL=amqp://:5672/", "URL 1 must look like"},
		{"a URL whose password is cut by a slash", "RABBITMQ_URL=amqp://h/,amqp://u:1/x@h/", "URL 2 must look like"},
		{"a trash of no time that a clock has", "DEAD_SET_TRASH=721h", `DEAD_SET_TRASH: "721h" must be whole seconds, 0s … 720h`},
		{"a trash of half a second", "DEAD_SET_TRASH=1500ms", `DEAD_SET_TRASH: "1.5s" must be whole seconds`},
		{"a trash without room", "DEAD_SET_TRASH_PAGES=0", `DEAD_SET_TRASH_PAGES: "0" must be 1 … 256`},
		{"a size below one", "WINDOW_MESSAGES=0", `WINDOW_MESSAGES: "0" must be above 0 (from environment WINDOW_MESSAGES)`},
		{"a span below the window that nobody set", "WINDOW_SPAN=8000", `WINDOW_SPAN: "8000" must not be below WINDOW_MESSAGES (10000)`},
		{"a message size that a pointer's headers may exceed", "RABBITMQ_MAX_MESSAGE_SIZE=71KiB", `"71KiB" must be at least 73728 (72 KiB)`},
		{"more clients that fetch than there may be", "STREAMS_ORDERS_FETCHERS=9", `STREAMS_ORDERS_FETCHERS: "9" is not within 1 to 8`},
		{"nobody who fetches", "FETCHERS=0", `FETCHERS: "0" is not within 1 to 8`},
		{"too many tries", "STREAMS_ORDERS_RETRY_COUNT=1001", `"1001" is not within 0 to 1000`},
		{"no wait at all", "RETRY_DELAY=0s", `RETRY_DELAY: "0s" must be above 0`},
		{"a wait of half a millisecond", "RETRY_DELAY=1500us", "whole milliseconds"},
		{"more queues for a wait than there may be", "RETRY_DELAY_QUEUES=17", "is not within 1 to 16"},
		{"more prefetch than quorum queues allow", "RETRY_PREFETCH=2001", "is not within 1 to 2000"},
		{"a consumer time-out below nothing", "RABBITMQ_CONSUMER_TIMEOUT=-1h", `RABBITMQ_CONSUMER_TIMEOUT: "-1h"`},
		{"a pattern beside topics", "STREAMS_ORDERS_TOPIC_PATTERN=a", "keep one"},
		{"an address without port", "SERVER_ADDRESS=localhost", "neither host:port nor off"},
		{"an address with too high a port", "SERVER_ADDRESS=localhost:65536", "neither host:port nor off"},
		{"an unknown group protocol", "KAFKA_GROUP_PROTOCOL=new", "known: classic, consumer"},
		{"a session that no broker grants", "KAFKA_SESSION_TIMEOUT=10ms", "is not within 1s to 24h"},
		{"an unknown way to declare", "RABBITMQ_DECLARE=never", "known: create, check"},
		{"a virtual host that is too long", "RABBITMQ_VHOST=" + strings.Repeat("v", 256), "longer than 255 bytes"},
		{"TLS with a URL in the clear", "RABBITMQ_TLS_ENABLED=true", "must begin with amqps://"},
		{"a key without a certificate", "KAFKA_TLS_ENABLED=true KAFKA_TLS_KEY_FILE=/dev/null", "KAFKA_TLS_CERT_FILE: is required beside KEY_FILE"},
		{"an unknown mechanism", "KAFKA_SASL_MECHANISM=NTLM KAFKA_SASL_USERNAME=u KAFKA_SASL_PASSWORD=p", "known: PLAIN"},
		{"a mechanism without a password", "KAFKA_SASL_MECHANISM=PLAIN KAFKA_SASL_USERNAME=u", "KAFKA_SASL_PASSWORD: is required"},
		{"an app's name of other letters", "APP_NAME=Shop", `APP_NAME: "Shop" must be of a-z`},
		{"a level that is none", "LOG_LEVEL=loud", "known: debug, info, warn, error"},
		{"AWS_MSK_IAM without TLS", "KAFKA_SASL_MECHANISM=AWS_MSK_IAM", "KAFKA_TLS_ENABLED: \"false\" must be true with AWS_MSK_IAM"},
		{"AWS_MSK_IAM with a password", "KAFKA_SASL_MECHANISM=AWS_MSK_IAM KAFKA_TLS_ENABLED=true KAFKA_SASL_PASSWORD=p", "takes neither user name nor password"},
		{"OAUTHBEARER without a source of tokens", "KAFKA_SASL_MECHANISM=OAUTHBEARER", "KAFKA_SASL_OAUTH_TOKEN_FILE: or KAFKA_SASL_OAUTH_TOKEN_URL is required"},
		{"OAUTHBEARER with two", "KAFKA_SASL_MECHANISM=OAUTHBEARER KAFKA_SASL_OAUTH_TOKEN_FILE=f KAFKA_SASL_OAUTH_TOKEN_URL=https://h/t KAFKA_SASL_OAUTH_CLIENT_ID=i KAFKA_SASL_OAUTH_CLIENT_SECRET=s", "and not both"},
		{"a token URL without a secret", "KAFKA_SASL_MECHANISM=OAUTHBEARER KAFKA_SASL_OAUTH_TOKEN_URL=https://h/t KAFKA_SASL_OAUTH_CLIENT_ID=i", "KAFKA_SASL_OAUTH_CLIENT_SECRET: is required"},
		{"a token URL that is none", "KAFKA_SASL_MECHANISM=OAUTHBEARER KAFKA_SASL_OAUTH_TOKEN_URL=h/t KAFKA_SASL_OAUTH_CLIENT_ID=i KAFKA_SASL_OAUTH_CLIENT_SECRET=s", "KAFKA_SASL_OAUTH_TOKEN_URL"},
		{"an extension without a value", "KAFKA_SASL_MECHANISM=OAUTHBEARER KAFKA_SASL_OAUTH_TOKEN_FILE=f KAFKA_SASL_OAUTH_EXTENSIONS=a=b,c", "must be name=value"},
		{"tokens without a mechanism", "KAFKA_SASL_OAUTH_TOKEN_FILE=f", "KAFKA_SASL_MECHANISM: is required beside settings of OAuth"},
		{"tokens beside a password", "KAFKA_SASL_MECHANISM=PLAIN KAFKA_SASL_USERNAME=u KAFKA_SASL_PASSWORD=p KAFKA_SASL_OAUTH_TOKEN_FILE=f", "takes no settings of OAuth"},
		{"an unknown isolation", "KAFKA_ISOLATION=none", "KAFKA_ISOLATION: \"none\" is not known; known: read_committed, read_uncommitted"},
		{"a user without a mechanism", "KAFKA_SASL_USERNAME=u", "KAFKA_SASL_MECHANISM"},
		{"a session beside the protocol that has none", "KAFKA_GROUP_PROTOCOL=consumer KAFKA_SESSION_TIMEOUT=9s", `KAFKA_SESSION_TIMEOUT: "9s" is for the classic protocol`},
		{"a topic twice", "STREAMS_ORDERS_TOPICS=a,b,a", `STREAMS_ORDERS_TOPICS: "a" stands there twice`},
		{"a probation shorter than the session", "CRASH_PROBATION=9s", `CRASH_PROBATION: "9s" must be longer than KAFKA_SESSION_TIMEOUT (10s), and at most 1h`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := config.Load(source(strings.Fields(test.variable)...))
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want something about %s", err, test.says)
			}
			var all config.Errors
			if !errors.As(err, &all) || len(all) != 1 {
				t.Errorf("one mistake is reported %d times: %v", len(all), err)
			}
		})
	}
}

// seconds are the first n, with commas.
func seconds(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("%ds", i+1))
	}
	return strings.Join(all, ",")
}

// durations are the variables that hold one, without those of single streams.
func durations(of reflect.Type, prefix string) (all []string) {
	for i := range of.NumField() {
		f := of.Field(i)
		name := strings.TrimPrefix(prefix+"_"+strings.ToUpper(f.Tag.Get("key")), "_")
		switch {
		case f.Type == reflect.TypeFor[time.Duration]():
			all = append(all, name)
		case f.Type.Kind() == reflect.Struct:
			all = append(all, durations(f.Type, strings.TrimSuffix(name, "_"))...)
		}
	}
	return all
}

func TestADurationThatNoClockCanAddIsAMistake(t *testing.T) {
	all := durations(reflect.TypeFor[config.Config](), "")
	if !slices.Contains(all, "HANDLER_TIMEOUT") || !slices.Contains(all, "SHUTDOWN_TIMEOUT") {
		t.Fatalf("durations are %q", all)
	}
	for _, name := range all {
		_, err := config.Load(source("RETRY_ENABLED=false", name+"=2562047h47m16s"))
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := source("RETRY_ENABLED=false")
	s.Streams["orders"] = config.Stream{Topics: []string{"t"}, HandlerTimeout: 87601 * time.Hour}
	if _, err := config.Load(s); err == nil || !strings.Contains(err.Error(), `STREAMS_ORDERS_HANDLER_TIMEOUT: "87601h" must be at most 87600h, ten years (from code)`) {
		t.Errorf("in the code: %v", err)
	}
	s.Streams["orders"] = config.Stream{Topics: []string{"t"}, HandlerTimeout: 87600 * time.Hour}
	load(t, s)
}

func TestAnUnknownKeyOfTheFileIsAMistakeWithTheNearestName(t *testing.T) {
	s := source()
	s.File = filepath.Join(t.TempDir(), "c.yaml")
	write(t, s.File, "retry:\n  cuont: 7\nstreams:\n  ordres:\n    topics: [t]\napp:\n  anything: goes\n")
	_, err := config.Load(s)
	if err == nil || !strings.Contains(err.Error(), "did you mean retry.count?") || !strings.Contains(err.Error(), `no code registers stream "ordres"`) {
		t.Errorf("got %v", err)
	}
}

func TestAWindowBelowNothingIsTheOnlyMistakeOfABatch(t *testing.T) {
	s := source("WINDOW_MESSAGES=-1")
	s.Batches = map[string]bool{"orders": true}
	_, err := config.Load(s)
	if all, ok := errors.AsType[config.Errors](err); !ok || len(all) != 1 || !strings.Contains(err.Error(), "must be above 0") {
		t.Errorf("got %v", err)
	}
}

func TestTheFileMaySayNothing(t *testing.T) {
	tests := []struct{ name, content, says string }{
		{"an empty file", "", ""},
		{"an empty section", "retry:\n", ""},
		{"empty settings", "log:\n  level:\n  format: ''\nretry:\n  count: ''\n", ""},
		{"an empty stream", "streams:\n  orders:\n", ""},
		{"a path as the key", "log.level: debug\n", ""},
		{"a setting twice", "log.level: debug\nlog:\n  level: info\n", "log.level in"},
		{"a section twice", "retry:\n  count: 5\nlog:\n  level: info\nretry:\n  delay: 1s\n", "c.yaml: line 5 has a key that line 1 has, too: keep one"},
		{"a value in place of a section", "log: debug\n", "holds other settings"},
		{"a list in place of a value", "log:\n  level: [debug]\n", "LOG_LEVEL: must be a single value"},
		{"a map in place of a value", "kafka:\n  client_id: {a: b}\n", "KAFKA_CLIENT_ID: must be a single value"},
		{"a map in a list of waits", "retry:\n  policy: schedule\n  schedule: [{a: 1s}]\n", "RETRY_SCHEDULE: must be a list of single values"},
		{"the file's own name", "config_file: x\n", "config_file in"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := source()
			s.File = filepath.Join(t.TempDir(), "c.yaml")
			write(t, s.File, test.content)
			_, err := config.Load(s)
			switch {
			case test.says == "" && err != nil:
				t.Error(err)
			case test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)):
				t.Errorf("got %v, want %s", err, test.says)
			}
		})
	}
	s := source("CONFIG_FILE=/nowhere")
	if _, err := config.Load(s); err == nil || !strings.Contains(err.Error(), "CONFIG_FILE /nowhere: cannot be read") {
		t.Errorf("a file that is not there: %v", err)
	}
}

func TestAnUnknownMechanismIsTheOnlyMistakeOfItsLogin(t *testing.T) {
	t.Parallel()
	_, err := config.Load(source("KAFKA_SASL_MECHANISM=oauthbearer", "KAFKA_SASL_OAUTH_TOKEN_FILE=f"))
	if err == nil || !strings.Contains(err.Error(), "known: PLAIN") || strings.Contains(err.Error(), "OAuth") || strings.Contains(err.Error(), "KAFKA_SASL_PASSWORD") {
		t.Errorf("got %v", err)
	}
}

func TestAGroupOfSpacesIsRefused(t *testing.T) {
	for _, group := range []string{" ", " orders", "orders\t"} {
		if _, err := config.Load(source("STREAMS_ORDERS_GROUP=" + group)); err == nil || !strings.Contains(err.Error(), "STREAMS_ORDERS_GROUP") {
			t.Errorf("group %q: %v", group, err)
		}
	}
}

func TestAProbationIsComparedWithASessionOnlyWhereThereIsOne(t *testing.T) {
	s := source("CRASH_PROBATION=7s", "STREAMS_ORDERS_QUEUE=payments")
	s.Streams = map[string]config.Stream{"orders": {}}
	if _, err := config.Load(s); err != nil {
		t.Errorf("a stream that is in no group: %v", err)
	}
	s = source("CRASH_PROBATION=4s", "STREAMS_ORDERS_QUEUE=payments")
	s.Streams = map[string]config.Stream{"orders": {}}
	if _, err := config.Load(s); err == nil || !strings.Contains(err.Error(), "must be at least 5s, and at most 1h") {
		t.Errorf("RabbitMQ may not have noticed a death by then: %v", err)
	}
}
