package persistence

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/dgraph-io/badger/v4"
	boptions "github.com/dgraph-io/badger/v4/options"
)

// Options configure a store. Dir is required.
type Options struct {
	Dir    string           // made with mode 0700 when it is missing
	Logger *slog.Logger     // nil discards
	Now    func() time.Time // nil is time.Now

	// Retention is how long a closed session is kept after its last change,
	// MaxBytes how much the store may hold; the oldest closed sessions go
	// first. 0 is 90 days and 2 GiB, a negative value no bound.
	Retention time.Duration
	MaxBytes  int64

	// MinFree is the room on the disk below which nothing is written. 0 is
	// 16 MiB.
	MinFree int64

	// Beat is how often processes that share the store show that they
	// live; three beats of silence are a death. 0 is a second.
	Beat time.Duration
	// Lazy makes OpenShared return before the store is open: the first call
	// opens it and gets the error.
	Lazy bool
	// Peer refuses a process that wants to share the store. Nil refuses
	// those that a gth-server started, where the system tells: what an
	// agent runs must not answer for the person.
	Peer func(pid int) error
}

const (
	defaultRetention = 90 * 24 * time.Hour
	defaultMaxBytes  = 2 << 30
	defaultMinFree   = 16 << 20
	defaultBeat      = time.Second
)

// withDefaults fills in what was left out.
func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Retention == 0 {
		o.Retention = defaultRetention
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = defaultMaxBytes
	}
	if o.MinFree == 0 {
		o.MinFree = defaultMinFree
	}
	if o.Beat <= 0 {
		o.Beat = defaultBeat
	}
	return o
}

// Sizes of Badger, chosen for a store that is mostly idle inside an
// editor's process. Values from valueThreshold on go to the value log.
const (
	memTable       = 4 << 20
	valueLogFile   = 16 << 20
	valueThreshold = 256 << 10
)

// badgerOptions are Badger's for a directory. It syncs nothing by itself:
// the writer does, once for a group.
func badgerOptions(dir string, log *slog.Logger) badger.Options {
	return badger.DefaultOptions(dir).
		WithMemTableSize(memTable).
		WithNumMemtables(2).
		WithValueLogFileSize(valueLogFile).
		WithValueThreshold(valueThreshold).
		WithCompression(boptions.None).
		WithBlockCacheSize(0).
		WithNumCompactors(2).
		WithMetricsEnabled(false).
		WithCompactL0OnClose(false).
		WithDetectConflicts(false).
		WithSyncWrites(false).
		WithChecksumVerificationMode(boptions.OnBlockRead).
		WithVerifyValueChecksum(true).
		WithLogger(badgerLog{log})
}

// badgerLog passes on what Badger complains about; the rest is for people
// who debug it.
type badgerLog struct{ log *slog.Logger }

func (l badgerLog) line(level slog.Level, f string, args []any) {
	ctx := context.Background()
	if !l.log.Enabled(ctx, level) {
		return
	}
	l.log.Log(ctx, level, "badger", slog.String("says", strings.TrimSpace(fmt.Sprintf(f, args...))))
}

func (l badgerLog) Errorf(f string, args ...any)   { l.line(slog.LevelWarn, f, args) }
func (l badgerLog) Warningf(f string, args ...any) { l.line(slog.LevelInfo, f, args) }
func (l badgerLog) Infof(f string, args ...any)    { l.line(slog.LevelDebug, f, args) }
func (l badgerLog) Debugf(string, ...any)          {}
