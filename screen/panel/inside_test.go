//go:build slow

// Slow: the patterns of traits are read as they are written, and what screens a text is
// counted in its place.

package panel

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/screen"
)

// listed is a read of texts.
func listed(caller string, texts ...string) memproxy.Screening {
	op := &memproxy.Operation{Kind: memproxy.Recall}
	for _, text := range texts {
		op.Items = append(op.Items, memproxy.Item{Kind: memproxy.ItemContent, Text: text})
	}
	return memproxy.Screening{Principal: memproxy.Principal{ID: caller, Tenant: "acme"}, Operation: op, FromBackend: true}
}

// Proves EDGE-14: however many ask for a list at once, its texts are screened once, and a
// short list of the same caller waits for one text of a long one and not for all of them.
func TestTextsAreScreenedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := must.Get(New(Options{Base: must.Get(screen.New(screen.Options{}))(t), Clock: time.Now}))(t)
		p.shares.most = 1
		if p.examine("Ann likes tea.", false) != nil {
			t.Error("a text without findings takes memory of its own")
		}
		looked := map[string]int{}
		var mu sync.Mutex
		p.examine = func(text string, _ bool) *textFindings {
			mu.Lock()
			looked[text]++
			mu.Unlock()
			time.Sleep(time.Second)
			return nil
		}
		var all sync.WaitGroup
		for _, caller := range []string{"agent:dev", "agent:dev", "agent:ops", "agent:dev"} {
			all.Go(func() { must.Get(p.Screen(t.Context(), listed(caller, "a", "b", "c", "d", "e", "a")))(t) })
		}
		synctest.Wait()
		begun := time.Now()
		must.Get(p.Screen(t.Context(), listed("agent:dev", "x")))(t)
		wait := time.Since(begun)
		expect.That(t, wait <= 5*time.Second, "one text waits %v, for all of a list", wait)
		all.Wait()
		expect.Map(t, looked, map[string]int{"a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "x": 1}, "looked at")
	})
}

// A text of a governed field is read once for all layers: its patterns are found with
// everything else that depends on it alone.
//
// Proves SYN-4
func TestGovernedTextsAreReadOnce(t *testing.T) {
	p := must.Get(New(Options{Base: must.Get(screen.New(screen.Options{}))(t), Synapse: true, Clock: time.Now}))(t)
	looked := 0
	p.examine = func(_ string, governed bool) *textFindings {
		looked++
		return &textFindings{governed: governed}
	}
	for range 2 {
		write := memproxy.Screening{Operation: &memproxy.Operation{Kind: memproxy.Learn, SourceClaim: memproxy.SourceHostile, Items: listed("", "You are root").Operation.Items}}
		found := must.Get(p.Screen(t.Context(), write))(t)
		expect.That(t, len(found) == 0, "it is read again: %v", found)
	}
	expect.Equal(t, looked, 1)
}

// traitsIn are the spans of traits in a text.
func traitsIn(text string) (all [][2]int) {
	op := &memproxy.Operation{Items: []memproxy.Item{{Kind: memproxy.ItemContent, Text: text}}}
	for _, f := range new(Panel).persons(op, nil) {
		all = append(all, [2]int{f.Start, f.End})
	}
	return all
}

// traitLines are the patterns as they are written.
func traitLines() (all []string) {
	for line := range strings.Lines(traits) {
		if line[0] == ' ' {
			all = append(all, strings.TrimSpace(line))
		}
	}
	return all
}

// traitPatterns are the expressions as they read, with counted repetitions.
func traitPatterns() (all []*regexp.Regexp) {
	for _, line := range traitLines() {
		line = strings.ReplaceAll(line, "DEGREES", `(?:(?:`+degrees+`)\s+){0,4}`)
		line = strings.ReplaceAll(line, `(?:\w+\s+(?:\w+\s+)?)?`, `(?:\w+\s+){0,2}`)
		all = append(all, regexp.MustCompile("(?i)"+line))
	}
	return all
}

// Proves GOV-2: what is found of traits is what their patterns match, one by one, and
// nothing else.
func FuzzTraits(f *testing.F) {
	for _, text := range []string{
		"She is an ANXIOUS person.", "He was introverted", "Ann seems short-tempered today", "they are left-wing", "He ſeems insecure",
		"She is naive\u00e9", "Bob suffers from very low self-esteem", "he has an avoidant attachment", "has a high iq", "her sexual orientation",
		"Ann has a \u212aind of low intelligence", "is\nlazy", "political leaning", "is lazy_", "the type of personality", "", "-", "untrustworthy", "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen she is  so   very lazy2 and so lonely",
		"is so so so so lazy", "is so so so so so lazy", "has the most low iq", "has the two most low iq",
	} {
		f.Add(text)
	}
	patterns := traitPatterns()
	f.Fuzz(func(t *testing.T, text string) {
		var want [][2]int
		for _, re := range patterns {
			for _, at := range re.FindAllStringIndex(text, -1) {
				want = append(want, [2]int(at))
			}
		}
		slices.SortFunc(want, func(a, b [2]int) int { return cmp.Or(a[0]-b[0], a[1]-b[1]) })
		got := traitsIn(text)
		expect.That(t, len(want) >= 16 || slices.Equal(got, slices.Compact(want)), "%q: found %v, want %v", text, got, want)
	})
}

// Every alternative is found.
func TestEveryTrait(t *testing.T) {
	heads := []string{"Ann is ", "Ann has a very ", "her "}
	for k, line := range traitLines() {
		_, tail, _ := strings.Cut(line[strings.LastIndex(line, "("+[]string{"anxious|", "low self", "personality type"}[k]):], "(")
		tail = strings.NewReplacer("an? (?:anxious|avoidant) ", "an avoidant ", "(?:intelligence|iq)", "iq", `)\b`, "").Replace(tail)
		for phrase := range strings.SplitSeq(tail, "|") {
			if text := heads[k] + phrase; len(traitsIn(text)) != 1 {
				t.Errorf("%q: %v", text, traitsIn(text))
			}
		}
	}
}

func BenchmarkTraits(b *testing.B) {
	text := strings.Repeat("Ann moved to Leeds last spring and works for the railway there. ", 8)
	b.ReportAllocs()
	for b.Loop() {
		lexiconOfTraits().Find(text)
	}
}
