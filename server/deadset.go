package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/stepwell/stepwell/internal/filter"
	"github.com/stepwell/stepwell/internal/operations"
)

// result is a [Result] on the wire. Left is null where nobody knows.
type result struct {
	Message   string `json:"message"`
	Requested int    `json:"requested"`
	Done      int    `json:"done"`
	Left      *int   `json:"left"`
	LeftOut   int    `json:"left_out"`
	TooLarge  int    `json:"too_large"`
	Stopped   string `json:"stopped"`
	// Undo is what names these messages in the trash; empty: they are not there.
	Undo string `json:"undo,omitempty"`
}

// peeked is a [Page] on the wire. Cut says that more was asked for, and there is more, than one
// answer shows.
type peeked struct {
	Messages []any `json:"messages"`
	Depth    int   `json:"depth"`
	Cut      bool  `json:"cut"`
}

// deadSets answers what is asked of dead sets: it reads which set and which messages are meant,
// asks that set, and says what came of it.
type deadSets struct{ requests }

// peek shows the oldest dead messages.
func (d deadSets) peek(w http.ResponseWriter, r *http.Request, p params) error {
	page, err := patiently(r.Context(), d.cfg, func(ctx context.Context) (Page, error) { return p.set.Peek(ctx, p.count) })
	if err != nil {
		return err
	}
	answer := peeked{Messages: d.veilAll(r, page.Messages), Depth: page.Depth, Cut: len(page.Messages) < min(p.count, page.Depth)}
	return d.answer(w, answer)
}

// replay gives the oldest dead messages a new budget.
func (d deadSets) replay(w http.ResponseWriter, r *http.Request) error {
	return d.act(w, r, "replay", "replayed", func(set DeadSet, ctx context.Context, p params) (Result, error) {
		if p.crashLoop {
			return set.ReplayAll(ctx, p.count)
		}
		return set.Replay(ctx, p.count)
	}, crashLoopName)
}

// remove deletes the oldest dead messages: into the trash, where there is one.
func (d deadSets) remove(w http.ResponseWriter, r *http.Request) error {
	return d.act(w, r, "delete", "deleted", func(set DeadSet, ctx context.Context, p params) (Result, error) {
		if p.undo == "" {
			return set.Delete(ctx, p.count)
		}
		return set.Trash(ctx, d.cfg.Trash, p.undo, p.count)
	}, foreverName)
}

// act does what a person asked for to the oldest messages, in a call that knows the parameters more
// besides, and leaves an audit line whatever came of it.
func (d deadSets) act(w http.ResponseWriter, r *http.Request, action, done string, do func(DeadSet, context.Context, params) (Result, error), more ...string) error {
	p, err := d.params(w, r, more...)
	if err != nil {
		return elsewhere(err, action)
	}
	if _, given := r.Header["Idempotency-Key"]; given { // Go's own client sends a request with it again
		return mistake("Idempotency-Key is for operations: each %s by count takes the oldest of then", action)
	}
	if action == "delete" && !p.forever && d.cfg.Trash > 0 {
		p.undo = operations.NewID(time.Now())
	}
	if d.cfg.Operations != nil {
		if id := d.cfg.Operations.RunningOn(operations.Target{Stream: p.stream, Channel: p.channel}); id != "" {
			return inTheWay(id)
		}
	}
	// The result counts also beside an error: what was done stays done.
	res, err := do(p.set, r.Context(), p)
	d.auditActed(r, action, p, res, err)
	answer := d.answerOf(p, done, res)
	if err != nil {
		answer.Stopped = cmp.Or(answer.Stopped, err.Error())
		if res.Done == 0 {
			told := problemOf(d.cfg.Logger, r, err)
			if told.status == http.StatusServiceUnavailable {
				told.result = &answer
			}
			return told
		}
	}
	if answer.Stopped == "" {
		return writeJSON(w, http.StatusOK, jsonType, answer)
	}
	return &problem{
		status: http.StatusServiceUnavailable, retryAfter: 5, result: &answer,
		detail: answer.Message + ", then stopped: " + answer.Stopped,
	}
}

// elsewhere adds to what refuses a choice, or a dry run, where these are understood.
func elsewhere(err error, action string) error {
	if p, is := errors.AsType[*problem](err); is && (filter.Known(p.unknown) || p.unknown == "dry_run") {
		p.detail += "; to " + action + " one cause, or whatever else is chosen: POST /v1/dead_set/operations"
	}
	return err
}

// inTheWay refuses what has to wait for an operation.
func inTheWay(id string) error {
	return &problem{
		status: http.StatusConflict, retryAfter: 5, operation: id,
		detail: "operation " + id + " runs on this dead set: wait until it is over, or pause or cancel it",
	}
}

// answerOf says what came of a replay or a delete.
func (d deadSets) answerOf(p params, done string, res Result) result {
	of := operations.Target{Stream: p.stream, Channel: p.channel}
	answer := result{
		Message:   fmt.Sprintf("%s %d of %d messages of %s", done, res.Done, p.count, p.who()),
		Requested: p.count, Done: res.Done, LeftOut: res.LeftOut, TooLarge: res.TooLarge, Stopped: res.Stopped,
	}
	if res.Left >= 0 {
		answer.Left = &res.Left
	}
	if p.undo != "" && res.Done > 0 {
		answer.Undo = p.undo
		answer.Message += "; " + d.keptUntil(p.undo, of, time.Now())
	}
	if res.LeftOut > 0 {
		// The same count with include_crash_loop would take whoever is the oldest then.
		answer.Message += fmt.Sprintf("; %d that killed the process were left out: stepwell dead-set list %[2]s --reason crash_loop shows them, "+
			"stepwell dead-set replay %[2]s --id ID --include-crash-loop replays one of them", res.LeftOut, flags(of))
	}
	if res.TooLarge > 0 {
		answer.Message += fmt.Sprintf("; %d stay because they are larger than %s or RabbitMQ's frames allow",
			res.TooLarge, d.cfg.Setting("rabbitmq.max_message_size"))
	}
	return answer
}

// auditActed writes what was done to how many of the oldest.
func (d deadSets) auditActed(r *http.Request, action string, p params, res Result, err error) {
	attrs := []slog.Attr{
		slog.String("action", action), slog.String("stream", p.stream),
		slog.Int("requested", p.count), slog.Int("done", res.Done),
	}
	if p.channel != "" {
		attrs = append(attrs, slog.String("channel", p.channel))
	}
	if p.undo != "" {
		attrs = append(attrs, slog.String("undo", p.undo))
	}
	if res.Left >= 0 {
		attrs = append(attrs, slog.Int("left", res.Left))
	}
	if res.Stopped != "" {
		attrs = append(attrs, slog.String("stopped", res.Stopped))
	}
	d.audit(r, "audit: dead set", err, attrs...)
}

// audit writes who asked for what: their name, what they may, by what right they were let in, and
// from where. Nothing else in it is free text of the request: streams and channels are known names
// by then.
func (q requests) audit(r *http.Request, what string, err error, attrs ...slog.Attr) {
	by := callerOf(r)
	attrs = append([]slog.Attr{
		slog.String("by", by.name), slog.String("role", string(by.role)), slog.String("right", by.right), slog.String("address", from(r)),
	}, attrs...)
	if err != nil {
		attrs = append(attrs, slog.Any("error", err))
	}
	q.cfg.Logger.LogAttrs(context.WithoutCancel(r.Context()), slog.LevelInfo, what, attrs...)
}

// tried is what an audit line says of a change: that it was done only where it was.
func tried(err error, done, failed string) string {
	if err != nil {
		return failed
	}
	return done
}

// from is the address that a request came from, without its port, which says nothing.
func from(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}
