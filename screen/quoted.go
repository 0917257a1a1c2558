package screen

import (
	"cmp"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
)

// quotedScore is the most that markup, a query or a command counts which stands
// in code as Markdown sets it: it is shown there, and does nothing.
const quotedScore = 350

// codeFamilies are those of what is code, and not an instruction to a reader.
var codeFamilies = []string{"markup.", "sql.", "shell.", "template."}

type stretch struct{ from, to int }

// codeSpans are the stretches of text between backticks: fences, and what stands
// between as many backticks on one line. An open fence is none: what follows it
// is read as text.
func codeSpans(text string) []stretch {
	var out []stretch
	for at := 0; ; {
		i := strings.IndexByte(text[at:], '`')
		if i < 0 {
			return out
		}
		from := at + i
		n := 1
		for from+n < len(text) && text[from+n] == '`' {
			n++
		}
		rest := text[from+n:]
		if n < 3 { // a line
			if end := strings.IndexByte(rest, '\n'); end >= 0 {
				rest = rest[:end]
			}
		}
		end := strings.Index(rest, text[from:from+n])
		at = from + n
		if end < 0 {
			if n >= 3 {
				return out // no fence further on has an end either, but for longer ones
			}
			continue
		}
		out = append(out, stretch{from, at + end + n})
		at += end + n
	}
}

func shown(out []memproxy.Finding, text string) {
	if !strings.Contains(text, "`") {
		return
	}
	var spans []stretch
	for i := range out {
		f := &out[i]
		if f.Score <= quotedScore || !isCode(f.Rule) {
			continue
		}
		if spans == nil {
			if spans = codeSpans(text); spans == nil {
				return
			}
		}
		at, exact := slices.BinarySearchFunc(spans, f.Start, func(s stretch, start int) int { return cmp.Compare(s.from, start) })
		if !exact {
			at--
		}
		if at >= 0 && f.End <= spans[at].to {
			f.Score = quotedScore
		}
	}
}

func isCode(rule string) bool {
	for _, p := range codeFamilies {
		if strings.HasPrefix(rule, p) {
			return true
		}
	}
	return false
}
