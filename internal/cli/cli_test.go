package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/memproxy/memproxy/internal/cli"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// run runs a command that does no more than work.
func run(t testing.TB, to, errorsTo io.Writer, work func(stdout, stderr io.Writer)) {
	t.Helper()
	code := cli.Main(t.Context(), func(stdout, stderr io.Writer) *cobra.Command {
		return cli.Group("x", "", "", cli.Leaf("work", "", "", func(context.Context) error { work(stdout, stderr); return nil }))
	}, []string{"work"}, nil, to, errorsTo)
	must.Equal(t, code, cli.OK)
}

// input returns an open file of zeros.
func input(t *testing.T, size int) *os.File {
	path := filepath.Join(t.TempDir(), "in")
	must.Do(t, os.WriteFile(path, make([]byte, size), 0o600))
	f := must.Get(os.Open(path))(t)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func TestMeter(t *testing.T) {
	in := input(t, 1000)
	synctest.Test(t, func(t *testing.T) {
		var screen, file bytes.Buffer
		run(t, &file, cli.Terminal{Writer: &screen}, func(stdout, stderr io.Writer) {
			m := cli.MeterOn(stderr, "lines", in)
			time.Sleep(10 * time.Second)
			must.Get(io.ReadFull(m.Reader(in), make([]byte, 250)))(t)
			told := m.Progress()
			told(50, 0)
			told(51, 0) // too soon to draw again
			expect.Equal(t, screen.String(), "\r[######..................]  25%  50 lines  5/s  30s left")
			screen.Reset()
			must.Get(m.Writer(stderr).Write([]byte("line 7: bad\n")))(t)
			if s := screen.String(); !strings.HasPrefix(s, "\r   ") || !strings.HasSuffix(s, " \rline 7: bad\n") {
				t.Errorf("a message is written as %q", s)
			}
			expect.Equal(t, m.Writer(stdout), stdout, "a meter is in the way of what is no terminal")
			time.Sleep(time.Second)
			told(60, 120)
			screen.Reset()
			time.Sleep(time.Second)
			told(90, 120)
			if s := screen.String(); !strings.HasPrefix(s, "\r[##################......]  75%  90 lines") || !strings.Contains(s, "4s left") {
				t.Errorf("of a known total: %q", s)
			}
			screen.Reset()
			m.Done()
			expect.Equal(t, strings.ReplaceAll(screen.String(), " ", ""), "\r\r", "at the end")

			screen.Reset()
			cli.MeterOn(stderr, "pages", nil).Progress()(3, 0)
			expect.Equal(t, screen.String(), "\r3 pages  0/s", "without a total")
			none := cli.MeterOn(stdout, "lines", in)
			none.Done()
			if none != nil || none.Writer(stderr) != stderr || none.Reader(nil) != nil || none.Progress() != nil {
				t.Error("no meter is in the way")
			}
		})
	})
}

func TestWhatIsLeftOfAFile(t *testing.T) {
	of := func(f *os.File) string {
		var screen bytes.Buffer
		m := cli.MeterOn(cli.Terminal{Writer: &screen}, "lines", f)
		must.Get(io.ReadFull(m.Reader(strings.NewReader(strings.Repeat("x", 30))), make([]byte, 30)))(t)
		m.Progress()(1, 0)
		return screen.String()
	}
	f := input(t, 100)
	must.Get(f.Seek(40, io.SeekStart))(t)
	expect.Equal(t, cli.WriterFor(f), io.Writer(f), "a file is taken for a terminal")
	expect.Text(t, of(f), "of the 60 that are left").Has("]  50%  1 lines")
	r, w, err := os.Pipe()
	must.Do(t, err)
	defer r.Close()
	defer w.Close()
	expect.Equal(t, cli.WriterFor(r), io.Writer(r), "a pipe is no terminal")
	expect.Text(t, of(r), "a pipe has no size").Lacks("%")
}

// What is no UTF-8 is not shown as if it were a character of the text.
func TestWhatIsNoTextIsEscaped(t *testing.T) {
	expect.Equal(t, cli.Line("a\xffb\ufffd é"), `a\ufffdb\ufffd é`)
}

// A command that fails says why, also when its output is lost.
func TestErrorsOfCommandsWhoseOutputIsLost(t *testing.T) {
	var errs bytes.Buffer
	code := cli.Main(t.Context(), func(stdout, _ io.Writer) *cobra.Command {
		return cli.Group("x", "", "", cli.Leaf("work", "", "", func(context.Context) error {
			_, _ = io.WriteString(stdout, "half done")
			return cli.UsageError("the other half is missing")
		}))
	}, []string{"work"}, nil, lost{}, &errs)
	expect.Equal(t, code, cli.Usage)
	expect.Equal(t, errs.String(), "x work: the other half is missing\n")
}

type lost struct{}

func (lost) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

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
		run(t, &out, io.Discard, func(stdout, _ io.Writer) {
			for _, part := range []string{text[:at], text[at:]} {
				if n, err := stdout.Write([]byte(part)); n != len(part) || err != nil {
					t.Fatal(n, err)
				}
			}
		})
		seen(t, out.String())
		if utf8.ValidString(text) {
			var whole strings.Builder
			run(t, &whole, io.Discard, func(stdout, _ io.Writer) { _, _ = io.WriteString(stdout, text) })
			expect.Equal(t, out.String(), whole.String(), "in two pieces at", at)
		}
		if text = strings.ToValidUTF8(text, ""); strings.Contains(cli.Line(text), "\n") {
			t.Errorf("%q is no line", cli.Line(text))
		}
		for form, read := range map[cli.Output]func([]byte, any) error{cli.JSON: json.Unmarshal, cli.YAML: yaml.Unmarshal} {
			out.Reset()
			run(t, &out, io.Discard, func(stdout, _ io.Writer) {
				must.Do(t, form.Print(stdout, map[string][]string{"a": {text}}, nil), form)
			})
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
	expect.Equal(t, utf8.ValidString(text), true, text, "is no UTF-8")
	for _, r := range text {
		if unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.In(r, unicode.Cf, unicode.Variation_Selector) {
			t.Errorf("%q shows %U", text, r)
		}
	}
}
