package gate

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/memproxy/memproxy"
)

// statement is what users said, clause by clause.
type statement []clause

// clause is a part of a sentence that says one thing.
type clause struct {
	words  map[string]bool
	denies bool // it says that something is not so
	doubts bool // it asks, supposes or plans
}

// saidBy gathers what users say in an operation.
func saidBy(op *memproxy.Operation) statement {
	var said statement
	if op == nil {
		return said
	}
	for i := range op.Items {
		if it := &op.Items[i]; it.Kind == memproxy.ItemContent && !it.Inferred && memproxy.UserRole(it.Role) {
			said = append(said, clauses(it.Text)...)
		}
	}
	return said
}

// states reports whether a fact says what was said: each of its words that mean
// something was said, in clauses that deny what it denies and are no more
// doubtful, of nobody whom it leaves out. It errs to no: a fact in other words
// than the user's counts as inferred.
func (s statement) states(fact string) bool {
	if len(s) == 0 {
		return false
	}
	for _, c := range clauses(fact) {
		known, all, unspaced := 0, 0, false
		for w := range c.words {
			all++
			unspaced = unspaced || dense(w)
			if s.supports(w, &c) {
				known++
			} else if strings.ContainsFunc(w, unicode.IsDigit) {
				return false
			}
		}
		// Pairs of characters hold grammar, too, of which a model makes its own.
		if known < all && (!unspaced || known*2 < all) {
			return false
		}
	}
	return true
}

// supports reports whether a word of a fact's clause was said as it says it.
func (s statement) supports(word string, in *clause) bool {
	for i := range s {
		c := &s[i]
		if c.denies != in.denies || c.doubts && !in.doubts || !c.has(word) {
			continue
		}
		elsewhere := false
		for w := range c.words {
			elsewhere = elsewhere || somebody[w] && !in.has(w)
		}
		if !elsewhere {
			return true
		}
	}
	return false
}

// has reports whether a clause has a word, in whatever grammar.
func (c *clause) has(word string) bool {
	if c.words[word] {
		return true
	}
	const root = 5 // letters that two forms of a long word share
	if len(word) < root || strings.ContainsFunc(word, unicode.IsDigit) {
		return false
	}
	for w := range c.words {
		if len(w) >= root && w[:root] == word[:root] && max(len(w), len(word)) <= root+2 {
			return true
		}
	}
	return false
}

// clauses takes a text apart.
func clauses(text string) []clause {
	var out []clause
	from := 0
	cut := func(to, next int, asks bool) {
		c := clause{words: map[string]bool{}, doubts: asks}
		part := strings.ToLower(strings.ReplaceAll(text[from:to], "’", "'"))
		for w := range strings.FieldsFuncSeq(part, func(r rune) bool { return !unicode.IsLetter(r) && r != '\'' }) {
			if negates[w] || strings.HasSuffix(w, "n't") {
				c.denies = !c.denies
			}
			c.doubts = c.doubts || doubtful[w]
		}
		for _, sign := range [...]string{"ない", "ません", "じゃな", "不", "没", "别"} {
			c.denies = c.denies != strings.Contains(part, sign)
		}
		eachWord(part, func(w string) {
			if !negates[w] && w != "don" && w != "doesn" && w != "didn" && w != "won" {
				c.words[alike(w)] = true
			}
		})
		if len(c.words) > 0 {
			out = append(out, c)
		}
		from = next
	}
	for i, r := range text {
		if strings.ContainsRune(".!?;,:\n。！？、，；", r) && i >= from {
			next := i + utf8.RuneLen(r)
			if r == '.' || r == ',' || r == ':' { // within a number, a name or an hour it ends nothing
				if n, _ := utf8.DecodeRuneInString(text[next:]); next < len(text) && !unicode.IsSpace(n) {
					continue
				}
			}
			cut(i, next, r == '?' || r == '？')
			continue
		}
		for _, but := range [...]string{" but ", " however ", " although ", " aber ", " mais ", " pero ", " instead "} {
			if r == ' ' && i >= from && strings.HasPrefix(text[i:], but) {
				cut(i, i+len(but)-1, false)
			}
		}
	}
	cut(len(text), len(text), false)
	return out
}

func words(list string) map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(list) {
		set[w] = true
	}
	return set
}

var (
	negates  = words("not no never none nothing nobody neither nor without cannot cant stopped quit dislike dislikes disliked hate hates hated hardly nicht kein keine keinen nie ohne pas jamais sans ne nunca sin não nem non mai нет не никогда değil yok hiç")
	doubtful = words("if whether maybe perhaps might may could would should possibly probably considering wondering think thinks guess suppose unless hypothetically wenn falls vielleicht peut-être quizás tal")
	somebody = words("sister brother mother father mom dad wife husband partner son daughter child friend boss manager colleague neighbour neighbor uncle aunt cousin roommate team she he they someone somebody everyone")
)

// alike is one word for several that say the same of somebody.
func alike(w string) string {
	switch w {
	case "prefer", "love", "enjoy", "lik", "favor", "favour", "hat", "dislik":
		return "like"
	}
	return w
}

// dense reports whether a word is a pair of characters of a script without
// spaces.
func dense(w string) bool {
	r, _ := utf8.DecodeRuneInString(w)
	return unspaced(r)
}

// eachWord calls f with the words of a text that mean something, without their
// endings. Scripts without spaces between words give pairs of characters.
func eachWord(text string, f func(string)) {
	for run := range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) }) {
		if first, _ := utf8.DecodeRuneInString(run); unspaced(first) {
			rs := []rune(run)
			for i := 0; i+1 < len(rs) || i == 0; i++ {
				f(string(rs[i:min(i+2, len(rs))]))
			}
			continue
		}
		if !empty(run) {
			f(stem(run))
		}
	}
}

func unspaced(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Khmer, unicode.Lao, unicode.Myanmar)
}

// stem takes the commonest endings off, so that "likes" is "like".
func stem(w string) string {
	for _, end := range [...]string{"ing", "ed", "es", "s", "e"} {
		if rest, ok := strings.CutSuffix(w, end); ok && len(rest) > 2 {
			return strings.TrimSuffix(rest, "e")
		}
	}
	return w
}

// empty words carry no fact, or are how a model speaks of who spoke.
func empty(w string) bool {
	switch w {
	case "a", "an", "and", "are", "as", "at", "be", "been", "but", "by", "do", "does", "did", "for", "from", "had", "has", "have", "he", "her",
		"hers", "him", "his", "i", "in", "is", "it", "its", "m", "me", "my", "mine", "of", "on", "or", "our", "s", "she", "so", "t", "that", "the",
		"their", "them", "they", "this", "to", "us", "was", "we", "were", "will", "with", "you", "your", "user", "users", "human", "assistant":
		return true
	}
	return false
}
