package memproxy

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// TextSHA256 is the hex SHA-256 of a text, to which findings are bound.
func TextSHA256(text string) string {
	sum := Sum256(text)
	return hex.EncodeToString(sum[:])
}

// copies are pooled buffers of Sum256.
var copies = sync.Pool{New: func() any { return new([]byte) }}

// Sum256 returns the SHA-256 of a text. A conversion of the text would allocate a copy of
// it for each call.
func Sum256(text string) [sha256.Size]byte {
	b := copies.Get().(*[]byte)
	*b = append((*b)[:0], text...)
	sum := sha256.Sum256(*b)
	if cap(*b) <= 64<<10 {
		copies.Put(b)
	}
	return sum
}

// inertSize is the longest name that is recorded unchanged, in bytes.
const inertSize = 128

// hashPrefix is the prefix of a hash that is recorded instead of a text.
const hashPrefix = "sha256:"

// Bounds of a plain identifier. "ann.smith@shop", "team-7/build-bot" and a UUID
// are within them; "ignore-all-previous-instructions" is not, nor is that
// without the dashes.
const (
	inertWords = 3  // words, see wordsOf
	inertRun   = 24 // letters in a row
)

// Inert is a name as it is recorded: unchanged if it is a plain identifier of at
// most three words, else a hash of it. Readers of a log, people or models, must not
// read sentences that a caller wrote, whatever separates the words.
func Inert(name string) string {
	if len(name) <= inertSize && (isInertHash(name) || fewWords(name) && plain(name)) {
		return name
	}
	return inertHash(name)
}

// InertMethod is a method as recorded: HTTP allows any token as a method.
func InertMethod(name string) string {
	switch name {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE":
		return name
	}
	return InertSession(name)
}

// plain reports whether a name has only characters of plain identifiers.
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

// fewWords reports whether a name is within the bounds. In an email address a
// domain of at most three labels counts as one word.
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

// wordsOf counts the words of a name and the letters of its longest one. A word
// is two letters or more, up to a mark, a digit or a capital after a small one;
// next to a digit, where letters of hexadecimal ids stand, it is three or more
// of which one is no hexadecimal digit.
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

// SessionName is the name of a caller's session as memproxy knows it: a hash. The
// caller's own name for it is dropped where it is received, so that it cannot be in
// a log line, a held write, a notice or a record. The zero value is no name.
type SessionName struct{ hash string }

// NameSession is the only constructor of a SessionName. It is idempotent. A name in
// the form of memproxy's own records is no name.
func NameSession(name string) SessionName {
	if strings.HasPrefix(name, CallerPrefix) {
		return SessionName{}
	}
	return SessionName{InertSession(name)}
}

// String is the hash, "" where there is no name.
func (n SessionName) String() string { return n.hash }

// IsZero reports whether there is no name.
func (n SessionName) IsZero() bool { return n.hash == "" }

// MarshalText writes the hash.
func (n SessionName) MarshalText() ([]byte, error) { return []byte(n.hash), nil }

// UnmarshalText reads a hash. Another text is hashed.
func (n *SessionName) UnmarshalText(text []byte) error {
	*n = NameSession(string(text))
	return nil
}

// InertScope is a scope with its names as they are recorded.
func InertScope(s Scope) Scope {
	s.User, s.Agent, s.App, s.Run = Inert(s.User), Inert(s.Agent), Inert(s.App), Inert(s.Run)
	return s
}

// InertPath is an escaped path with callers' names as they are recorded.
func InertPath(escaped string) string {
	parts := strings.Split(escaped, "/")
	for i, part := range parts {
		parts[i] = Inert(plainPart(part))
	}
	return strings.Join(parts, "/")
}

// InertSession is the name of a session as it is recorded: always a hash, because a
// caller may choose any name. It is idempotent.
func InertSession(name string) string {
	if name == "" || isInertHash(name) {
		return name
	}
	return inertHash(name)
}

// InertID is an id of a target as it is recorded. Ids of rejection records keep the
// principal and hide the session's name.
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

// sentence is how many words make a name read like a sentence.
const sentence = 3

// Wordy reports whether a name, of an owner or of a member, reads like a sentence:
// three words or more, separated by marks, spaces or capitals, or as many letters
// of a script without spaces. Agents are shown names along with the memories of
// their owners, so that a wordy name is screened as text. Numbers and keys are not
// words.
func Wordy(name string) bool {
	state, words := uint8(0), uint8(0)
	for i := range len(name) {
		c := name[i]
		if c >= utf8.RuneSelf {
			return wordyRunes(name)
		}
		state = wording[state&^word][letterClass[c]]
		if words += state / word; words == sentence {
			return true
		}
	}
	return words == sentence-1 && wording[state&^word][0] >= word
}

// letterClass has the class of each ASCII character: 1 digits, 2 small letters, 3
// capitals, 0 all others.
var letterClass = [utf8.RuneSelf]uint8{
	'0': 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
	'a': 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2,
	'A': 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3,
}

// word is set in a state of wording if a word ends with the character.
const word = 8

// wording are the states in which a text is read, and the next for each class: outside
// of a word (0), after one capital (1), after more letters and a capital (2), after one
// small letter (3), after more letters and a small one (4). The letters before a digit
// are no word, and a small letter before a capital ends one. No branch depends on the
// characters of a hash.
var wording = [5][4]uint8{
	{0, 0, 3, 1},
	{0, 0, 4, 2},
	{0 | word, 0, 4, 2},
	{0, 0, 4, 1},
	{0 | word, 0, 4, 1 | word},
}

// wordyRunes is Wordy for any script.
func wordyRunes(name string) bool {
	words, letters, others := 0, 0, 0
	var before rune
	end := func() {
		if letters >= 2 {
			words++
		}
		letters = 0
	}
	for _, r := range name {
		switch {
		case !unicode.IsLetter(r):
			if unicode.IsDigit(r) {
				letters = 0 // "a1b2" is not a word
			}
			end()
		default:
			if unicode.IsUpper(r) && unicode.IsLower(before) {
				end()
			}
			letters++
			if r > unicode.MaxASCII {
				others++
			}
		}
		before = r
	}
	end()
	return words >= sentence || others >= 3*sentence
}
