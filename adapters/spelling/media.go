package spelling

import (
	"mime"
	"strings"
)

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
