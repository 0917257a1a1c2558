package trust

import (
	"slices"
	"strings"
	"unicode"

	"github.com/memproxy/memproxy"
)

// Statements has the sentences of users, normalised, and whether each is a statement and
// not a question.
type Statements map[string]bool

// UserStatements collects the statements of users in an operation.
func UserStatements(op *memproxy.Operation) Statements {
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

// States reports whether each sentence of a fact was stated as a whole, so that "like
// tea" is not stated by "I do not like tea", nor by "my sister likes tea". In doubt it
// returns false: a paraphrased fact counts as inferred.
func (s Statements) States(fact string) bool {
	all := sentences(fact)
	return len(all) > 0 && !slices.ContainsFunc(all, func(sentence string) bool { return !s[sentence] })
}

// question replaces every question: it states nothing and is not stated.
const question = "?"

// sentences splits a text and normalises each sentence for comparison: in lower
// case, with the punctuation between its clauses, without words that only refer to
// the user, and without the endings that turn "I like" into "the user likes".
func sentences(text string) []string {
	var out []string
	for text != "" {
		end, mark := len(text), "" // one scan finds all ends, because a text may have as many as bytes
		for i, r := range text {
			if strings.ContainsRune("\n!?。！？", r) || r == '.' && strings.HasPrefix(text[i:], ". ") {
				end, mark = i, string(r)
				break
			}
		}
		sentence, asks := text[:end], mark == "?" || mark == "？"
		text = text[end+len(mark):]
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

// speaker reports whether a word only refers to the user or is an article or
// auxiliary, so that it does not count in a comparison.
func speaker(w string) bool {
	switch w {
	case "i", "m", "me", "my", "mine", "am", "is", "are", "have", "has", "s", "a", "an", "the", "user", "users", "human":
		return true
	}
	return false
}

// stem removes the third-person ending, so that "likes" becomes "like".
func stem(w string) string {
	for _, end := range [...]string{"es", "s", "e"} {
		if rest, ok := strings.CutSuffix(w, end); ok && len(rest) > 2 {
			return strings.TrimSuffix(rest, "e")
		}
	}
	return w
}
