package actor

import (
	"log/slog"
	"os"

	"github.com/stepwell/stepwell/config"
	"github.com/stepwell/stepwell/internal/telemetry"
)

// newLogger is the log where the code gives none.
func newLogger(cfg config.Log) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.Level)); err != nil {
		level = slog.LevelInfo // the configuration was checked; a hand-made one may be empty
	}
	opts := &slog.HandlerOptions{Level: level}
	if cfg.Format == "json" {
		return slog.New(telemetry.LogHandler(slog.NewJSONHandler(os.Stderr, opts)))
	}
	return slog.New(telemetry.LogHandler(slog.NewTextHandler(os.Stderr, opts)))
}
