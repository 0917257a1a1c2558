package ledger

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"time"
	"unicode"

	"github.com/memproxy/memproxy"
)

// maxRetracted bounds the retractions that are kept of one author; the oldest
// give way. It is ten hours' worth of an ordinary write budget.
const maxRetracted = 1024

const retractionTables = `
CREATE TABLE retraction ( -- what authors no longer say
	tenant      TEXT    NOT NULL,
	author      TEXT    NOT NULL,
	words       TEXT    NOT NULL, -- keyed hash of the text's words
	likeness    TEXT    NOT NULL, -- its sketch, and the hash of its numbers
	confidence  INTEGER NOT NULL,
	attestation TEXT    NOT NULL,
	at          INTEGER NOT NULL,
	PRIMARY KEY (tenant, author, words)
) WITHOUT ROWID;
CREATE INDEX retraction_at ON retraction (at);
`

// likeness is a text as far as it takes to know it again. It is keyed: nobody
// can find out from the database what a text says by guessing it.
type likeness struct{ words, numbers string }

type like struct {
	likeness
	sketch sketch
}

func likeOf(secret []byte, text string) (like, bool) {
	words, numbers := hmac.New(sha256.New, secret), hmac.New(sha256.New, secret)
	n := 0
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		n++
		word = strings.ToLower(word) + " "
		words.Write([]byte(word))
		if strings.ContainsFunc(word, unicode.IsDigit) {
			numbers.Write([]byte(word))
		}
	}
	return like{
		likeness{hex.EncodeToString(words.Sum(nil)), hex.EncodeToString(numbers.Sum(nil)[:8])},
		sketchOf(secret, []memproxy.HeldText{{Text: text}}),
	}, n > 0
}

// again reports whether a text says what another did: in the same words, or in
// nearly the same with the same numbers.
func (l like) again(o like) bool {
	return l.words == o.words || l.numbers == o.numbers && l.sketch.like(o.sketch)
}

// secret keys likenesses. A ledger without a vault has none.
func (l *Ledger) secret(ctx context.Context) ([]byte, error) {
	if l.opt.Vault == nil {
		return nil, nil
	}
	return l.sketchKey(ctx)
}

func validRetraction(r *memproxy.Retraction) error {
	for _, s := range [...]string{r.Tenant, r.Author, string(r.Attestation)} {
		if err := storable(s); err != nil {
			return refused("a part of the retraction %v", err)
		}
	}
	return nil
}

// retracted notes texts that their authors deleted or replaced, with the
// confidence that they had: never the texts.
func retracted(t *transaction, secret []byte, all []memproxy.Retraction) error {
	if len(all) == 0 {
		return nil
	}
	for i := range all {
		if err := t.retract(secret, &all[i]); err != nil {
			return err
		}
	}
	return t.thinRetractions(all)
}

func (t *transaction) retract(key []byte, r *memproxy.Retraction) error {
	form, says := likeOf(key, r.Text)
	if !says || r.Author == "" {
		return nil
	}
	_, err := t.run(`INSERT INTO retraction (tenant, author, words, likeness, confidence, attestation, at) VALUES (?,?,?,?,?,?,?)
		ON CONFLICT (tenant, author, words) DO UPDATE SET confidence = excluded.confidence, attestation = excluded.attestation, at = excluded.at`,
		r.Tenant, r.Author, form.words, form.sketch.String()+form.numbers, int64(r.Confidence), string(r.Attestation), max(1, micros(r.Time)))
	return err
}

// thinRetractions gives up the oldest of authors who retracted too much.
func (t *transaction) thinRetractions(all []memproxy.Retraction) error {
	done := map[[2]string]bool{}
	for i := range all {
		who := [2]string{all[i].Tenant, all[i].Author}
		if done[who] {
			continue
		}
		done[who] = true
		_, err := t.run(`DELETE FROM retraction WHERE tenant = ?1 AND author = ?2 AND words IN
			(SELECT words FROM retraction WHERE tenant = ?1 AND author = ?2 ORDER BY at DESC, words LIMIT 100000 OFFSET ?3)`,
			who[0], who[1], maxRetracted)
		if err != nil {
			return err
		}
	}
	return nil
}

type retractionRow struct {
	like
	memproxy.Retraction
}

func scanRetraction(s scanner) (r retractionRow, err error) {
	var alike string
	var at int64
	if err = s.Scan(&r.words, &alike, &r.Confidence, &r.Attestation, &at); err != nil || len(alike) < 16 {
		return r, err
	}
	r.sketch, _ = parseSketch(alike[:16])
	r.numbers, r.Time = alike[16:], moment(at)
	return r, nil
}

// Retraction returns the newest retraction by an author, not before a time, of
// a text that says the same as one of these; false when there is none. Its
// Text is not there.
func (l *Ledger) Retraction(ctx context.Context, tenant, author string, texts []string, since time.Time) (memproxy.Retraction, bool, error) {
	var none memproxy.Retraction
	if storable(tenant) != nil || storable(author) != nil {
		return none, false, ctx.Err()
	}
	who := absent{"retraction", tenant, author}
	ask, era := l.absent.unknown(who)
	if len(ask) == 0 {
		return none, false, errors.Join(ctx.Err(), l.alive())
	}
	ctx, cancel := context.WithTimeout(ctx, l.opt.Timeout)
	defer cancel()
	found, err := l.reader.QueryContext(ctx, l.dialect.sql(`SELECT words, likeness, confidence, attestation, at FROM retraction
		WHERE tenant = ? AND author = ? ORDER BY at DESC, words LIMIT ?`), tenant, author, maxRetracted)
	if err != nil {
		return none, false, l.wrap("look up retractions", err)
	}
	said, err := drain(found, scanRetraction)
	if err != nil {
		return none, false, l.wrap("look up retractions", err)
	}
	if len(said) == 0 {
		l.absent.note(era, ask...)
		return none, false, nil
	}
	key, err := l.secret(ctx)
	if err != nil {
		return none, false, err
	}
	if len(texts) > 1 {
		texts = append([]string{strings.Join(texts, "\n")}, texts...)
	}
	var now []like
	for _, text := range texts {
		if form, says := likeOf(key, text); says {
			now = append(now, form)
		}
	}
	for i := range said {
		if said[i].Time.Before(since) {
			break
		}
		for _, form := range now {
			if said[i].again(form) {
				r := said[i].Retraction
				r.Tenant, r.Author = tenant, author
				return r, true, nil
			}
		}
	}
	return none, false, nil
}
