package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"regexp/syntax"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/evasion"
	"github.com/memproxy/memproxy/screen/normal"
)

const (
	dearBytes  = 8 << 10 // of each text
	dearRounds = 5       // of those that take long; the median counts
	dearMixes  = 300     // texts of several transforms in turn, by chance
)

// maxDear is the most processor time that screening a text of dearBytes may take.
const maxDear = 5 * time.Millisecond

// dearText is a text that may be expensive to screen.
type dearText struct {
	name string
	text func() string
}

// fill returns dearBytes of a text, which is repeated.
func fill(piece string) string {
	text := strings.Repeat(piece, dearBytes/max(1, len(piece))+1)
	return strings.ToValidUTF8(text[:dearBytes], "")
}

// dearTexts returns texts of every transform, of two of them, of every rule, of long runs
// of each kind of character, and of mixtures.
func dearTexts() []dearText {
	rng := rand.New(rand.NewPCG(3, 1))
	document := func(lists ...[]string) string {
		var b strings.Builder
		for all := slices.Concat(lists...); b.Len() < 3*dearBytes; b.WriteByte(' ') {
			b.WriteString(all[rng.IntN(len(all))])
		}
		return b.String()
	}
	var out []dearText
	add := func(name string, text func() string) {
		out = append(out, dearText{name, func() string { return fill(text()) }})
	}
	is := func(text string) func() string { return func() string { return text } }
	transforms := evasion.Transforms()
	plain := document(evasion.Benign())
	add("prose", is(plain))
	for _, in := range [...][2]string{{"harmless", plain}, {"poison", document(evasion.Poisons())}} {
		for _, t := range transforms {
			add(in[0]+", "+t.Name, func() string { return t.Apply(in[1]) })
		}
	}
	poisons := evasion.PoisonsByLanguage()
	for _, lang := range slices.Sorted(maps.Keys(poisons)) { // in order: each list takes from rng
		add("poison in "+lang, is(document(poisons[lang])))
	}
	out = append(out, ruleTexts(rng)...)
	all := shapes()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		add("shape "+name, is(all[name]))
	}
	short := func(rng *rand.Rand, n int) string {
		from := rng.IntN(len(plain) - n)
		return plain[from : from+n]
	}
	for _, n := range []int{12, 24, 60, 150, 400, 1000} {
		for k := range 4 {
			add(fmt.Sprintf("every transform of %d bytes, %d", n, k), func() string {
				var all strings.Builder
				for _, t := range transforms {
					all.WriteString(t.Apply(short(rand.New(rand.NewPCG(4, 4)), n)) + " ")
				}
				return all.String()[k*all.Len()/4:]
			})
		}
	}
	for k := range dearMixes {
		add(fmt.Sprintf("mix %d", k), func() string {
			rng := rand.New(rand.NewPCG(7, uint64(k)))
			n, size, sep := 1+rng.IntN(4), []int{8, 16, 30, 60, 200, 700}[rng.IntN(6)], []string{" ", "\n", "", ". ", ", ", "="}[rng.IntN(6)]
			nested := rng.IntN(3) == 0
			var of []evasion.Transform
			for range n {
				of = append(of, transforms[rng.IntN(len(transforms))])
			}
			var b strings.Builder
			for i := 0; b.Len() < dearBytes; i++ {
				text := of[i%n].Apply(short(rng, size))
				if nested {
					text = of[(i+1)%n].Apply(text)
				}
				b.WriteString(cmp.Or(text, " ") + sep) // some transforms leave nothing of what another made
			}
			return b.String()
		})
	}
	outer := strings.Split("base64,percent whole,reversed,rot47,leetspeak,run together,links,ascii85 without marks,without vowels", ",")
	for _, t := range transforms {
		if slices.Contains(outer, t.Name) {
			for _, in := range transforms {
				add(in.Name+", then "+t.Name, func() string { return t.Apply(in.Apply(plain[:dearBytes])) })
			}
		}
	}
	return out
}

// ruleTexts returns texts of each expression of the lexicon, of each concept of the
// vocabulary, and of all of them.
func ruleTexts(rng *rand.Rand) (out []dearText) {
	var all strings.Builder
	for line := range strings.Lines(packFile("lexicon.txt")) {
		if !strings.HasPrefix(line, "  ") {
			continue
		}
		tree := noError(syntax.Parse(strings.TrimSpace(line), syntax.Perl|syntax.FoldCase))
		var b []byte
		for len(b) < dearBytes {
			b = append(matching(b, tree, rng), ' ')
		}
		out = append(out, dearText{"rule " + strings.TrimSpace(line), func() string { return fill(string(b)) }})
		all.Write(append(matching(nil, tree, rng), ' '))
	}
	concept := ""
	for line := range strings.Lines(packFile("vocabulary.txt")) {
		if name, _, ok := strings.Cut(line, ": "); ok && name == strings.ToUpper(name) {
			concept = name
		}
		words := strings.NewReplacer("*", "", ",", "", concept+":", "").Replace(line)
		if concept != "" && len(words) > 20 {
			out = append(out, dearText{"concept " + concept + words[:20], func() string { return fill(words + " ") }})
			all.WriteString(words + " ")
		}
	}
	text := all.String()
	for k := range 12 {
		out = append(out, dearText{fmt.Sprintf("all rules, %d", k), func() string { return fill(text[k*len(text)/12:]) }})
	}
	return out
}

// matching appends a text that an expression matches.
func matching(dst []byte, re *syntax.Regexp, rng *rand.Rand) []byte {
	times := func(least, most int) {
		for range least + rng.IntN(most-least+1) {
			dst = matching(dst, re.Sub[0], rng)
		}
	}
	switch re.Op {
	case syntax.OpLiteral:
		return append(dst, string(re.Rune)...)
	case syntax.OpCharClass:
		i := 2 * rng.IntN(len(re.Rune)/2)
		return utf8.AppendRune(dst, re.Rune[i]+rng.Int32N(min(50, re.Rune[i+1]-re.Rune[i]+1)))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return append(dst, '~')
	case syntax.OpStar:
		times(0, 4)
	case syntax.OpPlus:
		times(1, 4)
	case syntax.OpQuest:
		times(0, 1)
	case syntax.OpRepeat:
		times(re.Min, max(re.Min, re.Max))
	case syntax.OpAlternate:
		return matching(dst, re.Sub[rng.IntN(len(re.Sub))], rng)
	case syntax.OpCapture, syntax.OpConcat:
		for _, sub := range re.Sub {
			dst = matching(dst, sub, rng)
		}
	}
	return dst
}

// dear prints the processor time of screening expensive texts: all
// layers of a write, without earlier ones, and how many bytes of readings a text has.
// least leaves out those that take less, which are counted.
func dear(w io.Writer, least time.Duration, only string) error {
	p := fullPanel()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	fmt.Fprintln(w, "| µs | readings, KiB | read to its end | text |\n|--:|--:|---|---|")
	over, all := 0, 0
	for _, t := range dearTexts() {
		if only != "" && !strings.Contains(t.name, only) {
			continue
		}
		text := t.text()
		op := &memproxy.Operation{
			Kind: memproxy.Learn, Backend: "mem0", Route: "mem0.v1.add", Scope: memproxy.Scope{User: "ann"}, SourceClaim: memproxy.SourceUntrusted,
			Items: []memproxy.Item{{Kind: memproxy.ItemContent, Text: text, Field: "learnings", Layer: memproxy.Semantic}},
		}
		var took []time.Duration
		for len(took) == 0 || took[0] > maxDear/2 && len(took) < dearRounds {
			before := processorTime()
			if _, err := p.Screen(context.Background(), memproxy.Screening{Principal: memproxy.Principal{ID: "agent:dev", Tenant: "acme"}, Decision: "d", Operation: op}); err != nil {
				return err
			}
			took = append(took, processorTime()-before)
		}
		slices.Sort(took)
		median := took[len(took)/2]
		all++
		if median > maxDear {
			over++
		}
		if median >= least {
			reading, kept := normal.Read(text), 0
			for i := range reading.Views[1:] {
				kept += len(reading.Views[1+i].Text)
			}
			fmt.Fprintf(w, "| %d | %d | %v | %.120s |\n", median.Microseconds(), kept>>10, !reading.Truncated, strings.ToValidUTF8(t.name, ""))
		}
	}
	fmt.Fprintf(w, "\n%d of %d texts of %d bytes take more than %v.\n", over, all, dearBytes, maxDear)
	return nil
}

// processorTime returns the processor time of this process.
func processorTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic(err) // cannot happen: the arguments are valid
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
