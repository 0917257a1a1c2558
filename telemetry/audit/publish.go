package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/memproxy/memproxy/internal/wait"
)

const (
	// archiveEvery is how often a checkpoint is archived, in addition to those at
	// opening, closing and pruning.
	archiveEvery = time.Hour
	// keepPartials is the number of checkpoints for which partial tiles are kept, so that
	// a reader with an older checkpoint can finish.
	keepPartials = 8
)

// publisher writes entry bundles, tiles and the signed checkpoint of durable records.
// They are derived from the journal, again after a crash.
type publisher struct {
	opt      *Options
	disk     disk
	signer   note.Signer
	progress *progress
	queue    *queue

	mu       sync.Mutex
	tree     tree
	size     int64      // of the tree that the last checkpoint signs
	archived time.Time  // when a checkpoint was last archived
	recent   [][]string // partial files of the last publications
	oldest   int64      // the first bundle that may exist
	shut     bool       // the directory was released
}

func (p *publisher) run(stop <-chan struct{}) {
	wake, again := p.progress.wake, (<-chan time.Time)(nil)
	for {
		select {
		case <-wake:
		case <-again:
		case <-stop:
			return
		}
		wake, again = p.progress.wake, nil
		if err := p.publish(false); err != nil {
			wake, again = nil, time.After(retryEvery) // not woken by records until then
		}
	}
}

// publish writes bundles, tiles and a checkpoint for all durable records. The
// checkpoint is written last, once everything it covers is in place. Then the journals
// of full bundles are removed.
func (p *publisher) publish(archive bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shut {
		return ErrClosed
	}
	size, bundles := p.progress.durable()
	if int64(size) == p.size && !archive {
		return nil
	}
	partials, err := p.writeTiles(bundles, int64(size))
	if err == nil {
		err = p.announce(int64(size), archive)
	}
	full := p.progress.published(size, err)
	if err != nil {
		return err
	}
	p.size = int64(size)
	p.tree.forget(p.size)
	p.tidy(full, partials)
	wait.Wake(p.queue.wake) // asynchronous events may wait for room
	return nil
}

// writeTiles writes the bundles, and the tiles of the tree of this size, and returns the
// partial files. Full files are synced together with their names; partial ones can be
// rebuilt from the journal.
func (p *publisher) writeTiles(bundles []bundle, size int64) (partials []string, err error) {
	dirs := map[string]bool{}
	put := func(name string, content []byte, full bool) error {
		if full {
			dirs[path.Dir(name)] = true
			return p.disk.replace(name, content, true)
		}
		partials = append(partials, name)
		return p.disk.writeOnce(name, content)
	}
	for _, b := range bundles {
		if err := put(bundlePath(b.n, len(b.leaves)), b.buf, len(b.leaves) == tileWidth); err != nil {
			return nil, err
		}
		for n := max(p.size, b.n*tileWidth); n < b.n*tileWidth+int64(len(b.leaves)); n++ {
			p.tree.set(0, n, b.leaves[n-b.n*tileWidth])
		}
	}
	for level := 0; size>>(tileHeight*level) > 0; level++ {
		end := size >> (tileHeight * level)
		for n := p.size >> (tileHeight * (level + 1)); n*tileWidth < end; n++ {
			tile := tlog.Tile{H: tileHeight, L: level, N: n, W: int(min(tileWidth, end-n*tileWidth))}
			content, err := tlog.ReadTileData(tile, p.tree)
			if err == nil {
				err = put(tilePath(level, n, tile.W), content, tile.W == tileWidth)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	for dir := range dirs {
		if err := p.disk.syncDir(dir); err != nil {
			return nil, err
		}
	}
	return partials, nil
}

func (p *publisher) announce(size int64, archive bool) error {
	root, err := tlog.TreeHash(size, p.tree)
	if err != nil {
		return err
	}
	msg, err := note.Sign(&note.Note{Text: fmt.Sprintf("%s\n%d\n%s\n", p.opt.Origin, size, root)}, p.signer)
	if err != nil {
		return fmt.Errorf("audit: sign checkpoint: %w", err)
	}
	if now := p.opt.Clock(); archive || now.Sub(p.archived) >= archiveEvery {
		if err := p.disk.replace(archivePath(uint64(size)), msg, true); err != nil {
			return err
		}
		if err := p.disk.syncDir(archiveDir); err != nil {
			return err
		}
		p.archived = now
	}
	if err := p.disk.replace(checkpointFile, msg, true); err != nil {
		return err
	}
	return p.disk.syncDir(".")
}

// tidy removes files that the last checkpoint made superfluous: journals of full
// bundles, and partial files that are several checkpoints old. Remaining ones do no
// harm and are removed when the log is opened.
func (p *publisher) tidy(full []bundle, partials []string) {
	for _, b := range full {
		_ = os.Remove(p.disk.path(journalPath(b.n)))
	}
	p.recent = append(p.recent, partials)
	if len(p.recent) <= keepPartials {
		return
	}
	for _, name := range p.recent[0] {
		if slices.ContainsFunc(p.recent[1:], func(names []string) bool { return slices.Contains(names, name) }) {
			continue
		}
		p.disk.named.Delete(name)
		_ = os.Remove(p.disk.path(name))
		_ = os.Remove(p.disk.path(path.Dir(name))) // the .p directory, if empty now
	}
	p.recent = slices.Delete(p.recent, 0, 1)
}

// sweep removes leftovers of a crash near the tree's edge: temporary files, and partial
// tiles that are full now.
func (p *publisher) sweep() error {
	current := map[string]bool{}
	dirs := map[string]bool{".": true, journalDir: true, archiveDir: true}
	look := func(name string) {
		current[name+".p"] = true
		dirs[path.Dir(name)] = true
		dirs[name+".p"] = true
	}
	look(bundlePath(p.size/tileWidth, 0))
	for level := 0; p.size>>(tileHeight*level) > 0; level++ {
		look(tilePath(level, p.size>>(tileHeight*(level+1)), 0))
	}
	for dir := range dirs {
		list, err := os.ReadDir(p.disk.path(dir))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		for _, e := range list {
			name := path.Join(dir, e.Name())
			switch {
			case current[dir], path.Ext(name) == tempSuffix:
				err = os.Remove(p.disk.path(name))
			case e.IsDir() && path.Ext(name) == ".p" && !current[name]:
				err = os.RemoveAll(p.disk.path(name))
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}
