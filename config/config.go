// Package config has an actor's settings: their names, defaults, documentation, loading and
// validation.
package config

import (
	"time"

	"github.com/knadh/koanf/v2"
)

//go:generate go test -run TestDocumentationIsUpToDate -update .

// Config is the whole configuration of an actor, validated, with every default filled in.
type Config struct {
	App       App               `key:"app" title:"Actor"`
	Modes     []string          `key:"modes" title:"Parts" default:"streams,retries,channels,api" doc:"Which parts run in this process, with commas: streams (reading Kafka), retries (failed messages of streams), channels (what is handed over to them, and fails there), api (/v1). What is enqueued runs in streams and in retries. What fails or is handed over is published whatever runs here. Probes and metrics always answer."`
	Kafka     Kafka             `key:"kafka" title:"Kafka"`
	RabbitMQ  RabbitMQ          `key:"rabbitmq" title:"RabbitMQ"`
	Server    Server            `key:"server" title:"HTTP server"`
	DeadSet   DeadSet           `key:"dead_set" title:"Dead sets"`
	Log       Log               `key:"log" title:"Logs"`
	Defaults  Stream            `key:""`
	Streams   map[string]Stream `key:"streams"`
	Shutdown  Shutdown          `key:"shutdown" title:"Stop"`
	Telemetry Telemetry         `key:"telemetry" title:"Telemetry"`

	settings []setting // each with its origin, for Print
	prefix   string    // of all variables
	enqueued map[string]bool
	onDead   func(stream, channel string) bool
	warnings []string
	user     *koanf.Koanf      // the file's part below "app"
	own      map[string]string // variables that begin with APP_, without the prefix
}

// Variable is the environment variable of a setting, by its key: of streams.orders.topics it is
// STREAMS_ORDERS_TOPICS behind the actor's prefix.
func (c *Config) Variable(key string) string { return c.prefix + variable(key) }

// HasOnDead says whether [Load] was told that a stream has an OnDead, or a channel of it, where
// that is named, and so looked at what one needs.
func (c *Config) HasOnDead(stream, channel string) bool {
	return c.onDead != nil && c.onDead(stream, channel)
}

// Stream returns the settings of a stream with every default filled in; zero for an id that is not
// known.
func (c *Config) Stream(id string) Stream { return c.Streams[id] }

// LargestWindow is how many bytes the largest window of a stream may hold, its WINDOW_BYTES.
func (c *Config) LargestWindow() int {
	largest := 0
	for _, s := range c.Streams {
		largest = max(largest, s.WindowBytes)
	}
	return largest
}

// Warnings are about variables that look like ours and are not, and about settings of brokers that
// are set beside the app's own brokers.
func (c *Config) Warnings() []string { return c.warnings }

// App names the actor.
type App struct {
	Name string `key:"name" doc:"Names the queues and consumer groups. Required, here or in the code; never derived."`
}

// Kafka says how to reach the cluster.
type Kafka struct {
	Brokers        []string      `key:"brokers" doc:"Seed brokers, host:port, separated by commas. Required where a stream reads Kafka; else for records that were too large for RabbitMQ, and for Produce, alone."`
	ClientID       string        `key:"client_id" doc:"Client id shown to the brokers. Default: the app's name."`
	TLS            TLS           `key:"tls"`
	SASL           SASL          `key:"sasl"`
	GroupProtocol  string        `key:"group_protocol" default:"classic" doc:"classic (cooperative-sticky) or consumer (KIP-848)."`
	Isolation      string        `key:"isolation" default:"read_committed" doc:"read_committed: what is in a transaction is handled once that is committed. read_uncommitted: at once, also where it is aborted."`
	SessionTimeout time.Duration `key:"session_timeout" default:"10s" doc:"Without a heartbeat for so long a member is out of its group (classic protocol); 1s … 24h, and what the brokers allow."`
}

// TLS is a client's side of TLS.
type TLS struct {
	Enabled    bool   `key:"enabled" default:"false" doc:"Use TLS."`
	CAFile     string `key:"ca_file" doc:"PEM file of certificate authorities; default: the system's."`
	CertFile   string `key:"cert_file" doc:"PEM file of the client's certificate."`
	KeyFile    string `key:"key_file" doc:"PEM file of the client's key."`
	ServerName string `key:"server_name" doc:"Name that the server's certificate must have; default: the host dialled."`
}

// SASL is how to log in to Kafka.
type SASL struct {
	Mechanism string `key:"mechanism" doc:"PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or AWS_MSK_IAM; empty: none."`
	Username  string `key:"username" doc:"User name, for PLAIN and SCRAM."`
	Password  string `key:"password" secret:"true" doc:"Password, for PLAIN and SCRAM."`
	OAuth     OAuth  `key:"oauth"`
}

// OAuth is where tokens for OAUTHBEARER come from: a file, or an endpoint that gives them for
// client credentials.
type OAuth struct {
	TokenFile    string   `key:"token_file" doc:"File with a token, for OAUTHBEARER; read again for each connection, so that somebody may renew it."`
	TokenURL     string   `key:"token_url" doc:"URL that gives tokens for client credentials (OpenID Connect), for OAUTHBEARER without a file; https://, where others could read the secret on its way."`
	ClientID     string   `key:"client_id" doc:"Client id for the URL."`
	ClientSecret string   `key:"client_secret" secret:"true" doc:"Client secret for the URL."`
	Scope        string   `key:"scope" doc:"Scopes to ask the URL for, separated by spaces."`
	Extensions   []string `key:"extensions" doc:"SASL extensions, name=value, separated by commas, as logicalCluster=lkc-1."`
}

// RabbitMQ says how to reach and use the broker of the retry queues.
type RabbitMQ struct {
	URL             []string      `key:"url" secret:"url" doc:"amqp:// or amqps:// URLs, separated by commas, tried in turn. Required unless retries are off for every stream, none has channels, and the app has no Shared."`
	VHost           string        `key:"vhost" doc:"Virtual host; overrides the URLs'."`
	Username        string        `key:"username" doc:"User name; overrides the URLs'."`
	Password        string        `key:"password" secret:"true" doc:"Password; overrides the URLs'."`
	TLS             TLS           `key:"tls"`
	ConfirmTimeout  time.Duration `key:"confirm_timeout" default:"60s" doc:"A publisher confirm that takes longer ends the session; what was in flight is published again in the next."`
	ConsumerTimeout time.Duration `key:"consumer_timeout" default:"30m" doc:"The broker's consumer_timeout. HANDLER_TIMEOUT may be at most half of it, a quarter beside an OnDead, and a sixth for batches of a queue of RabbitMQ."`
	MaxMessageSize  int           `key:"max_message_size" default:"16MiB" unit:"bytes" doc:"The broker's max_message_size, at least 72KiB. Larger messages are not sent: the dead set gets a pointer to their place in Kafka. What is enqueued must leave 64KiB of it."`
	PublishWindow   int           `key:"publish_window" default:"1000" doc:"Publishes of one stream, or channel, that may wait for their confirm at once."`
	Records         bool          `key:"records" default:"true" doc:"Keep operations on dead sets, and pauses of the whole app, in <app>.records, a stream of RabbitMQ, so that any process answers for them and goes on with them. false: an operation lives in the process that is asked, and ends with it, and there is no pause of the whole app. The same in all processes of an app."`
	Declare         string        `key:"declare" default:"create" doc:"create: make the queues that are missing. check: make none, only compare those that are there; a user without the right to configure them can only look."`
}

// Server is the HTTP server.
type Server struct {
	Address    string   `key:"address" default:"localhost:8010" doc:"Address to listen on; off: no HTTP at all."`
	Token      string   `key:"token" secret:"true" doc:"Bearer token for /v1, and for the program's own routes where it guards them (App.Guard). This one, or one of TOKENS, is required there when the address is not loopback. Its role is operator, its name is token. It has 20 characters or more: openssl rand -hex 16 makes one."`
	Tokens     []string `key:"tokens" secret:"true" doc:"Tokens of people and programs, name:role:token, with commas or a line each; at most 100. A viewer may look, an operator may change, too; in logs and operations each has its name. A token has 20 characters or more."`
	UserHeader string   `key:"user_header" doc:"Header in which a proxy says who it let in, as X-Forwarded-User. It is believed beside a token alone, and the name of that stands behind it: alice via proxy."`
	Insecure   bool     `key:"insecure" default:"false" doc:"Serve what a token is for without one also off loopback."`
	Console    bool     `key:"console" default:"true" doc:"Serve the console at /console, where /v1 is served, to whom /v1 is. false: that path is the program's own."`
	TraceURL   string   `key:"trace_url" doc:"Where traces are looked at, with {trace_id} in place of a trace's id, as https://traces.example.com/trace/{trace_id}: a dead message and its tries then have a trace_url."`
	BodyLimit  int      `key:"body_limit" default:"64KiB" unit:"bytes" doc:"Largest request body of /v1. One that asks for an operation may have 320KiB in any case, for the ids that it may name."`
}

// DeadSet bounds the work on dead sets.
type DeadSet struct {
	WalkBytes int    `key:"walk_bytes" default:"64MiB" unit:"bytes" doc:"Memory that one walk may keep."`
	Values    string `key:"values" default:"viewer" doc:"Who is shown values, keys and headers of dead messages, and may filter by them and export: viewer (whoever may look), operator, or none. Errors are shown in any case."`
	Index     int    `key:"index" default:"64MiB" unit:"bytes" doc:"Memory that a process may take to remember what is in pages of its dead sets, so that looks need not read all of them each time; 0: none."`
	Pages     int    `key:"pages" default:"64" doc:"How many pages of at most 2000 messages each dead set may be sorted into; 0: none, and a sort is refused. 0 to 512."`

	Trash      time.Duration `key:"trash" default:"72h" doc:"For how long what is deleted from a dead set is kept in its trash, from where it can be restored; 0: there is none, and it is gone. Whole seconds, 720h at most. What was deleted under another value is kept as long as that said."`
	TrashPages int           `key:"trash_pages" default:"64" doc:"How many pages of at most 2000 messages the trash of a dead set may fill: a delete of more is refused. 1 to 256."`

	Edit      bool `key:"edit" default:"false" doc:"Whether operators may edit a dead message: an edited copy is handled, and the message itself goes to the trash, for which DEAD_SET_TRASH must be above 0. Who edits must see values, see DEAD_SET_VALUES."`
	EditLimit int  `key:"edit_limit" default:"1MiB" unit:"bytes" doc:"Largest body of a request that edits a message. SERVER_BODY_LIMIT is for all others."`
}

// Log is what the actor's own logger does, where the code gives none.
type Log struct {
	Level  string `key:"level" default:"info" doc:"debug, info, warn or error."`
	Format string `key:"format" default:"text" doc:"text or json."`
	Errors string `key:"errors" default:"text" doc:"What the log shows of a handler's error: text, or type, where texts can hold what is in a message; with type the reason of a skip is left out, too."`
}

// Shutdown is the budget of a stop.
type Shutdown struct {
	Timeout time.Duration `key:"timeout" default:"25s" doc:"The whole budget of a stop. Handlers get all but the last 5 s, or four fifths where that is more."`
}

// Telemetry is what is measured beside the streams.
type Telemetry struct {
	DepthInterval time.Duration `key:"depth_interval" default:"15s" doc:"How often queue depths and consumer lag are read for metrics."`
}

// Stream is one stream's settings. A stream's own value overrides the shared one of the same name.
type Stream struct {
	Topics         []string      `key:"topics" stream:"only" doc:"Kafka topics, separated by commas. Required, or a pattern, where the stream is read; one that is Enqueued, or has a queue or an exchange, has none."`
	Queue          string        `key:"queue" stream:"only" doc:"A queue of RabbitMQ, classic or quorum, that the stream's messages come from, in place of Kafka topics. It is its owner's: it must be there, and nothing of it is changed."`
	Exchange       string        `key:"exchange" stream:"only" doc:"An exchange of RabbitMQ that the stream's messages are published to, in place of Kafka topics. It must be there; the stream has a queue of its own that is bound to it, <app>.<stream>.source."`
	RoutingKeys    []string      `key:"routing_keys" stream:"only" doc:"Routing keys, separated by commas, with which that queue is bound to EXCHANGE: order.*,refund.# for a topic exchange, # for a fanout one. Required beside it. A key that is taken out is to be unbound by hand."`
	TopicPattern   string        `key:"topic_pattern" stream:"only" doc:"Regular expression (Go syntax) that whole topic names must match; topics that appear later are picked up."`
	Retired        bool          `key:"retired" stream:"only" default:"false" doc:"The stream is read no more, and what others than its own handlers enqueue is refused: its retries, channels and dead set go on until they are empty, which /v1/streams tells. Its handlers must still be there."`
	Group          string        `key:"group" stream:"only" doc:"Consumer group; no two streams may share one. Default: <app>.<stream>."`
	Start          string        `key:"start" default:"earliest" doc:"Where a group without commits starts: earliest, latest or a time (RFC 3339)."`
	MaxAge         time.Duration `key:"max_age" default:"0s" doc:"Records older than this are skipped and counted, but for those without a time; 0: off."`
	HandlerTimeout time.Duration `key:"handler_timeout" default:"5m" doc:"A handler's context is cancelled after this long."`
	HandlerCopy    bool          `key:"handler_copy" default:"false" doc:"The handler gets a copy of key, value and headers, and may write into them, as who decrypts in place does. Without it they are to be read only: what is written into them is what is tried again."`
	WindowMessages int           `key:"window_messages" default:"10000" doc:"Messages that may be in flight at once; then fetching stops. Where it is not set and CONCURRENCY is above 250: 40 for each call."`
	WindowBytes    int           `key:"window_bytes" default:"64MiB" unit:"bytes" doc:"Bytes that may be in flight at once; then fetching stops. What RabbitMQ hands out at once, retries and queues as sources, is bounded by it too."`
	WindowSpan     int           `key:"window_span" default:"1000000" doc:"Messages that may be read beyond the oldest that is not done, done ones included; then fetching stops. Not below WINDOW_MESSAGES."`
	Fetchers       int           `key:"fetchers" default:"2" doc:"Kafka clients of one stream that fetch side by side, each a share of the partitions; 1 … 8. A client has one fetch under way with each broker. There are never more than an eighth of WINDOW_MESSAGES or WINDOW_SPAN."`
	Concurrency    int           `key:"concurrency" default:"16" doc:"Messages of one stream that run at once, first tries and retries together; 1 … 1999. While first tries wait, retries take at most half of it (of 1: every second turn). Of a stream that is handled in batches: batches, and 1 where nobody sets it."`
	Order          string        `key:"order" default:"key" doc:"Which first tries of a partition run one after another: key (those of one key), partition (all) or none."`
	CrashLimit     *int          `key:"crash_limit" default:"3" doc:"After so many deaths of the process in a row what was under way is suspected, and suspects run one at a time; one that the process died of more often than that goes to the dead set; 0 … 100, 0: off."`
	CrashProbation time.Duration `key:"crash_probation" default:"1m" doc:"How long a process must have lived, with no suspect running, before a message that another process died of runs in it again; at most 1h. Longer than KAFKA_SESSION_TIMEOUT, else a dead process may count as one that lives; at least 5s where there are no topics. A process that is cut off from RabbitMQ at its end, and 5s before, counts as dead."`
	OnFailure      string        `key:"on_failure" default:"retry" doc:"With retries off: retry (again in place, for ever) or drop (counted)."`
	Batch          Batch         `key:"batch"`
	Retry          Retry         `key:"retry"`
	// Channels are the settings of the stream's channels, by their names. In the code they are set
	// where a channel is registered, and not here.
	Channels map[string]Channel `key:"channels"`
}

// Batch says how messages are gathered, for streams that are handled in batches.
type Batch struct {
	Size int           `key:"size" default:"500" doc:"Messages of a batch at most, for streams with a Batch; 1 to 1000000. With CONCURRENCY times as many, at most half of WINDOW_MESSAGES, or of 2000 where a queue of RabbitMQ is the source."`
	Wait time.Duration `key:"wait" default:"1s" doc:"How long the first message of a batch waits at most until the batch is called though it is not full; at most 10s. 0: it does not wait."`
}

// Retry is a stream's retry policy.
type Retry struct {
	Enabled *bool         `key:"enabled" default:"true" doc:"Whether failures go through RabbitMQ. Without it a failing message is tried again in place."`
	Count   *int          `key:"count" default:"3" doc:"Tries after the first one; 0 … 1000. With RETRY_POLICY=schedule it is left out: the list says it."`
	Policy  string        `key:"policy" default:"linear" doc:"linear: the n-th wait is RETRY_DELAY + (n-1)·RETRY_STEP. exponential: RETRY_DELAY · RETRY_FACTOR^(n-1), but at most RETRY_MAX_DELAY. schedule: as RETRY_SCHEDULE says. What is for another policy is left out, or it is a mistake. Each distinct wait is a queue, and 24 are the limit."`
	Delay   time.Duration `key:"delay" default:"5s" doc:"linear and exponential: the first wait."`
	Step    time.Duration `key:"step" default:"0s" doc:"linear: what each further wait is longer."`
	// Factor, MaxDelay and Schedule are for their policies alone.
	Factor   float64         `key:"factor" default:"2" doc:"exponential: how many times longer each further wait is; 1 … 100."`
	MaxDelay time.Duration   `key:"max_delay" default:"1h" doc:"exponential: the longest wait."`
	Schedule []time.Duration `key:"schedule" doc:"schedule: every wait, with commas, as in 1s,10s,1m. It is for RETRY_POLICY=schedule, which is to be set, too; the number of waits is that of the tries after the first one."`
	Jitter   float64         `key:"jitter" default:"0" doc:"How much shorter a wait may be, as a part of it; 0 … 0.5. With it each wait has at least 4 queues, of as many lengths, and a message goes to any of them: messages that fail at once come back spread. 0: none."`
	InPlace  string          `key:"in_place" default:"0" doc:"How many of a message's waits, the first ones, it rests in the process, as with RETRY_ENABLED=false: what ORDER lets wait for it waits, all others go on. A number, or all: with ORDER=key a failing message holds back later ones of its key alone, until it is done or dead. Commits stand still meanwhile: a wait in place is at most 15m, and all of them 1h. A batch is called again with what failed of it, and its lane waits. For first tries from Kafka alone: what fails again after a wait in a queue, or after a replay, waits in queues."`
	// DelayQueues widens what the broker moves from a delay queue at once.
	DelayQueues int `key:"delay_queues" default:"1" doc:"Queues for each distinct wait; 1 … 16. RabbitMQ moves what is due from one queue at 6,000 to 20,000 a second: more queues, by key, move more."`
	Prefetch    int `key:"prefetch" default:"1000" doc:"Retries that this process takes from RabbitMQ at once, those that run included; 1 … 2000. Fewer while handlers are slow, or so many of the largest lately would be more than WINDOW_BYTES, and never fewer than CONCURRENCY + 1."`
}
