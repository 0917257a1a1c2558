package pages

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// SetParam returns a query with a parameter set. Other parameters are unchanged.
func SetParam(query, name, value string) string {
	return strings.TrimPrefix(DropParam(query, name)+"&"+name+"="+url.QueryEscape(value), "&")
}

// DropParam returns a query without a parameter. Other parameters are unchanged.
func DropParam(query, name string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(query, "&"), func(part string) bool {
		key, _, _ := strings.Cut(part, "=")
		plain, err := url.QueryUnescape(key)
		return part == "" || err == nil && plain == name
	}), "&")
}

// Param returns the value of a parameter, and whether the query has the parameter. The value
// is "" if the parameter is repeated.
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

// Limit returns the number in a parameter; 0 if it is absent. It returns false if the number
// cannot be parsed, or is not positive.
func Limit(query, name string) (int, bool) {
	text, said := Param(query, name)
	if !said {
		return 0, true
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && n > 0
}
