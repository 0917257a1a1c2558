package secrets

import (
	"slices"
	"strings"

	"github.com/memproxy/memproxy/screen/terms"
)

// Bounds of RFC 5321.
const (
	maxLocal  = 64
	maxDomain = 253
)

// email returns the span of the mail address around the @ at i.
func email(text string, i int) (int, int) {
	first := max(0, i-maxLocal-1)
	start := first + inLocal.Begin(text[first:i], i-first)
	start = alnum.Find(text[:i], start)
	local := text[start:i]
	if local == "" || len(local) > maxLocal || local[len(local)-1] == '.' || local == "git" {
		return 0, 0 // git@host:path is a repository
	}
	end := alnumDotHyphen.End(text[:min(len(text), i+1+maxDomain)], i+1)
	domain := strings.TrimRight(text[i+1:end], ".-")
	dot := strings.LastIndexByte(domain, '.')
	if dot <= 0 || strings.Contains(domain, "..") || !topLevel(domain[dot+1:]) {
		return 0, 0
	}
	return start, i + 1 + len(domain)
}

var inLocal = terms.BytesOf(terms.Alnum + "._%+-")

// topLevel reports whether s can be a top-level domain and is no file extension
// (icon@2x.png) or version.
func topLevel(s string) bool {
	if len(s) < 2 || len(s) > 24 {
		return false
	}
	if strings.HasPrefix(s, "xn--") && word64.End(s, 0) < len(s) || !strings.HasPrefix(s, "xn--") && strings.Trim(s, terms.Smalls+terms.Capitals) != "" {
		return false
	}
	return !slices.Contains(extensions, strings.ToLower(s))
}

var extensions = strings.Fields("png jpg jpeg gif svg webp js ts tsx jsx json css html py go md txt yaml yml toml lock")
