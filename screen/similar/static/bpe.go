package static

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// bpe splits words into characters and merges neighbours, the pair that was
// learnt first first.
type bpe struct {
	vocab map[string]int
	ranks map[[2]string]int
}

// newBPE reads the merges: a list of "left right", or of [left, right].
func newBPE(vocab map[string]int, raw json.RawMessage) (*bpe, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil || len(list) > maxRows {
		return nil, fmt.Errorf("static: tokenizer: %d merges, want at most %d in a list", len(list), maxRows)
	}
	b := &bpe{vocab, make(map[[2]string]int, len(list))}
	for rank, m := range list {
		var pair []string
		var line string
		if json.Unmarshal(m, &line) == nil {
			pair = strings.Split(line, " ")
		} else if json.Unmarshal(m, &pair) != nil {
			pair = nil
		}
		if len(pair) != 2 {
			return nil, errors.New("static: tokenizer: a merge is no pair")
		}
		if _, ok := b.ranks[[2]string(pair)]; !ok {
			b.ranks[[2]string(pair)] = rank
		}
	}
	return b, nil
}

func (b *bpe) tokens(text string, limit int) []int {
	var ids []int
	for word := range words(text) {
		if len(ids) >= limit {
			break
		}
		ids = b.split(ids, word)
	}
	return ids
}

// split appends the pieces of a word. The word is short, so that looking at
// every pair again after each merge is cheap enough.
func (b *bpe) split(ids []int, word string) []int {
	var parts []string
	for len(word) > 0 {
		_, n := utf8.DecodeRuneInString(word)
		parts = append(parts, word[:n])
		word = word[n:]
	}
	for len(parts) > 1 {
		at, least := -1, 0
		for i := range len(parts) - 1 {
			if rank, ok := b.ranks[[2]string{parts[i], parts[i+1]}]; ok && (at < 0 || rank < least) {
				at, least = i, rank
			}
		}
		if at < 0 {
			break
		}
		parts[at] += parts[at+1]
		parts = append(parts[:at+1], parts[at+2:]...)
	}
	for _, p := range parts {
		if id, ok := b.vocab[p]; ok {
			ids = append(ids, id)
		}
	}
	return ids
}
