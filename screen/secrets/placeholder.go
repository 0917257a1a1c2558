package secrets

import (
	"slices"
	"strings"
)

// standIns are values that documentation writes where a secret would stand.
var standIns = []string{
	"password", "passwd", "pass", "pwd", "secret", "token", "apikey", "api_key", "api-key", "key", "none", "null", "nil",
	"true", "false", "string", "str", "required", "optional", "undefined", "redacted", "hidden", "masked", "changeme",
	"change_me", "todo", "tbd", "empty", "unset", "unknown", "n/a", "missing", "invalid", "wrong", "forgotten", "default",
}

// within are pieces that only a stand-in has.
var within = []string{"your", "example", "<", "${", "{{", "$(", "%(", "xxxx", "****", "....", "••", "env[", "environ", "getenv", "process.env", "secrets.", "import.meta", "vault:", "op://", "placeholder", "redacted", "insert", "replace", "1password", "lastpass", "bitwarden", "keepass"}

// placeholder reports whether v stands for a secret and is none.
func placeholder(v string) bool {
	if v == "" || variety(v, 2) < 2 {
		return true
	}
	if v[0] == '$' && (!hasDigit(v) || variable(v[1:])) || v[0] == '[' || v[0] == '%' && v[len(v)-1] == '%' {
		return true // a variable
	}
	if v == "!secret" || v == "!vault" || v == "!env" {
		return true // a tag of YAML: the value stands elsewhere
	}
	flat := strings.ToLower(v)
	if strings.HasPrefix(flat, "https://") || strings.HasPrefix(flat, "http://") || reference(flat) {
		return true // where a secret is had or reset; one inside a link is found there
	}
	return slices.Contains(standIns, flat) || slices.ContainsFunc(within, func(s string) bool { return strings.Contains(flat, s) })
}

// variable reports a name of the shell in capitals of several words: DB_PASSWORD1.
func variable(name string) bool {
	for i := range len(name) {
		if c := name[i]; !isUpper(c) && c != '_' && (i == 0 || !isDigit(c)) {
			return false
		}
	}
	return strings.Contains(name, "_")
}

// holders begin the names of what code reads a secret from.
var holders = []string{"config", "cfg", "conf", "settings", "self", "this", "props", "env", "ctx", "app", "options", "opts", "params", "args", "req", "request", "process", "var", "local", "data", "module"}

// reference reports whether v names a place in code and is no value: a path of
// names that begins with a holder.
func reference(v string) bool {
	first, rest, ok := strings.Cut(v, ".")
	if !ok || rest == "" {
		return false
	}
	for i := range len(rest) {
		if !alnumUnder(rest[i]) && rest[i] != '.' {
			return false
		}
	}
	return slices.Contains(holders, first)
}

// documented reports whether a token says of itself that it is an example, as
// those of a provider's documentation do.
func documented(token string) bool {
	return strings.Contains(strings.ToLower(token), "example")
}
