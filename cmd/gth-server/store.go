package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/gth-server/gth-server/cmd/gth-server/internal/terminal"
	"github.com/gth-server/gth-server/persistence"
	"github.com/gth-server/gth-server/session"
	"github.com/gth-server/gth-server/session/config"
)

// storeDir is where the store is kept below the data directory.
const storeDir = "store"

// keeping says where an app keeps its sessions.
type keeping uint8

const (
	inMemory     keeping = iota // gone with the process
	onDisk                      // in the store that the user's processes share
	onDiskLazily                // the same, opened by the first session
)

func (k keeping) open(ctx context.Context, cfg *config.Effective, log *slog.Logger) (session.Store, error) {
	if k == inMemory {
		return session.NewMemory(), nil
	}
	store, err := persistence.OpenShared(ctx, persistence.Options{
		Dir: filepath.Join(cfg.DataDir, storeDir), Logger: log, Lazy: k == onDiskLazily,
		Retention: time.Duration(cfg.Limits.RetentionDays) * 24 * time.Hour, MaxBytes: cfg.Limits.RetentionBytes,
	})
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	return store, nil
}

// withStore runs f with the store of the configuration in force.
func withStore(ctx context.Context, std stdio, g *Globals, f func(session.Store) error) error {
	cfg, err := loadConfig(std, g, modelFlags{}, "run")
	if err != nil {
		return err
	}
	log, closeLog, err := openLog(std, g, cfg)
	if err != nil {
		return err
	}
	defer closeLog()
	store, err := onDisk.open(ctx, cfg, log)
	if err != nil {
		return err
	}
	return errors.Join(f(store), store.Close())
}

// table prints rows under a heading, in columns; every cell is escaped.
func table(std stdio, heading []string, rows [][]string) error {
	w := tabwriter.NewWriter(std.out, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{heading}, rows...) {
		for i, cell := range row {
			if i > 0 {
				fmt.Fprint(w, "\t")
			}
			fmt.Fprint(w, terminal.Escape(clip(cell, 100)))
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04")
}

// unknown turns a missing thing into a mistake of the caller that says
// where to look.
func unknown(err error, hint string) error {
	if errors.Is(err, session.ErrNotFound) {
		return usage(fmt.Errorf("%w: %s", err, hint))
	}
	return err
}
