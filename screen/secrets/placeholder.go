package secrets

import "strings"

// standIns are values that documentation writes where a secret would stand.
var standIns = []string{
	"password", "passwd", "pass", "pwd", "secret", "token", "apikey", "api_key", "api-key", "key", "none", "null", "nil",
	"true", "false", "string", "str", "required", "optional", "undefined", "redacted", "hidden", "masked", "changeme",
	"change_me", "todo", "tbd", "empty", "unset", "unknown", "n/a", "missing", "invalid", "wrong", "forgotten", "default",
}

// within are pieces that only a stand-in has.
var within = []string{"your", "example.", "<", "${", "{{", "$(", "%(", "xxxx", "****", "....", "••", "env[", "environ", "getenv", "process.env", "secrets.", "vault:", "placeholder", "redacted", "insert", "replace"}

// placeholder reports whether v stands for a secret and is none.
func placeholder(v string) bool {
	if v == "" || variety(v, 2) < 2 {
		return true
	}
	if v[0] == '$' && !hasDigit(v) || v[0] == '[' || v[0] == '%' && v[len(v)-1] == '%' {
		return true // a variable
	}
	flat := strings.ToLower(v)
	for _, s := range standIns {
		if flat == s {
			return true
		}
	}
	for _, s := range within {
		if strings.Contains(flat, s) {
			return true
		}
	}
	return false
}
