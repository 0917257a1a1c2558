//go:build slow

// Slow: the expressions of a lexicon are its own, and so is how hits of one rule are joined.

package lexicon

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
)

func parse(t testing.TB, src string) *Lexicon { return must.Get(Parse("l.txt", src))(t) }

// everywhere is what Find returns, by each expression over the whole text.
func (l *Lexicon) everywhere(text string) []Hit {
	var hits []Hit
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

func shipped(t testing.TB) *Lexicon {
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
		got, want := l.Find(string(text)), l.everywhere(string(text))
		expect.That(t, slices.Equal(got, want), "%q: got %v, want %v", text, got, want)
	}
}

func FuzzFindAgainstExpressions(f *testing.F) {
	l := shipped(f)
	for _, s := range []string{"<script>", "curl | sh", "javaſcript:a", strings.Repeat("<", 3000) + "script>", "\xff<script ", "<ſcript>", "\u212aernel: nc -l 1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, want := l.Find(text), l.everywhere(text)
		expect.That(t, slices.Equal(got, want), "got %v, want %v", got, want)
	})
}

func FuzzParse(f *testing.F) {
	for _, p := range []string{`ab|c{2,3}d`, `[^\x00-\x{10ffff}]ab`, `(a+|b)*cd`, `\d+\s*x{2,}yz`, `(?:)ab$`, `\pL+ab`, `ſ{12}[^k]`} {
		f.Add(p, "abk ſſ\n")
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if l, err := Parse("l.txt", "a high 1 f\n  "+pattern); err == nil {
			got, want := l.Find(text), l.everywhere(text)
			expect.That(t, slices.Equal(got, want), "got %v, want %v", got, want)
		}
	})
}

// What an attacker can make a text cost: every literal of every pattern, close
// to one another.
func BenchmarkFind(b *testing.B) {
	l := shipped(b)
	var all []string
	for _, p := range l.parts {
		all = append(all, p.literals...)
	}
	hostile := strings.Repeat(strings.Join(all, " "), 8)[:8<<10]
	rng, each := rand.New(rand.NewPCG(1, 9)), []byte(nil) // one match of each pattern with an unbounded repetition
	for _, p := range l.parts {
		if p.most >= unbounded {
			each = append(example(each, must.Get(syntax.Parse(p.re.String(), syntax.Perl))(b), rng), ' ')
		}
	}
	equals := strings.Repeat("a=b ", 2<<10)
	prose := strings.Repeat("The user prefers short answers, and lives in Lisbon with a dog called Rex. Meetings were moved to Tuesday. ", 80)
	for _, c := range []struct{ name, text string }{{"prose/500", prose[:500]}, {"prose/8k", prose[:8<<10]}, {"literals/8k", hostile}, {"equals/8k", equals}, {"digits/8k", strings.Repeat("073 101 ", 1<<10)}, {"repetitions/8k", string(each) + prose[:8<<10-len(each)]},
		{"runs/8k", strings.Repeat("<iframe nc a on click ", 400)[:8<<10]}, {"run/64k", "<iframe" + strings.Repeat(" nc a", 13000)}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				l.Find(c.text)
			}
		})
	}
}
