package screen

import (
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/memproxy/memproxy/screen/classify"
	"github.com/memproxy/memproxy/screen/directive"
	"github.com/memproxy/memproxy/screen/lexicon"
	"github.com/memproxy/memproxy/screen/normal"
	"github.com/memproxy/memproxy/screen/rulefile"
)

const (
	fileNumbers    = "pack.txt"
	fileLexicon    = "lexicon.txt"
	fileVocabulary = "vocabulary.txt"
	fileDirectives = "directives.txt"
	fileWeights    = "weights.bin"
	fileWhole      = "whole.bin"
	fileMust       = "must.txt"
	fileMustNot    = "mustnot.txt"
	fileTongues    = "tongues/rules.txt" // directives in languages other than English
)

// dirTongues is the directory of the vocabularies of those languages, one file each.
const dirTongues = "tongues"

var packFiles = [...]string{fileNumbers, fileLexicon, fileVocabulary, fileDirectives, fileWeights, fileWhole, fileMust, fileMustNot, fileTongues}

const maxPackFile = 4 << 20 // bounds each file of a pack, in bytes

//go:embed pack
var embedded embed.FS

// The built-in models. What they take is in the program's file and not in the process's own
// memory.
var (
	//go:embed pack/weights.bin
	builtinWindows string
	//go:embed pack/whole.bin
	builtinWhole string
)

// Pack has the rules, vocabularies and models of screening, and the numbers by which
// findings are weighed. It is immutable and identified by its version.
type Pack struct {
	name       string
	version    string
	digest     string
	lexicon    *lexicon.Lexicon
	vocabulary *directive.Vocabulary // of all languages
	directives *directive.Rules
	tongues    *directive.Rules // of languages other than English
	model      *classify.Model  // of windows
	whole      *classify.Model  // of whole texts
	weights    map[string]int   // the numbers of pack.txt
	hold, deny int
	zero       float32           // the margin at which the evidence is balanced
	share      float32           // the factor for the margin of a part as a whole
	unlifted   float32           // see unlifted
	families   map[string]string // by rule
}

// unlifted is the distance below zero of the windows of a part from which it is not judged as a
// whole, because that does not make up for more (TestFarPartsNeedNoWhole; with 4, 7 scores in
// 40,000 differ).
const unlifted = 6

var builtin = sync.OnceValues(func() (*Pack, error) {
	return Load(Files())
})

// Default returns the built-in pack. The first call loads it and runs its regression
// cases. It panics if the pack is broken; a test proves that it loads.
func Default() *Pack {
	p, err := builtin()
	if err != nil {
		panic("screen: the built-in pack is broken: " + err.Error())
	}
	return p
}

// Load reads a pack from the root of a file system and runs its regression cases. An
// error names file and line; a pack with an error must not be used.
func Load(fsys fs.FS) (*Pack, error) {
	p, files, err := parse(fsys)
	if err != nil {
		return nil, err
	}
	if err := p.regress(files); err != nil {
		return nil, err
	}
	return p, nil
}

// LoadUntested reads a pack without running its regression cases, for training the models
// with which the pack must pass them.
func LoadUntested(fsys fs.FS) (*Pack, error) {
	p, _, err := parse(fsys)
	return p, err
}

func parse(fsys fs.FS) (*Pack, map[string]string, error) {
	texts, files := map[string]*strings.Builder{}, map[string]string{}
	digest, err := read(fsys, func(name string, size int64) io.Writer {
		texts[name] = &strings.Builder{}
		texts[name].Grow(int(size))
		return texts[name]
	})
	if err != nil {
		return nil, nil, err
	}
	for name, text := range texts {
		files[name] = text.String()
	}
	p := &Pack{digest: digest, vocabulary: &directive.Vocabulary{}, families: map[string]string{}}
	if err := p.fill(files); err != nil {
		return nil, nil, fmt.Errorf("screen: %w", err)
	}
	p.version = p.name + "+" + digest[:12]
	return p, files, nil
}

func (p *Pack) fill(files map[string]string) (err error) {
	if err = p.numbers(files[fileNumbers]); err != nil {
		return err
	}
	if p.lexicon, err = lexicon.Parse(fileLexicon, files[fileLexicon]); err != nil {
		return err
	}
	for i := range p.lexicon.Rules {
		p.families[p.lexicon.Rules[i].ID] = p.lexicon.Rules[i].Family
	}
	if err = p.models(files[fileWeights], files[fileWhole]); err != nil {
		return err
	}
	if p.directives, err = p.language(fileDirectives, files, fileVocabulary); err != nil {
		return err
	}
	var spoken []string // the vocabularies of other languages
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasPrefix(name, dirTongues+"/") && name != fileTongues {
			spoken = append(spoken, name)
		}
	}
	if len(spoken) == 0 {
		return fmt.Errorf("%s: no language has words", dirTongues)
	}
	p.tongues, err = p.language(fileTongues, files, spoken...)
	return err
}

// language reads a file of directives, and vocabularies whose words the pack then knows
// too. The vocabularies share one set of concepts.
func (p *Pack) language(file string, files map[string]string, vocabularies ...string) (*directive.Rules, error) {
	var words []directive.Source
	for _, name := range vocabularies {
		words = append(words, directive.Source{Name: name, Text: files[name]})
	}
	var err error
	if p.vocabulary, err = p.vocabulary.With(words...); err != nil {
		return nil, err
	}
	rules, err := directive.ParseRules(file, files[file], p.vocabulary)
	if err != nil {
		return nil, err
	}
	for i := range rules.List {
		r := &rules.List[i]
		if _, dup := p.families[r.ID]; dup {
			return nil, fmt.Errorf("%s:%d: rule %s is also defined in another file", file, r.Line, r.ID)
		}
		p.families[r.ID] = r.Family
	}
	return rules, nil
}

func (p *Pack) models(windows, whole string) (err error) {
	if windows == builtinWindows {
		windows = builtinWindows
	}
	if whole == builtinWhole {
		whole = builtinWhole
	}
	if p.model, err = classify.Decode(windows); err != nil {
		return fmt.Errorf("%s: %w", fileWeights, err)
	}
	if p.whole, err = classify.Decode(whole); err != nil {
		return fmt.Errorf("%s: %w", fileWhole, err)
	}
	return nil
}

// read copies each file of a pack to what file returns, and returns the digest of all. The
// files may be edited meanwhile.
func read(fsys fs.FS, file func(name string, size int64) io.Writer) (digest string, err error) {
	spoken, err := fs.Glob(fsys, dirTongues+"/*.txt")
	if err != nil {
		return "", fmt.Errorf("screen: %w", err)
	}
	spoken = slices.DeleteFunc(spoken, func(name string) bool { return name == fileTongues })
	if len(spoken) > maxTongues {
		return "", fmt.Errorf("screen: %s: more than %d files", dirTongues, maxTongues)
	}
	sum, buffer := sha256.New(), make([]byte, 64<<10)
	for _, name := range append(slices.Clone(packFiles[:]), spoken...) {
		info, err := fs.Stat(fsys, name)
		if err != nil {
			return "", fmt.Errorf("screen: %w", err)
		}
		if !info.Mode().IsRegular() {
			return "", fmt.Errorf("screen: %s is not a file", name) // reading a pipe could block forever
		}
		size := info.Size()
		if size > maxPackFile {
			return "", fmt.Errorf("screen: %s: more than %d bytes", name, maxPackFile)
		}
		f, err := fsys.Open(name)
		if err != nil {
			return "", fmt.Errorf("screen: %w", err)
		}
		fmt.Fprintf(sum, "%s %d\n", name, size)
		n, err := io.CopyBuffer(io.MultiWriter(sum, file(name, size)), io.LimitReader(f, size+1), buffer)
		f.Close()
		if err == nil && n != size {
			err = fmt.Errorf("%s changed while it was read", name)
		}
		if err != nil {
			return "", fmt.Errorf("screen: %w", err)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Digest returns the SHA-256 of a pack's files in hexadecimal. It takes a hundredth of
// the work of Load and tells whether the pack has changed.
func Digest(fsys fs.FS) (string, error) {
	return read(fsys, func(string, int64) io.Writer { return io.Discard })
}

// Digest returns the digest of the files that the pack was loaded from.
func (p *Pack) Digest() string { return p.digest }

// Version returns the pack's name and the beginning of its SHA-256.
func (p *Pack) Version() string { return p.version }

// Family returns the family of a rule. Rules outside the lexicon and the
// directives are families of their own.
func (p *Pack) Family(rule string) string { return cmp.Or(p.families[rule], rule) }

// required lists the keys that pack.txt must have.
var required = []string{
	"hold", "deny", "sensitivity low", "sensitivity medium", "sensitivity high",
	"source trusted", "source verified", "source untrusted", "source hostile",
	"trust anonymous", "trust authenticated", "trust established", "trust human", "trust system", "zero", "scale", "whole",
}

// numbers parses pack.txt. Each line has a key of one or two words, and a whole number.
func (p *Pack) numbers(src string) error {
	p.weights = map[string]int{}
	for n, line := range rulefile.Lines(src) {
		f := strings.Fields(line)
		if f[0] == "name" && len(f) == 2 {
			p.name = f[1]
			continue
		}
		key := strings.Join(f[:len(f)-1], " ")
		v, err := strconv.Atoi(f[len(f)-1])
		if err != nil || key == "" || v < -100000 || v > 100000 {
			return fmt.Errorf("%s:%d: want a key and a whole number", fileNumbers, n)
		}
		if _, dup := p.weights[key]; dup {
			return fmt.Errorf("%s:%d: %q is defined twice", fileNumbers, n, key)
		}
		p.weights[key] = v
	}
	if p.name == "" {
		return errors.New(fileNumbers + ": the name is missing")
	}
	for _, k := range required {
		if _, ok := p.weights[k]; !ok {
			return fmt.Errorf("%s: %q is missing", fileNumbers, k)
		}
	}
	p.hold, p.deny = p.weights["hold"], p.weights["deny"]
	p.zero, p.share, p.unlifted = float32(p.weights["zero"])/1000, float32(p.weights["whole"])/1000, unlifted
	if p.hold <= minClassified || p.deny < p.hold || p.deny > 1000 || p.weights["scale"] <= 0 {
		return fmt.Errorf("%s: want %d < hold <= deny <= 1000 and scale above 0", fileNumbers, minClassified)
	}
	return nil
}

// regress screens the lines of must.txt, which must be held, and of mustnot.txt, which
// must not. Cases are judged at medium sensitivity, without source or trust.
func (p *Pack) regress(files map[string]string) error {
	s, err := newScreener(Options{Pack: p})
	if err != nil {
		return err
	}
	for _, c := range [...]struct {
		file string
		held bool
	}{{fileMust, true}, {fileMustNot, false}} {
		for n, line := range rulefile.Lines(files[c.file]) {
			r := s.Text(line, "", "")
			if r.Verdict.Stops() == c.held {
				continue
			}
			if c.held {
				return fmt.Errorf("screen: %s:%d: the case must be held, but scores %d", c.file, n, r.Score)
			}
			top := ""
			if len(r.Findings) > 0 {
				top = r.Findings[0].Rule
			}
			return fmt.Errorf("screen: %s:%d: the case must not be held, but scores %d (%s)", c.file, n, r.Score, top)
		}
	}
	return nil
}

// HoldThreshold and DenyThreshold are the risks per mille at which the built-in policies
// hold and refuse. The built-in pack has the same thresholds.
const (
	HoldThreshold = 500
	DenyThreshold = 850
)

// Files returns the files of the built-in pack, as a base for a custom one.
func Files() fs.FS {
	sub, err := fs.Sub(embedded, "pack")
	if err != nil {
		panic(err) // cannot happen: the directory is embedded
	}
	return sub
}

const maxTongues = 200 // bounds the vocabulary files of a pack

// read fills sc.words with the words of a reading, and blanks those that its restraints
// negate ("never send …"): they keep their positions and lose their meaning. negated has
// the bytes that the plain reading negates; a rough reading, which is a guess, blanks
// these too.
func (p *Pack) read(v *normal.View, sc *scratch, taken []bool) {
	sc.words = p.vocabulary.Read(sc.words[:0], v.Text)
	sc.negated = p.directives.NegatedWords(sc.negated[:0], sc.words, v.Text)
	sc.negated = p.tongues.NegatedWords(sc.negated, sc.words, v.Text)
	for i := range sc.words {
		if v.Noisy && taken != nil {
			start, end := v.Span(int(sc.words[i].Start), int(sc.words[i].End))
			if taken[start] && taken[end-1] {
				sc.negated = append(sc.negated, i)
			}
		}
	}
	if len(sc.negated) == 0 {
		return
	}
	rest := []byte(v.Text)
	for _, i := range sc.negated {
		w := &sc.words[i]
		copy(rest[w.Start:w.End], strings.Repeat(" ", int(w.End-w.Start)))
		*w = directive.Word{Start: w.Start, End: w.End, Flags: w.Flags & (directive.FlagSentenceStart | directive.FlagLineStart)}
	}
	v.Text = string(rest)
}
