package audit

import (
	"bytes"
	"crypto/hmac"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/memproxy/memproxy/internal/durable"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// recovery restores the state that an earlier process wrote.
type recovery struct {
	*Log
	disk     disk
	vkey     string // the public key
	verifier note.Verifier
}

// restore determines the state of the log. The checkpoint says how much is signed, and
// full tiles and the journal must agree with it. Journal records after the checkpoint
// were durable, and are kept if their frames have this writer's MAC. restore returns a
// description of the repair, if one was needed, and Options.Earlier for a new log.
func (r *recovery) restore() (repair string, err error) {
	msg, err := r.disk.read(checkpointFile)
	if err != nil {
		return "", err
	}
	if msg == nil {
		return r.opt.Earlier, r.create()
	}
	size, root, err := readCheckpoint(msg, r.opt.Origin, r.verifier)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if err := r.disk.replace(vkeyFile, []byte(r.vkey+"\n"), true); err != nil {
		return "", err
	}
	if err := r.loadTree(int64(size)); err != nil {
		return "", err
	}
	end, err := r.replay(size)
	if err != nil {
		return "", err
	}
	// Nothing is changed before this check, so that a damaged log is left as it was found.
	if got, err := tlog.TreeHash(int64(size), r.publisher.tree); err != nil || got != root {
		return "", fmt.Errorf("%w: the first %d records do not match the checkpoint's root hash", ErrCorrupt, size)
	}
	if err := r.resume(end); err != nil {
		return "", err
	}
	for _, n := range end.unneeded {
		if err := os.Remove(r.disk.path(journalPath(n))); err != nil {
			return "", fmt.Errorf("audit: %w", err)
		}
	}
	if err := r.publisher.sweep(); err != nil {
		return "", fmt.Errorf("audit: %w", err)
	}
	return end.repair(r.progress.tip.next, size), nil
}

// tail describes the end of the journal: the last file, if there is one, the length of
// its complete frames, and that of the torn data after them.
type tail struct {
	file      bool
	n         int64
	good, cut int
	unneeded  []int64 // journals of full bundles that are in place, and preallocated ones that were never used
}

func (t tail) repair(next, size uint64) string {
	var did []string
	if t.cut > 0 {
		did = append(did, fmt.Sprintf("cut %d bytes of a torn commit behind record count %d", t.cut, next))
	}
	if next > size {
		did = append(did, fmt.Sprintf("took over %d records that were durable and not yet signed", next-size))
	}
	if did == nil {
		return ""
	}
	return "the log was not closed: " + strings.Join(did, "; ")
}

func (r *recovery) create() error {
	for _, dir := range []string{"tile", journalDir} {
		list, err := os.ReadDir(r.disk.path(dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("audit: %w", err)
		}
		if len(list) > 0 {
			return fmt.Errorf("%w: records exist without a checkpoint", ErrCorrupt)
		}
	}
	return r.disk.replace(vkeyFile, []byte(r.vkey+"\n"), true)
}

// loadTree restores the tree above the leaves from full tiles. The caller verifies them by
// the root hash.
func (r *recovery) loadTree(size int64) error {
	r.publisher.size = size
	for level := 1; size>>(tileHeight*level) > 0; level++ { // the leaves are read from the journal
		end := size >> (tileHeight * level)
		for n := end / tileWidth * tileWidth; n < end; n++ {
			b, err := r.disk.read(tilePath(level-1, n, 0))
			if err != nil {
				return err
			}
			tile := tlog.Tile{H: tileHeight, L: level - 1, N: n, W: tileWidth}
			left, noLeft := tlog.HashFromTile(tile, b, tlog.StoredHashIndex(tileHeight*level-1, 2*n))
			right, noRight := tlog.HashFromTile(tile, b, tlog.StoredHashIndex(tileHeight*level-1, 2*n+1))
			if noLeft != nil || noRight != nil || len(b) != tileWidth*tlog.HashSize {
				return fmt.Errorf("%w: %s is missing or has the wrong length", ErrCorrupt, tilePath(level-1, n, 0))
			}
			r.publisher.tree.set(tileHeight*level, n, tlog.NodeHash(left, right))
		}
	}
	return nil
}

// replay reads the journal from the bundle in which the checkpoint ends.
func (r *recovery) replay(size uint64) (end tail, err error) {
	r.progress.signed = size
	n := int64(size / tileWidth)
	r.progress.tip.next = uint64(n * tileWidth)
	if n > 0 { // the chain and the clock continue from the last full bundle
		last, at, err := r.disk.last(n - 1)
		if err != nil {
			return end, err
		}
		r.progress.tip.prev, r.progress.tip.time = tlog.RecordHash(last), at
	}
	for ; ; n++ {
		b, err := r.disk.read(journalPath(n))
		if err != nil {
			return end, err
		}
		if b == nil || blank(b) {
			break
		}
		good, err := r.replayFile(n, b, size)
		if err != nil {
			return end, err
		}
		end = tail{file: true, n: n, good: good, cut: len(bytes.TrimRight(b[good:], "\x00"))}
		if end.cut > 0 || r.progress.tip.next < uint64(n+1)*tileWidth {
			n++
			break
		}
	}
	if r.progress.tip.next < size {
		return end, fmt.Errorf("%w: the checkpoint covers %d records, the journal ends after %d", ErrCorrupt, size, r.progress.tip.next)
	}
	end.unneeded, err = r.unneeded(int64(size/tileWidth), n)
	return end, err
}

// unneeded lists the journals of bundles before from, which are full, signed and in
// place, and those from to on, which were preallocated and never used.
func (r *recovery) unneeded(from, to int64) (bundles []int64, err error) {
	list, err := os.ReadDir(r.disk.path(journalDir))
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	for _, e := range list {
		n, err := strconv.ParseInt(e.Name(), 10, 64)
		if err != nil || n >= from && n < to {
			continue
		}
		if n >= to {
			if b, err := r.disk.read(journalPath(n)); err != nil {
				return nil, err
			} else if !blank(b) {
				return nil, fmt.Errorf("%w: journal of bundle %d follows a gap", ErrCorrupt, n)
			}
		}
		bundles = append(bundles, n)
	}
	return bundles, nil
}

// replayFile applies the frames of a journal and returns where the valid ones end.
func (r *recovery) replayFile(n int64, b []byte, size uint64) (good int, err error) {
	bad := func(what string) error {
		return fmt.Errorf("%w: journal of bundle %d after record count %d: %s", ErrCorrupt, n, r.progress.tip.next, what)
	}
	for good < len(b) {
		first, payload, mac, count, length, err := readFrame(b[good:])
		if err != nil {
			if r.progress.tip.next >= size && blank(b[good:]) {
				return good, nil // preallocated
			}
			if wholeFrameIn(b[good+1:]) || r.progress.tip.next < size {
				return 0, bad("a frame is damaged, and not by a crash: later frames follow or a checkpoint covers it")
			}
			return good, nil
		}
		es, err := entries(payload)
		if err != nil || len(es) != count || first != r.progress.tip.next || first+uint64(count) > uint64(n+1)*tileWidth {
			return 0, bad("a frame is out of sequence")
		}
		t := r.progress.tip
		leaves := make([]tlog.Hash, count)
		for i, e := range es {
			leaves[i] = tlog.RecordHash(e)
		}
		t.next += uint64(count)
		t.prev = leaves[count-1]
		if t.time, err = appended(es[count-1]); err != nil {
			return 0, bad(err.Error())
		}
		if t.next > size && !hmac.Equal(mac, r.committer.mac.sum(nil, first, leaves)) {
			return 0, bad("an unsigned frame has a wrong MAC")
		}
		for i, leaf := range leaves {
			if index := first + uint64(i); index < size {
				r.publisher.tree.set(0, int64(index), leaf)
			}
		}
		r.progress.advance(t, n, payload, leaves)
		good += length
	}
	return good, nil
}

func (r *recovery) resume(end tail) error {
	if !end.file {
		return nil
	}
	f, err := durable.Open(r.disk.path(journalPath(end.n)), os.O_WRONLY)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	if end.cut > 0 {
		if err = f.Truncate(int64(end.good)); err == nil {
			err = r.opt.Sync(f)
		}
		if err != nil {
			_ = f.Close() // the first error is returned
			return fmt.Errorf("audit: truncate torn tail: %w", err)
		}
	}
	if r.progress.tip.next == uint64(end.n+1)*tileWidth {
		return f.Close() // the next record goes to the next file
	}
	r.committer.journal, r.committer.offset = f, int64(end.good)
	return nil
}

// last returns the last record of a full bundle and its time of append.
func (d disk) last(n int64) (record []byte, at time.Time, err error) {
	name := bundlePath(n, 0)
	b, err := d.read(name)
	if err != nil {
		return nil, at, err
	}
	es, err := entries(b)
	if err != nil || len(es) != tileWidth {
		return nil, at, fmt.Errorf("%w: %s is missing or has the wrong length", ErrCorrupt, name)
	}
	record = es[tileWidth-1]
	if at, err = appended(record); err != nil {
		err = fmt.Errorf("%w: %s: %w", ErrCorrupt, name, err)
	}
	return record, at, err
}

// appended returns a record's time of append. The searched text cannot occur in a
// string, because quotes are escaped there.
func appended(record []byte) (time.Time, error) {
	_, rest, ok := bytes.Cut(record, []byte(`,"time":"`))
	if !ok || len(rest) < len(timeFormat) {
		return time.Time{}, errors.New("a record has no timestamp")
	}
	return time.Parse(timeFormat, string(rest[:len(timeFormat)]))
}
