package ledger

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
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

// wordsOf is the keyed hash of a text's words, whatever their case and what stands
// between them; "" where it has none. Without the key, texts cannot be guessed from
// the database.
func wordsOf(secret []byte, text string) string {
	mac, n := hmac.New(sha256.New, secret), 0
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		n++
		mac.Write([]byte(strings.ToLower(word) + " "))
	}
	if n == 0 {
		return ""
	}
	return hex.EncodeToString(mac.Sum(nil))
}

// secret keys the hashes of texts. A ledger without a vault has none.
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
	words := wordsOf(key, r.Text)
	if words == "" || r.Author == "" {
		return nil
	}
	_, err := t.run(`INSERT INTO retraction (tenant, author, words, confidence, attestation, at) VALUES (?,?,?,?,?,?)
		ON CONFLICT (tenant, author, words) DO UPDATE SET confidence = excluded.confidence, attestation = excluded.attestation, at = excluded.at`,
		r.Tenant, r.Author, words, int64(r.Confidence), string(r.Attestation), max(1, micros(r.Time)))
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

// Retraction returns the newest retraction by an author, not before a time, of
// a text that has the same words as one of these, or as all of them together; false
// when there is none. Its Text is not there.
func (l *Ledger) Retraction(ctx context.Context, tenant, author string, texts []string, since time.Time) (r memproxy.Retraction, found bool, err error) {
	if storable(tenant) != nil || storable(author) != nil {
		return r, false, ctx.Err()
	}
	who := absent{"retraction", tenant, author}
	ask, era := l.absent.unknown(who)
	if len(ask) == 0 {
		return r, false, errors.Join(ctx.Err(), l.alive())
	}
	ctx, cancel := context.WithTimeout(ctx, l.opt.Timeout)
	defer cancel()
	var some int // every write asks, and most authors have retracted nothing
	err = l.reader.QueryRowContext(ctx, l.dialect.sql(`SELECT count(*) FROM retraction WHERE tenant = ? AND author = ?`), tenant, author).Scan(&some)
	switch {
	case err != nil:
		return r, false, l.wrap("look up retractions", err)
	case some == 0:
		l.absent.note(era, ask...)
		return r, false, nil
	}
	key, err := l.secret(ctx)
	if err != nil {
		return r, false, err
	}
	var words []string
	for _, text := range append([]string{strings.Join(texts, "\n")}, texts...) {
		if w := wordsOf(key, text); w != "" {
			words = append(words, w)
		}
	}
	var at int64
	err = l.reader.QueryRowContext(ctx, l.dialect.sql(`SELECT confidence, attestation, at FROM retraction
		WHERE tenant = ? AND author = ? AND at >= ? AND words IN (SELECT value FROM json_each(?)) ORDER BY at DESC LIMIT 1`),
		tenant, author, micros(since), asJSON(words)).Scan(&r.Confidence, &r.Attestation, &at)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return memproxy.Retraction{}, false, nil
	case err != nil:
		return memproxy.Retraction{}, false, l.wrap("look up retractions", err)
	}
	r.Tenant, r.Author, r.Time = tenant, author, moment(at)
	return r, true, nil
}
