package cli

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy/internal/must"
)

func TestMeter(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	var screen bytes.Buffer
	m := newMeter(&screen, "lines", 1000, func() time.Time { return now })
	now = now.Add(10 * time.Second)
	must.Get(io.ReadAll(io.LimitReader(m.Reader(strings.NewReader(strings.Repeat("x", 250))), 250)))(t)
	told := m.Progress()
	told(50, 0)
	told(51, 0) // too soon to draw again
	if want := "\r[######..................]  25%  50 lines  5/s  30s left"; screen.String() != want {
		t.Errorf("%q, want %q", screen.String(), want)
	}
	screen.Reset()
	must.Get(m.Writer(&plain{to: Terminal{&screen}}).Write([]byte("line 7: bad\n")))(t)
	if s := screen.String(); !strings.HasPrefix(s, "\r   ") || !strings.HasSuffix(s, " \rline 7: bad\n") {
		t.Errorf("a message is written as %q", s)
	}
	if file := io.Writer(&plain{to: &bytes.Buffer{}}); m.Writer(file) != file {
		t.Error("a meter is in the way of what is no terminal")
	}
	now = now.Add(time.Second)
	told(60, 120)
	screen.Reset()
	now = now.Add(time.Second)
	told(90, 120)
	if s := screen.String(); !strings.HasPrefix(s, "\r[##################......]  75%  90 lines") || !strings.Contains(s, "4s left") {
		t.Errorf("of a known total: %q", s)
	}
	screen.Reset()
	m.Done()
	if s := screen.String(); strings.ReplaceAll(s, " ", "") != "\r\r" {
		t.Errorf("at the end: %q", s)
	}

	screen.Reset()
	unknown := newMeter(&screen, "pages", 0, func() time.Time { return now })
	unknown.Progress()(3, 0)
	if s := screen.String(); s != "\r3 pages  0/s" {
		t.Errorf("without a total: %q", s)
	}
	var none *Meter
	none.Done()
	if none.Writer(&screen) != io.Writer(&screen) || none.Reader(nil) != nil || none.Progress() != nil {
		t.Error("no meter is in the way")
	}
}

func TestWhatIsLeftOfAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "in")
	must.Do(t, os.WriteFile(path, make([]byte, 100), 0o600))
	f := must.Get(os.Open(path))(t)
	defer f.Close()
	if _, err := f.Seek(40, io.SeekStart); err != nil || remaining(f) != 60 || On(f) != io.Writer(f) {
		t.Errorf("%d left, %v", remaining(f), err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if remaining(r) != 0 || On(r) != io.Writer(r) {
		t.Error("a pipe has no size and is no terminal")
	}
}
