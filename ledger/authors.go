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
	"github.com/memproxy/memproxy/ledger/keys"
)

// maxDissent limits the dissents that are kept of one memory; the oldest are dropped.
const maxDissent = 20

func dissentRef(k memproxy.MemoryKey, decision string) string {
	return ref(refDissent, k.Backend, string(k.Kind), k.ID, decision)
}

func validDissent(d *memproxy.Dissent) error {
	d.Kind = cmp.Or(d.Kind, memproxy.TargetMemory)
	return cmp.Or(validKey(d.MemoryKey),
		storableParts("dissent", d.Tenant, d.Author, d.Corrector, string(d.Trust), d.Decision, d.Reason, d.SHA256), require(d.Decision != "", "a dissent needs a decision"))
}

// addDissent records that a caller tried to change a memory and was not trusted enough.
// The proposed text is encrypted.
func addDissent(t *transaction, d *memproxy.Dissent) {
	k := d.MemoryKey
	n := t.run(`INSERT INTO dissent (backend, kind, id, decision, tenant, author, corrector, trust, reason, sha256, at, closed, envelope)
		VALUES (?,?,?,?,?,?,?,?,?,?,?,0,?) ON CONFLICT DO NOTHING`,
		k, d.Decision, d.Tenant, d.Author, d.Corrector, string(d.Trust), d.Reason, d.SHA256, t.now(), t.seal(dissentRef(k, d.Decision), d.Tenant, []byte(d.Text)))
	if n == 0 {
		return
	}
	const where = ` WHERE backend = ?1 AND kind = ?2 AND id = ?3`
	t.run(`DELETE FROM dissent`+where+` AND decision IN
		(SELECT decision FROM dissent`+where+` ORDER BY closed = 0 DESC, at DESC, decision LIMIT 1000 OFFSET ?4)`, k, maxDissent)
	setContested(t, k, d.Tenant, true)
}

func setContested(t *transaction, k memproxy.MemoryKey, tenant string, contested bool) {
	r, st := t.status(k)
	st.Tenant, st.Contested = cmp.Or(st.Tenant, tenant), contested
	t.putStatus(r, st, r.prior)
}

// closeDissents closes the dissents of a decision once the decision is final, and clears the
// Contested mark of memories without another open one.
func closeDissents(t *transaction, decision string) {
	for _, k := range rows(t, scanKey, `UPDATE dissent SET closed = ? WHERE decision = ? AND closed = 0 RETURNING backend, kind, id`,
		t.now(), decision) {
		if open := t.one(`SELECT 1 FROM dissent`+ofKey+` AND closed = 0 LIMIT 1`, []any{k}, new(int)); !open {
			setContested(t, k, "", false)
		}
	}
}

// Dissents returns the dissents on a memory, newest first. With text set each has its
// text, or "" if the text was destroyed.
func (l *Ledger) Dissents(ctx context.Context, k memproxy.MemoryKey, text bool) ([]memproxy.Dissent, error) {
	if err := validKey(k); err != nil {
		return nil, err
	}
	found, err := queryRows(ctx, l.store, "list dissent", scanDissent, `SELECT backend, kind, id, decision, tenant, author, corrector, trust, reason, sha256, at, closed = 0
		FROM dissent`+ofKey+` ORDER BY at DESC, decision LIMIT ?`, k, maxDissent)
	if err != nil || !text {
		return found, err
	}
	for i := range found {
		d := &found[i]
		plain, err := unseal(ctx, l.store, dissentRef(k, d.Decision), d.Tenant, `SELECT envelope FROM dissent`+ofKey+` AND decision = ?`, k, d.Decision)
		if err != nil {
			return nil, err
		}
		d.Text = string(plain)
	}
	return found, nil
}

func scanDissent(s scanner) (d memproxy.Dissent, err error) {
	err = s.Scan(&d.Backend, &d.Kind, &d.ID, &d.Decision, &d.Tenant, &d.Author, &d.Corrector, &d.Trust, &d.Reason, &d.SHA256, (*sqlTime)(&d.Time), &d.Open)
	return d, err
}

// Corrections returns the changes of a memory by others than its author, newest first,
// as far as they were not pruned.
func (l *Ledger) Corrections(ctx context.Context, k memproxy.MemoryKey) ([]memproxy.Correction, error) {
	if err := validKey(k); err != nil {
		return nil, err
	}
	return queryRows(ctx, l.store, "list corrections", func(s scanner) (c memproxy.Correction, err error) {
		err = s.Scan(&c.Backend, &c.Kind, &c.ID, &c.Tenant, &c.Author, &c.Corrector, &c.Trust, &c.Decision, &c.Reason, (*sqlTime)(&c.Time))
		return c, err
	}, `SELECT backend, kind, id, tenant, author, corrector, trust, decision, reason, at FROM correction
		WHERE backend = ? AND id = ? AND kind = ? ORDER BY at DESC, decision LIMIT 100`, k.Backend, k.ID, string(k.Kind))
}

// maxRetracted limits the retractions that are kept of one author; the oldest are
// dropped. It is ten hours' worth of an ordinary write budget.
const maxRetracted = 1024

// wordHash is the keyed hash of the words of a text, regardless of case, punctuation and
// spacing; "" without words. The key prevents guessing texts from the database.
func wordHash(secret []byte, text string) string {
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

// addRetractions records texts that their authors deleted or replaced, as keyed hashes with
// the confidence of the text. Above maxRetracted, an author's oldest are dropped.
func addRetractions(t *transaction, secret []byte, all []memproxy.Retraction) {
	authors := map[account]bool{}
	for i := range all {
		r := &all[i]
		words := wordHash(secret, r.Text)
		if words == "" || r.Author == "" {
			continue
		}
		t.run(`INSERT INTO retraction (tenant, author, words, confidence, attestation, at) VALUES (?,?,?,?,?,?)
			ON CONFLICT (tenant, author, words) DO UPDATE SET confidence = excluded.confidence, attestation = excluded.attestation, at = excluded.at`,
			r.Tenant, r.Author, words, int64(r.Confidence), string(r.Attestation), max(1, toMicros(r.Time)))
		authors[account{r.Tenant, r.Author}] = true
	}
	for who := range authors {
		t.records[absentKeys(retractionKind, who.tenant, who.actor)[0]] = nil
		t.run(`DELETE FROM retraction WHERE tenant = ?1 AND author = ?2 AND words IN
			(SELECT words FROM retraction WHERE tenant = ?1 AND author = ?2 ORDER BY at DESC, words LIMIT 100000 OFFSET ?3)`,
			who.tenant, who.actor, maxRetracted)
	}
}

// Retraction returns the newest retraction by an author, since a time, of a text that
// has the same words as one of texts or as all of them joined. found is false if there
// is none. The Text of the result is empty.
func (l *Ledger) Retraction(ctx context.Context, tenant, author string, texts []string, since time.Time) (r memproxy.Retraction, found bool, err error) {
	ask, moment := l.recent.get(nil, absentKeys(retractionKind, tenant, author))
	if len(ask) == 0 {
		return r, false, errors.Join(ctx.Err(), l.alive())
	}
	ctx, cancel := context.WithTimeout(ctx, l.opt.Timeout)
	defer cancel()
	// Every write asks for this, and most authors have retracted nothing.
	_, some, err := first(queryRows(ctx, l.store, "look up retractions", scanOne[int64], `SELECT 1 FROM retraction WHERE tenant = ? AND author = ? LIMIT 1`, tenant, author))
	switch {
	case err != nil:
		return r, false, err
	case !some:
		l.recent.fill(moment, ask, nil)
		return r, false, nil
	}
	key, err := l.sketchKey(ctx)
	if err != nil {
		return r, false, err
	}
	var words []string
	for _, text := range append([]string{strings.Join(texts, "\n")}, texts...) {
		if w := wordHash(key, text); w != "" {
			words = append(words, w)
		}
	}
	return first(queryRows(ctx, l.store, "look up retractions", func(s scanner) (r memproxy.Retraction, err error) {
		err = s.Scan(&r.Tenant, &r.Author, &r.Confidence, &r.Attestation, (*sqlTime)(&r.Time))
		return r, err
	}, `SELECT tenant, author, confidence, attestation, at FROM retraction
		WHERE tenant = ? AND author = ? AND at >= ? AND words IN (SELECT value FROM json_each(?)) ORDER BY at DESC LIMIT 1`,
		tenant, author, toMicros(since), asJSON(words)))
}

// Track returns the track record of an actor of a tenant, zero for an unknown actor. Queued
// entries count once they are in the file. Corrections are never queued.
func (l *Ledger) Track(ctx context.Context, tenant, actor string) (memproxy.Track, error) {
	t, _, err := first(queryRows(ctx, l.store, "look up an actor", scanTrack(l.store), `SELECT `+trackColumns+` FROM actor WHERE tenant = ? AND actor = ?`, tenant, actor))
	return t.Track, err
}

func validCorrection(c *memproxy.Correction) error {
	c.Kind = cmp.Or(c.Kind, memproxy.TargetMemory)
	return cmp.Or(validKey(c.MemoryKey), storableParts("correction", c.Tenant, c.Author, c.Corrector, c.Decision, c.Reason, string(c.Trust)),
		require(c.Decision != "", "a correction needs a decision"))
}

// addCorrection counts a correction against the author, once per memory and decision, and
// records until Prune who corrected whom and why.
func addCorrection(t *transaction, c *memproxy.Correction) {
	if c.Author == "" || c.Author == c.Corrector {
		return
	}
	n := t.run(`INSERT INTO correction (backend, id, decision, at, kind, tenant, author, corrector, trust, reason)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`, c.Backend, c.ID, c.Decision, t.store.opt.Clock().UnixMicro(),
		string(c.Kind), c.Tenant, c.Author, c.Corrector, string(c.Trust), c.Reason)
	if n > 0 {
		changeTrack(t, account{c.Tenant, memproxy.Account(c.Author)}, func(of *memproxy.Track) { of.Corrections++ })
	}
}

const trackColumns = `tenant, actor, facts, corrections, accepted, validated, since, mac`

// trackRow is an author's record as it is stored. An edited one counts as that of a new author.
type trackRow struct {
	account
	memproxy.Track
}

func (r *trackRow) row(b []byte) []byte {
	return keys.AppendFields(b, []string{"actor", r.tenant, r.actor}, r.Facts, r.Corrections, r.Accepted, r.Validated, toMicros(r.Since))
}

func scanTrack(of *store) func(scanner) (trackRow, error) {
	return func(s scanner) (r trackRow, err error) {
		var mark []byte
		err = s.Scan(&r.tenant, &r.actor, &r.Facts, &r.Corrections, &r.Accepted, &r.Validated, (*sqlTime)(&r.Since), &mark)
		if blank := r.Track == (memproxy.Track{}); err == nil && !blank && !of.opt.Vault.MarkedRow(r.row, mark) {
			of.edits.note(memproxy.MemoryKey{Kind: "actor", ID: memproxy.InertID(r.actor)}, r.tenant, editedRow)
			r.Track = memproxy.Track{}
		}
		return r, err
	}
}

// changeTrack changes an author's record, which begins with the first change.
func changeTrack(t *transaction, who account, change func(*memproxy.Track)) {
	r, _ := row(t, scanTrack(t.store), `INSERT INTO actor (tenant, actor, facts, corrections, mac) VALUES (?, ?, 0, 0, '')
		ON CONFLICT (tenant, actor) DO UPDATE SET facts = actor.facts RETURNING `+trackColumns, who.tenant, who.actor) // locks it
	if (r.Track == memproxy.Track{}) {
		r.Since = fromMicros(t.now())
	}
	change(&r.Track)
	t.run(`UPDATE actor SET facts = ?, corrections = ?, accepted = ?, validated = ?, since = ?, mac = ? WHERE tenant = ? AND actor = ?`,
		r.Facts, r.Corrections, r.Accepted, r.Validated, toMicros(r.Since), t.store.opt.Vault.MarkRow(r.row), r.tenant, r.actor)
}

// countAccepted credits the author of a memory that was released from review or
// promoted by a person.
func countAccepted(t *transaction, r *recordRow, was, is memproxy.MemoryState, person bool) {
	out := was == memproxy.StatePending && (is == memproxy.StateUntrusted || is == memproxy.StateValidated)
	if (out || person && is == memproxy.StateValidated) && r.Owner.Actor != "" {
		changeTrack(t, account{r.Owner.Scope.Tenant, memproxy.Account(r.Owner.Actor)}, func(of *memproxy.Track) { of.Accepted++ })
	}
}

// countValidated credits the author of a memory once when it is validated, and
// withdraws that when it is flagged or quarantined. Other changes of state do not
// count, because another review follows them.
func countValidated(t *transaction, r *recordRow, is memproxy.MemoryState) {
	var by int64
	switch is {
	case memproxy.StateValidated:
		by = 1
	case memproxy.StateFlagged, memproxy.StateQuarantined:
		by = -1
	default:
		return
	}
	if !r.HasOwner() || r.Owner.Deleted || r.validated == (by > 0) {
		return
	}
	r.validated, r.dirty = by > 0, true
	if r.Kind == memproxy.TargetMemory && r.Owner.Actor != "" {
		changeTrack(t, account{r.Owner.Scope.Tenant, memproxy.Account(r.Owner.Actor)}, func(of *memproxy.Track) { of.Validated += by })
	}
}
