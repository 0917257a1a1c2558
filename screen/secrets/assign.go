package secrets

import (
	"slices"
	"strings"

	"github.com/memproxy/memproxy/screen/terms"
)

const (
	maxName  = 48
	maxValue = 256
)

// passwordNames are suffixes of the names of values that people choose: any value except
// a placeholder counts. secretNames are suffixes of the names of generated values: the
// value must look generated.
var (
	passwordNames = []string{"password", "passwd", "passphrase", "pwd", "passwort", "kennwort", "parola", "sifre", "şifre", "şifresi", "Şifre", "Şifresi", "contraseña", "contrasena", "motdepasse", "senha", "пароль", "Пароль", "密码", "パスワード"}
	secretNames   = []string{"secret", "apikey", "token", "accesskey", "secretkey", "privatekey", "credential", "credentials", "authkey", "encryptionkey", "signingkey", "apisecret"}
	// notSecret are suffixes of names that end alike but are public or short-lived.
	notSecret = []string{"pagetoken", "nexttoken", "continuationtoken", "synctoken", "pushtoken", "cancellationtoken", "eostoken", "bostoken", "padtoken", "unktoken", "stoptoken", "maxtoken", "publictoken"}
)

// assigned returns the span and class of the value that the : or = at i assigns to a
// secret's name.
func assigned(text string, i int) (int, int, Class) {
	before := text[max(0, i-3):i]
	stop := i - len(before) + len(strings.TrimRight(before, " \"'*`"))
	first := max(0, stop-maxName)
	start := first + inName.Begin(text[first:stop], stop-first)
	if start == stop {
		return 0, 0, ""
	}
	class, made := named(text[start:stop])
	if class == "" {
		return 0, 0, ""
	}
	if i+1 < len(text) && text[i] == ':' && (text[i+1] == '=' || text[i+1] == ':') {
		i++
	}
	from, to, quoted := value(text, i+1)
	if !secretValue(text[from:to], made, quoted) {
		return 0, 0, ""
	}
	return from, to, class
}

// inName are the bytes of names, in any script.
var inName = func() terms.Bytes {
	in := word64Dot
	for c := range 0x80 {
		in[c+0x80] = true
	}
	return in
}()

// ClassifyNamed returns the class of a value with a name, such as a member of an object;
// "" means no credential.
func ClassifyNamed(name, value string) Class {
	if class, made := named(name); class != "" && secretValue(value, made, true) {
		return class
	}
	return ""
}

// named returns the class of secret that a name denotes, "" for none, and whether its
// values are generated.
func named(name string) (class Class, made bool) {
	flat := strings.Map(func(c rune) rune {
		switch {
		case c == '_' || c == '-' || c == '.' || c == ' ':
			return -1
		case 'A' <= c && c <= 'Z':
			return c + 'a' - 'A'
		}
		return c
	}, name)
	ends := func(name string) bool { return strings.HasSuffix(flat, name) }
	switch {
	case slices.ContainsFunc(notSecret, ends):
		return "", false
	case slices.ContainsFunc(passwordNames, ends):
		return Credential, false
	case !slices.ContainsFunc(secretNames, ends):
		return "", false
	case strings.Contains(flat, "aws"):
		return AWSSecretKey, true
	}
	return Credential, true
}

// value returns the span of the value after from, and whether it is quoted.
func value(text string, from int) (start, end int, quoted bool) {
	before := text[from:min(len(text), from+4)]
	from += len(before) - len(strings.TrimLeft(before, " \t*"))
	if from < len(text) && (text[from] == '"' || text[from] == '\'' || text[from] == '`') {
		quote := text[from]
		from++
		limit := min(len(text), from+maxValue)
		if at := strings.IndexByte(text[from:limit], quote); at >= 0 {
			return from, from + at, true
		}
	}
	bare := text[from:min(len(text), from+maxValue)]
	if at := strings.IndexAny(bare, " \t\n\r\"'`,;<>"); at >= 0 {
		bare = bare[:at]
	}
	return from, from + len(strings.TrimRight(bare, ".,;:)]}")), false
}

// saidNames are names of secrets in prose, with whether their values are generated. verbs
// may follow them.
var (
	saidNames = []struct {
		name string
		made bool
	}{{"password", false}, {"passwort", false}, {"kennwort", false}, {"passphrase", false}, {"passcode", false}, {"api key", true}, {"api-key", true}, {"secret key", true}, {"access token", true}}
	verbs = []string{" is now ", " is ", " to ", " ist ", " was "}
)

// said returns the span of a secret in a sentence at i: "password is …", "API key is …".
func said(text string, i int) (int, int, Class) {
	at, made := i, false
	for _, s := range saidNames {
		if s.name[0] == text[i]|0x20 && hasFold(text[i:], s.name) {
			at, made = i+len(s.name), s.made
			break
		}
	}
	if at == i {
		return 0, 0, ""
	}
	verb := slices.IndexFunc(verbs, func(v string) bool { return hasFold(text[at:], v) })
	if verb < 0 {
		return 0, 0, ""
	}
	from, to, _ := value(text, at+len(verbs[verb]))
	// An ordinary word in a sentence is no password: a digit or symbol is required.
	if v := text[from:to]; !secretValue(v, made, false) || !hasDigit(v) && !strings.ContainsAny(v, "!@#$%^&*_=+") {
		return 0, 0, ""
	}
	return from, to, Credential
}

// secretValue reports whether v can be a secret. Generated values need eight characters,
// a letter and a digit; chosen ones, if not quoted, a digit or symbol, since "password:
// required" is prose.
func secretValue(v string, made, quoted bool) bool {
	if len(v) < 4 || made && !hasDigit(v) || placeholder(v) {
		return false
	}
	if made {
		return len(v) >= 8 && hasDigit(v) && hasLetter(v) && variety(v, 5) == 5 && !strings.ContainsAny(v, "() /\\{}[]") || len(v) >= 8 && strings.Contains(v, "/") && len(v) == 40 && hasDigit(v)
	}
	if quoted {
		return !strings.Contains(v, " ") || hasDigit(v)
	}
	return !strings.Contains(v, "(") && (hasDigit(v) || strings.ContainsAny(v, "!@#$%^&*+"))
}

// standIns are placeholder values in documentation.
var standIns = []string{
	"password", "passwd", "pass", "pwd", "secret", "token", "apikey", "api_key", "api-key", "key", "none", "null", "nil",
	"true", "false", "string", "str", "required", "optional", "undefined", "redacted", "hidden", "masked", "changeme",
	"change_me", "todo", "tbd", "empty", "unset", "unknown", "n/a", "missing", "invalid", "wrong", "forgotten", "default",
}

// within are substrings that only placeholders have.
var within = []string{"your", "example", "<", "${", "{{", "$(", "%(", "xxxx", "****", "....", "••", "env[", "environ", "getenv", "process.env", "secrets.", "import.meta", "vault:", "op://", "placeholder", "redacted", "insert", "replace", "1password", "lastpass", "bitwarden", "keepass"}

// placeholder reports whether v stands for a secret and is none.
func placeholder(v string) bool {
	flat := strings.ToLower(v)
	switch {
	case v == "", variety(v, 2) < 2, reference(flat):
		return true
	case v[0] == '$' && (!hasDigit(v) || variable(v[1:])), v[0] == '[', v[0] == '%' && v[len(v)-1] == '%': // a variable
		return true
	case v == "!secret", v == "!vault", v == "!env": // a YAML tag: the value is stored elsewhere
		return true
	case strings.HasPrefix(flat, "https://"), strings.HasPrefix(flat, "http://"):
		return true // a page about the secret; a secret inside of a link is found separately
	}
	return slices.Contains(standIns, flat) || slices.ContainsFunc(within, func(s string) bool { return strings.Contains(flat, s) })
}

// variable reports whether name is a shell variable in capitals with several words:
// DB_PASSWORD1.
func variable(name string) bool {
	for i := range len(name) {
		if c := name[i]; !isUpper(c) && c != '_' && (i == 0 || !isDigit(c)) {
			return false
		}
	}
	return strings.Contains(name, "_")
}

// holders are first components of expressions that read a secret.
var holders = []string{"config", "cfg", "conf", "settings", "self", "this", "props", "env", "ctx", "app", "options", "opts", "params", "args", "req", "request", "process", "var", "local", "data", "module"}

// reference reports whether v is an expression in code, as config.password, and no value.
func reference(v string) bool {
	first, rest, ok := strings.Cut(v, ".")
	if !ok || rest == "" {
		return false
	}
	return strings.Trim(rest, terms.Alnum+"_.") == "" && slices.Contains(holders, first)
}
