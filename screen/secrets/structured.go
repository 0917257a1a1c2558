package secrets

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/memproxy/memproxy/screen/terms"
)

const (
	maxJWTHeader = 1024
	maxJWTPart   = 8192
)

// jwt returns the end of a JSON web token at i, or 0. It must start at a boundary of its
// alphabet, so that each run is read once.
func jwt(text string, i int) int {
	if !strings.HasPrefix(text[i:], "ey") || i > 0 && word64Dot[text[i-1]] {
		return 0
	}
	rest := text[i:min(len(text), i+maxJWTHeader+2*maxJWTPart+2)]
	end := word64Dot.End(rest, 0)
	header, more, _ := strings.Cut(rest[:end], ".")
	payload, signature, ok := strings.Cut(more, ".")
	if !ok || len(header) > maxJWTHeader || len(payload) < 4 {
		return 0
	}
	signature, _, _ = strings.Cut(signature, ".")
	if len(signature) < 16 {
		return 0 // unsigned or truncated: it gives no access
	}
	raw, err := base64.RawURLEncoding.DecodeString(header)
	if err != nil {
		return 0
	}
	var h struct {
		Alg string `json:"alg"`
	}
	if json.Unmarshal(raw, &h) != nil || h.Alg == "" {
		return 0
	}
	if claims, err := base64.RawURLEncoding.DecodeString(payload); err == nil && strings.Contains(string(claims), `"John Doe"`) && strings.Contains(string(claims), `"1234567890"`) {
		return 0 // the well-known example token
	}
	return i + len(header) + len(payload) + len(signature) + 2
}

const (
	pemBegin = "-----BEGIN "
	pemStop  = "-----END"
	maxPEM   = 16 << 10 // the longest key: RSA 16384 is 13 kB
)

// pem returns the span of a PEM private key at i.
func (s *scanner) pem(i int) (int, int) {
	if !strings.HasPrefix(s.text[i:], pemBegin) {
		return 0, 0
	}
	from := i + len(pemBegin)
	label := s.text[from:min(len(s.text), from+64)]
	stop := strings.Index(label, "-----")
	if stop < 0 || !strings.Contains(label[:stop], "PRIVATE KEY") {
		return 0, 0
	}
	body := from + stop + 5
	if s.pemEnd < body { // searched once for all keys before it
		s.pemEnd = len(s.text) + maxPEM + 1
		if at := strings.Index(s.text[body:], pemStop); at >= 0 {
			s.pemEnd = body + at
		}
	}
	if s.pemEnd-body > maxPEM {
		if !keyed(s.text[body:min(len(s.text), body+maxPEMGap+minPEM)]) {
			return 0, 0 // the label is mentioned in prose
		}
		return i, body // no end, or that of another key: only the label is reported
	}
	if !keyed(s.text[body:min(s.pemEnd, body+maxPEMGap+minPEM)]) {
		return 0, 0
	}
	end := s.pemEnd + len(pemStop)
	if at := strings.Index(s.text[end:min(len(s.text), end+64)], "-----"); at >= 0 {
		end += at + 5
	}
	return i, end
}

// A key has at least minPEM characters at most maxPEMGap bytes after the label: headers
// may precede them.
const (
	minPEM    = 16
	maxPEMGap = 256
)

// keyed reports whether text has a base64 run that can be part of a key.
func keyed(text string) bool {
	for from, to := range inKey.Runs(text) {
		if to-from >= minPEM {
			return true
		}
	}
	return false
}

var inKey = terms.BytesOf(terms.Alnum + "+/=")

const (
	maxScheme   = 24
	maxUserInfo = 256
)

var inScheme, inPath, inHosts = terms.BytesOf(terms.Alnum + "+.-"), terms.BytesOf(terms.Alnum + "_-/"), terms.BytesOf(terms.Alnum + "_-.:,")

const slackHook = "hooks.slack.com/services/"

// address returns the span of a URL that contains a password, or is a secret itself. i is
// the offset of its colon.
func address(text string, i int) (int, int, Class) {
	if !strings.HasPrefix(text[i:], "://") {
		return 0, 0, ""
	}
	first := max(0, i-maxScheme)
	start := first + inScheme.Begin(text[first:i], i-first)
	if start == i || !letters[text[start]] {
		return 0, 0, ""
	}
	rest := text[i+3 : min(len(text), i+3+maxUserInfo)]
	if strings.HasPrefix(rest, slackHook) {
		end := inPath.End(rest, len(slackHook))
		path := rest[len(slackHook):end]
		if strings.Count(path, "/") == 2 && len(path) >= 24 && variety(path, 8) == 8 && !placeholder(path) {
			return start, i + 3 + end, SlackWebhook
		}
		return 0, 0, ""
	}
	stop := strings.IndexAny(rest, "@/ \t\r\n\"'<>`")
	if stop < 0 || rest[stop] != '@' {
		return 0, 0, ""
	}
	user, password, ok := strings.Cut(rest[:stop], ":")
	if !ok || placeholder(password) || user == password && (strings.HasPrefix(rest[stop:], "@localhost") || strings.HasPrefix(rest[stop:], "@127.0.0.1")) {
		return 0, 0, "" // the last is the default of database tutorials
	}
	end := i + 3 + stop + 1
	host := end
	end = inHosts.End(text[:min(len(text), host+maxUserInfo)], host)
	if end == host {
		return 0, 0, ""
	}
	return start, host + len(strings.TrimRight(text[host:end], ".,:")), ConnectionString
}
