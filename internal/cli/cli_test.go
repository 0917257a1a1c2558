package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/memproxy/memproxy/internal/expect"
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
	expect.Equal(t, screen.String(), "\r[######..................]  25%  50 lines  5/s  30s left")
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
	if _, err := f.Seek(40, io.SeekStart); err != nil || remaining(f) != 60 || WriterFor(f) != io.Writer(f) {
		t.Errorf("%d left, %v", remaining(f), err)
	}
	r, w, err := os.Pipe()
	must.Do(t, err)
	defer r.Close()
	defer w.Close()
	if remaining(r) != 0 || WriterFor(r) != io.Writer(r) {
		t.Error("a pipe has no size and is no terminal")
	}
}

// What is printed can neither steer a terminal nor hide letters, in whatever
// pieces it is written, and as JSON or YAML it is still the same text.
func FuzzPlain(f *testing.F) {
	f.Add("a\x1b[2Jb\u202ec\r\x9b", 3)
	f.Add("\u00ad\U000e0041\u200b\ufeff\u0085 true\n- x", 6)
	f.Add("true", 1)
	f.Add("\U0001f600\ufe0f\u3000", 2)
	f.Fuzz(func(t *testing.T, text string, at int) {
		at = min(max(at, 0), len(text))
		var out strings.Builder
		p := &plain{to: &out}
		for _, part := range []string{text[:at], text[at:]} {
			if n, err := p.Write([]byte(part)); n != len(part) || err != nil {
				t.Fatal(n, err)
			}
		}
		seen(t, out.String())
		if text = strings.ToValidUTF8(text, ""); strings.Contains(Line(text), "\n") {
			t.Errorf("%q is no line", Line(text))
		}
		for form, read := range map[Output]func([]byte, any) error{JSON: json.Unmarshal, YAML: yaml.Unmarshal} {
			out.Reset()
			must.Do(t, form.Print(&plain{to: &out}, map[string][]string{"a": {text}}, nil), form)
			seen(t, out.String())
			var back map[string][]string
			if err := read([]byte(out.String()), &back); err != nil || len(back["a"]) != 1 || back["a"][0] != text {
				t.Errorf("%s: %q is read as %q, %v, from\n%s", form, text, back, err, out.String())
			}
		}
	})
}

func seen(t *testing.T, text string) {
	t.Helper()
	if !utf8.ValidString(text) {
		t.Errorf("%q is no UTF-8", text)
	}
	for _, r := range text {
		if unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.In(r, unicode.Cf, unicode.Variation_Selector) {
			t.Errorf("%q shows %U", text, r)
		}
	}
}
