package persistence

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

// chunkLen is the longest value that is kept in one piece; the value log's
// files bound it.
const chunkLen = 4 << 20

// errAbsent is a key that is not there.
var errAbsent = errors.New("no such key")

// txn reads a state of the store and gathers changes to it. The changes are
// not seen by its own reads; they are applied together or not at all.
type txn struct {
	b       *badger.Txn
	changes []change
}

// change sets a key, or removes it when value is nil.
type change struct{ key, value []byte }

// get returns the payload of key in the table that its first byte names.
func (t *txn) get(key []byte) ([]byte, error) {
	item, err := t.b.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, errAbsent
	}
	if err != nil {
		return nil, fmt.Errorf("read: %w", err)
	}
	var payload []byte
	err = item.Value(func(v []byte) error {
		payload, err = t.payload(key, v)
		return err
	})
	return payload, err
}

// payload unseals value, which is key's and valid only for now, and joins
// its parts when it has several.
func (t *txn) payload(key, value []byte) ([]byte, error) {
	if key[0] == tabChunk || len(value) != envelopeLen+4 || value[1] != tabChunk {
		p, err := unseal(key[0], value)
		return append([]byte(nil), p...), err
	}
	head, err := unseal(tabChunk, value)
	if err != nil {
		return nil, err
	}
	var whole []byte
	for i := range binary.BigEndian.Uint32(head) {
		part, err := t.get(chunkKey(key, int(i)))
		if err != nil {
			return nil, fmt.Errorf("part %d of a large value: %w: %w", i, ErrDamaged, err)
		}
		whole = append(whole, part...)
	}
	return unseal(key[0], whole)
}

// has reports whether key is there.
func (t *txn) has(key []byte) (bool, error) {
	_, err := t.b.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return false, nil
	}
	return err == nil, err
}

// load reads the object at key into v.
func (t *txn) load(key []byte, v any) error {
	p, err := t.get(key)
	if err != nil {
		return err
	}
	return unmarshal(key[0], p, v)
}

// set stores payload at key.
func (t *txn) set(key, payload []byte) {
	value := seal(key[0], payload)
	if len(value) <= chunkLen {
		t.changes = append(t.changes, change{key, value})
		return
	}
	n := 0
	for ; len(value) > 0; n++ {
		part := value[:min(chunkLen-envelopeLen, len(value))]
		value = value[len(part):]
		t.changes = append(t.changes, change{chunkKey(key, n), seal(tabChunk, part)})
	}
	t.changes = append(t.changes, change{key, seal(tabChunk, binary.BigEndian.AppendUint32(nil, uint32(n)))})
}

// save stores an object at key.
func (t *txn) save(key []byte, v any) error {
	p, err := marshal(v)
	if err != nil {
		return err
	}
	t.set(key, p)
	return nil
}

// saveReadable is save for what other packages made: it refuses what could
// not be read back.
func saveReadable[T any](t *txn, key []byte, v T) error {
	p, err := marshal(v)
	if err != nil {
		return err
	}
	var back T
	if err := json.Unmarshal(p, &back); err != nil {
		return fmt.Errorf("it could not be read back: %w", err)
	}
	t.set(key, p)
	return nil
}

// remove removes key.
func (t *txn) remove(keys ...[]byte) {
	for _, k := range keys {
		t.changes = append(t.changes, change{key: k})
	}
}

// scan calls f for the keys with prefix in order, from key from on, until f
// returns false. key is valid during the call; value reads what it holds.
func (t *txn) scan(prefix, from []byte, values bool, f func(key []byte, value func() ([]byte, error)) (bool, error)) error {
	o := badger.DefaultIteratorOptions
	o.Prefix, o.PrefetchValues, o.PrefetchSize = prefix, values, 16
	it := t.b.NewIterator(o)
	defer it.Close()
	if from == nil {
		from = prefix
	}
	for it.Seek(from); it.Valid(); it.Next() {
		item := it.Item()
		key := item.Key()
		more, err := f(key, func() (p []byte, err error) {
			verr := item.Value(func(v []byte) error {
				p, err = t.payload(key, v)
				return nil
			})
			return p, errors.Join(verr, err)
		})
		if err != nil || !more {
			return err
		}
	}
	return nil
}
