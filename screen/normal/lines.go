package normal

import "strings"

// minItems is how many items make a list, and minGroups how many groups of
// digits and letters a line.
const (
	minItems  = 4
	minGroups = 4
)

// lines reads what is spread over the items of a list, one word or two each, and
// encodings that are written in groups.
func (r *reader) lines(found []View, v *View) []View {
	found = r.list(found, v)
	return r.grouped(found, v)
}

// list joins the words of a list: numbered, bulleted, lettered or bare lines,
// and numbers within a line.
func (r *reader) list(found []View, v *View) []View {
	s := v.Text
	items, words := 0, 0
	fields(s, func(i, j int, opens bool) {
		switch {
		case marker(s[i:j], opens):
			items++
		case opens:
			items++
			words++
		default:
			words++
		}
	})
	if items < minItems || words > 2*items+4 || words < minItems {
		return found
	}
	b := newBuilder(len(s))
	fields(s, func(i, j int, opens bool) {
		if marker(s[i:j], opens) {
			return
		}
		if len(b.text) > 0 {
			b.byte(' ', int32(i-1))
		}
		for ; i < j; i++ {
			if c := s[i]; c != ',' && c != ';' || i+1 < j {
				b.byte(c, int32(i))
			}
		}
	})
	if len(b.text) == 0 || string(b.text) == s {
		return found
	}
	return append(found, r.mapped(Listed, b, v))
}

// fields calls f for every field of s, and says whether it opens a line.
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

// marker reports fields that begin an item: 1. 2) (3) 4: a) - * • #, and bare
// numbers at the beginning of a line.
func marker(w string, opens bool) bool {
	switch w {
	case "-", "*", "+", "•", "·", "–", "—", "‣", "◦", "#", ">", "|":
		return true
	}
	inner := strings.Trim(w, "().:[]#-")
	if inner == "" || len(inner) > 3 || len(inner) == len(w) && !opens {
		return false
	}
	if strings.Trim(inner, "0123456789") == "" {
		return true
	}
	return len(inner) == 1 && isLetter(inner[0]) && len(w) > 1
}

// grouped decodes base64, base32 and hex that are written in groups of the same
// length, as keys and fingerprints are, and whole lines of groups of any length.
func (r *reader) grouped(found []View, v *View) []View {
	s := v.Text
	var from, to, size, n int // of the groups so far
	plain := true             // nothing but letters of one case
	flush := func() {
		if n >= minGroups && (!plain || size != to-from) {
			found = r.regroup(found, v, from, to)
		}
		n = 0
	}
	lineFrom, lineTo, lineGroups, lineRun := 0, 0, 0, true
	line := func() {
		if lineRun && lineGroups >= minGroups && (n < minGroups || from != lineFrom) {
			found = r.regroup(found, v, lineFrom, lineTo)
		}
		lineGroups, lineRun = 0, true
	}
	fields(s, func(i, j int, opens bool) {
		if opens {
			line()
			lineFrom = i
		}
		k, kinds := i, uint8(0)
		for k < j && (isRun(s[k]) || s[k] == '=' || s[k] == ':' || s[k] == ',') {
			kinds |= classes[s[k]]
			k++
		}
		if k < j {
			flush()
			lineRun = false
			return
		}
		if j-i >= minRun && separated(s[i:j]) {
			found = r.regroup(found, v, i, j)
		}
		lineGroups, lineTo = lineGroups+1, j
		same := j-i == size
		switch {
		case n > 0 && same:
			n++
		case n >= minGroups-1 && j-i < size: // the last is shorter
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
	return found
}

// separated reports fingerprints: groups with signs between them.
func separated(w string) bool {
	n := 0
	for i := range len(w) {
		if w[i] == ':' || w[i] == ',' || w[i] == '-' {
			n++
		}
	}
	return n >= minGroups && n*9 >= len(w)
}

// maxStray is how many words of the groups' length may stand before them.
const maxStray = 3

// regroup decodes the groups of v between two places as one run. A word of the
// sentence before them may be as long as they are, and the one behind shorter.
func (r *reader) regroup(found []View, v *View, from, to int) []View {
	for stray := 0; stray <= maxStray && to-from >= minRun; stray++ {
		for _, end := range [...]int{to, strings.LastIndexAny(v.Text[from:to], " \n\t") + from} {
			if end-from < minRun {
				continue
			}
			if t := decodeGroup(v.Text[from:end]); t != nil {
				return append(found, r.clean(r.whole(Encoded, t, v, from, end)))
			}
		}
		next := strings.IndexAny(v.Text[from:to], " \n\t")
		if next < 0 {
			break
		}
		from += next + 1
	}
	return found
}

// decodeGroup returns the text that groups encode together, or nil.
func decodeGroup(s string) []byte {
	s = strings.Map(func(c rune) rune {
		if c <= ' ' || c == '=' || c == ':' || c == ',' || c == '.' {
			return -1
		}
		return c
	}, s)
	if len(s) < minRun {
		return nil
	}
	if t := decodeRun(s); t != nil {
		return t
	}
	if strings.Contains(s, "-") {
		return decodeRun(strings.ReplaceAll(s, "-", ""))
	}
	return nil
}
