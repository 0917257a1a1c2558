package verify

import (
	"context"
	"encoding/hex"
	"fmt"
	"time"

	"golang.org/x/mod/sumdb/tlog"
)

// chain is the state that the next record must continue.
type chain struct {
	prev [2]tlog.Hash // hash of the preceding record, computed from it and read from its tile
	time time.Time
}

// readLeaves reads all records and tiles of the lowest level up to the checkpoint, once
// and in order, and compares the tiles above with the tree. It stores only the tree's edge.
func (r *run) readLeaves(ctx context.Context) error {
	var failed error
	r.tree.filled = func(level int, n int64, want []tlog.Hash) {
		if level > 0 && failed == nil {
			failed = r.compareTile(level, n, want)
		}
	}
	r.recordRoots()
	// A concurrent writer removes the last bundle's partial files, so they are read first.
	edge, err := r.readBundle(r.c.Size / width)
	if err != nil {
		return err
	}
	for n := int64(0); n*width < r.c.Size; n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		b := edge
		if n != r.c.Size/width {
			if b, err = r.readBundle(n); err != nil {
				return err
			}
		}
		if !b.exists && len(b.hashes) == 0 { // nothing after these records can be compared with the signed root
			r.rep.add(n*width, RecordMissing, b.recordFile, "neither the bundle nor its tile is there")
			return nil
		}
		r.leavesOf(n, b)
		if r.opt.Progress != nil {
			r.opt.Progress(r.tree.size, r.c.Size)
		}
		if failed != nil {
			return failed
		}
	}
	for level := 1; level < len(r.tree.rows); level++ {
		if err := r.compareTile(level, r.c.Size>>(height*(level+1)), r.tree.rows[level]); err != nil {
			return err
		}
	}
	return nil
}

// recordRoots stores the root of the tree in the older checkpoints of its size.
func (r *run) recordRoots() {
	for ; r.reached < len(r.older) && r.older[r.reached].c.Size == r.tree.size; r.reached++ {
		r.older[r.reached].root = r.tree.root()
	}
}

// bundleFiles is a bundle and its tile as read from disk.
type bundleFiles struct {
	records              [][]byte
	rest                 []byte // after the last complete record
	hashes               []tlog.Hash
	recordFile, tileFile string
	exists               bool
}

func (r *run) readBundle(n int64) (b bundleFiles, err error) {
	w := int(min(width, r.c.Size-n*width))
	if w <= 0 {
		return b, nil
	}
	content, name, err := r.dir.tile(entryLevel, n, w)
	if err != nil {
		return b, err
	}
	b.exists, b.recordFile = content != nil, name
	b.records, b.rest = splitBundle(content)
	content, b.tileFile, err = r.dir.tile(0, n, w)
	b.hashes, _ = splitHashes(content)
	return b, err
}

// leavesOf checks the records of one bundle: each by itself, against its predecessor
// and against its hash in the tile.
func (r *run) leavesOf(n int64, b bundleFiles) {
	w := int(min(width, r.c.Size-n*width))
	if !b.exists {
		r.missingBundles = append(r.missingBundles, n)
	}
	if len(b.hashes) < w {
		r.rep.add(-1, BadTile, b.tileFile, "the tile is missing, or has %d hashes instead of %d", len(b.hashes), w)
	}
	named := false
	for j := range w {
		i := n*width + int64(j)
		leaf, hash := b.leaf(j)
		if b.exists && !named {
			named = r.check(i, b, j, leaf != hash)
		}
		r.chain.prev = [2]tlog.Hash{leaf, hash}
		r.tree.add(leaf)
		r.recordRoots()
	}
	if !b.exists {
		r.chain.time = time.Time{} // unknown
	}
	if w == width && !named && (len(b.records) > w || len(b.rest) > 0) {
		r.badFiles = append(r.badFiles, Problem{(n + 1) * width, UnexpectedFile, b.recordFile, "does not contain as many entries as its name states"})
	}
}

// leaf returns the hash of record j as computed and as read from the tile. One of them that
// is missing equals the other.
func (b *bundleFiles) leaf(j int) (leaf, hash tlog.Hash) {
	if j < len(b.hashes) {
		hash = b.hashes[j]
	}
	if j >= len(b.records) {
		return hash, hash
	}
	leaf = tlog.RecordHash(b.records[j])
	if j >= len(b.hashes) {
		hash = leaf
	}
	return leaf, hash
}

// check checks one record, which differs from its hash in the tile or not, and reports
// whether it added a problem. Further problems of the same bundle are of little use.
func (r *run) check(i int64, b bundleFiles, j int, differs bool) bool {
	if j >= len(b.records) {
		r.rep.add(i, RecordMissing, b.recordFile, "the bundle ends before this record")
		return true
	}
	rec, err := Decode(b.records[j])
	switch {
	case err != nil && differs:
		r.rep.add(i, RecordChanged, b.recordFile, "the record differs from the signed one: %v", err)
	case err != nil:
		r.rep.add(i, Unreadable, b.recordFile, "%v", err)
	case rec.Index != uint64(i):
		r.rep.addMisplaced(i, rec, b)
	case differs:
		r.rep.add(i, RecordChanged, b.recordFile, "the record differs from the signed one")
	default:
		return r.follows(i, rec, b.recordFile)
	}
	return true
}

// follows checks a record's link and time. It also notes a recorded pruning.
func (r *run) follows(i int64, rec *Record, file string) bool {
	at, _ := rec.At() // Decode checked it
	bad := true
	switch {
	case rec.PrevHash != hex.EncodeToString(r.chain.prev[0][:]) && rec.PrevHash != hex.EncodeToString(r.chain.prev[1][:]):
		r.rep.add(i, BrokenLink, file, "prev_hash is not the hash of the previous record")
	case at.Before(r.chain.time):
		r.rep.add(i, TimeBackwards, file, "its timestamp is before the previous record's")
	default:
		bad = false
	}
	r.chain.time = at
	if rec.Type == "prune" && rec.KeptFrom != nil && *rec.KeptFrom <= uint64(i) {
		r.keptFrom = max(r.keptFrom, int64(*rec.KeptFrom))
	}
	return bad
}

func (r *run) compareTile(level int, n int64, want []tlog.Hash) error {
	if len(want) == 0 {
		return nil
	}
	b, name, err := r.dir.tile(level, n, len(want))
	if err != nil {
		return err
	}
	got, _ := splitHashes(b)
	same := 0
	for same < min(len(got), len(want)) && got[same] == want[same] {
		same++
	}
	if same == len(want) {
		return nil
	}
	detail := fmt.Sprintf("the tile is missing, or has %d hashes instead of %d", len(got), len(want))
	if same < len(got) {
		first := (n*width + int64(same)) << (height * level)
		detail = fmt.Sprintf("hash %d is not that of records %d to %d", same, first, first+1<<(height*level)-1)
	}
	r.badFiles = append(r.badFiles, Problem{Index: -1, Kind: BadTile, File: name, Detail: detail})
	return nil
}
