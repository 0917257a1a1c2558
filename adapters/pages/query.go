package pages

import (
	"net/url"
	"slices"
	"strings"
)

// With is a query with a parameter set, and all else as it was.
func With(query, name, value string) string {
	parts := slices.DeleteFunc(strings.Split(query, "&"), func(part string) bool {
		key, _, _ := strings.Cut(part, "=")
		plain, err := url.QueryUnescape(key)
		return part == "" || err == nil && plain == name
	})
	return strings.Join(append(parts, name+"="+url.QueryEscape(value)), "&")
}

// Param is the value of a parameter, and whether it stands in the query. What
// is repeated has no value.
func Param(query, name string) (value string, said bool) {
	for part := range strings.SplitSeq(query, "&") {
		key, text, _ := strings.Cut(part, "=")
		if plain, err := url.QueryUnescape(key); err != nil || plain != name {
			continue
		}
		if plain, err := url.QueryUnescape(text); err == nil && !said {
			value, said = plain, true
			continue
		}
		return "", true
	}
	return value, said
}
