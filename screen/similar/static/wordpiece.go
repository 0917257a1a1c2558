package static

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of a vocabulary and of what is tokenised.
const (
	maxToken = 256
	maxWord  = 100 // characters; a longer word is unknown, as in BERT
)

// Tokenizer splits texts into the tokens of a WordPiece vocabulary.
type Tokenizer struct {
	vocab   map[string]int
	prefix  string // of a piece that continues a word
	unknown int    // id of the unknown token, -1: none
	lower   bool
	accents bool // strip them
	max     int  // highest id
}

// ParseTokenizer reads a tokenizer.json with a WordPiece model.
func ParseTokenizer(raw []byte) (*Tokenizer, error) {
	var file struct {
		Model struct {
			Type    string         `json:"type"`
			Vocab   map[string]int `json:"vocab"`
			Unknown string         `json:"unk_token"`
			Prefix  *string        `json:"continuing_subword_prefix"`
		} `json:"model"`
		Normalizer *struct {
			Lowercase *bool `json:"lowercase"`
			Accents   *bool `json:"strip_accents"`
		} `json:"normalizer"`
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		return nil, errors.New("static: tokenizer: not a tokenizer.json")
	}
	if file.Model.Type != "WordPiece" {
		return nil, errors.New("static: tokenizer: the model is not WordPiece")
	}
	t := &Tokenizer{vocab: file.Model.Vocab, prefix: "##"}
	if file.Model.Prefix != nil {
		t.prefix = *file.Model.Prefix
	}
	if n := file.Normalizer; n != nil {
		t.lower = n.Lowercase == nil || *n.Lowercase
		t.accents = n.Accents == nil && t.lower || n.Accents != nil && *n.Accents
	}
	return t, t.check(file.Model.Unknown)
}

// ParseVocab reads a vocab.txt: the token on line n, from 0, has id n. Texts
// are lower-cased when no token has a capital letter but the special ones.
func ParseVocab(raw []byte) (*Tokenizer, error) {
	t := &Tokenizer{vocab: map[string]int{}, prefix: "##", lower: true, accents: true}
	id := 0
	for line := range bytes.Lines(raw) {
		token := strings.TrimRight(string(line), "\r\n")
		if id >= maxRows {
			return nil, fmt.Errorf("static: vocabulary: over %d tokens", maxRows)
		}
		if _, twice := t.vocab[token]; twice {
			return nil, fmt.Errorf("static: vocabulary: the token on line %d comes twice", id+1)
		}
		t.vocab[token] = id
		if !strings.HasPrefix(token, "[") && strings.ToLower(token) != token {
			t.lower, t.accents = false, false
		}
		id++
	}
	return t, t.check("[UNK]")
}

func (t *Tokenizer) check(unknown string) error {
	if len(t.vocab) == 0 || len(t.vocab) > maxRows {
		return fmt.Errorf("static: vocabulary: %d tokens, want 1 to %d", len(t.vocab), maxRows)
	}
	for token, id := range t.vocab {
		if len(token) > maxToken || id < 0 || id >= maxRows {
			return errors.New("static: vocabulary: a token is too long or its id out of range")
		}
		t.max = max(t.max, id)
	}
	t.unknown = -1
	if id, ok := t.vocab[unknown]; ok {
		t.unknown = id
	}
	return nil
}

// Tokens returns the ids of the first limit tokens of text. Unknown words are
// left out: they say nothing in a mean.
func (t *Tokenizer) Tokens(text string, limit int) []int {
	var ids []int
	var word strings.Builder
	flush := func() {
		if word.Len() > 0 && len(ids) < limit {
			ids = t.pieces(ids, word.String())
		}
		word.Reset()
	}
	for _, r := range text {
		if len(ids) >= limit {
			break
		}
		if t.lower {
			r = unicode.ToLower(r)
		}
		if t.accents {
			if unicode.Is(unicode.Mn, r) {
				continue
			}
			r = plain(r)
		}
		switch {
		case r == 0 || r == utf8.RuneError || unicode.IsControl(r) && !unicode.IsSpace(r) || unicode.Is(unicode.Cf, r):
		case unicode.IsSpace(r):
			flush()
		case alone(r):
			flush()
			word.WriteRune(r)
			flush()
		default:
			if word.Len() < 4*maxWord+4 {
				word.WriteRune(r)
			}
		}
	}
	flush()
	return ids[:min(len(ids), limit)]
}

// pieces appends the longest pieces of the vocabulary that make up a word, or
// nothing when some of it is unknown.
func (t *Tokenizer) pieces(ids []int, word string) []int {
	if utf8.RuneCountInString(word) > maxWord {
		return ids
	}
	before := len(ids)
	for from := 0; from < len(word); {
		to := len(word)
		id, ok := 0, false
		for to > from {
			piece := word[from:to]
			if from > 0 {
				piece = t.prefix + piece
			}
			if id, ok = t.vocab[piece]; ok {
				break
			}
			_, n := utf8.DecodeLastRuneInString(word[from:to])
			to -= n
		}
		if !ok || id == t.unknown {
			return ids[:before]
		}
		ids = append(ids, id)
		from = to
	}
	return ids
}

// alone reports whether r is a word of its own: a sign, or a character of a
// script without spaces.
func alone(r rune) bool {
	return unicode.IsPunct(r) || r < 128 && unicode.IsSymbol(r) || unicode.Is(unicode.Han, r)
}

// letters without their accents, for the Latin alphabets of Europe. What is
// not here keeps its accent and is most likely unknown, as its word would be.
var plains = func() map[rune]rune {
	m := map[rune]rune{}
	for base, marked := range map[rune]string{
		'a': "àáâãäåāăą", 'c': "çćĉċč", 'd': "ď", 'e': "èéêëēĕėęě", 'g': "ĝğġģ", 'h': "ĥ", 'i': "ìíîïĩīĭį", 'j': "ĵ", 'k': "ķ", 'l': "ĺļľ",
		'n': "ñńņň", 'o': "òóôõöōŏő", 'r': "ŕŗř", 's': "śŝşšș", 't': "ţťț", 'u': "ùúûüũūŭůűų", 'w': "ŵ", 'y': "ýÿŷ", 'z': "źżž",
	} {
		for _, r := range marked {
			m[r] = base
			m[unicode.ToUpper(r)] = unicode.ToUpper(base)
		}
	}
	return m
}()

func plain(r rune) rune {
	if p, ok := plains[r]; ok {
		return p
	}
	return r
}
