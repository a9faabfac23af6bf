package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/gth-server/gth-server/session/config"
)

// openLog returns the log of a command: on standard error, or in the
// configured file, which close closes. The level of --log wins.
func openLog(std stdio, g *Globals, cfg *config.Effective) (log *slog.Logger, closeLog func() error, err error) {
	level := orElse(g.Log, cfg.Telemetry.LogLevel)
	name := cfg.Telemetry.LogFile
	if name == "" {
		return logger(std.err, level), func() error { return nil }, nil
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, usage(fmt.Errorf("telemetry.logFile: %w: name a file that can be written", err))
	}
	return logger(f, level), f.Close, nil
}

func logger(w io.Writer, level string) *slog.Logger {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		l = slog.LevelWarn
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: l}))
}
