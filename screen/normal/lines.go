package normal

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/memproxy/memproxy/screen/terms"
)

// minItems is the fewest items of a list, and minGroups the fewest groups of encoded
// characters in a line.
const (
	minItems  = 4
	minGroups = 4
)

// item is a word of a list item, whose number it has.
type item struct{ number, start, end int }

type span struct{ start, end int }

// lists pools lists: most texts are none.
var lists = sync.Pool{New: func() any { return new([]item) }}

// list appends the words of a list joined to one text. Items are numbered, bulleted,
// lettered, quoted or bare lines, or numbers within a line. Items that are numbered out
// of order are sorted.
func list(found []View, v *View) []View {
	s := v.Text
	kept := lists.Get().(*[]item)
	defer lists.Put(kept)
	words, numbers := (*kept)[:0], make([]int, 0, 64) // numbers: of the items
	number, first := 0, true                          // of the last item, and whether no word of it was read
	marks, unmarked := 0, 0                           // fields that may begin items, and words
	fields(s, func(i, j int, opens bool) {
		n, marked := marker(s[i:j], opens)
		from, to := unquoted(s, i, j)
		if !marked {
			unmarked++
		}
		if marked || opens || to-from < j-i || marks == 0 {
			marks++
		}
		if number > 0 && !opens && (n == 0 || first) {
			marked, from, to = false, i, j // a word of a numbered item
		} else if n == 0 {
			n = number
		}
		if marked || opens || to-from < j-i || len(numbers) == 0 {
			numbers = append(numbers, n)
			number, first = n, true
		}
		if !marked {
			words, first = append(words, item{number, from, to}), false
		}
	})
	*kept = words
	if marks < minItems || unmarked > 2*marks+4 || unmarked < minItems {
		return found
	}
	ordered := slices.IsSorted(numbers)
	if !ordered { // sorted, if they are the numbers of one list
		slices.Sort(numbers)
		unique := slices.Compact(numbers)
		if ordered = len(unique) < len(numbers) || unique[0] < 1 || unique[len(unique)-1] > len(numbers)+1; !ordered {
			slices.SortStableFunc(words, func(a, b item) int { return cmp.Compare(a.number, b.number) })
		}
	}
	b := newBuilder(len(s))
	defer b.free()
	for _, w := range words {
		if len(b.text) > 0 {
			b.byte(' ', int32(max(w.start-1, 0)))
		}
		if w.end > w.start && (s[w.end-1] == ',' || s[w.end-1] == ';') {
			w.end--
		}
		b.copy(s, w.start, w.end)
	}
	if string(b.text) == s {
		return found
	}
	out := mapped(Listed, b, v)
	out.Overt = ordered
	return append(found, out)
}

// unquoted returns the span within the quotes of a field, or all of it.
func unquoted(s string, from, to int) (int, int) {
	if isAlnum(s[from]) {
		return from, to // most fields
	}
	i := to - len(strings.TrimLeft(s[from:to], "[{(,"))
	j := i + len(strings.TrimRight(s[i:to], "]}),"))
	if j-i > 2 && (s[i] == '"' || s[i] == '\'' || s[i] == '`') && s[j-1] == s[i] {
		return i + 1, j - 1
	}
	return from, to
}

// fields calls f for every white-space-separated field of s. opens says whether the field
// is the first of a line.
func fields(s string, f func(i, j int, opens bool)) {
	opens := true
	for i := 0; i < len(s); {
		if s[i] <= ' ' || s[i] == 0x7f {
			opens = opens || s[i] == '\n'
			i++
			continue
		}
		j := i
		for j < len(s) && s[j] > ' ' {
			j++
		}
		f(i, j, opens)
		opens = false
		i = j
	}
}

// marker reports whether a field begins a list item, and its number if it has one: 1. 2)
// (3) 4: a) - * • #, and bare numbers at the beginning of a line.
func marker(w string, opens bool) (number int, ok bool) {
	if !opens && isAlnum(w[0]) && isAlnum(w[len(w)-1]) {
		return 0, false // most fields
	}
	switch w {
	case "-", "*", "+", "•", "·", "–", "—", "‣", "◦", "#", ">", "|", "->", "→":
		return 0, true
	}
	if len(w) > 3 && isLetter(w[0]) && isLetter(w[1]) && isLetter(w[2]) && isLetter(w[3]) {
		return 0, false
	}
	inner := strings.Trim(w, "().:[]#-")
	if inner == "" || len(inner) > 3 || len(inner) == len(w) && !opens {
		return 0, false
	}
	if isDigit(inner[0]) {
		if n, err := strconv.Atoi(inner); err == nil {
			return n, true
		}
	}
	return 0, len(inner) == 1 && isLetter(inner[0]) && len(w) > 1
}

// grouped decodes base64, base32 and hex in groups of equal length, as in keys and
// fingerprints, and in whole lines of groups of any length.
func grouped(found []View, v *View) []View {
	s := v.Text
	var from, to, size, n int // of the groups so far
	plain := true             // letters of one case only
	flush := func() {
		if n >= minGroups && (!plain || size != to-from) {
			found = regroup(found, v, from, to)
		}
		n = 0
	}
	lineFrom, lineTo, lineGroups, lineRun := 0, 0, 0, true
	line := func() {
		if lineRun && lineGroups >= minGroups && (n < minGroups || from != lineFrom) {
			found = regroup(found, v, lineFrom, lineTo)
		}
		lineGroups, lineRun = 0, true
	}
	fields(s, func(i, j int, opens bool) {
		if opens {
			line()
			lineFrom = i
		}
		k, kinds := i, uint8(0)
		for k < j && inGroups[s[k]] {
			kinds |= classes[s[k]]
			k++
		}
		if k < j {
			flush()
			lineRun = false
			return
		}
		if j-i >= minRun && separated(s[i:j]) {
			found = regroup(found, v, i, j)
		}
		lineGroups, lineTo = lineGroups+1, j
		same := j-i == size
		switch {
		case n > 0 && same:
			n++
		case n >= minGroups-1 && j-i < size: // the last group may be shorter
			n++
			to = j
			flush()
			return
		default:
			flush()
			from, size, n, plain = i, j-i, 1, true
		}
		plain = plain && kinds&cDigit == 0 && kinds&(cLower|cUpper) != cLower|cUpper
		to = j
	})
	line()
	flush()
	return decodeWords(found, v)
}

// decodeWords decodes a text in which every word is base64 by itself.
func decodeWords(found []View, v *View) []View {
	n := 0
	var out []byte
	for w := range strings.FieldsSeq(v.Text) {
		from := len(out)
		if out = codec64.decode(out, strings.TrimRight(w, "=")); len(out) <= from || len(w) > maxApiece || !utf8.Valid(out[from:]) {
			return found
		}
		out = append(out, ' ')
		n++
	}
	if n < minGroups || !printable(out) {
		return found
	}
	return append(found, whole(Encoded, out[:len(out)-1], v, 0, len(v.Text)))
}

const maxApiece = 64 // the longest such word

// separated reports whether a word is a fingerprint: groups with separators.
func separated(w string) bool {
	n := strings.Count(w, ":") + strings.Count(w, ",") + strings.Count(w, "-")
	return n >= minGroups && n*9 >= len(w)
}

const maxStray = 3 // words of the sentence before the groups that may have their length

// regroup decodes the groups of v between two offsets as one run. The word before them
// may have the same length, and the one after them may be shorter.
func regroup(found []View, v *View, from, to int) []View {
	s, tail := v.Text, max(from, strings.LastIndexAny(v.Text[:to], " \n\t"))
	all := ungrouped(s[from:to])
	less := all[:len(all)-len(ungrouped(s[tail:to]))]
	for stray := 0; stray <= maxStray && len(all) >= minRun; stray++ {
		if Begins(all[:minRun]) || strings.Contains(all, "-") { // the beginning of both
			if t := decodeGroup(all); t != nil {
				return clean(found, whole(Encoded, t, v, from, to))
			}
			if t := decodeGroup(less); t != nil {
				return clean(found, whole(Encoded, t, v, from, tail))
			}
		}
		next := strings.IndexAny(s[from:to], " \n\t")
		if next < 0 {
			break
		}
		n := len(ungrouped(s[from : from+next]))
		all, less = all[n:], less[min(n, len(less)):]
		from += next + 1
	}
	return found
}

// inGroups are the bytes of groups, and betweenGroups those that separate them.
var inGroups, betweenGroups = terms.BytesOf(runBytes + "=:,"), terms.BytesOf("=:,. \t\r\n")

// ungrouped returns s without the separators of groups.
func ungrouped(s string) string {
	b := make([]byte, 0, len(s))
	for i := range len(s) {
		if !betweenGroups[s[i]] {
			b = append(b, s[i])
		}
	}
	return string(b)
}

// decodeGroup returns the text that groups encode together, or nil.
func decodeGroup(s string) []byte {
	if len(s) < minRun {
		return nil
	}
	if t := decodeRun(s, codecs); t != nil || !strings.Contains(s, "-") {
		return t
	}
	return decodeRun(strings.ReplaceAll(s, "-", ""), codecs)
}
