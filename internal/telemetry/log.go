package telemetry

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/trace"
)

// LogHandler adds trace_id and span_id to the records that are logged within a span. They are in no
// group, so that a search finds them.
func LogHandler(next slog.Handler) slog.Handler { return logHandler{Handler: next} }

// logHandler is a slog.Handler that looks at the context of each record.
type logHandler struct {
	slog.Handler
	// outside is the handler without its groups, and inside what leads from there to Handler.
	// Without a group there is nothing of either.
	outside slog.Handler
	inside  []func(slog.Handler) slog.Handler
}

func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	span := trace.SpanContextFromContext(ctx)
	if !span.IsValid() {
		return h.Handler.Handle(ctx, r)
	}
	// Without a group the record itself can carry the ids. With one they would get into the group:
	// the handler is made anew from outside it.
	ids := []slog.Attr{slog.String("trace_id", span.TraceID().String()), slog.String("span_id", span.SpanID().String())}
	if h.outside == nil {
		r = r.Clone()
		r.AddAttrs(ids...)
		return h.Handler.Handle(ctx, r)
	}
	with := h.outside.WithAttrs(ids)
	for _, step := range h.inside {
		with = step(with)
	}
	return with.Handle(ctx, r)
}

func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	if h.outside == nil {
		return logHandler{Handler: h.Handler.WithAttrs(attrs)}
	}
	return h.into(func(next slog.Handler) slog.Handler { return next.WithAttrs(attrs) })
}

func (h logHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	if h.outside == nil {
		h.outside = h.Handler
	}
	return h.into(func(next slog.Handler) slog.Handler { return next.WithGroup(name) })
}

// into notes a step that was taken inside a group. The slice is clipped, since two handlers may be
// made from one.
func (h logHandler) into(step func(slog.Handler) slog.Handler) slog.Handler {
	return logHandler{step(h.Handler), h.outside, append(h.inside[:len(h.inside):len(h.inside)], step)}
}
