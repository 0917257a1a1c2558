package verify

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"github.com/memproxy/memproxy/internal/durable"
)

// Dir is a log's directory. Its methods verify only what they need.
type Dir string

// maxFile bounds the size of a file, in bytes: a bundle or journal of the longest
// records, with one frame each.
const maxFile = width * (1<<16 + 64)

var errTooLarge = errors.New("the file exceeds the size limit")

// read returns a file's content, nil if it does not exist.
func (d Dir) read(name string) ([]byte, error) {
	path := filepath.Join(string(d), filepath.FromSlash(name))
	b, err := durable.ReadPrefix(path, maxFile+1)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case len(b) > maxFile:
		err = &fs.PathError{Op: "read", Path: path, Err: errTooLarge}
	}
	return b, err
}

// tile returns a tile or bundle with at least w entries: the full file, the partial one
// of that width, or a wider one; nil if there is none.
func (d Dir) tile(level int, n int64, w int) (b []byte, name string, err error) {
	name = tileName(level, n)
	if b, err = d.read(name); b != nil || err != nil {
		return b, name, err
	}
	for _, p := range append([]int{w}, d.partials(name)...) {
		if p < w || p == width {
			continue
		}
		partial := name + ".p/" + strconv.Itoa(p)
		if b, err = d.read(partial); b != nil || err != nil {
			return b, partial, err
		}
	}
	return nil, name, nil
}

// partials lists the widths of a tile's partial files, in order.
func (d Dir) partials(name string) []int {
	list, _ := d.names(name + ".p") // most tiles have none, and an error counts as none
	var ws []int
	for _, w := range list {
		if w > 0 && w < width {
			ws = append(ws, int(w))
		}
	}
	sort.Ints(ws)
	return ws
}

func (d Dir) names(dir string) ([]int64, error) {
	list, err := os.ReadDir(filepath.Join(string(d), filepath.FromSlash(dir)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var ns []int64
	for _, e := range list {
		if n, err := strconv.ParseInt(e.Name(), 10, 64); err == nil && n >= 0 {
			ns = append(ns, n)
		}
	}
	return ns, nil
}

// A journalFrame is one commit in the journal.
type journalFrame struct {
	first   int64
	records [][]byte
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// splitJournal reads the frames of a journal and returns data after the last complete
// frame as rest. It does not check the frames' MACs, which only the writer can.
func splitJournal(b []byte) (frames []journalFrame, rest []byte) {
	const head, tail = 20, 36
	for len(b) >= head+tail && string(b[:4]) == "mpj1" {
		n := int64(binary.BigEndian.Uint32(b[16:]))
		if n > int64(len(b)-head-tail) {
			break
		}
		end := head + int(n) + tail
		records, left := splitBundle(b[head : head+int(n)])
		first := binary.BigEndian.Uint64(b[4:])
		if binary.BigEndian.Uint32(b[end-4:]) != crc32.Checksum(b[:end-4], castagnoli) ||
			len(left) > 0 || len(records) == 0 || uint64(len(records)) != uint64(binary.BigEndian.Uint32(b[12:])) || first >= 1<<53 {
			break
		}
		frames = append(frames, journalFrame{first: int64(first), records: records})
		b = b[end:]
	}
	if len(bytes.TrimRight(b, "\x00")) == 0 {
		return frames, nil // preallocated
	}
	return frames, b
}

// Records returns the available records of bundle n, signed or not: from the bundle,
// from the journal while the bundle is not full, or from the widest partial bundle. It
// returns none if they were pruned or not written yet.
func (d Dir) Records(n int64) ([][]byte, error) {
	for range 2 { // the journal may become a bundle in between
		if b, err := d.read(tileName(entryLevel, n)); b != nil || err != nil {
			records, _ := splitBundle(b)
			return records, err
		}
		if b, err := d.read(journalName(n)); b != nil || err != nil {
			var records [][]byte
			frames, _ := splitJournal(b)
			for _, f := range frames {
				records = append(records, f.records...)
			}
			return records, err
		}
	}
	ws := d.partials(tileName(entryLevel, n))
	if len(ws) == 0 {
		return nil, nil
	}
	b, _, err := d.tile(entryLevel, n, ws[len(ws)-1])
	records, _ := splitBundle(b)
	return records, err
}

// Origin returns the log's name from its unverified checkpoint, or "" if there is none.
func (d Dir) Origin() string {
	msg, _ := d.read(CheckpointFile) // other readers report the error
	name, _, _ := strings.Cut(string(msg), "\n")
	return name
}

// ErrGap means that records are missing between others, or before the end that the
// checkpoint names, so that the remaining records would look complete.
var ErrGap = errors.New("records are missing; run memproxy audit verify for details")

// Bundles returns the range of bundles that may have records: from the first that was
// not pruned up to, but not including, to. It does not verify the checkpoint, but
// requires the bundle in which the checkpoint ends.
func (d Dir) Bundles() (from, to int64, err error) {
	msg, err := d.read(CheckpointFile)
	if err != nil {
		return 0, 0, err
	}
	if msg == nil {
		return 0, 0, &fs.PathError{Op: "open", Path: filepath.Join(string(d), CheckpointFile), Err: fs.ErrNotExist}
	}
	c, err := parseText(string(msg))
	if err != nil {
		return 0, 0, err
	}
	if to = (c.Size + width - 1) / width; to > 0 {
		if last, err := d.Records(to - 1); err != nil || len(last) == 0 {
			return 0, 0, cmp.Or(err, ErrGap)
		}
	}
	js, err := d.names(journalDir) // sorted
	if err != nil {
		return 0, 0, err
	}
	for _, j := range js {
		if j == to { // journals with other numbers were never used
			to++
		}
	}
	// Pruning removes bundles from the front, so a binary search finds the first one.
	there := func(i int) bool {
		_, err := os.Stat(filepath.Join(string(d), filepath.FromSlash(tileName(entryLevel, int64(i)))))
		return err == nil
	}
	from = int64(sort.Search(int(to), func(i int) bool { return there(i) || int64(i) >= c.Size/width }))
	if from > 0 && there(0) {
		return 0, 0, ErrGap
	}
	return from, to, nil
}
