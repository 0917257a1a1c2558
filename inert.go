package memproxy

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// TextSHA256 returns the hex SHA-256 of a text, to which findings are bound.
func TextSHA256(text string) string { return SumInHex(Sum256(text)) }

// Hash returns the hex SHA-256 of a text, or "" for an empty one.
func Hash(text string) string {
	if text == "" {
		return ""
	}
	return TextSHA256(text)
}

// SumInHex returns a SHA-256 in hex. It allocates only the string.
func SumInHex(sum [sha256.Size]byte) string {
	var out [2 * sha256.Size]byte
	hex.Encode(out[:], sum[:])
	return string(out[:])
}

// hashBuffers pools the buffers of Sum256.
var hashBuffers = sync.Pool{New: func() any { return new([]byte) }}

// Sum256 returns the SHA-256 of a text. It copies the text to a pooled buffer, because a
// conversion would allocate for each call.
func Sum256(text string) [sha256.Size]byte {
	b := hashBuffers.Get().(*[]byte)
	*b = append((*b)[:0], text...)
	sum := sha256.Sum256(*b)
	if cap(*b) <= 64<<10 {
		hashBuffers.Put(b)
	}
	return sum
}

// inertSize is the longest name that is recorded unchanged, in bytes.
const inertSize = 128

// hashPrefix begins a hash that is recorded as a replacement for a text.
const hashPrefix = "sha256:"

// The bounds of a plain identifier. "ann.smith@shop", "team-7/build-bot" and a UUID are
// within them; "ignore-all-previous-instructions" is not, with or without its hyphens.
const (
	inertWords = 3  // number of words, see wordsOf
	inertRun   = 24 // number of letters in one word
)

// Inert returns a name in the form in which it is recorded: unchanged if it is a plain
// identifier of at most three words, else as a hash. Readers of a log, people or models,
// must not read sentences that a caller wrote, whatever separates the words.
func Inert(name string) string {
	if len(name) <= inertSize && (isInertHash(name) || fewWords(name) && plain(name)) {
		return name
	}
	return inertHash(name)
}

// InertMethod returns a method in the form in which it is recorded. HTTP allows any token
// as a method.
func InertMethod(name string) string {
	switch name {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE":
		return name
	}
	return InertSession(name)
}

func plain(name string) bool {
	for i := range len(name) {
		c := name[i]
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && !isDigit(c) && strings.IndexByte("._:@/+~=*|-", c) < 0 {
			return false
		}
	}
	return true
}

// fewWords reports whether a name is within the bounds. The domain of an email address
// counts as one word if it has at most three labels.
func fewWords(name string) bool {
	most := inertWords
	if local, domain, mail := strings.Cut(name, "@"); mail {
		if words, run := wordsOf(domain); strings.Count(domain, ".") <= 2 && strings.Count(domain, "-") == 0 && words <= inertWords && run <= inertRun {
			name, most = local, inertWords-1
		}
	}
	words, run := wordsOf(name)
	return words <= most && run <= inertRun
}

// wordsOf counts the words of a name and the letters of its longest word. A word is two
// or more letters; a separator, a digit, or a capital after a small letter ends it. Next
// to a digit, where hexadecimal ids have letters, a word needs three letters of which at
// least one is not a hexadecimal digit.
func wordsOf(name string) (words, longest int) {
	letters, hex, before := 0, true, byte(0)
	end := func(after byte) {
		digits := isDigit(before) || isDigit(after)
		if letters >= 2 && !digits || letters >= 3 && !hex {
			words++
		}
		longest = max(longest, letters)
	}
	for i := 0; i < len(name); i++ {
		c := name[i]
		lower, upper := 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z'
		if upper && letters > 0 && 'a' <= name[i-1] && name[i-1] <= 'z' || !lower && !upper {
			end(c)
			letters, hex, before = 0, true, c
		}
		if lower || upper {
			letters++
			hex = hex && (c|0x20) <= 'f'
		}
	}
	end(0)
	return words, longest
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// SessionName is the hash of a caller's name for its session. memproxy drops the name
// itself on receipt, so that it cannot reach a log line, a held write, a notice or a
// record. The zero value means no name.
type SessionName struct{ hash string }

// NameSession is the only constructor of a SessionName. It is idempotent. It ignores a
// name that has the form of memproxy's own record ids.
func NameSession(name string) SessionName {
	if strings.HasPrefix(name, CallerPrefix) {
		return SessionName{}
	}
	return SessionName{InertSession(name)}
}

// String returns the hash; "" if there is no name.
func (n SessionName) String() string { return n.hash }

// IsZero reports whether there is no name.
func (n SessionName) IsZero() bool { return n.hash == "" }

// MarshalText writes the hash.
func (n SessionName) MarshalText() ([]byte, error) { return []byte(n.hash), nil }

// UnmarshalText reads a hash. It hashes any other text.
func (n *SessionName) UnmarshalText(text []byte) error {
	*n = NameSession(string(text))
	return nil
}

// InertScope returns a scope with its names in the form in which they are recorded.
func InertScope(s Scope) Scope {
	s.User, s.Agent, s.App, s.Run = Inert(s.User), Inert(s.Agent), Inert(s.App), Inert(s.Run)
	return s
}

// InertPath returns an escaped path with callers' names in the form in which they are
// recorded.
func InertPath(escaped string) string {
	parts := strings.Split(escaped, "/")
	for i, part := range parts {
		parts[i] = Inert(plainPart(part))
	}
	return strings.Join(parts, "/")
}

// InertSession returns a session name in the form in which it is recorded: always as a
// hash, because a caller may choose any name. It is idempotent.
func InertSession(name string) string {
	if name == "" || isInertHash(name) {
		return name
	}
	return inertHash(name)
}

// InertID returns a target id in the form in which it is recorded. Ids of rejection
// records keep the principal and hide the session's name.
func InertID(id string) string {
	if !strings.HasPrefix(id, sessionPrefix) && !strings.HasPrefix(id, CallerPrefix) {
		return Inert(id)
	}
	k := SessionKeyOf(id)
	k.Principal, k.User, k.Name = Inert(k.Principal), Inert(k.User), InertSession(k.Name)
	return k.ID()
}

func inertHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hashPrefix + hex.EncodeToString(sum[:16])
}

func isInertHash(s string) bool {
	rest, ok := strings.CutPrefix(s, hashPrefix)
	if !ok || len(rest) != 32 {
		return false
	}
	_, err := hex.DecodeString(rest)
	return err == nil
}

// sentenceWords is the number of words from which a name reads like a sentence.
const sentenceWords = 3

// LooksLikeSentence reports whether the name of an owner or a member reads like a sentence:
// three or more words, separated by punctuation, spaces or capitals, or as many letters of
// a script without spaces. Agents see such names together with memories, so such a name is
// screened as text. Numbers and keys are not words.
func LooksLikeSentence(name string) bool {
	state, words, foreign := uint8(0), uint8(0), 0
	for _, r := range name {
		var class uint8
		if r < utf8.RuneSelf {
			class = asciiClass[r]
		} else if class = letterClass(r); class >= smallLetter {
			foreign++
		}
		state = wording[state%word][class]
		if words += state / word; words >= sentenceWords {
			return true
		}
	}
	return foreign >= 3*sentenceWords || words == sentenceWords-1 && wording[state%word][separator] >= word
}

// The classes of characters. Letters without case are those of a script that has none.
const (
	separator = iota
	digit
	smallLetter
	capital
	caseless
)

func letterClass(r rune) uint8 {
	switch {
	case unicode.IsDigit(r):
		return digit
	case !unicode.IsLetter(r):
		return separator
	case unicode.IsUpper(r):
		return capital
	case unicode.IsLower(r):
		return smallLetter
	}
	return caseless
}

var asciiClass = func() (classes [utf8.RuneSelf]uint8) {
	for r := range classes {
		classes[r] = letterClass(rune(r))
	}
	return classes
}()

// word is a flag in a state of wording: the character ends a word.
const word = 8

// wording is the state machine of LooksLikeSentence: the next state, by state and class.
// The states are: outside of a word (0), after one letter that is not small (1), after more
// letters of which the last is not small (2), after one small letter (3), after more letters
// of which the last is small (4). Letters before a digit are not a word, and a capital after
// a small letter begins a new word. The code has no branch that depends on the characters of
// a hash.
var wording = [5][5]uint8{
	{0, 0, 3, 1, 1},
	{0, 0, 4, 2, 2},
	{0 | word, 0, 4, 2, 2},
	{0, 0, 4, 1, 2},
	{0 | word, 0, 4, 1 | word, 2},
}
