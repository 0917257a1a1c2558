package durable_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/memproxy/memproxy/internal/durable"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

func contentOf(t *testing.T, path string) string {
	t.Helper()
	b := must.Get(os.ReadFile(path))(t)
	return string(b)
}

func filesIn(t *testing.T, dir string) []os.DirEntry {
	t.Helper()
	return must.Get(os.ReadDir(dir))(t)
}

func TestReplace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state.json")
	must.Do(t, durable.Write(path, []byte("one")))
	must.Equal(t, contentOf(t, path), "one")
	expect.Equal(t, must.Get(os.Stat(path))(t).Mode(), 0o600)
	must.Do(t, durable.Write(path, []byte("two")))
	must.Equal(t, contentOf(t, path), "two")
	boom := errors.New("boom")
	expect.Is(t, durable.Replace(path, func(w *os.File) error {
		_, err := io.WriteString(w, "half")
		for _, e := range filesIn(t, dir) {
			expect.Equal(t, durable.IsPartial(e.Name()), e.Name() != "state.json", "partial says", e.Name())
		}
		return errors.Join(err, boom)
	}), boom)
	expect.Equal(t, contentOf(t, path), "two")
	expect.Len(t, filesIn(t, dir), 1)
	must.Do(t, os.Mkdir(filepath.Join(dir, "taken"), 0o700))
	must.Do(t, os.WriteFile(filepath.Join(dir, "taken", "a"), nil, 0o600))
	must.Error(t, durable.Write(filepath.Join(dir, "taken"), nil), "a directory was replaced, or left")
	expect.Len(t, filesIn(t, dir), 2, "a directory was replaced, or left")
	if err := durable.Create(path, []byte("three")); !errors.Is(err, os.ErrExist) || contentOf(t, path) != "two" || len(filesIn(t, dir)) != 2 {
		t.Errorf("%v; %q, %v", err, contentOf(t, path), filesIn(t, dir))
	}
	other := filepath.Join(dir, "other")
	if err := durable.Create(other, []byte("three")); err != nil || contentOf(t, other) != "three" || len(filesIn(t, dir)) != 3 {
		t.Errorf("%v; %v", err, filesIn(t, dir))
	}
	expect.Is(t, durable.Write(filepath.Join(dir, "missing", "a"), nil), os.ErrNotExist, "a missing directory")
}

// What is no regular file is refused and not waited for: a pipe that nobody writes
// to, a device, a directory, and a link to one of them.
func TestOnlyRegularFilesAreOpened(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must.Do(t, errors.Join(
		os.WriteFile(at("file"), []byte("text"), 0o600), os.Symlink(at("file"), at("link")),
		syscall.Mkfifo(at("pipe"), 0o600), os.Symlink(at("pipe"), at("link-to-pipe")), os.Symlink(os.DevNull, at("device")), os.Mkdir(at("dir"), 0o700),
	))
	for name, want := range map[string]bool{"file": true, "link": true, "pipe": false, "link-to-pipe": false, "device": false, "dir": false, "none": false} {
		f, err := durable.OpenRegular(at(name))
		if (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			_ = f.Close()
		}
		text, err := durable.Read(at(name))
		if (err == nil) != want || want && string(text) != "text" {
			t.Errorf("read %s: %q, %v", name, text, err)
		}
		for _, flags := range []int{os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_CREATE, os.O_RDWR | os.O_CREATE} {
			f, err := durable.Open(at(name), flags)
			if made := name == "none" && flags&os.O_CREATE != 0; (err == nil) != (want || made) {
				t.Errorf("%s with flags %x: %v", name, flags, err)
			}
			if err == nil {
				_ = f.Close()
				_ = os.Remove(at("none"))
			}
		}
	}
}

// What a command is given may be a pipe, and is bounded: a device has no end.
func TestGivenFilesAreBounded(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	must.Do(t, syscall.Mkfifo(pipe, 0o600))
	written := make(chan error, 1)
	go func() { written <- os.WriteFile(pipe, []byte("a key"), 0) }()
	expect.Equal(t, string(must.Get(durable.ReadInput(pipe))(t)), "a key")
	must.Do(t, <-written)
	large := filepath.Join(t.TempDir(), "large")
	must.Do(t, os.WriteFile(large, nil, 0o600))
	must.Do(t, os.Truncate(large, 1<<40))
	if b, err := durable.ReadInput(large); err == nil {
		t.Errorf("%d bytes were read", len(b))
	}
}
