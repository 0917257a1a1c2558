// Package directive distinguishes directives from facts: who is told to do what, when,
// and to whom. A vocabulary maps words of several languages to a few dozen concepts.
// Rules are short sequences of concepts, or sets of concepts near each other in any
// order, since word order differs between languages.
//
// Invariants: reading and matching are linear in the text, whatever it contains, and a
// hit has the span of the words that matched. The package knows words, not meaning: a
// quoted attack reads like an attack, and a lie reads like a fact.
package directive

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/memproxy/memproxy/screen/rulefile"
	"github.com/memproxy/memproxy/screen/terms"
)

// Set is a bit set of concepts. The classifier of the pack uses the first 64 only
// (First). A struct stays in registers, which an array does not.
type Set struct{ First, second, third uint64 }

const maxConcepts = 64 * 3 // the most concepts of a vocabulary

func bit(i int) Set {
	var s [3]uint64
	s[i>>6] = 1 << (i & 63)
	return Set{s[0], s[1], s[2]}
}

func (s Set) or(o Set) Set     { return Set{s.First | o.First, s.second | o.second, s.third | o.third} }
func (s Set) and(o Set) Set    { return Set{s.First & o.First, s.second & o.second, s.third & o.third} }
func (s Set) less(o Set) Set   { return s.and(Set{^o.First, ^o.second, ^o.third}) }
func (s Set) meets(o Set) bool { return !s.and(o).empty() }
func (s Set) empty() bool      { return s.First|s.second|s.third == 0 }
func (s Set) words() [3]uint64 { return [3]uint64{s.First, s.second, s.third} }
func (s Set) count() int {
	return bits.OnesCount64(s.First) + bits.OnesCount64(s.second) + bits.OnesCount64(s.third)
}

// Concepts that Read assigns itself. A vocabulary must define them, with or without
// words.
const (
	conceptURL   = "URL"     // a web address or a domain name
	conceptEmail = "EMAIL"   // an email address
	conceptNum   = "NUMBERS" // a number of at least three digits
	conceptTLD   = "TLD"     // a top-level domain; kept only after a dot
)

// conceptName marks capitalised words that do not begin a sentence. A vocabulary may
// define it.
const conceptName = "NAME"

// conceptLoan marks words that also exist in English. A vocabulary may define it: a
// "together" pattern holds only if other words show that the text is in the vocabulary's
// language.
const conceptLoan = "LOAN"

// Word is one word of a text, or one character of a script without spaces.
type Word struct {
	Start, End int32
	Hash       uint32 // of the word in lower case
	Stem       uint32 // of its first five bytes
	Concepts   Set
	Flags      Flag
}

// Flag describes the position and form of a word.
type Flag uint8

// The flags.
const (
	FlagSentenceStart Flag = 1 << iota // the first word of a sentence or clause
	FlagLineStart                      // the first word of a line
	FlagCapitals                       // two or more letters, all capitals
	FlagDigits                         // digits only
	FlagUnspaced                       // a character of a script without spaces
	starter                            // may begin a phrase
)

// Vocabulary maps words and phrases to concepts. It is immutable.
type Vocabulary struct {
	names    []string
	index    map[string]int // concepts of the files that were added last, by name
	own      Set            // the set of those concepts
	exact    terms.Table[meaning]
	prefixes terms.Table[meaning]
	prefixed [1 << 12]uint64 // Bloom filter of prefixes, to skip most look-ups
	openings [1 << 12]uint64 // Bloom filter of phrase beginnings whose last word is given as a prefix
	url      Set
	email    Set
	tld      Set
	numbers  Set
	name     Set
	longest  int // words in the longest phrase
}

// Concept returns the set of the concept with a name, or the empty set.
func (v *Vocabulary) Concept(name string) Set {
	i, ok := v.index[name]
	if !ok {
		return Set{}
	}
	return bit(i)
}

// Source is a file of a pack.
type Source struct{ Name, Text string }

// With returns a vocabulary that also finds the words of files. Their concepts are distinct
// from v's even if they have the same names, and Concept finds only theirs.
//
// A line that begins in the first column has a concept and a colon; words and phrases
// follow, separated by commas, on that line and on indented lines. A word that ends in *
// matches every word with that prefix. # begins a comment. Files may add words to the same
// concept. Errors name file and line.
func (v *Vocabulary) With(files ...Source) (*Vocabulary, error) {
	w := *v
	v = &w
	v.index, v.own = map[string]int{}, Set{}
	for _, f := range files {
		if err := v.parse(f); err != nil {
			return nil, err
		}
	}
	for _, c := range [...]string{conceptURL, conceptEmail, conceptTLD, conceptNum} {
		if _, ok := v.index[c]; !ok {
			return nil, fmt.Errorf("%s: concept %s is missing", files[0].Name, c)
		}
	}
	for name, set := range map[string]*Set{conceptURL: &v.url, conceptEmail: &v.email, conceptTLD: &v.tld, conceptNum: &v.numbers, conceptName: &v.name} {
		*set = set.or(v.Concept(name))
	}
	return v, nil
}

func (v *Vocabulary) parse(f Source) error {
	current := -1
	seen := map[string]bool{}
	for n, line := range rulefile.Lines(f.Text) {
		line, _, _ = strings.Cut(line, "#")
		if strings.TrimSpace(line) == "" {
			continue
		}
		if line[0] != ' ' && line[0] != '\t' {
			name, rest, ok := strings.Cut(line, ":")
			if !ok || name == "" || strings.ToUpper(name) != name {
				return fmt.Errorf("%s:%d: want CONCEPT: words", f.Name, n)
			}
			if seen[name] {
				return fmt.Errorf("%s:%d: concept %s is defined twice", f.Name, n, name)
			}
			seen[name] = true
			if current, ok = v.index[name]; !ok {
				if len(v.names) == maxConcepts {
					return fmt.Errorf("%s:%d: more than %d concepts", f.Name, n, maxConcepts)
				}
				current = len(v.names)
				v.index[name], v.own = current, v.own.or(bit(current))
				v.names = append(v.names, name)
			}
			line = rest
		}
		if current < 0 {
			return fmt.Errorf("%s:%d: words before the first concept", f.Name, n)
		}
		for p := range strings.SplitSeq(line, ",") {
			if p = strings.TrimSpace(p); p == "" {
				continue
			}
			if err := v.put(strings.ToLower(p), bit(current)); err != nil {
				return fmt.Errorf("%s:%d: %w", f.Name, n, err)
			}
		}
	}
	return nil
}

// plain knows no words. It splits phrases into words.
var plain Vocabulary

// put adds one word or phrase.
func (v *Vocabulary) put(phrase string, concept Set) error {
	phrase, prefix := strings.CutSuffix(phrase, "*")
	if strings.Contains(phrase, "*") {
		return fmt.Errorf("%q: a star is allowed only at the end of a word or phrase", phrase)
	}
	if prefix && !strings.Contains(phrase, " ") {
		if len(phrase) < minPrefix {
			return fmt.Errorf("%q: a prefix must have at least three bytes", phrase)
		}
		h := terms.HashWord(phrase)
		at := v.prefixes.At(h)
		at.concepts = at.concepts.or(concept)
		v.prefixed[h>>6&(1<<12-1)] |= 1 << (h & 63)
		return nil
	}
	words := plain.Read(nil, phrase)
	if len(words) == 0 || len(words) > 12 {
		return fmt.Errorf("%q: a phrase must have one to twelve words", phrase)
	}
	v.longest = max(v.longest, len(words))
	h := words[0].Hash
	for i, w := range words[1:] {
		v.exact.At(h).more = true
		if prefix && i+2 == len(words) {
			v.openings[h>>6&(1<<12-1)] |= 1 << (h & 63)
			w.Hash ^= prefixSalt
		}
		h = joinHash(h, w.Hash)
	}
	at := v.exact.At(h)
	at.concepts = at.concepts.or(concept)
	return nil
}

const minPrefix = 3 // the shortest prefix, in bytes

// prefixSalt distinguishes the hash of a prefix of a phrase's last word from that of a
// whole word.
const prefixSalt = 0x5bd1e995

func joinHash(a, b uint32) uint32 { return (a*31 + 7) ^ b*0x9e3779b1 }

// meaning is the entry of a word, of the beginning of a phrase, or of a phrase.
type meaning struct {
	concepts Set
	more     bool // a longer phrase begins with it
}
