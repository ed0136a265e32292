package actor

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/config"
	"github.com/stepwell/stepwell/internal/queue"
)

// App describes an actor. Only Streams, and a name here or as APP_NAME, are required.
type App struct {
	// Name names the actor's queues and consumer groups; APP_NAME overrides it. It is never
	// derived.
	Name string
	// Version is told of each try that failed, beside the instance that made it. Empty: that of the
	// program's module, where its build has one.
	Version string
	// Streams are the actor's streams by stream-id: lower-case letters, digits, - and _, at
	// most 60.
	Streams Streams
	// Use is the middleware of all streams, outermost first, around that of each stream.
	Use []stepwell.Middleware
	// Check says what is wrong with the app's own settings ([config.Config.Unmarshal]): each line
	// of its error is told beside all other mistakes of the configuration, by [Load], and so by all
	// commands of [Main], which exits with 2. It is also called where there are other mistakes; a
	// setting of ours that cannot be read has its default then. It connects nowhere: that is for
	// Start. Nil: what is wrong shows when Start fails.
	Check func(*config.Config) error
	// Start runs before any message. Its error ends the actor; Stop is not called then. It does not
	// wait for the brokers, which may be away for long: connections to RabbitMQ are being made
	// beside it, those to Kafka when it has returned, and queues are declared after that. Those of
	// package embedded run by then, so that it may write to them. Its context ends when the actor
	// is to stop; if it has not returned when SHUTDOWN_TIMEOUT is nearly over, [Actor.Run] returns
	// an error without it, and its goroutine is left behind.
	Start func(context.Context, *Env) error
	// Stop runs after the last message. Its context ends a second (of a budget below 10 s: a tenth)
	// before SHUTDOWN_TIMEOUT is over: it has all that draining the streams has left, which is
	// nearly all where handlers are quick, and a few seconds, or none, where they took what they
	// could.
	Stop func(context.Context) error
	// HTTP serves every path that is not the actor's own.
	HTTP http.Handler
	// Guard puts the rule of /v1 before HTTP: on loopback no web page of elsewhere comes through;
	// beyond it a token must be sent, for what is neither GET nor HEAD that of an operator, unless
	// SERVER_INSECURE says otherwise.
	Guard bool
	// Shared: the app uses [Env.Shared]. What its processes share is in a queue <app>.records,
	// which RabbitMQ must allow to be a stream (x-queue-type); it is declared at start.
	Shared bool
	// Brokers replaces the configured Kafka and RabbitMQ, for instance by those of package
	// embedded. Nil: as configured.
	Brokers Brokers
	// Kafka returns options for the Kafka clients of a stream that no setting has: a mechanism, a
	// dialer, hooks. It is called for each client, of which a stream has several, so hooks that
	// know their client are made anew. It is called with an empty id for the client of
	// [Env.Produce]. [Load], and so each command of [Main], and [New] call it for all of these,
	// after Check, if that found nothing wrong, and before Start: options that the stream's reader
	// sets itself are refused then, with their name, and so are those that would break what Produce
	// promises: other acks than all, writes that are not idempotent, a bound of retries or of time,
	// transactions. One of these that says the client's own default is mostly not noticed, and the
	// reader's comes after it. Nil: none.
	Kafka func(stream string) []kgo.Opt
	// Logger receives the actor's log. Nil: standard error, as LOG_LEVEL and LOG_FORMAT say.
	Logger *slog.Logger
	// Telemetry has the providers of traces and metrics. Zero: no traces, and metrics at /metrics
	// alone.
	Telemetry Telemetry
	// EnvPrefix stands before the name of every environment variable, say "SHIPPING_".
	EnvPrefix string
	// ConfigFile names a YAML file, below the environment. Empty: as CONFIG_FILE says.
	ConfigFile string
}

// Streams are streams by stream-id.
type Streams map[string]Stream

// Stream is a source of messages and what to do with them.
type Stream struct {
	// Handler does the work, one message at a time. Required, or Batch.
	Handler stepwell.Handler
	// Batch does the work for up to BATCH_SIZE messages at once, and CONCURRENCY, by default 1, is
	// how many such calls may run. What fails comes back one by one, as batches of one. ORDER is
	// kept: no two calls that run at once have messages of one key, or of one partition; a queue of
	// RabbitMQ has none. Beside it there is no Handler, nor Use of the stream or of the App: wrap
	// the function.
	Batch stepwell.BatchHandler
	// Enqueued: the stream's messages are those of [Env.Enqueue]. It has no topics, and needs no
	// Kafka; RabbitMQ has all that waits. Its messages are in no order, and come one by one, so
	// that there is no Batch. They are handled where MODES has streams or retries.
	Enqueued bool
	// Config is the lowest layer of the stream's settings, below file and environment. Its channels
	// have theirs in Channels.
	Config config.Stream
	// Use is middleware for this stream, outermost first, inside App.Use.
	Use []stepwell.Middleware
	// Channels are further handlers, by name, to which this one hands messages over: see
	// [stepwell.To]. Names are as stream-ids. A channel needs RabbitMQ, also where the stream's own
	// retries are off.
	Channels Channels
	// OnDead is called for a message that would go to the dead set, with what its handler returned:
	// the last of its tries failed, or no other can help. Nil means that the message was taken
	// over: it is settled, and counted. An error sends it to the dead set, with both errors, or
	// with the one where its text is that of the one which it was given. It has HANDLER_TIMEOUT for
	// itself, which is then at most a quarter of RABBITMQ_CONSUMER_TIMEOUT; a panic counts as an
	// error. It may be called again for the same message, as a handler may; it is not called for
	// what killed the process again and again, nor for what cannot be read or is too large. Of what
	// dies in one batch it is called for one after another: where the batch is of a RabbitMQ queue,
	// all of them have to end within RABBITMQ_CONSUMER_TIMEOUT, or the messages come again. Nil:
	// all that dies goes to the dead set.
	OnDead func(ctx context.Context, m *stepwell.Message, err error) error
}

// Channels are the channels of a stream by name.
type Channels map[string]Channel

// Channel is a handler of a stream with queues of its own: workers, a retry policy and a dead set.
// What is handed over to it is in no order. It may leave the code when /v1/streams shows that its
// queues are empty: nobody serves them after.
type Channel struct {
	// Handler does the work. Required. It cannot hand over.
	Handler stepwell.Handler
	// Config is the lowest layer of the channel's settings. What it does not have is the stream's.
	Config config.Channel
	// Use is middleware for this channel, outermost first, inside App.Use. That of the stream is
	// not used.
	Use []stepwell.Middleware
	// OnDead is as [Stream].OnDead, for messages of this channel.
	OnDead func(ctx context.Context, m *stepwell.Message, err error) error
}

// Env is what the start function sees, and may keep until the stop function has returned.
type Env struct {
	Config *config.Config
	Logger *slog.Logger

	producer *producer
	jobs     *jobs
	shared   *sharing
}

// Telemetry has the providers to use; a nil one means what App.Telemetry says.
type Telemetry struct {
	Tracer trace.TracerProvider
	Meter  metric.MeterProvider
}

// Brokers are an actor's Kafka and queues where they are not the configured ones.
type Brokers interface {
	// Run runs them until ctx ends.
	Run(ctx context.Context) error
	// Kafka waits until Run has Kafka up and tells how a client reaches it.
	Kafka(ctx context.Context) ([]kgo.Opt, error)
	// Queues are the queues for retries and dead sets.
	Queues() queue.Broker
	// Notice is logged at start, and printed by the commands config and doctor of [Main]: what a
	// user must know about these brokers, on one line. That KAFKA_BROKERS and RABBITMQ_URL are not
	// used is said behind it.
	Notice() string
}
