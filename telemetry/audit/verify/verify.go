package verify

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"sort"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/memproxy/memproxy"
)

// Options select what to verify.
type Options struct {
	Dir string
	// Key is the public key, "<origin>+<hash>+<base64>". If it is empty, the key in the
	// log's directory is used, which proves only that the log is consistent with itself.
	Key string
	// Trusted has checkpoints that were kept elsewhere. Only they reveal that the end of a
	// log was cut off.
	Trusted [][]byte
	// Settle is how long to wait, after a problem was found, for signs of a concurrent
	// writer; if there are any, the log is read again. Zero is 2 s, negative no time.
	Settle   time.Duration
	Progress memproxy.Progress // in records
}

const (
	// defaultSettle is longer than a record waits for the checkpoint by which a writer shows.
	defaultSettle = 2 * time.Second
	// attempts is how often a log that is being written is read at most.
	attempts = 3
)

// Verify checks a whole log. The report has the problems; an error means that it is
// unreadable.
func Verify(ctx context.Context, opt Options) (*Report, error) {
	opt.Settle = cmp.Or(opt.Settle, defaultSettle)
	for n := 1; ; n++ {
		r := &run{dir: Dir(opt.Dir), opt: opt, rep: &Report{Problems: []Problem{}}}
		if err := r.all(ctx); err != nil {
			return nil, err
		}
		r.rep.order()
		if r.rep.OK() || n == attempts || !r.moving(ctx) {
			return r.rep, nil
		}
	}
}

type run struct {
	dir  Dir
	opt  Options
	rep  *Report
	v    note.Verifier
	c    Checkpoint
	msg  []byte // the checkpoint as it was first read
	live bool

	older   []olderCheckpoint // older checkpoints, by size
	reached int               // number of older checkpoints whose roots are known
	// tree is that of the records, and, where a record is missing, of its hash in the tile.
	// From compareRoots on it grows by the records after the checkpoint.
	tree           tree
	badFiles       []Problem // what is wrong with tiles and bundles if the tree has the signed root
	missingBundles []int64
	keptFrom       int64 // first index that the last recorded pruning kept
	chain          chain
	pendingTiles   map[tileID][]tlog.Hash // tiles that records after the checkpoint fill
}

type olderCheckpoint struct {
	c    Checkpoint
	file string
	root tlog.Hash
}

type tileID struct {
	level int
	n     int64
}

func (r *run) all(ctx context.Context) error {
	ok, err := r.readCheckpoints()
	if err != nil || !ok {
		return err
	}
	if err := r.readLeaves(ctx); err != nil {
		return err
	}
	if !r.compareRoots() {
		return nil // further checks would report the same
	}
	if err := r.readJournals(); err != nil {
		return err
	}
	return r.walk(ctx)
}

// moving reports whether the log is being written.
func (r *run) moving(ctx context.Context) bool {
	if r.opt.Settle < 0 {
		return false
	}
	select {
	case <-time.After(r.opt.Settle):
	case <-ctx.Done():
		return false
	}
	return r.moved()
}

// moved reports whether the checkpoint has changed since the start.
func (r *run) moved() bool {
	if !r.live {
		now, err := r.dir.read(CheckpointFile)
		r.live = err == nil && !bytes.Equal(now, r.msg)
	}
	return r.live
}

// readCheckpoints reads the key, the checkpoint and older checkpoints. It returns false
// if nothing can be verified.
func (r *run) readCheckpoints() (bool, error) {
	own, err := r.dir.read(KeyFile)
	if err != nil {
		return false, err
	}
	key := strings.TrimSuffix(r.opt.Key, "\n")
	switch {
	case key == "":
		r.rep.OwnKey = true
		key = strings.TrimSuffix(string(own), "\n")
	case own != nil && string(own) != key+"\n":
		r.rep.add(-1, BadKey, KeyFile, "the directory's key differs from the given key")
	}
	if r.v, err = ParseKey(key); err != nil {
		r.rep.add(-1, BadKey, KeyFile, "not a public key")
		return false, nil
	}
	if r.msg, err = r.dir.read(CheckpointFile); err != nil {
		return false, err
	}
	if r.msg == nil {
		r.rep.add(-1, Unsigned, CheckpointFile, "there is no checkpoint")
		return false, nil
	}
	if r.c, err = ParseCheckpoint(r.msg, r.v); err != nil {
		r.rep.add(-1, Unsigned, CheckpointFile, "not a checkpoint signed by the key: %v", err)
		return false, nil
	}
	r.rep.Origin, r.rep.Size, r.rep.Root = r.c.Origin, r.c.Size, r.c.Root.String()
	for i, msg := range r.opt.Trusted {
		r.addOlder(msg, fmt.Sprintf("trusted checkpoint %d", i+1), -1)
	}
	sizes, err := r.dir.names(archiveDir)
	if err != nil {
		return false, err
	}
	for _, size := range sizes {
		name := fmt.Sprintf("%s/%020d", archiveDir, size)
		msg, err := r.dir.read(name)
		if err != nil {
			return false, err
		}
		r.addOlder(msg, name, size)
	}
	sort.SliceStable(r.older, func(i, j int) bool { return r.older[i].c.Size < r.older[j].c.Size })
	return true, nil
}

// addOlder adds an older checkpoint. A checkpoint with more records than the log proves
// that the log was cut off.
func (r *run) addOlder(msg []byte, file string, size int64) {
	c, err := ParseCheckpoint(msg, r.v)
	switch {
	case err != nil:
		r.rep.add(-1, Unsigned, file, "not a checkpoint signed by the key: %v", err)
	case size >= 0 && c.Size != size:
		r.rep.add(-1, UnexpectedFile, file, "the checkpoint covers %d records", c.Size)
	case c.Size > r.c.Size && !r.moved():
		r.rep.add(r.c.Size, RolledBack, file, "%d records were signed and the log has %d: it was truncated", c.Size, r.c.Size)
	case c.Size <= r.c.Size:
		r.older = append(r.older, olderCheckpoint{c: c, file: file})
	}
}

// compareRoots compares the tree with the checkpoints. It returns false if the tree does
// not have the signed root: the records differ from those that were signed.
func (r *run) compareRoots() bool {
	if r.tree.root() != r.c.Root {
		if !r.rep.namesRecord() {
			lo, hi := r.bracket()
			r.rep.add(lo, Forked, CheckpointFile, "the records differ from those that the checkpoint covers; the first difference is in records %d to %d", lo, hi-1)
		}
		return false
	}
	for _, m := range r.older {
		if m.c.Root == m.root {
			r.rep.Checkpoints++
		} else {
			r.rep.add(-1, Forked, m.file, "the checkpoint of %d records is of another history than the log", m.c.Size)
		}
	}
	for i := range r.rep.Problems { // the records are as signed, so the tiles differ
		if p := &r.rep.Problems[i]; p.Kind == RecordChanged {
			p.Kind, p.File, p.Detail = BadTile, tileName(0, p.Index/width), "the tile's hash of the record is wrong"
		}
	}
	r.rep.Problems = append(r.rep.Problems, r.badFiles...)
	r.reportMissing()
	return true
}

// bracket returns the range of sizes in which the log first differs from what was signed.
func (r *run) bracket() (lo, hi int64) {
	hi = r.c.Size
	for _, m := range r.older {
		if m.c.Root == m.root {
			lo = m.c.Size
		} else {
			hi = min(hi, m.c.Size)
		}
	}
	return lo, max(hi, lo+1)
}

// reportMissing reports the first missing bundle that was not pruned: a pruning is recorded
// before it is done.
func (r *run) reportMissing() {
	for _, n := range r.missingBundles {
		if (n+1)*width <= r.keptFrom {
			r.rep.Pruned += width
			continue
		}
		r.rep.add(n*width, RecordMissing, tileName(entryLevel, n), "the bundle is missing, and no record states that it was pruned")
		return
	}
}
