package config_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// loadCase writes one file of an archive to a directory and loads it; $DIR stands for
// that directory. In the returned text $DIR and the plain file name are restored.
func loadCase(t *testing.T, a *txtar.Archive, name string) (*config.Config, string) {
	t.Helper()
	dir, env, text, found := t.TempDir(), map[string]string{}, "", false
	for _, f := range a.Files {
		switch base, own := strings.CutPrefix(f.Name, "files/"); {
		case own:
			must.Do(t, os.WriteFile(filepath.Join(dir, base), f.Data, 0o600))
		case f.Name == "env":
			for line := range strings.Lines(string(f.Data)) {
				k, v, _ := strings.Cut(strings.TrimSpace(line), "=")
				env[k] = v
			}
		case f.Name == name:
			text, found = strings.ReplaceAll(string(f.Data), "$DIR", dir), true
		}
	}
	if !found {
		return nil, ""
	}
	path := filepath.Join(t.TempDir(), "memproxy.yaml")
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	c, err := config.Load(path, func(k string) string { return env[k] })
	if err == nil {
		return c, ""
	}
	return c, strings.ReplaceAll(strings.ReplaceAll(err.Error(), path, "memproxy.yaml"), dir, "$DIR")
}

func section(a *txtar.Archive, name string) []byte {
	for _, f := range a.Files {
		if f.Name == name {
			return f.Data
		}
	}
	return nil
}

// An error about a value names its line and its key, and not what came from a reference.
func TestFaultsOfFilesAreLocated(t *testing.T) {
	text := "backends:\n  - {name: mem0, kind: mem0, listen: \"127.0.0.1:0\", upstream: \"http://127.0.0.1:1\", tls: {upstream_ca: \"${CA}\"}}\n"
	c := must.Get(config.Parse("memproxy.yaml", []byte(text), func(string) string { return "a-secret-by-mistake" }))(t)
	_, err := os.Open("a-secret-by-mistake")
	located := c.Fault(err, "backends", 0, "tls", "upstream_ca")
	if want := "memproxy.yaml:2: backends[0].tls.upstream_ca: open [redacted]: "; !strings.HasPrefix(located.Error(), want) || !errors.Is(located, fs.ErrNotExist) {
		t.Errorf("%v, want %s", located, want)
	}
}

// All faults of an invalid file are reported with their lines; next to it is the
// nearest valid file.
// Proves CARD-3, TRL-1
func TestWrongFiles(t *testing.T) {
	paths := must.Get(filepath.Glob("testdata/errors/*.txtar"))(t)
	must.Equal(t, len(paths) >= 50, true, len(paths))
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			a := must.Get(txtar.ParseFile(path))(t)
			c, got := loadCase(t, a, "memproxy.yaml")
			want := strings.TrimSpace(string(section(a, "want")))
			if c != nil || got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if c, fault := loadCase(t, a, "right.yaml"); fault != "" || c == nil && section(a, "right.yaml") != nil {
				t.Errorf("the right file is refused: %s", fault)
			}
			for _, secret := range []string{"canary-1234", "hunter22"} {
				expect.Text(t, got, "the faults show").Lacks(secret)
			}
		})
	}
}

const backend = `backends:
  - {name: mem0, kind: mem0, listen: 127.0.0.1:8081, upstream: http://127.0.0.1:8000}
`

func none(string) string { return "" }

// Cases that an archive cannot contain.
func TestWrongBytes(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, b, 0o600))
		return path
	}
	secret := func(path string) []byte { return []byte("state: file:" + path + "\n" + backend) }
	fits := write("fits", bytes.Repeat([]byte("s"), 64<<10))
	for _, tc := range []struct {
		name string
		text []byte
		want string // "": valid
	}{
		{"not UTF-8", []byte("state: a\nlog: {level: \xff}\n"), "x:2: the file is not UTF-8"},
		{"UTF-16", []byte("\xff\xfes\x00"), "x:1: the file is not UTF-8"},
		{"a control character", []byte("state: a\x00b\n"), "x:1: a control character"},
		{"letters of the world", []byte("state: ./späße\n" + backend), ""},
		{"a file over the bound", []byte(strings.Repeat("#", 4<<20) + "\n"), "x:1: the file is over 4194304 bytes"},
		{"a secret over the bound", secret(write("big", bytes.Repeat([]byte("s"), 64<<10+1))), "x:1: " + filepath.Join(dir, "big") + " is over 65536 bytes"},
		{"a secret at the bound", secret(fits), ""},
		{"a secret that is binary", secret(write("binary", []byte{0xff, 0xfe})), "x:1: " + filepath.Join(dir, "binary") + " is not UTF-8 text"},
		{"a device", secret("/dev/zero"), "x:1: /dev/zero is not a file"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := config.Parse("x", tc.text, none)
			if (err == nil) != (tc.want == "") || err != nil && err.Error() != tc.want {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
	t.Run("a secret that may not be read", func(t *testing.T) {
		path := write("closed", []byte("s"))
		must.Do(t, os.Chmod(path, 0))
		if f, err := os.Open(path); err == nil {
			f.Close()
			t.Skip("this user may read everything")
		}
		if _, err := config.Parse("x", secret(path), none); err == nil || !strings.HasPrefix(err.Error(), "x:1: open ") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("no such file", func(t *testing.T) {
		expect.ErrorHas(t, expect.Err(config.Load(filepath.Join(dir, "absent"), none)), "absent")
	})
	t.Run("a directory", func(t *testing.T) {
		expect.Error(t, expect.Err(config.Load(dir, none)), "a directory was read")
	})
}

// A file full of faults and references is rejected quickly: the list is bounded.
func TestFaultsEnd(t *testing.T) {
	ring.Long(t, "one parse")
	text := strings.Repeat("- ${X}\n", 100_000)
	_, err := config.Parse("x", []byte("identity: {keys: []}\n"+"backends:\n"+text), none)
	if n := strings.Count(fmt.Sprint(err), "\n") + 1; err == nil || n != 100 {
		t.Errorf("%d faults", n)
	}
}
