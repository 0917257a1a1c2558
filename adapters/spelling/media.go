package spelling

import (
	"mime"
	"strings"

	"github.com/memproxy/memproxy"
)

// ContentType reads of what media type a request says that its body is: "" where
// it does not say, the header as it is where that cannot be read in one way.
// Errors are *memproxy.Malformed.
func ContentType(h memproxy.Header) (kind string, params map[string]string, err error) {
	if enc := h.Values("Content-Encoding"); len(enc) > 0 && !(len(enc) == 1 && (enc[0] == "" || strings.EqualFold(enc[0], "identity"))) {
		return "", nil, unsupported(memproxy.PayloadEncoding, "content encodings are not accepted here")
	}
	types := h.Values("Content-Type")
	switch {
	case len(types) > 1:
		return "", nil, unsupported(memproxy.PayloadContentType, "the content type stands twice")
	case len(types) == 0 || types[0] == "":
		return "", nil, nil
	}
	kind, params, plain := Media(types[0])
	if !plain {
		return types[0], nil, nil
	}
	return kind, params, nil
}

// UTF8 refuses a media type's parameters that say another charset. Python knows
// UTF-8 as utf8, too, as clients spell it.
func UTF8(params map[string]string) error {
	if charset, ok := params["charset"]; ok && !strings.EqualFold(charset, "utf-8") && !strings.EqualFold(charset, "utf8") {
		return unsupported(memproxy.PayloadEncoding, "this route takes UTF-8")
	}
	return nil
}

func unsupported(code memproxy.ReasonCode, detail string) error {
	return &memproxy.Malformed{Code: code, Status: 415, Detail: detail}
}

// Media reads a media type of a request, in the one way in which every server
// reads it. A parameter in the extended form (boundary*, RFC 2231) takes another's
// place for some readers and is another one for the rest, and so does an escaped
// character: ok is false.
func Media(value string) (kind string, params map[string]string, ok bool) {
	if strings.ContainsAny(value, `*\`) {
		return "", nil, false
	}
	kind, params, err := mime.ParseMediaType(value)
	return kind, params, err == nil
}
