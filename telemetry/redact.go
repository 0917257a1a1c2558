package telemetry

import (
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
)

const (
	redacted   = "[redacted]"
	maxLogText = 1024
)

// redactor is the last line of defence against secrets in the log, in case a caller
// logs one: in an attribute with a telling name, a header map, an error that quotes a
// URL, or an Authorization header.
type redactor struct{ looks *regexp.Regexp }

func newRedactor() redactor {
	return redactor{regexp.MustCompile(
		`(?i)\bbearer[ :=]+[^\s"',;]{6,}` + // Authorization schemes
			`|\b(token|basic|apikey)[ :=]+[a-z]*[0-9_.=+/-][^\s"',;]*` + // prose has no digits
			`|\beyJ[\w-]{6,}\.[\w.-]+` + // JSON web tokens
			`|\b(sk|pk|m0|mp)-[\w-]{8,}` + // API keys of providers, and of memproxy init
			`|[?&][\w.-]*(key|token|secret|password|sig|signature|auth)=[^\s&"']+` + // query parameters
			`|://[^/\s"@]+@`)} // userinfo
}

// triggers are the beginnings of possible matches, in lower case. Searching for them
// first avoids the regular expression for ordinary lines.
func triggers() []string {
	return []string{
		"bearer", "token", "basic", "apikey", "eyj", "sk-", "pk-", "m0-", "mp-",
		"key=", "secret=", "password=", "sig=", "signature=", "auth=", "://",
	}
}

func (r redactor) attr(_ []string, a slog.Attr) slog.Attr {
	if secretName(a.Key) {
		return slog.String(a.Key, redacted)
	}
	switch a.Value.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(r.text(a.Value.String()))
	case slog.KindAny:
		a.Value = r.value(a.Value.Any())
	}
	return a
}

// value renders a value of a complex type. It does not print values of unknown types,
// which may contain anything.
func (r redactor) value(v any) slog.Value {
	switch v := v.(type) {
	case nil:
		return slog.AnyValue(nil)
	case slog.Level, *slog.Source:
		return slog.AnyValue(v)
	case http.Header:
		return slog.StringValue(names(v))
	case memproxy.Header:
		return slog.StringValue(names(v))
	case memproxy.Credentials:
		return slog.StringValue(names(v.Header))
	case error:
		return slog.StringValue(r.text(v.Error()))
	case []string:
		clean := make([]string, len(v))
		for i, s := range v {
			clean[i] = r.text(s)
		}
		return slog.AnyValue(clean)
	case fmt.Stringer:
		return slog.StringValue(r.text(v.String()))
	}
	return slog.StringValue(fmt.Sprintf("[%T not logged]", v))
}

// text redacts what looks like a credential, and truncates.
func (r redactor) text(s string) string {
	if len(s) > maxLogText {
		s = strings.ToValidUTF8(s[:maxLogText], "") + "…"
	}
	if containsAny(strings.ToLower(s), triggers()...) {
		return r.looks.ReplaceAllString(s, redacted)
	}
	return s
}

// secretName reports whether an attribute of this name may contain a credential or
// content.
func secretName(key string) bool {
	key = strings.ToLower(key)
	switch key {
	case "body", "content", "text", "payload", "messages", "prompt", "query", "key", "auth":
		return true
	}
	return containsAny(key, "authorization", "cookie", "token", "secret", "passw", "api_key", "api-key", "apikey", "credential", "private")
}

func containsAny(s string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(s, part) })
}
