package secrets_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/screen/secrets"
)

// section returns the lines of a file of cases, ready to scan.
func section(t testing.TB, file, name string) []string {
	t.Helper()
	raw := must.Get(os.ReadFile(filepath.Join("testdata", file)))(t)
	for _, f := range txtar.Parse(raw).Files {
		if f.Name == name {
			text := strings.NewReplacer("~", "", `\n`, "\n").Replace
			lines := strings.Split(strings.TrimSpace(string(f.Data)), "\n")
			for i := range lines {
				lines[i] = text(lines[i])
			}
			return lines
		}
	}
	t.Fatalf("%s has no section %s", file, name)
	return nil
}

// marked takes the marks out of a line and returns the one span they marked.
func marked(t *testing.T, line string) (text string, start, end int) {
	t.Helper()
	before, rest, ok := strings.Cut(line, "«")
	inside, after, ok2 := strings.Cut(rest, "»")
	must.That(t, ok && ok2, "no span marked in %q", line)
	return before + inside + after, len(before), len(before) + len(inside)
}

// Proves SYN-2 for credentials and personal data: each format is found, by
// class and span.
func TestHits(t *testing.T) {
	seen := map[secrets.Class]bool{}
	for _, file := range []string{"credentials.txtar", "personal.txtar"} {
		for _, line := range section(t, file, "hits") {
			class, line, _ := strings.Cut(line, " ")
			text, start, end := marked(t, line)
			seen[secrets.Class(class)] = true
			want := secrets.Hit{secrets.Class(class), start, end}
			if got := secrets.Scan(text); len(got) != 1 || got[0] != want {
				t.Errorf("%q:\n got %s\nwant %s", text, show(text, got), show(text, []secrets.Hit{want}))
			}
		}
	}
	for c := range seen {
		expect.That(t, c.Severity() != "", "%s has no severity", c)
	}
}

// What stands next to a secret and is none: placeholders, identifiers,
// hashes, versions, times, addresses.
func TestMisses(t *testing.T) {
	for _, file := range []string{"credentials.txtar", "personal.txtar"} {
		for _, text := range section(t, file, "misses") {
			if got := secrets.Scan(text); len(got) != 0 {
				t.Errorf("%q: %s", text, show(text, got))
			}
		}
	}
}

func show(text string, hits []secrets.Hit) string {
	var b strings.Builder
	for _, h := range hits {
		fmt.Fprintf(&b, "%s %s %q; ", h.Class, h.Class.Severity(), text[h.Start:h.End])
	}
	return b.String()
}

// Several in one text come back in order and without overlap.
func TestSeveral(t *testing.T) {
	text := "ada@example.com, +4915123456789, password: hunter2, and postgres://a:b1c2@db/x"
	var got []string
	for _, h := range secrets.Scan(text) {
		got = append(got, string(h.Class))
	}
	expect.Equal(t, strings.Join(got, " "), "email phone credential connection_string")
}

// The number of hits is bounded.
func TestBounded(t *testing.T) {
	n := len(secrets.Scan(strings.Repeat("a@b.com ", 5000)))
	expect.That(t, n <= 1024 && n >= 1024/2, "%d hits", n)
}

// Proves SYN-2: no number of hits of one class hides one of another that follows them.
func TestNoClassHidesAnother(t *testing.T) {
	for _, tc := range []struct {
		many, one string
		want      secrets.Class
	}{
		{"a@b.com ", "AKIAIOSFODNN7EXAMPLQ", secrets.AWSAccessKey},
		{"a@b.com ", "4111 1111 1111 1111", secrets.PaymentCard},
		{"password: hunter2 ", "AKIAIOSFODNN7EXAMPLQ", secrets.AWSAccessKey},
	} {
		hits := secrets.Scan(strings.Repeat(tc.many, 5000) + tc.one)
		expect.That(t, len(hits) > 0 && hits[len(hits)-1].Class == tc.want, "%s: the last of %d hits is %+v", tc.want, len(hits), hits[len(hits)-1:])
	}
	expect.Equal(t, len(secrets.Scan(strings.Repeat("AKIAIOSFODNN7EXAMPLQ ", 5000))), 1024)
}

// What looks like a number costs no allocation, however often it stands in a text.
func TestCandidatesAreNotAllocated(t *testing.T) {
	for _, piece := range []string{"4111 ", "4111 1111 1111 1112 ", "123-45-678 ", "12345678901 "} {
		text := strings.Repeat(piece, 100)
		expect.Equal(t, testing.AllocsPerRun(10, func() { secrets.Scan(text) }), 0, piece)
	}
}
