package expect_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// said is a test that keeps what it is told.
type said struct {
	testing.TB
	text  string
	ended bool
}

func (s *said) Helper()           {}
func (s *said) Error(args ...any) { s.text += fmt.Sprint(args...) + "\n" }
func (s *said) FailNow()          { s.ended = true; panic(s) }

// TestChecks plays each check with a value that is right and with one that is wrong,
// which is told with what was wanted and what the check is about.
func TestChecks(t *testing.T) {
	wrapped := fmt.Errorf("no more: %w", io.EOF)
	for _, c := range []struct {
		name        string
		right       func(t testing.TB)
		wrong, must func(t testing.TB)
		want        string
	}{
		{"that", func(t testing.TB) { expect.That(t, true, "%d", 7) },
			func(t testing.TB) { expect.That(t, false, "case %d", 7) }, func(t testing.TB) { must.That(t, false, "case %d", 7) }, "case 7\n"},
		{"equal", func(t testing.TB) { expect.Equal(t, 1, 1) },
			func(t testing.TB) { expect.Equal(t, "a", "b", "case", 7) }, func(t testing.TB) { must.Equal(t, "a", "b", "case", 7) }, "case 7: got \"a\", want \"b\"\n"},
		{"list", func(t testing.TB) { expect.List(t, []int{}, nil) },
			func(t testing.TB) { expect.List(t, []string{"a"}, nil) }, func(t testing.TB) { must.List(t, []string{"a"}, nil) }, "\n got [\"a\"]\nwant []\n"},
		{"map", func(t testing.TB) { expect.Map(t, map[string]int{}, nil) },
			func(t testing.TB) { expect.Map(t, map[string]int{"a": 1}, nil) }, func(t testing.TB) { must.Map(t, map[string]int{"a": 1}, nil) }, "\n got map[a:1]\nwant map[]\n"},
		{"deep", func(t testing.TB) { expect.Deep(t, []int{1}, []int{1}) },
			func(t testing.TB) { expect.Deep(t, []int{}, []int(nil)) }, func(t testing.TB) { must.Deep(t, []int{}, []int(nil)) }, "\n got []\nwant []\n"},
		{"len", func(t testing.TB) { expect.Len(t, map[int]int{1: 1}, 1) },
			func(t testing.TB) { expect.Len(t, []byte("ab"), 1) }, func(t testing.TB) { must.Len(t, []byte("ab"), 1) }, "length 2, want 1: ab\n"},
		{"ok", func(t testing.TB) { expect.OK(t, nil) },
			func(t testing.TB) { expect.OK(t, io.EOF, "reading") }, func(t testing.TB) { must.Do(t, io.EOF, "reading") }, "reading: EOF\n"},
		{"error", func(t testing.TB) { expect.Error(t, io.EOF) },
			func(t testing.TB) { expect.Error(t, nil, "reading") }, func(t testing.TB) { must.Error(t, nil, "reading") }, "reading: no error\n"},
		{"error with a text", func(t testing.TB) { expect.ErrorHas(t, io.EOF, "EO") },
			func(t testing.TB) { expect.ErrorHas(t, io.EOF, "no", "reading") }, func(t testing.TB) { must.ErrorHas(t, io.EOF, "no", "reading") }, "reading: error EOF, without \"no\"\n"},
		{"no error with a text", func(t testing.TB) { expect.ErrorHas(t, io.EOF, "") },
			func(t testing.TB) { expect.ErrorHas(t, nil, "") }, func(t testing.TB) { must.ErrorHas(t, nil, "") }, "error <nil>, without \"\"\n"},
		{"is", func(t testing.TB) { expect.Is(t, wrapped, io.EOF) },
			func(t testing.TB) { expect.Is(t, errors.New("x"), io.EOF) }, func(t testing.TB) { must.Is(t, errors.New("x"), io.EOF) }, "error x, want EOF\n"},
		{"text", func(t testing.TB) { expect.Text(t, "ann").Has("a", "n").Lacks("b").Times(2, "n") },
			func(t testing.TB) { expect.Text(t, "ann", "who").Has("a", "b").Lacks("n", "c").Times(1, "n") }, nil,
			"who: without \"b\": ann\nwho: with \"n\": ann\nwho: 2 times \"n\", want 1: ann\n"},
	} {
		play := func(f func(testing.TB)) *said {
			s := &said{TB: t}
			func() {
				defer func() { _ = recover() }()
				f(s)
			}()
			return s
		}
		if s := play(c.right); s.text != "" || s.ended {
			t.Errorf("%s: what is right fails: %q", c.name, s.text)
		}
		if s := play(c.wrong); s.text != c.want || s.ended {
			t.Errorf("%s: %q, ended %t; want %q", c.name, s.text, s.ended, c.want)
		}
		if c.must == nil {
			continue
		}
		if s := play(c.must); s.text != c.want || !s.ended {
			t.Errorf("%s: must: %q, ended %t; want %q", c.name, s.text, s.ended, c.want)
		}
	}
}
