package gate

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/memproxy/memproxy"
)

// statement is what users said, as words.
type statement map[string]bool

// saidBy gathers what users say in an operation.
func saidBy(op *memproxy.Operation) statement {
	said := statement{}
	if op == nil {
		return said
	}
	for i := range op.Items {
		if it := &op.Items[i]; it.Kind == memproxy.ItemContent && !it.Inferred && memproxy.UserRole(it.Role) {
			eachWord(it.Text, func(w string) { said[w] = true })
		}
	}
	return said
}

// states reports whether a fact says what was said: at least half of its words
// that mean something, and every one with a digit, are among the users'. It
// errs to no: a fact in other words than the user's counts as inferred.
func (s statement) states(fact string) bool {
	all, known := 0, 0
	missing := false
	eachWord(fact, func(w string) {
		all++
		if s[w] {
			known++
		} else if strings.ContainsFunc(w, unicode.IsDigit) {
			missing = true
		}
	})
	return !missing && known*2 >= all && len(s) > 0
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
