package secrets

import (
	"slices"
	"strings"
)

// Bounds of RFC 5321.
const (
	maxLocal  = 64
	maxDomain = 253
)

// email returns the span of an address around the @ at i.
func email(text string, i int) (int, int) {
	start := i
	for start > 0 && i-start <= maxLocal && localPart(text[start-1]) {
		start--
	}
	for start < i && !alnum(text[start]) {
		start++
	}
	local := text[start:i]
	if local == "" || len(local) > maxLocal || local[len(local)-1] == '.' || local == "git" {
		return 0, 0 // git@host:path is an address of code
	}
	end := i + 1
	for end < len(text) && end-i <= maxDomain && (alnum(text[end]) || text[end] == '-' || text[end] == '.') {
		end++
	}
	domain := strings.TrimRight(text[i+1:end], ".-")
	dot := strings.LastIndexByte(domain, '.')
	if dot <= 0 || strings.Contains(domain, "..") || !topLevel(domain[dot+1:]) {
		return 0, 0
	}
	return start, i + 1 + len(domain)
}

func localPart(c byte) bool {
	return alnum(c) || c == '.' || c == '_' || c == '%' || c == '+' || c == '-'
}

// topLevel reports whether s could be a top-level domain and is no file
// extension (icon@2x.png) or version.
func topLevel(s string) bool {
	if len(s) < 2 || len(s) > 24 {
		return false
	}
	for i := range len(s) {
		if !isAlpha(s[i]) && !(strings.HasPrefix(s, "xn--") && word64(s[i])) {
			return false
		}
	}
	return !slices.Contains(extensions, strings.ToLower(s))
}

var extensions = strings.Fields("png jpg jpeg gif svg webp js ts tsx jsx json css html py go md txt yaml yml toml lock")
