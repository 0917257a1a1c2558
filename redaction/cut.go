package redaction

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/memproxy/memproxy"
)

// Sentences are findings widened to the sentences in which they are: what is
// left of an attack without the words that gave it away may be one still. A
// sentence ends at a line's end, or with a full stop, a question mark or an
// exclamation mark before space. As in Text, a span that cannot be placed is
// the whole text.
func Sentences(text string, findings []memproxy.Finding) []memproxy.Finding {
	return widened(text, findings, sentenceEnd)
}

// Cut returns the text without the lines in which the spans of the findings are.
func Cut(text string, findings []memproxy.Finding) string {
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

// widened are findings over the whole parts of a text that they touch, in their
// order. The end of the part that begins at start is told by end.
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

// lineEnd is where the line that begins at start ends, with its end.
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

// sentenceEnd is where the sentence that begins at start ends, with the space
// after it.
func sentenceEnd(text string, start int) int {
	mark, over := false, false // after a mark that ends sentences, and the space after it
	for i, r := range text[start:] {
		switch space := unicode.IsSpace(r); {
		case over && !space:
			return start + i
		case r == '\n', r == '\r', r == '\u2028', r == '\u2029', mark && space:
			over = true
		}
		mark = strings.ContainsRune(".!?\u3002\uff01\uff1f", r)
	}
	return len(text)
}

// bracketed is a placeholder, or what begins as one.
var bracketed = regexp.MustCompile(`\[PATTERN_[^\]]*\]`)

// SaysAnything reports whether a text says more than its placeholders.
func SaysAnything(text string) bool {
	return strings.ContainsFunc(bracketed.ReplaceAllString(text, ""), func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) })
}
