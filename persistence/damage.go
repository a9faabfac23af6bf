package persistence

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/fb"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/badger/v4/table"
	"github.com/dgraph-io/badger/v4/y"
	"google.golang.org/protobuf/proto"
)

// inspection is what was found in the files of a store. Badger ends the
// process over some damaged files and leaves others out without a word, so
// they are looked at before it opens them.
type inspection struct {
	tables  map[uint64]badger.TableManifest // the readable ones
	logs    map[string][]byte               // logs that were mended, nil to leave one out
	damaged []string                        // what is wrong, one line each
}

func (in *inspection) fault(path string, err error) {
	in.damaged = append(in.damaged, fmt.Sprintf("%s: %v", filepath.Base(path), err))
}

// inspect looks at the files of g; thorough reads all of them.
func (g generation) inspect(o badger.Options, thorough bool) (*inspection, error) {
	in := &inspection{tables: map[uint64]badger.TableManifest{}, logs: map[string][]byte{}}
	if _, err := os.Stat(g.path()); errors.Is(err, fs.ErrNotExist) {
		return in, nil
	}
	listed, err := g.listed(o, in)
	if err != nil {
		return nil, err
	}
	for id, t := range listed {
		path := table.NewFilename(id, g.path())
		if err := guarded(func() error { return checkTable(path, thorough) }); err != nil {
			in.fault(path, err)
			continue
		}
		in.tables[id] = t
	}
	logs, err := filepath.Glob(filepath.Join(g.path(), "*.mem"))
	if err != nil {
		return nil, err
	}
	for _, path := range logs {
		mended, err := checkWAL(path)
		if err != nil {
			in.fault(path, err)
			in.logs[filepath.Base(path)] = mended
		}
	}
	values, err := filepath.Glob(filepath.Join(g.path(), "*.vlog"))
	if err != nil {
		return nil, err
	}
	for _, path := range values {
		if err := checkValueLog(path); err != nil {
			in.fault(path, err)
			in.logs[filepath.Base(path)] = nil
		}
	}
	return in, nil
}

// checkValueLog looks at the beginning of a value log: it names the key that
// the file is encrypted with, which is none. The values have checksums that
// are compared when they are read.
func checkValueLog(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var head [walHeader]byte
	if _, err := io.ReadFull(f, head[:]); err != nil {
		return fmt.Errorf("it has no beginning: %w", err)
	}
	if !plain(head[:]) {
		return errTable
	}
	return nil
}

// plain reports whether a log says that it is not encrypted.
func plain(head []byte) bool { return zero(head[:8]) }

// listed returns the tables that belong to the store: those that its
// manifest names, and all that are there when the manifest is damaged. What
// was removed since may come back then; nothing that is needed stays away.
func (g generation) listed(o badger.Options, in *inspection) (map[uint64]badger.TableManifest, error) {
	path := filepath.Join(g.path(), badger.ManifestFilename)
	names, err := filepath.Glob(filepath.Join(g.path(), "*.sst"))
	if err != nil {
		return nil, err
	}
	tables, err := readManifest(path, o)
	if err == nil || errors.Is(err, fs.ErrNotExist) && len(names) == 0 {
		return tables, nil
	}
	in.fault(path, err)
	if tables == nil {
		tables = map[uint64]badger.TableManifest{}
	}
	for _, n := range names {
		id, ok := table.ParseFileID(filepath.Base(n))
		if _, listed := tables[id]; ok && !listed {
			tables[id] = badger.TableManifest{}
		}
	}
	return tables, nil
}

// readManifest reads which tables there are. One that was cut off is an
// error, and what stands before the cut is returned with it.
func readManifest(path string, o badger.Options) (map[uint64]badger.TableManifest, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	var m badger.Manifest
	var end int64
	err = guarded(func() (err error) {
		m, end, err = badger.ReplayManifestFile(f, o.ExternalMagicVersion, o)
		return err
	})
	if err != nil {
		return nil, err
	}
	if end < fi.Size() {
		err = errTable
	}
	return m.Tables, err
}

var errTable = errors.New("it is cut off or overwritten")

// checkTable reads a table's index and last block, or with thorough every
// block, and compares their checksums.
func checkTable(path string, thorough bool) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	// From the end: length of the checksum, checksum, length of the index,
	// index.
	at := fi.Size()
	sum, at, err := readBack(f, at)
	if err != nil {
		return err
	}
	index, at, err := readBack(f, at)
	if err != nil {
		return err
	}
	want := &pb.Checksum{}
	if err := proto.Unmarshal(sum, want); err != nil {
		return err
	}
	if err := y.VerifyChecksum(index, want); err != nil {
		return fmt.Errorf("index: %w", err)
	}
	ti := fb.GetRootAsTableIndex(index, 0)
	n := ti.OffsetsLength()
	if n == 0 {
		return errTable
	}
	first := n - 1
	if thorough {
		first = 0
	}
	for i := first; i < n; i++ {
		var bo fb.BlockOffset
		if !ti.Offsets(&bo, i) || int64(bo.Offset())+int64(bo.Len()) > at {
			return errTable
		}
		block := make([]byte, bo.Len())
		if _, err := f.ReadAt(block, int64(bo.Offset())); err != nil {
			return err
		}
		if err := checkBlock(block); err != nil {
			return fmt.Errorf("block %d of %d: %w", i+1, n, err)
		}
	}
	return nil
}

// readBack reads a text whose length stands behind it, up to at, and
// returns where it begins.
func readBack(f *os.File, at int64) ([]byte, int64, error) {
	var n [4]byte
	if at < 4 {
		return nil, 0, errTable
	}
	if _, err := f.ReadAt(n[:], at-4); err != nil {
		return nil, 0, err
	}
	size := int64(binary.BigEndian.Uint32(n[:]))
	at -= 4 + size
	if size == 0 || at < 0 {
		return nil, 0, errTable
	}
	b := make([]byte, size)
	_, err := f.ReadAt(b, at)
	return b, at, err
}

func checkBlock(b []byte) error {
	if len(b) < 8 {
		return errTable
	}
	n := int(binary.BigEndian.Uint32(b[len(b)-4:]))
	if n > len(b)-4 {
		return errTable
	}
	data := b[:len(b)-4-n]
	want := &pb.Checksum{}
	if err := proto.Unmarshal(b[len(data):len(b)-4], want); err != nil {
		return err
	}
	return y.VerifyChecksum(data, want)
}

// The parts of Badger's write-ahead log that tell where a transaction ends.
const (
	walHeader  = 20
	walInTxn   = 1 << 6
	walEndTxn  = 1 << 7
	walMaxKey  = 1 << 10
	walTxnTail = 8 // the version at the end of every key
)

// walEntry returns the kind, the transaction and the length of the entry at
// the beginning of b; the length is 0 when there is none.
func walEntry(b []byte) (meta byte, txn uint64, n int) {
	if len(b) < 5 {
		return 0, 0, 0
	}
	at := 2
	var sizes [3]uint64
	for i := range sizes {
		v, k := binary.Uvarint(b[at:])
		if k <= 0 {
			return 0, 0, 0
		}
		sizes[i] = v
		at += k
	}
	key, value := sizes[0], sizes[1]
	if key < walTxnTail || key > walMaxKey || value > valueThreshold {
		return 0, 0, 0
	}
	end := at + int(key) + int(value)
	if end+crc32.Size > len(b) || crc32.Checksum(b[:end], castagnoli) != binary.BigEndian.Uint32(b[end:]) {
		return 0, 0, 0
	}
	k := b[at : at+int(key)]
	txn = y.ParseTs(k)
	if b[0]&walEndTxn != 0 {
		v, err := strconv.ParseUint(string(b[at+int(key):end]), 10, 64)
		if err != nil {
			return 0, 0, 0
		}
		txn = v
	}
	return b[0], txn, end + crc32.Size
}

// checkWAL looks for transactions behind a damaged place in a write-ahead
// log, which Badger would drop without a word. A log whose last transaction
// was cut off is what a crash leaves and is no fault. The error says what is
// damaged; the log that is returned with it holds the other transactions.
func checkWAL(path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	b = bytes.TrimRight(b, "\x00")
	if len(b) < walHeader {
		return nil, nil
	}
	b = append(b, make([]byte, crc32.Size)...) // a checksum may end in zeros
	mended := append(make([]byte, 8, len(b)), b[8:walHeader]...)
	var whole []byte // of the transaction that is being read
	var txn uint64
	lost, behind := 0, false
	for at := walHeader; at < len(b)-crc32.Size; {
		meta, ts, n := walEntry(b[at:])
		if n == 0 {
			lost++
			at++
			whole = nil
			continue
		}
		switch {
		case meta&walInTxn != 0:
			if txn != ts {
				whole = nil
				txn = ts
			}
			if lost > 0 && whole == nil && !startsTxn(b, at, ts) {
				break // the rest of a damaged transaction
			}
			whole = append(whole, b[at:at+n]...)
		case meta&walEndTxn != 0:
			if len(whole) > 0 && txn == ts {
				mended = append(append(mended, whole...), b[at:at+n]...)
				behind = behind || lost > 0
			}
			whole, txn = nil, 0
		default:
			mended = append(mended, b[at:at+n]...)
			behind = behind || lost > 0
			whole = nil
		}
		at += n
	}
	if !plain(b) {
		return mended, errTable
	}
	if !behind {
		return nil, nil
	}
	return mended, fmt.Errorf("%d bytes in the middle are damaged", lost)
}

// startsTxn reports whether the entry at is the first of its transaction:
// what stands before it is the end of another one. Behind a damaged place
// that is not known, and then the transaction is not whole.
func startsTxn(b []byte, at int, txn uint64) bool {
	// An end mark is short and has the number of the transaction before.
	for back := 1; back <= 64 && back <= at-walHeader; back++ {
		meta, ts, n := walEntry(b[at-back : at])
		if n == back {
			return meta&walEndTxn != 0 && ts != txn
		}
	}
	return false
}
