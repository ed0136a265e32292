package actor

import (
	"io"
	"log/slog"

	"github.com/stepwell/stepwell/config"
	"github.com/stepwell/stepwell/internal/telemetry"
)

// newLogger is the log where the code gives none.
func newLogger(cfg config.Log, out io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.Level)); err != nil {
		level = slog.LevelInfo // the configuration was checked; a hand-made one may be empty
	}
	opts := &slog.HandlerOptions{Level: level, ReplaceAttr: withUnit}
	if cfg.Format == "json" {
		return slog.New(telemetry.LogHandler(slog.NewJSONHandler(out, opts)))
	}
	return slog.New(telemetry.LogHandler(slog.NewTextHandler(out, opts)))
}

// withUnit writes durations as 25s: JSON would have them as a number without a unit.
func withUnit(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}
