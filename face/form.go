package face

import (
	"bytes"
	"net/http"
	"strings"

	"github.com/memproxy/memproxy"
)

// IsForm reports whether a body is of a type whose fields some frameworks take
// another method from.
func IsForm(h memproxy.Header) bool { return ofType(h, "form") }

func ofType(h memproxy.Header, word string) bool {
	for _, v := range h["Content-Type"] {
		if strings.Contains(strings.ToLower(v), word) {
			return true
		}
	}
	return false
}

// FormOverrides refuses a form with a field by which frameworks take a request
// for one of another method.
func FormOverrides(h memproxy.Header, body []byte) *memproxy.Malformed {
	switch {
	case len(body) == 0:
	case ofType(h, "urlencoded") && queryOverrides(string(body)), ofType(h, "multipart") && partOverrides(body):
		return barred(http.StatusBadRequest, "a form field that overrides the method is not accepted")
	}
	return nil
}

// partOverrides reports whether a line that could be the head of a part names
// an overriding field. Servers differ in what begins a part, so every such line
// counts, wherever it stands; a document that merely shows a form has none.
func partOverrides(body []byte) bool {
	for line := range bytes.Lines(body) {
		head, rest, ok := bytes.Cut(line, []byte(":"))
		if !ok || !bytes.EqualFold(bytes.TrimSpace(head), []byte("content-disposition")) {
			continue
		}
		for param := range bytes.SplitSeq(rest, []byte(";")) {
			name, value, _ := strings.Cut(string(param), "=")
			name = strings.ToLower(strings.Trim(name, " \t*"))
			value = strings.Trim(value, " \t\r\n\"'")
			if _, encoded, ok := strings.Cut(value, "''"); ok {
				value = encoded
			}
			if name == "name" && OverridingField(unescaped(value)) {
				return true
			}
		}
	}
	return false
}
