package screen_test

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/screen"
)

// The digest of files is that of the pack that they are loaded as, and another
// for any other byte.
func TestDigest(t *testing.T) {
	files := fstest.MapFS{}
	must.Do(t, fs.WalkDir(screen.Files(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(screen.Files(), path)
		files[path] = &fstest.MapFile{Data: b}
		return err
	}))
	same, err := screen.Digest(files)
	p := screen.Default()
	expect.That(t, err == nil && same == p.Digest() && len(same) == 64, "%s, want %s: %v", same, p.Digest(), err)
	for name, f := range files {
		was := f.Data
		f.Data = append(was[:len(was):len(was)], '\n')
		if other, err := screen.Digest(files); err != nil || other == same {
			t.Errorf("%s was changed: %s, %v", name, other, err)
		}
		delete(files, name)
		without, err := screen.Digest(files)
		if spoken := strings.HasPrefix(name, "tongues/") && name != "tongues/rules.txt"; spoken && (err != nil || without == same) {
			t.Errorf("a pack without %s is not another: %v", name, err)
		} else if !spoken && err == nil {
			t.Errorf("%s is missing, and nobody says so", name)
		}
		files[name] = &fstest.MapFile{Data: was}
	}
}

// growing appends a line to a file between the look at its size and the reading.
type growing struct{ fstest.MapFS }

func (g growing) Stat(name string) (fs.FileInfo, error) {
	info, err := g.MapFS.Stat(name)
	if f := g.MapFS[name]; f != nil {
		g.MapFS[name] = &fstest.MapFile{Data: append(f.Data[:len(f.Data):len(f.Data)], '\n')}
	}
	return info, err
}

// A file that grows while it is read has no digest and is not loaded, nor is one over the
// limit.
func TestPackFilesHaveTheirSize(t *testing.T) {
	for what, text := range map[string]string{"changed while it was read": "name x\n", "more than": strings.Repeat("#\n", 2<<20+1)} {
		files := growing{fstest.MapFS{"pack.txt": {Data: []byte(text)}}}
		_, err := screen.Digest(files)
		expect.ErrorHas(t, err, what)
		files = growing{fstest.MapFS{"pack.txt": {Data: []byte(text)}}}
		_, err = screen.Load(files)
		expect.ErrorHas(t, err, what)
	}
}
