package frontend

import (
	"bytes"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/memproxy/memproxy"
)

// Some frameworks let a field of the body override the method or path of a request: a
// form field or, if a framework treats the members of a JSON document as form fields, a
// member.

// streaming lists media types of bodies without fields, in addition to media. Bodies of
// all other types are read before they are forwarded.
var streaming = [...]string{
	"application/octet-stream", "application/pdf", "application/zip", "application/gzip", "application/x-gzip", "application/x-tar", "application/zstd",
	"application/x-ndjson", "application/jsonl", "application/grpc", "application/grpc+proto", "application/x-protobuf", "application/protobuf",
	"application/vnd.apache.parquet", "application/wasm", "text/csv", "text/event-stream", "text/markdown",
}

// HasFields reports whether a framework may read fields from a body of this type. A body
// without a type may have fields.
func HasFields(h memproxy.Header) bool {
	types := h.Values("Content-Type")
	if len(types) != 1 {
		return true
	}
	kind, _, err := mime.ParseMediaType(types[0])
	if err != nil {
		return true
	}
	switch top, _, ok := strings.Cut(kind, "/"); {
	case !ok:
		return true
	case top == "image", top == "audio", top == "video", top == "font":
		return false
	}
	return !slices.Contains(streaming[:], kind)
}

// encoded refuses compressed fields, which the backend might read and memproxy does not.
func encoded(h memproxy.Header) *memproxy.Flaw {
	for _, v := range h.Values("Content-Encoding") {
		if v != "" && !strings.EqualFold(v, "identity") {
			return &memproxy.Flaw{Code: memproxy.PayloadEncoding, Status: http.StatusUnsupportedMediaType, Detail: "Content-Encoding is not supported for request bodies"}
		}
	}
	return nil
}

// CheckBody refuses a body on a request that must not have one, and a body
// that overrides the method.
func (c *Class) CheckBody(q memproxy.Request, body []byte) *memproxy.Flaw {
	switch {
	case len(body) == 0:
		return nil
	case c.Known && (q.Method == http.MethodGet || q.Method == http.MethodHead):
		return barred(http.StatusBadRequest, "this route takes no body")
	case fieldOverrides(q.Header, body):
		return barred(http.StatusBadRequest, "method override fields in the body are not accepted")
	}
	return nil
}

// fieldOverrides reports whether a body has a field with which frameworks override the
// method. It reads the body in every format that it could have, by its declared type or by
// its content.
func fieldOverrides(h memproxy.Header, body []byte) bool {
	text := bytes.TrimSpace(withoutByteOrderMarks(body))
	if len(text) == 0 {
		return false
	}
	mayBeMultipart := ofType(h, "multipart") || bytes.HasPrefix(text, []byte("--"))
	mayBeForm := ofType(h, "urlencoded") || !bytes.ContainsAny(text[:1], `{["<`) && !bytes.ContainsAny(text, " \r\n")
	return mayBeMultipart && partOverrides(text) || mayBeForm && queryOverrides(string(text)) || text[0] == '{' && memberOverrides(text)
}

// withoutByteOrderMarks returns a body without byte order marks and without the zero bytes
// of UTF-16 and UTF-32, which servers detect (RFC 4627, section 3).
func withoutByteOrderMarks(body []byte) []byte {
	for _, mark := range [...]string{"\xef\xbb\xbf", "\xff\xfe", "\xfe\xff"} {
		body = bytes.TrimPrefix(body, []byte(mark))
	}
	if len(body) > 1 && (body[0] == 0 || body[1] == 0) {
		return bytes.ReplaceAll(body, []byte{0}, nil)
	}
	return body
}

// memberOverrides reports whether a JSON object has an overriding member at the top
// level; nested members are content. It reads up to the first syntax error, and the names
// before that count.
func memberOverrides(body []byte) bool {
	dec := jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if _, err := dec.ReadToken(); err != nil {
		return false
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil || OverridingField(name.String()) {
			return err == nil
		}
		if dec.SkipValue() != nil {
			return false
		}
	}
	return false
}

func ofType(h memproxy.Header, word string) bool {
	return slices.ContainsFunc(h["Content-Type"], func(v string) bool { return strings.Contains(strings.ToLower(v), word) })
}

// partOverrides reports whether a line that could be the header of a multipart part names
// an overriding field. Servers differ in what begins a part, so every such line counts,
// at any position, also one that others read as the continuation of a header. A document
// that merely describes a form has no such line.
func partOverrides(body []byte) bool {
	var header []byte // the last Content-Disposition, as far as it was read
	for line := range bytes.Lines(body) {
		name, rest, ok := bytes.Cut(line, []byte(":"))
		begins := ok && bytes.EqualFold(bytes.TrimSpace(name), []byte("content-disposition"))
		if !begins && header != nil && (line[0] == ' ' || line[0] == '\t') {
			header = append(header, line...) // it continues
			continue
		}
		if header != nil && namesOverride(header) {
			return true
		}
		header = nil
		if begins {
			header = slices.Clip(rest)
		}
	}
	return namesOverride(header)
}

func namesOverride(header []byte) bool {
	for param := range bytes.SplitSeq(header, []byte(";")) {
		name, value, _ := strings.Cut(string(param), "=")
		name = strings.ToLower(strings.Trim(name, " \t\r\n*"))
		value = strings.Trim(value, " \t\r\n\"'")
		if _, encoded, ok := strings.Cut(value, "''"); ok {
			value = encoded
		}
		if name == "name" && OverridingField(unescaped(value)) {
			return true
		}
	}
	return false
}
