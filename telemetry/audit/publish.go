package audit

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"time"

	"golang.org/x/mod/sumdb/tlog"
)

const (
	// archiveEvery is how often a checkpoint is kept for good, besides the
	// ones at opening, closing and pruning.
	archiveEvery = time.Hour
	// keepPartials is for how many checkpoints partial tiles stay, so that a
	// reader who has an older checkpoint in hand can finish.
	keepPartials = 8
	// pruneEvery is how often retention looks for old bundles.
	pruneEvery = time.Hour
)

// follow is the publisher: it signs what the writer made durable, and lets
// retention remove what is old.
func (l *Log) follow() {
	prune := time.NewTicker(pruneEvery)
	defer prune.Stop()
	if l.opt.Retention > 0 {
		_ = l.retain() // the next hour tries again
	}
	for {
		var again <-chan time.Time
		select {
		case <-l.publishWake:
			if err := l.publish(false); err != nil {
				again = time.After(retryEvery)
			}
		case <-prune.C:
			if l.opt.Retention > 0 {
				_ = l.retain()
			}
		case <-l.stop:
			return
		}
		if again == nil {
			continue
		}
		select {
		case <-again:
			signal(l.publishWake)
		case <-l.stop:
			return
		}
	}
}

// publish writes bundles, tiles and a checkpoint for all that is durable. The
// checkpoint comes last, when all that it covers is in its place; a full
// bundle's journal goes only after that.
func (l *Log) publish(archive bool) error {
	l.publishing.Lock()
	defer l.publishing.Unlock()
	if l.shut {
		return ErrClosed
	}
	l.mu.Lock()
	l.due = false
	size := l.tip.next
	bundles := make([]bundle, len(l.bundles))
	for i, b := range l.bundles {
		bundles[i] = *b
	}
	l.mu.Unlock()
	if int64(size) == l.edge.size && !archive {
		return nil
	}
	edge, partials, err := l.lay(bundles)
	if err == nil {
		err = l.announce(edge, archive)
	}
	l.mu.Lock()
	l.stale = err
	if err == nil {
		l.signed = size
		full := func(b *bundle) bool { return b.n < int64(size/tileWidth) }
		bundles = bundles[:0]
		for _, b := range l.bundles {
			if full(b) {
				bundles = append(bundles, *b)
			}
		}
		l.bundles = slices.DeleteFunc(l.bundles, full)
	}
	l.mu.Unlock()
	if err != nil {
		return err
	}
	l.edge = edge
	l.tidy(bundles, partials)
	signal(l.queue.wake) // notes may wait for room
	return nil
}

// lay writes bundles and tiles, and returns the tree's edge behind them and
// the partial files that it wrote. Full files are synced with their names.
// Partial ones are not: they can be made again from the journal.
func (l *Log) lay(bundles []bundle) (levels, []string, error) {
	edge := l.edge.clone()
	dirs := map[string]bool{}
	put := func(name string, content []byte) error {
		dirs[path.Dir(name)] = true
		return l.disk.replace(name, content, true)
	}
	var partials []string
	for _, b := range bundles {
		if len(b.leaves) == tileWidth {
			if err := put(bundlePath(b.n, 0), b.buf); err != nil {
				return edge, nil, err
			}
		} else {
			name := bundlePath(b.n, len(b.leaves))
			partials = append(partials, name)
			if err := l.disk.replace(name, b.buf, false); err != nil {
				return edge, nil, err
			}
		}
		for _, leaf := range b.leaves[max(0, edge.size-b.n*tileWidth):] {
			err := edge.add(leaf, func(level int, n int64, hs []tlog.Hash) error {
				return put(tilePath(level, n, 0), hashBytes(hs))
			})
			if err != nil {
				return edge, nil, err
			}
		}
	}
	for level, hs := range edge.hashes {
		if len(hs) == 0 {
			continue
		}
		name := tilePath(level, edge.size>>(tileHeight*(level+1)), len(hs))
		partials = append(partials, name)
		if err := l.disk.replace(name, hashBytes(hs), false); err != nil {
			return edge, nil, err
		}
	}
	for dir := range dirs {
		if err := l.disk.syncDir(dir); err != nil {
			return edge, nil, err
		}
	}
	return edge, partials, nil
}

// announce signs the edge and puts the checkpoint in its place.
func (l *Log) announce(edge levels, archive bool) error {
	size := uint64(edge.size)
	msg, err := l.signCheckpoint(size, edge.root())
	if err != nil {
		return err
	}
	if now := l.opt.Clock(); archive || now.Sub(l.archived) >= archiveEvery {
		if err := l.disk.replace(archivePath(size), msg, true); err != nil {
			return err
		}
		if err := l.disk.syncDir(archiveDir); err != nil {
			return err
		}
		l.archived = now
	}
	if err := l.disk.replace(checkpointFile, msg, true); err != nil {
		return err
	}
	return l.disk.syncDir(".")
}

// tidy removes what the last checkpoint made superfluous: journals of full
// bundles, and partial files that are several checkpoints old. Leftovers do no
// harm; opening the log removes them.
func (l *Log) tidy(full []bundle, partials []string) {
	for _, b := range full {
		_ = os.Remove(l.disk.path(journalPath(b.n)))
	}
	l.recent = append(l.recent, partials)
	if len(l.recent) <= keepPartials {
		return
	}
	for _, name := range l.recent[0] {
		if slices.ContainsFunc(l.recent[1:], func(names []string) bool { return slices.Contains(names, name) }) {
			continue
		}
		_ = os.Remove(l.disk.path(name))
		_ = os.Remove(l.disk.path(path.Dir(name))) // its .p directory, when that was the last
	}
	l.recent = slices.Delete(l.recent, 0, 1)
}

// sweep removes leftovers of a crash next to the tree's edge: temporary files
// and partial tiles of tiles that are full by now.
func (l *Log) sweep() error {
	current := map[string]bool{}
	dirs := map[string]bool{".": true, journalDir: true, archiveDir: true}
	look := func(name string) {
		current[name+".p"] = true
		dirs[path.Dir(name)] = true
		dirs[name+".p"] = true
	}
	look(bundlePath(l.edge.size/tileWidth, 0))
	for level := range l.edge.hashes {
		look(tilePath(level, l.edge.size>>(tileHeight*(level+1)), 0))
	}
	for dir := range dirs {
		list, err := os.ReadDir(l.disk.path(dir))
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
				err = os.Remove(l.disk.path(name))
			case e.IsDir() && path.Ext(name) == ".p" && !current[name]:
				err = os.RemoveAll(l.disk.path(name))
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}
