// Package durable makes and replaces files: whoever reads one, after a crash too, finds all of
// its content or, before, all of the old.
package durable

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// temp ends the name of a file that is not complete.
const temp = ".tmp"

// Replace gives the name path to a new file, of mode 0600, that write fills. When it
// returns nil, content and name are on the disk; otherwise what was there is as it was.
func Replace(path string, write func(*os.File) error) (err error) {
	f, err := partial(path)
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

// Create makes a file, of mode 0600, whole or not at all. Where there is one already it
// is an fs.ErrExist, and that one stays. When it returns nil, content and name are on the
// disk.
func Create(path string, content []byte) error { return create(path, content, 0o600) }

// CreateShared is Create for a file that processes of other users read: its mode is 0644.
func CreateShared(path string, content []byte) error { return create(path, content, 0o644) }

func create(path string, content []byte, mode fs.FileMode) (err error) {
	f, err := partial(path)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // its other name stays
	_, err = f.Write(content)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err == nil {
		err = os.Link(f.Name(), path)
	}
	if err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// partial is a new file in the directory of another one.
func partial(path string) (*os.File, error) {
	dir, name := filepath.Split(path)
	return os.CreateTemp(filepath.Clean(dir), "."+name+".*"+temp) // 0600
}

// IsPartial reports whether a file of this name is one that Replace did not complete.
func IsPartial(name string) bool {
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

// OpenRegular opens a regular file to read it, as Open does.
func OpenRegular(path string) (*os.File, error) { return Open(path, os.O_RDONLY) }

// Read is the content of a regular file.
func Read(path string) ([]byte, error) { return ReadPrefix(path, math.MaxInt64) }

// ReadPrefix returns the beginning of a regular file, n bytes at most.
func ReadPrefix(path string, n int64) ([]byte, error) {
	b, _, err := ReadMode(path, n)
	return b, err
}

// ReadMode is ReadPrefix, and returns the file's permissions.
func ReadMode(path string, n int64) ([]byte, fs.FileMode, error) {
	f, err := OpenRegular(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	// Of a large file there is room for a part: its size may be wrong by any amount.
	b := bytes.NewBuffer(make([]byte, 0, min(info.Size(), n, maxRoom)+bytes.MinRead))
	_, err = b.ReadFrom(io.LimitReader(f, n))
	return b.Bytes(), info.Mode().Perm(), err
}

// maxRoom bounds the room that is made for a file before it is read, in bytes.
const maxRoom = 1 << 20

// maxGiven bounds what a command reads of a file that it was given, in bytes.
const maxGiven = 64 << 20

// ReadInput returns the content of a file that a command was given by its name, which may
// be a pipe.
func ReadInput(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxGiven+1))
	if err == nil && len(b) > maxGiven {
		err = fmt.Errorf("%s has over %d bytes", path, maxGiven)
	}
	return b, err
}

// Open opens a regular file, which it makes with mode 0600 where the flags say so.
// Anything else, which might be waited for, read without end, or lose what is written to
// it (a pipe, a device), is an error, also one that takes the file's place at that moment.
func Open(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, flags|syscall.O_NONBLOCK, 0o600) // a pipe without another end is not waited for
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New(path + " is not a file")
	}
	if err != nil {
		_ = f.Close() // nothing was written to it
		return nil, err
	}
	return f, nil
}
