package spelling

import (
	"mime"
	"strings"

	"github.com/memproxy/memproxy"
)

// ContentType returns the media type of a request's body: "" if the request names none,
// the header unchanged if it is ambiguous. Errors are *memproxy.Malformed.
func ContentType(h memproxy.Header) (kind string, params map[string]string, err error) {
	if enc := h.Values("Content-Encoding"); len(enc) > 0 && !(len(enc) == 1 && (enc[0] == "" || strings.EqualFold(enc[0], "identity"))) {
		return "", nil, unsupported(memproxy.PayloadEncoding, "Content-Encoding is not supported for request bodies")
	}
	types := h.Values("Content-Type")
	switch {
	case len(types) > 1:
		return "", nil, unsupported(memproxy.PayloadContentType, "Content-Type is repeated")
	case len(types) == 0 || types[0] == "":
		return "", nil, nil
	}
	kind, params, plain := ParseMediaType(types[0])
	if !plain {
		return types[0], nil, nil
	}
	return kind, params, nil
}

// IsJSON reports whether FastAPI reads a body of this media type as JSON.
func IsJSON(kind string) bool {
	return kind == "application/json" || strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json")
}

// CheckCharset refuses the parameters of a media type if they name another charset than
// UTF-8. Clients also spell it utf8, which Python accepts. Errors are *memproxy.Malformed.
func CheckCharset(params map[string]string) error {
	if charset, ok := params["charset"]; ok && !strings.EqualFold(charset, "utf-8") && !strings.EqualFold(charset, "utf8") {
		return unsupported(memproxy.PayloadEncoding, "this route takes UTF-8")
	}
	return nil
}

func unsupported(code memproxy.ReasonCode, detail string) error {
	return &memproxy.Flaw{Code: code, Status: 415, Detail: detail}
}

// ParseMediaType parses a media type if all servers parse it in the same way. Readers differ
// about a parameter in the extended form (boundary*, RFC 2231) and about escaped
// characters: ok is then false.
func ParseMediaType(value string) (kind string, params map[string]string, ok bool) {
	if strings.ContainsAny(value, `*\`) {
		return "", nil, false
	}
	kind, params, err := mime.ParseMediaType(value)
	return kind, params, err == nil
}
