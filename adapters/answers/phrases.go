package answers

import (
	"bytes"
	_ "embed" // the phrases are data
	"maps"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
)

// framework lists the texts of FastAPI, Starlette and Pydantic, on which both servers
// are built.
//
//go:embed phrases.txt
var framework string

// Withheld replaces a text of an error that is not a known phrase.
const Withheld = "memproxy withholds what the backend said of this error; answers.unclaimed: pass shows it"

const (
	maxPhrase = 600  // bytes of a text that is passed on
	maxSaid   = 8192 // bytes of a text that is rewritten
	minWords  = 10   // bytes of a phrase's own in rewritten text
)

// phrases are the known texts of a backend's errors. An error's text can contain
// anything: a memory, the words of a model or a tool, another tenant's names. So
// only texts pass that are written in the backend's own program, and whose variable
// parts are a number, a plain name or another phrase.
type phrases [][]part

// part is text of a phrase, and the hole that follows it: "", "n" (a number),
// "name", "names" (quoted names in a list), "phrase", or "any", which is never shown.
type part struct{ text, hole string }

func parsePhrase(line string) []part {
	var out []part
	for line != "" {
		text, hole, rest := line, "", ""
		for _, h := range [...]string{"n", "name", "names", "phrase", "any"} {
			if before, after, ok := strings.Cut(line, "{"+h+"}"); ok && len(before) < len(text) {
				text, hole, rest = before, h, after
			}
		}
		out, line = append(out, part{text, hole}), rest
	}
	return out
}

// has reports whether a text is one of the phrases, or a list of validation errors
// as flaws writes it.
func (p phrases) has(said string) bool {
	switch {
	case said == "":
		return true
	case len(said) > maxPhrase:
		return false
	}
	return p.within(said, 2) || !slices.ContainsFunc(strings.Split(said, "; "), func(flaw string) bool {
		loc, msg, ok := strings.Cut(flaw, ": ")
		return !ok || p.place(strings.Split(loc, ".")) != loc || !p.within(msg, 2)
	})
}

// place is the path to a member, with "?" for parts that are not plain names.
func (p phrases) place(loc []string) string {
	for i, at := range loc {
		if !token(at) && !p.within(at, 0) {
			loc[i] = "?"
		}
	}
	return strings.Join(loc, ".")
}

// within reports whether a text is one of the phrases alone.
func (p phrases) within(said string, depth int) bool {
	return slices.ContainsFunc(p, func(parts []part) bool {
		fills, ok := split(parts, said)
		for i := range fills {
			ok = ok && p.fills(parts[i].hole, fills[i], depth)
		}
		return ok
	})
}

// split returns the contents of the holes of a phrase in a text. A hole ends at the
// first or last occurrence of the phrase's next part: no phrase repeats that part.
func split(parts []part, said string) (fills []string, ok bool) {
	for i, part := range parts {
		rest, ok := strings.CutPrefix(said, part.text)
		if !ok || part.hole == "" {
			return fills, ok && rest == ""
		}
		fill := rest
		said = ""
		if i+1 < len(parts) {
			if fill, said, ok = strings.Cut(rest, parts[i+1].text); !ok {
				return nil, false
			}
			said = parts[i+1].text + said
		}
		fills = append(fills, fill)
	}
	return fills, said == ""
}

// worded rewrites a text by the phrase that it matches: the content of a hole that
// does not belong there becomes "?", unless the path of the request is the source of it.
func (p phrases) worded(said string, own map[string]string, depth int) (best string, words int) {
	for _, parts := range p {
		fills, ok := split(parts, said)
		if !ok {
			continue
		}
		var out strings.Builder
		n := 0
		for i, part := range parts {
			out.WriteString(part.text)
			n += len(part.text)
			if i == len(fills) {
				break
			}
			fill, inside := fills[i], 0
			if !p.fills(part.hole, fill, depth) && !slices.Contains(slices.Collect(maps.Values(own)), fill) {
				fill = "?"
				if part.hole == "phrase" && depth > 0 {
					if again, m := p.worded(fills[i], own, depth-1); m > 0 {
						fill, inside = again, m
					}
				}
			}
			out.WriteString(fill)
			n += inside
		}
		if n >= minWords && n > words && out.Len() <= maxPhrase {
			best, words = out.String(), n
		}
	}
	return best, words
}

func (p phrases) fills(hole, fill string, depth int) bool {
	if fill == "?" {
		return true // it was rewritten before
	}
	switch hole {
	case "any":
		return false
	case "n":
		return fill != "" && len(fill) <= 24 && strings.Trim(fill, "-.0123456789") == ""
	case "name":
		return token(fill)
	case "names":
		for _, quoted := range strings.Split(strings.ReplaceAll(fill, " or ", ", "), ", ") {
			if name, ok := unquoted(quoted); !ok || !token(name) && !p.has(name) {
				return false
			}
		}
		return true
	}
	return depth > 0 && p.within(fill, depth-1)
}

// token reports whether a text is a plain name or an id, which carries no message.
func token(s string) bool { return s != "" && len(s) <= 80 && memproxy.Inert(s) == s }

func unquoted(s string) (string, bool) {
	if len(s) < 2 || s[0] != s[len(s)-1] || s[0] != '\'' && s[0] != '"' {
		return "", false
	}
	return s[1 : len(s)-1], true
}

// flaws rewrites a list of validation errors that a server sends in Python's
// notation, one phrase each: the list quotes the invalid input, which may be
// anybody's. It is "" if there is none.
func (p phrases) flaws(said string) string {
	var out []string
	for len(out) < 8 {
		_, rest, ok := strings.Cut(said, "'loc': (")
		if !ok {
			break
		}
		loc, rest, _ := strings.Cut(rest, "), 'msg': ")
		said = rest
		if rest == "" {
			break
		}
		msg, _, ok := strings.Cut(rest[1:], rest[:1]+", ")
		if !ok {
			continue
		}
		where := strings.Split(strings.TrimSuffix(loc, ","), ", ")
		for i, at := range where {
			if name, ok := unquoted(at); ok {
				where[i] = name
			}
		}
		place := p.place(where) + ": "
		if len(msg) <= maxPhrase && !p.has(place+msg) {
			if words, n := p.worded(msg, nil, 2); n > 0 {
				msg = words
			}
		}
		if flaw := place + msg; p.has(flaw) && len(strings.Join(out, "; "))+len(flaw) < maxPhrase-2 {
			out = append(out, flaw)
		}
	}
	return strings.Join(out, "; ")
}

// admitsJSON reports whether a spec admits a string, in its JSON form.
func (s *spec) admitsJSON(raw []byte) bool {
	switch {
	case s.scalar:
		return true
	case s.phrases == nil || bytes.IndexByte(raw, '\\') >= 0:
		return false
	}
	return s.admits(string(raw))
}

// admits reports whether a spec of errors admits a text: a phrase, or a plain name
// if it may be one.
func (s *spec) admits(said string) bool {
	return s.phrases != nil && (s.phrases.has(said) || !s.text && token(said))
}

// replacement returns the text to show instead of one that is not admitted.
func (s *spec) replacement(said string, own map[string]string) string {
	if flaws := s.phrases.flaws(said); flaws != "" {
		return flaws
	}
	if len(said) <= maxSaid {
		if words, n := s.phrases.worded(said, own, 2); n > 0 {
			return words
		}
	}
	return Withheld
}
