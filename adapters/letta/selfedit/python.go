package selfedit

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// splitLines is str.splitlines(), where "\r\n" is one line end.
func splitLines(s string) []string {
	var out []string
	for s != "" {
		end := strings.IndexAny(s, "\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029")
		if end < 0 {
			return append(out, s)
		}
		_, size := utf8.DecodeRuneInString(s[end:])
		if strings.HasPrefix(s[end:], "\r\n") {
			size = 2
		}
		out = append(out, s[:end])
		s = s[end+size:]
	}
	return out
}

// strip is str.strip().
func strip(s string) string {
	return strings.TrimFunc(s, func(r rune) bool { return unicode.IsSpace(r) || 0x1c <= r && r <= 0x1f })
}

// ExpandTabs is str.expandtabs(): tabs become spaces up to the next multiple of eight
// columns.
func ExpandTabs(s string) string {
	if !strings.Contains(s, "\t") {
		return s
	}
	var b strings.Builder
	column := 0
	for _, r := range s {
		switch r {
		case '\t':
			n := 8 - column%8
			b.WriteString("        "[:n])
			column += n
			continue
		case '\n', '\r':
			column = 0
		default:
			column++
		}
		b.WriteRune(r)
	}
	return b.String()
}

// lineWarning is part of the server's view of blocks with line numbers; it refuses
// texts that repeat it.
const lineWarning = "# NOTE: Line numbers shown below (with arrows like '1→') are to help during editing. Do NOT include line number prefixes in your memory edit tool calls."

// numbered reports whether a line begins with a number and an arrow.
func numbered(s string) bool {
	for line := range strings.SplitSeq(s, "\n") {
		line = strings.TrimLeft(line, " \t")
		rest := strings.TrimLeftFunc(line, func(r rune) bool { return unicode.Is(unicode.Nd, r) })
		if rest != line && strings.HasPrefix(rest, "→") {
			return true
		}
	}
	return false
}

// looksRendered reports whether the server takes a text for a copy of a block as it shows
// it to the model, with line numbers.
func looksRendered(s string) bool { return numbered(s) || strings.Contains(s, lineWarning) }

// labelIn returns the label in a path of the memory tools.
func labelIn(path string) string {
	return strings.TrimPrefix(strings.TrimPrefix(path, "/memories/"), "/")
}

// flatLabel returns the label for commands that replace slashes by underscores.
func flatLabel(path string) string { return strings.ReplaceAll(labelIn(path), "/", "_") }

// Labels returns the labels that a path may mean, because the commands convert it
// differently.
func Labels(path string) []string {
	return slices.Compact([]string{labelIn(path), flatLabel(path)})
}
