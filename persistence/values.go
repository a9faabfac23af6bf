package persistence

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/gth-server/gth-server/session"
)

// version is the version of values that this build writes, and the newest
// that it reads. See docs/store.md, "Values".
const version = 1

// Errors of the store, wrapped.
var (
	// ErrDamaged is a value or file that does not hold what was written.
	ErrDamaged = errors.New("damaged")
	// ErrUnavailable is a store that takes no writes now, or that no process
	// serves. What is stored may still be readable.
	ErrUnavailable = errors.New("the store is not available")
)

// envelope: version, table, checksum of table and payload, payload.
const envelopeLen = 6

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(table byte, payload []byte) uint32 {
	return crc32.Update(crc32.Checksum([]byte{table}, castagnoli), castagnoli, payload)
}

// seal puts payload into an envelope of the table.
func seal(table byte, payload []byte) []byte {
	b := make([]byte, envelopeLen, envelopeLen+len(payload))
	b[0], b[1] = version, table
	binary.BigEndian.PutUint32(b[2:], checksum(table, payload))
	return append(b, payload...)
}

// unseal returns the payload of a value of the table, in today's form. A
// value of a newer build is session.ErrNewer, any other fault ErrDamaged.
func unseal(table byte, value []byte) ([]byte, error) {
	v, payload, err := open(table, value)
	if err != nil {
		return nil, err
	}
	for ; v < version; v++ {
		if payload, err = upgrades[v](table, payload); err != nil {
			return nil, fmt.Errorf("value of table %q, version %d: %w: %w", table, v, ErrDamaged, err)
		}
	}
	return payload, nil
}

// open takes the envelope off and returns the version that it names.
func open(table byte, value []byte) (int, []byte, error) {
	if len(value) > 0 && value[0] == '{' { // version 0 had no envelope
		return 0, value, nil
	}
	switch {
	case len(value) < envelopeLen:
		return 0, nil, fmt.Errorf("value of table %q has %d bytes: %w", table, len(value), ErrDamaged)
	case value[0] > version:
		return 0, nil, errNewer(int(value[0]))
	case value[0] == 0:
		return 0, nil, fmt.Errorf("value of table %q names version 0: %w", table, ErrDamaged)
	case value[1] != table:
		return 0, nil, fmt.Errorf("value of table %q says that it is of %q: %w", table, value[1], ErrDamaged)
	}
	payload := value[envelopeLen:]
	if checksum(table, payload) != binary.BigEndian.Uint32(value[2:]) {
		return 0, nil, fmt.Errorf("value of table %q has a wrong checksum: %w", table, ErrDamaged)
	}
	return int(value[0]), payload, nil
}

func errNewer(v int) error {
	return fmt.Errorf("the store has version %d and this build reads up to %d: %w: upgrade gth-server", v, version, session.ErrNewer)
}

// upgrades brings the payload of a version to the form of the next one.
var upgrades = [version]func(table byte, payload []byte) ([]byte, error){
	// Version 0 held bare JSON objects; today's tables of objects hold the
	// same text inside an envelope.
	func(table byte, payload []byte) ([]byte, error) {
		switch table {
		case tabFormat, tabCounter, tabHead, tabMeta, tabAsk, tabGrant:
			if !json.Valid(payload) {
				return nil, errors.New("it is no JSON")
			}
			return payload, nil
		}
		return nil, fmt.Errorf("table %q did not exist", table)
	},
}

// marshal is json.Marshal that keeps the bytes of raw JSON as they are.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

func unmarshal(table byte, payload []byte, v any) error {
	if err := json.Unmarshal(payload, v); err != nil {
		return fmt.Errorf("value of table %q: %w: %w", table, ErrDamaged, err)
	}
	return nil
}

// batch is one group of records as the log keeps it.
type batch struct {
	first   session.Seq
	key     string
	records [][]byte // each as session.EncodeRecord made it
}

func (b batch) last() session.Seq { return b.first + session.Seq(len(b.records)) - 1 }

// encode returns the payload: numbers as uvarints, texts with their length
// before them.
func (b batch) encode() []byte {
	size := 3*binary.MaxVarintLen64 + len(b.key)
	for _, r := range b.records {
		size += len(r) + binary.MaxVarintLen64
	}
	p := binary.AppendUvarint(make([]byte, 0, size), uint64(b.first))
	p = binary.AppendUvarint(p, uint64(len(b.key)))
	p = append(p, b.key...)
	p = binary.AppendUvarint(p, uint64(len(b.records)))
	for _, r := range b.records {
		p = binary.AppendUvarint(p, uint64(len(r)))
		p = append(p, r...)
	}
	return p
}

var errBatch = fmt.Errorf("batch of records: %w", ErrDamaged)

// decodeBatch reads what encode made. The records are parts of payload.
func decodeBatch(payload []byte) (batch, error) {
	var b batch
	first, rest, err := uvarint(payload)
	if err != nil {
		return b, err
	}
	key, rest, err := text(rest)
	if err != nil {
		return b, err
	}
	n, rest, err := uvarint(rest)
	if err != nil || n == 0 || n > uint64(len(rest)) || first == 0 || first > 1<<62 {
		return b, errBatch
	}
	b = batch{first: session.Seq(first), key: string(key), records: make([][]byte, 0, n)}
	for range n {
		var r []byte
		if r, rest, err = text(rest); err != nil {
			return batch{}, err
		}
		b.records = append(b.records, r)
	}
	if len(rest) > 0 {
		return batch{}, errBatch
	}
	return b, nil
}

func uvarint(b []byte) (uint64, []byte, error) {
	v, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, nil, errBatch
	}
	return v, b[n:], nil
}

func text(b []byte) (t, rest []byte, err error) {
	n, rest, err := uvarint(b)
	if err != nil || n > uint64(len(rest)) {
		return nil, nil, errBatch
	}
	return rest[:n:n], rest[n:], nil
}
