package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// maxString is the longest JSON string in a record, in encoded bytes without quotes. A
	// longer one is truncated, and its SHA-256 is recorded.
	maxString = 1024
	// keepOfLong is the number of bytes that are recorded of the start of a longer string.
	keepOfLong = 64
	// maxInteger is the largest integer that every JSON reader represents exactly.
	maxInteger = 1<<53 - 1

	timeFormat = "2006-01-02T15:04:05.000000000Z"
)

// appendString writes s as RFC 8785 does: only required characters are escaped, and
// invalid UTF-8 becomes U+FFFD.
func appendString(b []byte, s string) []byte {
	if len(s) > maxString {
		return appendLong(b, s)
	}
	start := len(b)
	b, _ = jsontext.AppendQuote(b, s) // the error is about invalid UTF-8, which is replaced
	if len(b)-start > maxString+len(`""`) {
		return appendLong(b[:start], s)
	}
	return b
}

func appendLong(b []byte, s string) []byte {
	n := keepOfLong
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	sum := sha256.Sum256([]byte(s))
	return appendString(b, s[:n]+"…sha256:"+hex.EncodeToString(sum[:]))
}

// appendInt writes an integer, clamped to the range that JSON readers represent exactly.
func appendInt(b []byte, n int64) []byte {
	return strconv.AppendInt(b, min(max(n, -maxInteger), maxInteger), 10)
}

// appendTime writes a time in UTC with nine digits, so that times sort as text.
func appendTime(b []byte, t time.Time) []byte {
	b = t.UTC().AppendFormat(append(b, '"'), time.RFC3339) // AppendFormat is fast for this layout
	b = append(b[:len(b)-1], ".000000000Z\""...)
	for at, n := len(b)-3, t.Nanosecond(); n > 0; at, n = at-1, n/10 {
		b[at] += byte(n % 10)
	}
	return b
}
