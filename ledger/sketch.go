package ledger

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"unicode"

	"github.com/memproxy/memproxy"
)

// A sketch is a SimHash of 64 bits over the words and word pairs of a text:
// texts that differ in little have sketches that differ in few bits. It is
// keyed, so that nobody can find out from the database what a text says by
// sketching guesses. Few words say too little about an angle: of five features,
// three in common put one pair of texts in seventy within sketchLike, by the
// key's chance. So a short text's sketch is a hash of its words, and only the
// same words are like it.
type sketch uint64

const (
	// sketchLike is the largest distance of similar texts. Unrelated ones
	// differ in 32 bits give or take 4: two of a thousand groups meet by
	// chance about once in ten million.
	sketchLike = 10
	// sketchShort is how many words a text needs to be compared by its angle.
	sketchShort = 12
	// sketchWords bounds the words that count.
	sketchWords = 4096
	// sketchGroups bounds the groups that a new hold is compared with.
	sketchGroups = 1000
)

func (s sketch) String() string { return fmt.Sprintf("%016x", uint64(s)) }

func parseSketch(text string) (sketch, bool) {
	n, err := strconv.ParseUint(text, 16, 64)
	return sketch(n), err == nil && len(text) == 16
}

func (s sketch) like(o sketch) bool { return bits.OnesCount64(uint64(s^o)) <= sketchLike }

// sketchOf normalises (letters in lower case, every number the same, all else
// a gap) and sketches. A text without words has the sketch 0.
func sketchOf(secret []byte, texts []memproxy.HeldText) sketch {
	hash := func(feature string) uint64 {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(feature))
		return binary.BigEndian.Uint64(mac.Sum(nil))
	}
	var votes [64]int
	count := func(feature string) {
		h := hash(feature)
		for i := range votes {
			if h>>i&1 == 1 {
				votes[i]++
			} else {
				votes[i]--
			}
		}
	}
	left, before, short := sketchWords, "", ""
	for _, t := range texts {
		for word := range strings.FieldsFuncSeq(t.Text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
			if left--; left < 0 {
				break
			}
			word = strings.ToLower(word)
			if strings.ContainsFunc(word, unicode.IsDigit) {
				word = "0"
			}
			if left > sketchWords-sketchShort {
				short += " " + word
			}
			count(word)
			if before != "" {
				count(before + " " + word)
			}
			before = word
		}
	}
	if words := sketchWords - left; words > 0 && words < sketchShort {
		return sketch(hash("all of it:" + short))
	}
	var s sketch
	for i, v := range votes {
		if v > 0 {
			s |= 1 << i
		}
	}
	return s
}

// group returns the similarity of a new hold: that of the newest waiting hold
// of the tenant that is alike, else its own.
func (t *transaction) group(tenant string, s sketch) (string, error) {
	groups, err := rows(t, scanText, `SELECT similarity FROM hold WHERE tenant = ? AND state = 'pending'
		GROUP BY similarity ORDER BY max(created) DESC, similarity LIMIT ?`, tenant, sketchGroups)
	if err != nil {
		return "", err
	}
	for _, g := range groups {
		if o, ok := parseSketch(g); ok && o.like(s) {
			return g, nil
		}
	}
	return s.String(), nil
}

func scanText(s scanner) (string, error) {
	var text string
	err := s.Scan(&text)
	return text, err
}

// sketchKey is the key of sketches. It is made once and kept like a content,
// so that it survives a rotation of the vault's keys.
func (l *Ledger) sketchKey(ctx context.Context) ([]byte, error) {
	if key := l.similar.Load(); key != nil {
		return *key, nil
	}
	key, err := l.opt.Vault.bytes(KeySize)
	if err != nil {
		return nil, err
	}
	if err := l.change(ctx, func(t *transaction) error { return t.encrypt(refSimilar, "", key) }); err != nil {
		return nil, err
	}
	if key, err = l.decrypt(ctx, refSimilar, ""); err != nil { // of two processes, the first one's
		return nil, err
	}
	l.similar.Store(&key)
	return key, nil
}
