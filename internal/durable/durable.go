// Package durable replaces files: whoever reads one, after a crash too, finds all of
// its old content or all of its new.
package durable

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// temp ends the name of a file that is not complete.
const temp = ".tmp"

// Replace gives the name path to a new file, of mode 0600, that write fills. When it
// returns nil, content and name are on the disk; otherwise what was there is as it was.
func Replace(path string, write func(*os.File) error) (err error) {
	dir, name := filepath.Split(path)
	f, err := os.CreateTemp(filepath.Clean(dir), "."+name+".*"+temp) // 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // the error says why
		}
	}()
	if err = write(f); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// Write is Replace with content.
func Write(path string, content []byte) error {
	return Replace(path, func(f *os.File) error {
		_, err := f.Write(content)
		return err
	})
}

// Partial reports whether a file of this name is one that Replace did not complete.
func Partial(name string) bool {
	return strings.HasPrefix(name, ".") && strings.HasSuffix(name, temp)
}

// SyncDir puts the names in a directory on the disk.
func SyncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
