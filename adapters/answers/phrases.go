package answers

import (
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
const Withheld = "memproxy withheld the backend's error message; answers.unclaimed: pass shows it"

const (
	maxPhrase    = 600  // largest size of a text that is passed on, in bytes
	maxRewritten = 8192 // largest size of a text that is rewritten, in bytes
	minLiteral   = 10   // smallest size of the literal text in a rewritten one, in bytes
)

// phrases are the known texts of a backend's errors (an allow list). An error's text can
// contain anything: a memory, output of a model or a tool, another tenant's names. So only
// texts of the backend's own program pass, and only if their variable parts are numbers,
// plain names or other phrases.
type phrases [][]part

// part is a literal text of a phrase and the variable part (hole) that follows it: "" for
// none, "n" (a number), "name", "names" (quoted names in a list), "phrase", or "any", which
// is never shown.
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

// matches reports whether a text is one of the phrases, or a list of validation errors in
// the form that validationErrors returns.
func (p phrases) matches(said string) bool {
	switch {
	case said == "":
		return true
	case len(said) > maxPhrase:
		return false
	}
	return p.matchesPhrase(said, 2) || !slices.ContainsFunc(strings.Split(said, "; "), func(flaw string) bool {
		loc, msg, ok := strings.Cut(flaw, ": ")
		return !ok || p.pathText(strings.Split(loc, ".")) != loc || !p.matchesPhrase(msg, 2)
	})
}

// pathText returns the path to a member as text, with "?" for parts that are not plain
// names.
func (p phrases) pathText(loc []string) string {
	for i, at := range loc {
		if !isToken(at) && !p.matchesPhrase(at, 0) {
			loc[i] = "?"
		}
	}
	return strings.Join(loc, ".")
}

// matchesPhrase reports whether a text is one of the phrases. depth is how often phrases in
// holes may nest.
func (p phrases) matchesPhrase(said string, depth int) bool {
	return slices.ContainsFunc(p, func(parts []part) bool {
		fills, ok := split(parts, said)
		for i := range fills {
			ok = ok && p.fitsHole(parts[i].hole, fills[i], depth)
		}
		return ok
	})
}

// split returns the contents of the holes of a phrase in a text. A hole ends at the first
// occurrence of the next part's text, which no phrase repeats.
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

// rewrite rewrites a text by the phrase that it matches best: the content of a hole becomes
// "?" if it is not of the hole's kind, unless it is a parameter of the request's path. words
// is the number of literal bytes of the phrase in the result; 0 if no phrase matches.
func (p phrases) rewrite(said string, pathParams map[string]string, depth int) (best string, words int) {
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
			if !p.fitsHole(part.hole, fill, depth) && !slices.Contains(slices.Collect(maps.Values(pathParams)), fill) {
				fill = "?"
				if part.hole == "phrase" && depth > 0 {
					if again, m := p.rewrite(fills[i], pathParams, depth-1); m > 0 {
						fill, inside = again, m
					}
				}
			}
			out.WriteString(fill)
			n += inside
		}
		if n >= minLiteral && n > words && out.Len() <= maxPhrase {
			best, words = out.String(), n
		}
	}
	return best, words
}

func (p phrases) fitsHole(hole, fill string, depth int) bool {
	if fill == "?" {
		return true // written by rewrite
	}
	switch hole {
	case "any":
		return false
	case "n":
		return fill != "" && len(fill) <= 24 && strings.Trim(fill, "-.0123456789") == ""
	case "name":
		return isToken(fill)
	case "names":
		for _, quoted := range strings.Split(strings.ReplaceAll(fill, " or ", ", "), ", ") {
			if name, ok := unquoted(quoted); !ok || !isToken(name) && !p.matches(name) {
				return false
			}
		}
		return true
	}
	return depth > 0 && p.matchesPhrase(fill, depth-1)
}

// isToken reports whether a text is a plain name or an id, which carries no message.
func isToken(s string) bool { return s != "" && len(s) <= 80 && memproxy.Inert(s) == s }

func unquoted(s string) (string, bool) {
	if len(s) < 2 || s[0] != s[len(s)-1] || s[0] != '\'' && s[0] != '"' {
		return "", false
	}
	return s[1 : len(s)-1], true
}

// validationErrors rewrites a list of validation errors that a server sends in Python's
// notation to one phrase for each error. The list quotes the invalid input, which may be
// another tenant's. It returns "" if the text is not such a list.
func (p phrases) validationErrors(said string) string {
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
		place := p.pathText(where) + ": "
		if len(msg) <= maxPhrase && !p.matches(place+msg) {
			if words, n := p.rewrite(msg, nil, 2); n > 0 {
				msg = words
			}
		}
		if flaw := place + msg; p.matches(flaw) && len(strings.Join(out, "; "))+len(flaw) < maxPhrase-2 {
			out = append(out, flaw)
		}
	}
	return strings.Join(out, "; ")
}

// admits reports whether a spec of errors admits a text: a phrase, or also a plain name if
// the spec is name.
func (s *spec) admits(said string) bool {
	return s.phrases != nil && (s.phrases.matches(said) || !s.text && isToken(said))
}

// replacement returns the text to show in place of one that is not admitted.
func (s *spec) replacement(said string, pathParams map[string]string) string {
	if flaws := s.phrases.validationErrors(said); flaws != "" {
		return flaws
	}
	if len(said) <= maxRewritten {
		if words, n := s.phrases.rewrite(said, pathParams, 2); n > 0 {
			return words
		}
	}
	return Withheld
}
