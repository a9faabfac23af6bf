package persistence

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/gth-server/gth-server/session"
)

// The tables: the first byte of every key. See docs/store.md, "Keys".
const (
	tabFormat  = 'v' // format of the store
	tabCounter = 'n' // last epoch and place that were given out
	tabSecret  = 'u' // what cursors are signed with
	tabHead    = 'h' // session: lease and end of the log
	tabMeta    = 'm' // session: index entry
	tabIndex   = 'i' // all sessions, newest first
	tabCwd     = 'w' // the sessions of a working directory, newest first
	tabLog     = 'l' // session, last number of the batch: the batch
	tabKey     = 'k' // session, digest of a batch's key: which records it became
	tabAsk     = 'a' // ask
	tabAskOf   = 'q' // session, time, ask: all asks of a session
	tabOpen    = 'o' // session, time, ask: the open ones
	tabGrant   = 'g' // digest of a workspace, grant
	tabChunk   = 'c' // another key and a number: a part of a large value
	tabGone    = 'd' // session that is being deleted
)

// maxID bounds ids of sessions, asks and grants; it fits the length byte.
const maxID = 200

// checkID says why id can not be part of a key.
func checkID(what, id string) error {
	switch {
	case id == "":
		return fmt.Errorf("the %s has no id", what)
	case len(id) > maxID:
		return fmt.Errorf("the id of the %s has %d bytes: use at most %d", what, len(id), maxID)
	}
	return nil
}

// named returns table, length and name: no such key is a prefix of another.
func named(table byte, name string) []byte {
	k := make([]byte, 0, 2+len(name)+16)
	return append(append(k, table, byte(len(name))), name...)
}

func sessionKey(table byte, id session.ID) []byte { return named(table, string(id)) }

func logKey(id session.ID, last session.Seq) []byte {
	return binary.BigEndian.AppendUint64(sessionKey(tabLog, id), uint64(last))
}

// batchKey is where the numbers of the batch with this key are.
func batchKey(id session.ID, key string) []byte {
	sum := sha256.Sum256([]byte(key))
	return append(sessionKey(tabKey, id), sum[:16]...)
}

func askKey(id string) []byte { return named(tabAsk, id) }

// askOfKey places an ask among those of its session, oldest first.
func askOfKey(table byte, s session.ID, created time.Time, id string) []byte {
	return append(appendTime(sessionKey(table, s), created), id...)
}

// askOfID is the ask's id in a key of askOfKey.
func askOfID(key []byte) (string, error) {
	if len(key) < 2 || len(key) < 2+int(key[1])+timeLen {
		return "", fmt.Errorf("key %q: %w", key, ErrDamaged)
	}
	return string(key[2+int(key[1])+timeLen:]), nil
}

const (
	digestLen = 16
	timeLen   = 12
)

// digestPrefix is a table and the digest of a path.
func digestPrefix(table byte, path string) []byte {
	sum := sha256.Sum256([]byte(path))
	return append([]byte{table}, sum[:digestLen]...)
}

func grantKey(workspace, id string) []byte {
	return append(digestPrefix(tabGrant, workspace), id...)
}

// appendTime appends t so that bytes order as times do, whatever the year.
func appendTime(b []byte, t time.Time) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(t.Unix())^(1<<63))
	return binary.BigEndian.AppendUint32(b, uint32(t.Nanosecond()))
}

// place is where a session stands in an index: newest first, and of two of
// one time the greater id first.
func place(m session.Meta) []byte {
	b := appendTime(nil, m.CreatedAt)
	b = append(b, m.ID...)
	for i := range b {
		b[i] = ^b[i]
	}
	return append(b, 0xff) // behind every id that this one is a prefix of
}

// placeID is the session's id in a place.
func placeID(place []byte) (session.ID, error) {
	if len(place) < timeLen+2 {
		return "", fmt.Errorf("index place %x: %w", place, ErrDamaged)
	}
	id := make([]byte, 0, len(place)-timeLen-1)
	for _, c := range place[timeLen : len(place)-1] {
		id = append(id, ^c)
	}
	return session.ID(id), nil
}

// indexKeys are the places of a session in both indexes.
func indexKeys(m session.Meta) [][]byte {
	p := place(m)
	return [][]byte{append([]byte{tabIndex}, p...), append(digestPrefix(tabCwd, m.Cwd), p...)}
}

// chunkKey is where the i-th further part of the value of key is.
func chunkKey(key []byte, i int) []byte {
	return binary.BigEndian.AppendUint32(chunkPrefix(key), uint32(i))
}

func chunkPrefix(key []byte) []byte {
	return append([]byte{tabChunk}, key...)
}
