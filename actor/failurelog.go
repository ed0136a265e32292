package actor

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/config"
	"github.com/stepwell/stepwell/internal/call"
	"github.com/stepwell/stepwell/internal/task"
	"github.com/stepwell/stepwell/internal/telemetry"
	"github.com/stepwell/stepwell/retry"
)

const (
	// lossPause is how often at most the log tells that messages died or were dropped, for each
	// stream, reason and cause.
	lossPause = time.Second
	// triesPause is how often at most it tells that tries fail, for each stream and cause.
	triesPause = time.Minute
	// maxTopics is how many reasons and causes it tells apart within these pauses; causes that come
	// then share the lines of their reason, but for panics.
	maxTopics = 32
	// panicked is the type of a panic.
	panicked = "panic"
	// maxStack is how much of a panic's stack it shows, in bytes.
	maxStack = 8 << 10
)

// failureLog tells a stream's failures. At debug it has all of them. Else it has one at once and
// then, after a pause, the last one with how many it stands for, so that a reader of the log alone
// knows how many there were, however many.
type failureLog struct {
	log *slog.Logger
	// texts: errors are shown, and not their types alone (LOG_ERRORS).
	texts bool
	// tries is the topic of tries that fail; ends that of those which no other follows.
	tries, ends topic
	// kept is told that tell has something to do. It belongs to the actor, whose goroutine tells.
	kept chan<- struct{}

	// mu guards topics. The log is written without it: a slow log must not hold up the handlers'
	// calls.
	mu     sync.Mutex
	topics map[topic]*told // by what happens and why
}

// topic is what a line of the log is about. Events of the same are told together.
type topic struct {
	level   slog.Level
	message string
	reason  string
	pause   time.Duration
	// cause is what the error calls its cause, else its type: the first panic is told, and the
	// first call of a host, however much else fails.
	cause string
}

// told is what is known of a topic.
type told struct {
	// next is when the topic may be told again; nothing is told before.
	next time.Time
	// last is the newest of the events that were left out; left is how many those are.
	last event
	left int
}

// event is a failure.
type event struct {
	id                string
	attempts          int
	reason            string
	text, kind, stack string
	group             string // what the error itself calls its cause; empty: it does not
	trace             telemetry.TraceContext
	wait              time.Duration // that the handler asked for, where that matters
	at                time.Time     // when it was, where it is told later; zero: it is told at once
}

// newFailureLog chooses what the tries of the stream are: an ordinary event where they are tried
// again through queues, a warning where they hold up commits, nothing where each is dropped and
// told as such.
func newFailureLog(log *slog.Logger, cfg config.Log, how config.Stream, kept chan<- struct{}) *failureLog {
	l := &failureLog{log: log, texts: cfg.Errors != "type", kept: kept, topics: map[topic]*told{}}
	switch {
	case *how.Retry.Enabled:
		l.tries = topic{slog.LevelInfo, "a message failed, and is tried again unless it dies", "", triesPause, ""}
		l.ends = topic{slog.LevelInfo, "a message failed for good, and is not tried again", "", triesPause, ""}
	case how.OnFailure != "drop":
		l.tries = topic{slog.LevelWarn, "a message failed: it is tried again in place and holds up commits until it is done", "", triesPause, ""}
		l.ends = l.tries
	}
	return l
}

// tried tells of an answer that is not Done, which n messages of one call were given; m is the
// first of them. Of a handler that ended its goroutine deserted has told.
func (l *failureLog) tried(ctx context.Context, m *stepwell.Message, n int, a *call.Answer) {
	if a.Deserted {
		return
	}
	var many []slog.Attr
	if n > 1 {
		many = []slog.Attr{slog.Int("messages", n)}
	}
	switch a.Kind { // without a default: lint finds the kind that nobody thought of here
	case stepwell.Snoozed:
		l.log.LogAttrs(ctx, slog.LevelDebug, "a message was put off", append(many, slog.String("id", m.ID), slog.Duration("after", a.After))...)
		return
	case stepwell.HandedOver:
		l.log.LogAttrs(ctx, slog.LevelDebug, "a message is handed over", append(many, slog.String("id", m.ID), slog.String("to", a.Channel))...)
		return
	case stepwell.Skipped:
		attrs := append(many, slog.String("id", m.ID))
		if l.texts {
			attrs = append(attrs, slog.String("reason", a.Reason))
		}
		l.log.LogAttrs(ctx, slog.LevelDebug, "a message was skipped", attrs...)
		return
	case stepwell.Done, stepwell.Retry, stepwell.Dead:
	}
	e := event{id: m.ID, attempts: m.Attempt, text: a.Failure.Text, kind: a.Failure.Type, stack: a.Failure.Stack, group: a.Failure.Group}
	if l.log.Enabled(ctx, slog.LevelDebug) {
		l.log.LogAttrs(ctx, slog.LevelDebug, "a try failed", append(append(many, l.attrs(e)...), slog.String("verdict", a.Kind.String()))...)
	}
	about := l.tries
	if a.Kind == stepwell.Dead {
		about = l.ends
	}
	if about.message != "" {
		l.note(about, e, n)
	}
}

// died tells of a message that is in the dead set.
func (l *failureLog) died(d retry.Death) {
	l.note(topic{slog.LevelWarn, "a message died", d.Reason, lossPause, ""}, event{
		id: d.ID, attempts: d.Attempts, reason: d.Reason, text: d.Error, kind: d.ErrorType, stack: d.Stack, group: d.Group,
		trace: telemetry.TraceContext{Parent: d.TraceParent, State: d.TraceState},
	}, 1)
}

// orderGivenUp tells of a message that was to rest in place, and goes through the queues.
func (l *failureLog) orderGivenUp(f *failed) {
	e := event{id: f.message.ID, attempts: f.message.Attempt, wait: f.answer.After}
	if f.answer.Failed() {
		e.text, e.kind, e.group = f.answer.Failure.Text, f.answer.Failure.Type, f.answer.Failure.Group
	}
	l.note(topic{slog.LevelWarn, "a message rests no longer in place, as its waits would be above an hour: it goes through the queues, and what waited for it goes on",
		"", lossPause, ""}, e, 1)
}

// dropped tells of a message that ON_FAILURE=drop dropped.
func (l *failureLog) dropped(e event) {
	l.note(topic{slog.LevelWarn, "a failed message was dropped, as its stream is set", e.reason, lossPause, ""}, e, 1)
}

// note tells of an event that stands for n, or keeps it for tell.
func (l *failureLog) note(about topic, e event, n int) {
	if l == nil || !l.log.Enabled(context.Background(), about.level) {
		return
	}
	about.cause = cmp.Or(e.group, e.kind)
	now := time.Now()
	l.mu.Lock()
	of := l.of(about, now)
	if now.Before(of.next) {
		of.last, of.last.at = e, now
		of.left += n
		l.mu.Unlock()
		l.wake()
		return
	}
	left := of.left + n - 1
	of.next, of.left = now.Add(about.pause), 0
	l.mu.Unlock()
	l.write(about, e, left)
}

// of is what is known of a topic, or of the one that it shares. Where there are many, those are
// forgotten of which nothing is to be told and that may be told again.
func (l *failureLog) of(about topic, now time.Time) *told {
	if l.topics[about] == nil && len(l.topics) >= maxTopics {
		maps.DeleteFunc(l.topics, func(_ topic, t *told) bool { return t.left == 0 && !now.Before(t.next) })
		if len(l.topics) >= maxTopics && about.cause != panicked {
			about.cause = ""
		}
	}
	if l.topics[about] == nil {
		l.topics[about] = &told{}
	}
	return l.topics[about]
}

// wake has tellFailures look. One signal stands for all.
func (l *failureLog) wake() {
	select {
	case l.kept <- struct{}{}:
	default: // it is told already
	}
}

// tell tells of what was kept by now and is due; a zero time means all.
func (l *failureLog) tell(now time.Time) {
	type line struct {
		about topic
		told
	}
	var due []line
	l.mu.Lock()
	for about, of := range l.topics {
		switch {
		case of.left == 0:
		case now.IsZero() || !now.Before(of.next):
			due = append(due, line{about, *of})
			of.next, of.left, of.last = now.Add(about.pause), 0, event{}
		default:
			l.wake()
		}
	}
	l.mu.Unlock()
	for _, d := range due {
		l.write(d.about, d.last, d.left-1)
	}
}

// write logs one event for itself and those left out, within the trace of its call.
func (l *failureLog) write(about topic, e event, left int) {
	attrs := l.attrs(e)
	if left > 0 {
		attrs = append(attrs, slog.Int("left_out", left))
	}
	if !e.at.IsZero() {
		attrs = append(attrs, slog.Time("at", e.at))
	}
	l.log.LogAttrs(telemetry.Context(e.trace), about.level, about.message, attrs...)
}

// attrs are what the log shows of a failure. The text of an error may quote the message: it is
// shown only where the settings allow it.
func (l *failureLog) attrs(e event) []slog.Attr {
	attrs := []slog.Attr{slog.String("id", e.id)}
	if e.attempts > 0 {
		attrs = append(attrs, slog.Int("attempts", e.attempts))
	}
	if e.reason != "" {
		attrs = append(attrs, slog.String("reason", e.reason))
	}
	if e.wait > 0 {
		attrs = append(attrs, slog.Duration("wait", e.wait))
	}
	if e.kind != "" {
		attrs = append(attrs, slog.String("error_type", e.kind))
	}
	if l.texts {
		attrs = append(attrs, slog.String("error", e.text))
	}
	if e.stack != "" {
		attrs = append(attrs, slog.String("stack", e.stack[:min(len(e.stack), maxStack)]))
	}
	return attrs
}

// tellFailures tells what the failure logs have kept, once a second at most, until ctx ends.
func (a *Actor) tellFailures(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.kept:
		}
		if !task.Sleep(ctx, lossPause) {
			return
		}
		for _, l := range linesOf(a.streams) {
			l.dispatch.failures.tell(time.Now())
		}
	}
}
