package trust

import (
	"strings"
	"unicode"

	"github.com/memproxy/memproxy"
)

// Statements are what users said: the sentences that are no questions, as they
// are compared.
type Statements map[string]bool

// SaidBy gathers what users say in an operation.
func SaidBy(op *memproxy.Operation) Statements {
	said := Statements{}
	if op == nil {
		return said
	}
	for i := range op.Items {
		if it := &op.Items[i]; it.Kind == memproxy.ItemContent && !it.Inferred && memproxy.UserRole(it.Role) {
			said.add(it.Text)
		}
	}
	return said
}

func (s Statements) add(text string) {
	for _, sentence := range sentences(text) {
		s[sentence] = sentence != question
	}
}

// States reports whether each sentence of a fact was said as a whole one, so that
// "like tea" is not stated by "I do not like tea", nor by "my sister likes tea".
// It errs to no: a fact in other words than the user's counts as inferred.
func (s Statements) States(fact string) bool {
	all := sentences(fact)
	for _, sentence := range all {
		if !s[sentence] {
			return false
		}
	}
	return len(all) > 0
}

// question is the form of every question: it states nothing and is not stated.
const question = "?"

// sentences are those of a text, each as its words are compared: in lower case,
// with the marks between its clauses, without what says that the user speaks or is
// spoken of, and without the endings by which "I like" becomes "the user likes".
func sentences(text string) []string {
	var out []string
	for text != "" {
		end := strings.IndexFunc(text, func(r rune) bool { return strings.ContainsRune("\n!?。！？", r) })
		if dot := strings.Index(text, ". "); dot >= 0 && (end < 0 || dot < end) {
			end = dot
		}
		sentence, asks := text, false
		if text = ""; end >= 0 {
			mark := []rune(sentence[end:])[0]
			sentence, text, asks = sentence[:end], sentence[end+len(string(mark)):], mark == '?' || mark == '？'
		}
		var words []string
		for w := range strings.FieldsFuncSeq(strings.ToLower(sentence), func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) && !strings.ContainsRune(",;:，；", r)
		}) {
			if !speaker(w) {
				words = append(words, stem(w))
			}
		}
		switch {
		case asks:
			out = append(out, question)
		case len(words) > 0:
			out = append(out, strings.Join(words, " "))
		}
	}
	return out
}

// speaker reports whether a word is how users speak of themselves, or models of
// them, and says nothing else.
func speaker(w string) bool {
	switch w {
	case "i", "m", "me", "my", "mine", "am", "is", "are", "have", "has", "s", "a", "an", "the", "user", "users", "human":
		return true
	}
	return false
}

// stem takes the ending of the third person off, so that "likes" is "like".
func stem(w string) string {
	for _, end := range [...]string{"es", "s", "e"} {
		if rest, ok := strings.CutSuffix(w, end); ok && len(rest) > 2 {
			return strings.TrimSuffix(rest, "e")
		}
	}
	return w
}
