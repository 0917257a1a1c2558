package audit

import (
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
)

// inertPointer returns the recorded form of a JSON pointer: "/metadata/tag" becomes
// "/metadata/sha256:…".
func inertPointer(ptr string) string {
	if ptr == "" {
		return ""
	}
	kind, rest := "", ptr
	if ptr[0] != '/' {
		at := strings.IndexByte(ptr, ':')
		switch {
		case member(ptr):
			return ptr
		case at < 0 || !slices.Contains([]string{"path", "query", "part", "header", "target"}, ptr[:at]):
			return memproxy.InertSession(ptr)
		}
		kind, rest = ptr[:at+1], ptr[at+1:]
	}
	if kind == "target:" {
		return kind + memproxy.InertID(rest)
	}
	inert := eachPart(rest, func(part string) string {
		if isIndex(part) || member(part) {
			return part
		}
		return memproxy.InertSession(part)
	})
	if inert == rest {
		return ptr
	}
	return kind + inert
}

func isIndex(s string) bool { return len(s) < 10 && strings.Trim(s, "0123456789") == "" }

func eachPart(text string, as func(string) string) string {
	for rest, more := text, true; more; {
		var part string
		if part, rest, more = strings.Cut(rest, "/"); as(part) != part {
			parts := strings.Split(text, "/")
			for i := range parts {
				parts[i] = as(parts[i])
			}
			return strings.Join(parts, "/")
		}
	}
	return text
}
