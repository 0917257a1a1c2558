package static

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Bounds of a vocabulary and of what is tokenised.
const (
	maxToken = 256
	maxWord  = 100 // characters that are taken as one word
)

// Tokenizer splits texts into the tokens of a vocabulary.
type Tokenizer struct {
	model model
	max   int // highest id
}

// A model appends the ids of a text's tokens until there are limit of them.
// Characters and words that it does not know are left out.
type model interface {
	tokens(text string, limit int) []int
}

// Tokens returns the ids of the first limit tokens of text.
func (t *Tokenizer) Tokens(text string, limit int) []int {
	ids := t.model.tokens(text, limit)
	return ids[:min(len(ids), limit)]
}

// file is what is read of a tokenizer.json.
type file struct {
	Model struct {
		Type    string          `json:"type"`
		Vocab   json.RawMessage `json:"vocab"`
		Unknown string          `json:"unk_token"`
		Prefix  *string         `json:"continuing_subword_prefix"`
		Merges  json.RawMessage `json:"merges"`
	} `json:"model"`
	Normalizer *struct {
		Lowercase *bool `json:"lowercase"`
		Accents   *bool `json:"strip_accents"`
	} `json:"normalizer"`
}

// ParseTokenizer reads a tokenizer.json.
func ParseTokenizer(raw []byte) (*Tokenizer, error) {
	var f file
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, errors.New("static: tokenizer: not a tokenizer.json")
	}
	if f.Model.Type == "Unigram" {
		return newUnigram(f)
	}
	var vocab map[string]int
	if err := json.Unmarshal(f.Model.Vocab, &vocab); err != nil {
		return nil, errors.New("static: tokenizer: the vocabulary is no object of ids")
	}
	most, err := check(vocab)
	if err != nil {
		return nil, err
	}
	switch f.Model.Type {
	case "WordPiece":
		w := &wordPiece{vocab: vocab, prefix: "##", unknown: unknown(vocab, f.Model.Unknown)}
		if f.Model.Prefix != nil {
			w.prefix = *f.Model.Prefix
		}
		if n := f.Normalizer; n != nil {
			w.lower = n.Lowercase == nil || *n.Lowercase
			w.accents = n.Accents == nil && w.lower || n.Accents != nil && *n.Accents
		}
		return &Tokenizer{w, most}, nil
	case "BPE":
		b, err := newBPE(vocab, f.Model.Merges)
		if err != nil {
			return nil, err
		}
		return &Tokenizer{b, most}, nil
	}
	return nil, errors.New("static: tokenizer: the model is not WordPiece, Unigram or BPE")
}

// ParseVocab reads a vocab.txt: the token on line n, from 0, has id n. Texts
// are lower-cased when no token has a capital letter but the special ones.
func ParseVocab(raw []byte) (*Tokenizer, error) {
	w := &wordPiece{vocab: map[string]int{}, prefix: "##", lower: true, accents: true}
	id := 0
	for line := range bytes.Lines(raw) {
		token := strings.TrimRight(string(line), "\r\n")
		if id >= maxRows {
			return nil, fmt.Errorf("static: vocabulary: over %d tokens", maxRows)
		}
		if _, twice := w.vocab[token]; twice {
			return nil, fmt.Errorf("static: vocabulary: the token on line %d comes twice", id+1)
		}
		w.vocab[token] = id
		if !strings.HasPrefix(token, "[") && strings.ToLower(token) != token {
			w.lower, w.accents = false, false
		}
		id++
	}
	most, err := check(w.vocab)
	if err != nil {
		return nil, err
	}
	w.unknown = unknown(w.vocab, "[UNK]")
	return &Tokenizer{w, most}, nil
}

// check returns the highest id of a vocabulary.
func check(vocab map[string]int) (int, error) {
	if len(vocab) == 0 || len(vocab) > maxRows {
		return 0, fmt.Errorf("static: vocabulary: %d tokens, want 1 to %d", len(vocab), maxRows)
	}
	most := 0
	for token, id := range vocab {
		if len(token) > maxToken || id < 0 || id >= maxRows {
			return 0, errors.New("static: vocabulary: a token is too long or its id out of range")
		}
		most = max(most, id)
	}
	return most, nil
}

// unknown is the id of the token for what is unknown, -1 when there is none.
func unknown(vocab map[string]int, token string) int {
	if id, ok := vocab[token]; ok {
		return id
	}
	return -1
}
