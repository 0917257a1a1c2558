package static

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"
	"unicode/utf8"
)

// space is how SentencePiece writes the space before a word.
const space = "▁"

// unigram splits words into the likeliest row of pieces.
type unigram struct {
	vocab   map[string]scored
	longest int // bytes of a piece
	missing float64
}

type scored struct {
	id    int
	score float64 // logarithm of the likelihood
}

// unlikely is how much less likely than any piece an unknown character is.
const unlikely = 10

func newUnigram(f file) (*Tokenizer, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(f.Model.Vocab, &list); err != nil || len(list) == 0 || len(list) > maxRows {
		return nil, fmt.Errorf("static: tokenizer: a vocabulary of %d pieces, want 1 to %d", len(list), maxRows)
	}
	u := &unigram{vocab: make(map[string]scored, len(list))}
	for id, raw := range list {
		var token string
		var score float64
		pair := [2]any{&token, &score}
		if err := json.Unmarshal(raw, &pair); err != nil || len(token) > maxToken || token == "" && id > 0 {
			return nil, fmt.Errorf("static: tokenizer: piece %d is no pair of a token and its score", id)
		}
		if token != "<unk>" {
			u.vocab[token] = scored{id, score}
		}
		u.longest = max(u.longest, len(token))
		u.missing = min(u.missing, score)
	}
	if len(u.vocab) == 0 {
		return nil, errors.New("static: tokenizer: no pieces")
	}
	u.missing -= unlikely
	return &Tokenizer{u, len(list) - 1}, nil
}

func (u *unigram) tokens(text string, limit int) []int {
	var ids []int
	for word := range words(text) {
		if len(ids) >= limit {
			break
		}
		ids = u.split(ids, word)
	}
	return ids
}

// words yields the words of text, each with the mark of the space before it;
// one of more than maxWord characters in stretches of that many.
func words(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for field := range strings.FieldsSeq(text) {
			word, from, n := space+field, 0, 0
			for at := range word {
				if n == maxWord {
					if !yield(word[from:at]) {
						return
					}
					from, n = at, 0
				}
				n++
			}
			if !yield(word[from:]) {
				return
			}
		}
	}
}

// split appends the likeliest pieces of a word (Viterbi's algorithm): best[i]
// is the best way to write the first i bytes.
func (u *unigram) split(ids []int, word string) []int {
	type step struct {
		score float64
		from  int
		id    int // -1: an unknown character
	}
	best := make([]step, len(word)+1)
	for i := range best {
		best[i].score = math.Inf(-1)
	}
	best[0].score = 0
	for from := range word {
		if math.IsInf(best[from].score, -1) {
			continue
		}
		_, n := utf8.DecodeRuneInString(word[from:])
		next := from + n
		if score := best[from].score + u.missing; score > best[next].score {
			best[next] = step{score, from, -1}
		}
		for to := next; to <= min(len(word), from+u.longest); to++ {
			if p, ok := u.vocab[word[from:to]]; ok && best[from].score+p.score > best[to].score {
				best[to] = step{best[from].score + p.score, from, p.id}
			}
		}
	}
	before := len(ids)
	for at := len(word); at > 0; at = best[at].from {
		if best[at].id >= 0 {
			ids = append(ids, best[at].id)
		}
	}
	for i, j := before, len(ids)-1; i < j; i, j = i+1, j-1 {
		ids[i], ids[j] = ids[j], ids[i]
	}
	return ids
}
