package verify

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/tlog"
)

// readJournals compares the journals with the tree, and follows the hash chain into
// records that are not signed yet.
func (r *run) readJournals() error {
	r.pendingTiles = map[tileID][]tlog.Hash{}
	r.tree.filled = func(level int, n int64, tile []tlog.Hash) { r.pendingTiles[tileID{level, n}] = slices.Clone(tile) }
	if _, err := os.Stat(filepath.Join(r.opt.Dir, journalDir)); errors.Is(err, fs.ErrNotExist) {
		return nil // a copy for readers may lack the writer's files
	}
	ns, err := r.dir.names(journalDir)
	if err != nil {
		return err
	}
	next := r.c.Size
	edge := false
	for _, n := range ns {
		b, err := r.dir.read(journalName(n))
		if err != nil {
			return err
		}
		if b == nil {
			continue // it became a bundle meanwhile
		}
		edge = edge || n == r.c.Size/width
		if next, err = r.readJournal(n, b, next); err != nil {
			return err
		}
	}
	if !edge && r.c.Size%width != 0 && !r.moved() {
		r.rep.add(-1, BadJournal, journalName(r.c.Size/width), "the journal of the last records is missing; they are in their bundle")
	}
	r.rep.Pending = next - r.c.Size
	return nil
}

func (r *run) readJournal(n int64, b []byte, next int64) (int64, error) {
	name := journalName(n)
	frames, rest := splitJournal(b)
	i := n * width
	for _, f := range frames {
		if f.first != i || i+int64(len(f.records)) > (n+1)*width {
			r.rep.add(i, BadJournal, name, "a commit does not follow the previous one")
			return next, nil
		}
		for _, raw := range f.records {
			leaf := tlog.RecordHash(raw)
			switch {
			case i < r.c.Size:
				want, err := r.reference(0, n)
				if err != nil {
					return next, err
				}
				if k := int(i - n*width); k >= len(want) || want[k] != leaf {
					r.rep.add(i, BadJournal, name, "the journal's record differs from the signed one")
					return next, nil
				}
			case i > next:
				r.rep.add(next, RecordMissing, name, "the journal continues with record %d", i)
				return next, nil
			default:
				if !r.pending(i, raw, leaf, name) {
					return next, nil
				}
				next++
			}
			i++
		}
	}
	if len(rest) > 0 && !r.moved() {
		r.rep.add(i, BadJournal, name, "%d bytes after the last complete commit: torn by a crash (repaired when memproxy opens the log), or damaged", len(rest))
	} else if i < r.c.Size && i < (n+1)*width && !r.moved() {
		r.rep.add(i, BadJournal, name, "the journal ends before the last signed record")
	}
	return next, nil
}

func (r *run) pending(i int64, raw []byte, leaf tlog.Hash, name string) bool {
	rec, err := Decode(raw)
	switch {
	case err != nil:
		r.rep.add(i, Unreadable, name, "%v", err)
		return false
	case rec.Index != uint64(i):
		r.rep.add(i, WrongRecord, name, "found record %d in its place", rec.Index)
		return false
	case r.follows(i, rec, name):
		return false
	}
	r.chain.prev = [2]tlog.Hash{leaf, leaf}
	r.tree.add(leaf) // so that files which the writer wrote before it could sign them can be checked as well
	return true
}

// reference returns the expected content of tile n of a level, as far as it is known.
func (r *run) reference(level int, n int64) ([]tlog.Hash, error) {
	if h, ok := r.pendingTiles[tileID{level, n}]; ok {
		return h, nil
	}
	edge := r.tree.size >> (height * (level + 1))
	switch {
	case n > edge, n == edge && level >= len(r.tree.rows):
		return nil, nil
	case n == edge:
		return r.tree.rows[level], nil
	}
	b, err := r.dir.read(tileName(level, n)) // already compared with the tree
	if err != nil {
		return nil, err
	}
	h, _ := splitHashes(b)
	return h, nil
}

// walk checks every file. It reports files that do not belong to the log, and compares
// partial files, and those of records that are not signed yet, with the tree. The directory
// itself may be a symbolic link.
func (r *run) walk(ctx context.Context) error {
	return filepath.WalkDir(r.opt.Dir+"/", func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed meanwhile
		}
		if err != nil {
			return err
		}
		if e.IsDir() {
			return ctx.Err()
		}
		rel, err := filepath.Rel(r.opt.Dir, path)
		if err != nil {
			return err
		}
		return r.file(filepath.ToSlash(rel), e)
	})
}

func (r *run) file(name string, e fs.DirEntry) error {
	dir, base, _ := strings.Cut(name, "/")
	switch {
	case !e.Type().IsRegular():
		r.rep.add(-1, UnexpectedFile, name, "not a regular file")
	case name == CheckpointFile, name == KeyFile, strings.HasSuffix(name, tempSuffix):
	case name == lockFile:
		if st, err := e.Info(); err == nil && st.Size() > 0 {
			r.rep.add(-1, UnexpectedFile, name, "the lock holds data")
		}
	case dir == journalDir && isNumber(base, 12), dir == archiveDir && isNumber(base, 20):
	default:
		level, n, w, ok := parseTile(name)
		switch {
		case !ok:
			r.rep.add(-1, UnexpectedFile, name, "no part of a log")
		case w < width || n >= r.c.Size>>(height*(max(level, 0)+1)):
			return r.tileFile(name, level, n, w)
		} // the others were compared with the tree when it was computed
	}
	return nil
}

func isNumber(s string, digits int) bool {
	_, err := strconv.ParseUint(s, 10, 63)
	return err == nil && len(s) == digits
}

// tileFile compares a tile or bundle of w entries with the tree.
func (r *run) tileFile(name string, level int, n int64, w int) error {
	b, err := r.dir.read(name)
	if err != nil || b == nil {
		return err
	}
	want, err := r.reference(max(level, 0), n)
	if err != nil {
		return err
	}
	var got []tlog.Hash
	whole := true
	if level == entryLevel {
		records, rest := splitBundle(b)
		for _, raw := range records {
			got = append(got, tlog.RecordHash(raw))
		}
		whole = len(rest) == 0
	} else {
		got, whole = splitHashes(b)
	}
	known, same := min(len(got), len(want), w), 0
	for same < known && got[same] == want[same] {
		same++
	}
	why := "does not contain as many entries as its name states"
	switch {
	case same < known:
		why = "does not match the tree"
	case known == w && len(got) == w && whole, known < w && len(want) < w && r.moved(): // written meanwhile
		return nil
	case len(want) < w:
		why = "contains more than the log"
	}
	r.rep.addMismatch(name, level, n*width+int64(same), why)
	return nil
}
