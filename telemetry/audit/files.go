package audit

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/memproxy/memproxy/internal/durable"
)

// Names of the log's files. Package verify has its own copy and shares no code: both
// follow docs/audit-format.md.
const (
	checkpointFile = "checkpoint"
	vkeyFile       = "log.vkey"
	lockFile       = "lock"
	journalDir     = "journal"
	archiveDir     = "checkpoints"
	tempSuffix     = ".tmp"

	tileWidth  = 256 // records per bundle, hashes per tile
	tileHeight = 8   // log2 of tileWidth
)

// tilePath returns the C2SP path of tile n at a level. Width 0 or 256 means a full tile.
func tilePath(level int, n int64, width int) string {
	path := tlog.Tile{H: tileHeight, L: level, N: n, W: cmp.Or(width, tileWidth)}.Path()
	return "tile/" + strings.TrimPrefix(path, "tile/8/") // the height is always the same
}

// bundlePath returns the C2SP path of an entry bundle, which tlog calls data.
func bundlePath(n int64, width int) string {
	return strings.Replace(tilePath(-1, n, width), "data", "entries", 1)
}

func journalPath(bundle int64) string { return fmt.Sprintf("%s/%012d", journalDir, bundle) }
func archivePath(size uint64) string  { return fmt.Sprintf("%s/%020d", archiveDir, size) }

type disk struct {
	root  string
	sync  func(*os.File) error
	named *sync.Map // directories whose names are durable, and partial files that exist
}

func newDisk(root string, syncs func(*os.File) error) disk {
	return disk{root: root, sync: syncs, named: new(sync.Map)}
}

func (d disk) path(name string) string { return filepath.Join(d.root, filepath.FromSlash(name)) }

// replace atomically replaces the content of a file. If synced, the content is durable
// before it gets its name. Syncing the directory is left to the caller.
func (d disk) replace(name string, content []byte, synced bool) error {
	path := d.path(name)
	f, err := durable.Open(path+tempSuffix, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err = os.Stat(d.path(lockFile)); err != nil { // a directory made anew would lack the earlier records
			return fmt.Errorf("audit: the log's directory was removed: restore it, or restart memproxy: %w", err)
		}
		if err = os.MkdirAll(filepath.Dir(path), 0o700); err == nil {
			f, err = durable.Open(path+tempSuffix, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
		}
	}
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	_, err = f.Write(content)
	if err == nil && synced {
		err = d.sync(f)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(path+tempSuffix, path)
	}
	if err != nil {
		_ = os.Remove(path + tempSuffix) // the first error is returned
		return fmt.Errorf("audit: write %s: %w", name, err)
	}
	return nil
}

// writeOnce writes a partial file, unless this process has written it. The content of a
// partial file never changes, because its name contains the number of its entries.
func (d disk) writeOnce(name string, content []byte) error {
	if _, there := d.named.Load(name); there {
		return nil
	}
	err := d.replace(name, content, false)
	if err == nil {
		d.named.Store(name, true)
	}
	return err
}

// syncDir makes the names in a directory durable, and, once, its own name up to the root.
func (d disk) syncDir(name string) error {
	dir := d.path(name)
	f, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	err = d.sync(f)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("audit: sync %s: %w", name, err)
	}
	if _, durable := d.named.Load(name); durable || name == "." {
		return nil
	}
	if err := d.syncDir(path.Dir(name)); err != nil {
		return err
	}
	d.named.Store(name, true)
	return nil
}

// read returns a file's content, nil if it does not exist.
func (d disk) read(name string) ([]byte, error) {
	b, err := durable.Read(d.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	return b, nil
}
