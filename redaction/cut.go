package redaction

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/memproxy/memproxy"
)

// WidenToSentences widens findings to whole sentences: an attack may work without the words
// that gave it away. A sentence ends at a line end, or at a full stop, question or
// exclamation mark before white space. As in Redact, a span that cannot be placed is the
// whole text.
func WidenToSentences(text string, findings []memproxy.Finding) []memproxy.Finding {
	return widened(text, findings, sentenceEnd)
}

// RemoveLines removes the lines that contain spans of the findings.
func RemoveLines(text string, findings []memproxy.Finding) string {
	var b strings.Builder
	at := 0
	for _, s := range widened(text, findings, lineEnd) {
		b.WriteString(text[at:max(at, s.Start)])
		if at = max(at, s.End); at == 0 || !strings.ContainsRune(lineEnds, lastRune(text[:at])) {
			at = lineEnd(text, at)
		}
	}
	b.WriteString(text[at:])
	return strings.TrimSpace(b.String())
}

// widened widens findings to whole parts of the text, in order. end returns the end of
// the part that starts at start.
func widened(text string, findings []memproxy.Finding, end func(text string, start int) int) []memproxy.Finding {
	if len(findings) == 0 {
		return nil
	}
	spans := hiddenSpans(text, findings)
	for start, i := 0, 0; start < len(text) && i < len(spans); {
		stop := end(text, start)
		words := start + len(strings.TrimRightFunc(text[start:stop], unicode.IsSpace))
		for j := i; j < len(spans) && spans[j].Start < stop; j++ {
			s := &spans[j]
			if s.Start >= start {
				s.Start = start
			}
			if s.End > start && s.End < words {
				s.End = words
			}
		}
		for i < len(spans) && spans[i].End <= stop && spans[i].Start < stop {
			i++
		}
		start = stop
	}
	return spans
}

// lineEnds are the characters that end a line.
const lineEnds = "\n\r\u2028\u2029"

func lastRune(text string) rune {
	r, _ := utf8.DecodeLastRuneInString(text)
	return r
}

// lineEnd is the end of the line at start, including its line end.
func lineEnd(text string, start int) int {
	if i := strings.IndexAny(text[start:], lineEnds); i >= 0 {
		if strings.HasPrefix(text[start+i:], "\r\n") {
			return start + i + 2
		}
		_, size := utf8.DecodeRuneInString(text[start+i:])
		return start + i + size
	}
	return len(text)
}

// sentenceEnd is the end of the sentence at start, including the white space after it.
func sentenceEnd(text string, start int) int {
	mark, over := false, false // seen: a mark that ends sentences; white space after one
	for i, r := range text[start:] {
		switch space := unicode.IsSpace(r); {
		case over && !space:
			return start + i
		case strings.ContainsRune(lineEnds, r), mark && space:
			over = true
		}
		mark = strings.ContainsRune(".!?\u3002\uff01\uff1f", r)
	}
	return len(text)
}

// bracketed matches placeholders and text that looks like one.
var bracketed = regexp.MustCompile(`\[PATTERN_[^\]]*\]`)

// HasContent reports whether a text has words besides placeholders.
func HasContent(text string) bool {
	return strings.ContainsFunc(bracketed.ReplaceAllString(text, ""), func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) })
}
