package ledger

import (
	"cmp"
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

// maxDissent bounds the dissent that is kept of one memory; the oldest gives
// way.
const maxDissent = 20

func dissentRef(k memproxy.MemoryKey, decision string) string {
	return ref(refDissent, k.Backend, string(k.Kind), k.ID, decision)
}

func validDissent(d *memproxy.Dissent) error {
	if d.Kind == "" {
		d.Kind = memproxy.TargetMemory
	}
	if err := validKey(memproxy.MemoryKey{Backend: d.Backend, Kind: d.Kind, ID: d.ID}); err != nil {
		return err
	}
	if err := storableParts("dissent", d.Tenant, d.Author, d.Corrector, string(d.Trust), d.Decision, d.Reason, d.SHA256); err != nil {
		return err
	}
	if d.Decision == "" {
		return refused("a dissent has a decision")
	}
	return nil
}

// contest records that somebody would have a memory say something else and was
// not trusted enough to change it, with the text encrypted.
func contest(t *transaction, d *memproxy.Dissent) {
	k := memproxy.MemoryKey{Backend: d.Backend, Kind: d.Kind, ID: d.ID}
	n := t.run(`INSERT INTO dissent (backend, kind, id, decision, tenant, author, corrector, trust, reason, sha256, at, closed)
		VALUES (?,?,?,?,?,?,?,?,?,?,?,0) ON CONFLICT DO NOTHING`,
		k.Backend, string(k.Kind), k.ID, d.Decision, d.Tenant, d.Author, d.Corrector, string(d.Trust), d.Reason, d.SHA256, t.now())
	if n == 0 {
		return
	}
	t.encrypt(dissentRef(k, d.Decision), d.Tenant, []byte(d.Text))
	thinDissent(t, k)
	setContested(t, k, d.Tenant, true)
}

func thinDissent(t *transaction, k memproxy.MemoryKey) {
	const where = ` WHERE backend = ?1 AND kind = ?2 AND id = ?3`
	dropDissents(t, k, rows(t, scanOne[string], `DELETE FROM dissent`+where+` AND decision IN
		(SELECT decision FROM dissent`+where+` ORDER BY closed = 0 DESC, at DESC, decision LIMIT 1000 OFFSET ?4) RETURNING decision`,
		k.Backend, string(k.Kind), k.ID, maxDissent))
}

// dropDissents removes the texts of dissents that are gone.
func dropDissents(t *transaction, k memproxy.MemoryKey, decisions []string) {
	for _, decision := range decisions {
		t.run(`DELETE FROM content WHERE ref = ?`, dissentRef(k, decision))
	}
}

func setContested(t *transaction, k memproxy.MemoryKey, tenant string, contested bool) {
	r, st := t.status(k)
	st.Tenant, st.Contested = cmp.Or(st.Tenant, tenant), contested
	t.putStatus(r, st, r.prior)
}

// settleDissents closes what one decision contested, once somebody has given
// it the last word.
func settleDissents(t *transaction, decision string) {
	for _, k := range rows(t, scanKey, `UPDATE dissent SET closed = ? WHERE decision = ? AND closed = 0 RETURNING backend, kind, id`,
		t.now(), decision) {
		endContest(t, k)
	}
}

// endContest ends the contest over a memory against which nothing is said
// any more.
func endContest(t *transaction, k memproxy.MemoryKey) {
	open := t.one(`SELECT 1 FROM dissent WHERE backend = ? AND kind = ? AND id = ? AND closed = 0 LIMIT 1`,
		[]any{k.Backend, string(k.Kind), k.ID}, new(int))
	if !open {
		setContested(t, k, "", false)
	}
}

// Dissents returns what was said against a memory, the newest first. With text
// set each comes with its text, "" where that is gone.
func (l *Ledger) Dissents(ctx context.Context, k memproxy.MemoryKey, text bool) ([]memproxy.Dissent, error) {
	if err := validKey(k); err != nil {
		return nil, err
	}
	found, err := glance(ctx, l.store, "list dissent", scanDissent, `SELECT backend, kind, id, decision, tenant, author, corrector, trust, reason, sha256, at, closed = 0
		FROM dissent WHERE backend = ? AND kind = ? AND id = ? ORDER BY at DESC, decision LIMIT ?`, k.Backend, string(k.Kind), k.ID, maxDissent)
	if err != nil || !text {
		return found, err
	}
	for i := range found {
		plain, err := l.decrypt(ctx, dissentRef(k, found[i].Decision), found[i].Tenant)
		if err != nil {
			return nil, err
		}
		found[i].Text = string(plain)
	}
	return found, nil
}

func scanDissent(s scanner) (d memproxy.Dissent, err error) {
	err = s.Scan(&d.Backend, &d.Kind, &d.ID, &d.Decision, &d.Tenant, &d.Author, &d.Corrector, &d.Trust, &d.Reason, &d.SHA256, (*when)(&d.Time), &d.Open)
	return d, err
}

// Corrections returns who changed a memory that was another's, newest first,
// as far as it was not pruned.
func (l *Ledger) Corrections(ctx context.Context, k memproxy.MemoryKey) ([]memproxy.Correction, error) {
	if err := validKey(k); err != nil {
		return nil, err
	}
	return glance(ctx, l.store, "list corrections", func(s scanner) (c memproxy.Correction, err error) {
		err = s.Scan(&c.Backend, &c.Kind, &c.ID, &c.Tenant, &c.Author, &c.Corrector, &c.Trust, &c.Decision, &c.Reason, (*when)(&c.Time))
		return c, err
	}, `SELECT backend, kind, id, tenant, author, corrector, trust, decision, reason, at FROM correction
		WHERE backend = ? AND id = ? AND kind = ? ORDER BY at DESC, decision LIMIT 100`, k.Backend, k.ID, string(k.Kind))
}

// maxRetracted bounds the retractions that are kept of one author; the oldest
// give way. It is ten hours' worth of an ordinary write budget.
const maxRetracted = 1024

// wordsOf is the keyed hash of a text's words, whatever their case and what is
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

func validRetraction(r *memproxy.Retraction) error {
	return storableParts("retraction", r.Tenant, r.Author, string(r.Attestation))
}

// retracted notes texts that their authors deleted or replaced, with the confidence
// that they had: never the texts. The oldest of authors who retracted too much are
// given up.
func retracted(t *transaction, secret []byte, all []memproxy.Retraction) {
	authors := map[account]bool{}
	for i := range all {
		r := &all[i]
		words := wordsOf(secret, r.Text)
		if words == "" || r.Author == "" {
			continue
		}
		t.run(`INSERT INTO retraction (tenant, author, words, confidence, attestation, at) VALUES (?,?,?,?,?,?)
			ON CONFLICT (tenant, author, words) DO UPDATE SET confidence = excluded.confidence, attestation = excluded.attestation, at = excluded.at`,
			r.Tenant, r.Author, words, int64(r.Confidence), string(r.Attestation), max(1, micros(r.Time)))
		authors[account{r.Tenant, r.Author}] = true
	}
	for who := range authors {
		t.run(`DELETE FROM retraction WHERE tenant = ?1 AND author = ?2 AND words IN
			(SELECT words FROM retraction WHERE tenant = ?1 AND author = ?2 ORDER BY at DESC, words LIMIT 100000 OFFSET ?3)`,
			who.tenant, who.actor, maxRetracted)
	}
}

// Retraction returns the newest retraction by an author, not before a time, of
// a text that has the same words as one of these, or as all of them together; false
// when there is none. Its Text is not there.
func (l *Ledger) Retraction(ctx context.Context, tenant, author string, texts []string, since time.Time) (r memproxy.Retraction, found bool, err error) {
	who := absent{"retraction", tenant, author}
	ask, era := l.absent.unknown(who)
	if len(ask) == 0 {
		return r, false, errors.Join(ctx.Err(), l.alive())
	}
	ctx, cancel := context.WithTimeout(ctx, l.opt.Timeout)
	defer cancel()
	// Every write asks, and most authors have retracted nothing.
	_, some, err := first(glance(ctx, l.store, "look up retractions", scanOne[int64], `SELECT 1 FROM retraction WHERE tenant = ? AND author = ? LIMIT 1`, tenant, author))
	switch {
	case err != nil:
		return r, false, err
	case !some:
		l.absent.note(era, ask...)
		return r, false, nil
	}
	key, err := l.sketchKey(ctx)
	if err != nil {
		return r, false, err
	}
	var words []string
	for _, text := range append([]string{strings.Join(texts, "\n")}, texts...) {
		if w := wordsOf(key, text); w != "" {
			words = append(words, w)
		}
	}
	return first(glance(ctx, l.store, "look up retractions", func(s scanner) (r memproxy.Retraction, err error) {
		err = s.Scan(&r.Tenant, &r.Author, &r.Confidence, &r.Attestation, (*when)(&r.Time))
		return r, err
	}, `SELECT tenant, author, confidence, attestation, at FROM retraction
		WHERE tenant = ? AND author = ? AND at >= ? AND words IN (SELECT value FROM json_each(?)) ORDER BY at DESC LIMIT 1`,
		tenant, author, micros(since), asJSON(words)))
}
