package ledger

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/memproxy/memproxy"
)

// maxPinned limits the pinned versions of one memory.
const maxPinned = 100

const versionColumns = `backend, kind, id, number, tenant, place, field, op, at, actor, trust, confidence, attestation,
	decision, sha256, preimage, metadata, score, previous, behind, link, mac, pinned, compacted`

// oneVersion selects a version of a memory by its number.
const oneVersion = `SELECT ` + versionColumns + ` FROM version` + ofKey + ` AND number = ?`

// versionRow is a stored version with its links in the chains of the memory and the tenant.
type versionRow struct {
	memproxy.Version
	at       int64  // Time in the form of toMicros
	place    int64  // position in the tenant's chain, from 1
	metadata string // hash of Metadata, "" if there is none
	previous string // link of the memory's previous version, "" if there is none
	behind   string // link of the tenant's previous record, "" if there is none
	mac      []byte
}

func scanVersionRow(s scanner) (r versionRow, err error) {
	err = s.Scan(&r.Backend, &r.Kind, &r.ID, &r.Number, &r.Tenant, &r.place, &r.Field, &r.Op, &r.at, &r.Actor, &r.Trust, &r.Confidence, &r.Attestation,
		&r.Decision, &r.SHA256, &r.Before, &r.metadata, &r.Score, &r.previous, &r.behind, &r.Link, &r.mac, (*sqlFlag)(&r.Pinned), (*sqlFlag)(&r.Compacted))
	r.Time = fromMicros(r.at)
	return r, err
}

// versionText is the part of a version that is encrypted.
type versionText struct {
	Text     string `json:"text,omitempty"`
	Metadata []byte `json:"metadata,omitempty"`
}

func validVersion(v *memproxy.Version) error {
	return cmp.Or(validKey(v.MemoryKey),
		storableParts("version", v.Tenant, v.Field, string(v.Op), v.Actor, string(v.Trust), string(v.Attestation), v.Decision, v.SHA256, v.Before),
		require(v.Op != "", "a version has an operation"), require(len(v.Text)+len(v.Metadata) <= maxHeld, "the text of a version is longer than %d bytes", maxHeld))
}

// append adds one version to the chain of the memory and that of the tenant. A version with
// the decision, operation and text of the memory's last version is a repetition and changes
// nothing. Above Options.KeepVersions, the texts of the oldest unpinned versions of the
// memory's field are destroyed.
func (t *transaction) append(v memproxy.Version) memproxy.Version {
	head := t.head(v.Tenant)
	if v.Kind != memproxy.TargetObject {
		r := t.record(v.MemoryKey) // before the history begins: a history without a record means that the record was removed
		r.historyBegun = r.historyBegun || v.Op != memproxy.OpDelete && v.Op != memproxy.OpPurge
	}
	last, known := t.lastVersion(v.MemoryKey)
	if v.Text != "" || v.SHA256 == "" && v.Op != memproxy.OpDelete && v.Op != memproxy.OpPurge {
		v.SHA256 = memproxy.TextSHA256(v.Text)
	}
	// A process that resumes another's work may repeat an agent's own edit.
	repeated := v.Decision != "" && last.Decision == v.Decision || v.Op == memproxy.OpSelfEdit && last.Before == v.Before
	if known && repeated && last.Op == v.Op && last.SHA256 == v.SHA256 {
		last.Text, last.Metadata = v.Text, v.Metadata
		return last.Version
	}
	if v.Before == "" {
		v.Before = last.SHA256
	}
	r := versionRow{Version: v, at: t.now(), place: head.place + 1, previous: last.Link, behind: head.link}
	r.Number, r.Time, r.Compacted = last.Number+1, fromMicros(r.at), false
	if len(v.Metadata) > 0 {
		r.metadata = memproxy.TextSHA256(string(v.Metadata))
	}
	link := r.link()
	r.Link = hex.EncodeToString(link)
	r.mac = t.store.opt.Vault.Sign("version", link)
	insertRecord(t, &r)
	t.step(&r, r.Change())
	head.place, head.link, head.changed = r.place, r.Link, true
	updateFlag(t, &r)
	compact(t, &r)
	if r.textless() && r.Actor != "" { // without an actor it was found missing
		destroyHeldOf(t, r.MemoryKey)
	}
	return r.Version
}

func insertRecord(t *transaction, r *versionRow) {
	t.store.filter.add(r.MemoryKey)
	envelope := []byte{}
	if !r.textless() {
		envelope = t.seal(versionRef(r.MemoryKey, r.Number), r.Tenant, inJSON(versionText{r.Text, r.Metadata}))
	}
	t.run(`INSERT INTO version (`+versionColumns+`, envelope) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`,
		r.Backend, string(r.Kind), r.ID, r.Number, r.Tenant, r.place, r.Field, string(r.Op), r.at, r.Actor, string(r.Trust),
		int64(r.Confidence), string(r.Attestation), r.Decision, r.SHA256, r.Before, r.metadata, int64(r.Score),
		r.previous, r.behind, r.Link, r.mac, count(r.Pinned), 0, envelope)
}

// textless reports whether a version has no content of its own.
func (r *versionRow) textless() bool { return r.Op == memproxy.OpDelete || r.Op == memproxy.OpPurge }

// lastVersion returns the newest version of a memory. known is false if there is none.
func (t *transaction) lastVersion(k memproxy.MemoryKey) (last versionRow, known bool) {
	if _, absent := t.store.filter.absent(k); absent {
		return versionRow{}, false
	}
	return row(t, scanVersionRow, `SELECT `+versionColumns+` FROM version`+ofKey+` ORDER BY number DESC LIMIT 1`, k)
}

// BeginHistories begins the history of memories that have none, with a first version that
// has no author and the lowest trust. It returns how many it began, and may be repeated.
func (bs Backends) BeginHistories(ctx context.Context, found ...memproxy.Version) (int, error) {
	in, err := asSealVersions(found)
	if err != nil {
		return 0, err
	}
	return countEach(ctx, bs.store, in, validVersion, beginHistory)
}

// asSealVersions returns found memories as first versions: no author, the lowest trust.
func asSealVersions(found []memproxy.Version) ([]memproxy.Version, error) {
	in := slices.Clone(found)
	for i := range in {
		in[i].Op, in[i].Trust, in[i].Attestation = memproxy.OpSeal, memproxy.TrustAnonymous, memproxy.AttestationUnknown
		in[i].Actor, in[i].Confidence, in[i].Pinned = "", 0, false
	}
	return in, valid(in, validVersion)
}

// beginHistory begins the history of a memory, unless it has one.
func beginHistory(t *transaction, v *memproxy.Version) (began bool) {
	if _, known := t.lastVersion(v.MemoryKey); known {
		return false
	}
	t.append(*v)
	if v.Kind == memproxy.TargetObject { // objects have no status
		return true
	}
	r, st := t.status(v.MemoryKey)
	if !st.Changed.IsZero() {
		if st.State == memproxy.StateUntrusted {
			st.Rules = "" // the rules judge it anew, now that it has a history
			t.putStatus(r, st, r.prior)
		}
		return true
	}
	st.Tenant, st.Reason, st.Attestation = v.Tenant, "found when its history began", memproxy.AttestationUnknown
	t.putStatus(r, st, "")
	return true
}

// keepFound records the text before a change, unless the text is known: as the
// beginning of a history, or as a version because the text was changed out-of-band.
func keepFound(t *transaction, v *memproxy.Version) {
	if beginHistory(t, v) {
		return
	}
	known := t.one(`SELECT 1 FROM version`+ofKey+` AND sha256 = ? AND compacted = 0 AND op NOT IN ('delete', 'purge') LIMIT 1`,
		[]any{v.MemoryKey, memproxy.TextSHA256(v.Text)}, new(int64))
	if !known {
		t.append(*v)
	}
}

// History returns versions of a memory, newest first, without texts: at most limit of
// those with a number below before (0 means all).
func (l *Ledger) History(ctx context.Context, k memproxy.MemoryKey, before int64, limit int) ([]memproxy.Version, error) {
	if err := validKey(k); err != nil {
		return nil, err
	}
	limit = min(cmp.Or(max(0, limit), 1000), 1000)
	found, err := querySettled(ctx, l.store, "list versions", scanVersionRow, `SELECT `+versionColumns+` FROM version
		WHERE backend = ?1 AND kind = ?2 AND id = ?3 AND (CAST(?4 AS BIGINT) = 0 OR number < ?4) ORDER BY number DESC LIMIT ?5`, k, before, limit)
	out := make([]memproxy.Version, len(found))
	for i := range found {
		out[i] = found[i].Version
	}
	return out, err
}

// Version returns one version with its text and metadata, checked against the recorded
// hashes. ErrUnknown means that there is none, ErrShredded that its text was destroyed.
func (l *Ledger) Version(ctx context.Context, k memproxy.MemoryKey, number int64) (memproxy.Version, error) {
	if err := validKey(k); err != nil {
		return memproxy.Version{}, err
	}
	found, err := querySettled(ctx, l.store, "look up a version", scanVersionRow, oneVersion, k, number)
	r, err := oneOrUnknown(found, err, fmt.Sprint("version ", number))
	if err != nil || r.textless() {
		return r.Version, err
	}
	gone, err := deletedSince(ctx, l.store, k, number)
	if err != nil {
		return memproxy.Version{}, err
	}
	if gone {
		return r.Version, fmt.Errorf("%w: the memory was deleted", ErrShredded)
	}
	err = readText(ctx, l.store, &r)
	return r.Version, err
}

func readText(ctx context.Context, s *store, r *versionRow) error {
	plain, err := unseal(ctx, s, versionRef(r.MemoryKey, r.Number), r.Tenant, `SELECT envelope FROM version`+ofKey+` AND number = ?`, r.MemoryKey, r.Number)
	if err != nil {
		return err
	}
	var text versionText
	if err := json.Unmarshal(plain, &text); err != nil {
		return fmt.Errorf("%w: version %d", ErrSealed, r.Number)
	}
	otherText := text.Text != "" && memproxy.TextSHA256(text.Text) != r.SHA256
	otherMetadata := len(text.Metadata) > 0 && memproxy.TextSHA256(string(text.Metadata)) != r.metadata
	if otherText || otherMetadata {
		return fmt.Errorf("%w: version %d is not the text that was recorded", ErrSealed, r.Number)
	}
	r.Text, r.Metadata = text.Text, text.Metadata
	return nil
}

// Pin exempts a version's text from compaction, and its memory from expiry and purging, or
// ends the exemption. Number 0 stands for the newest version, and when it ends for all.
// ErrShredded means that the text is already destroyed, ErrFull that too many versions are
// pinned, ErrOwnReview that the reviewer wrote a text that would be pinned or no longer be.
func (l *Ledger) Pin(ctx context.Context, k memproxy.MemoryKey, number int64, pinned bool, by memproxy.Review) error {
	return l.do(ctx, &job{bad: cmp.Or(validKey(k), checkReview(by)), run: func(t *transaction) {
		v, known := row(t, scanVersionRow, `SELECT `+versionColumns+` FROM version`+ofKey+` AND CAST(? AS BIGINT) IN (0, number) ORDER BY number DESC LIMIT 1`, k, number)
		switch {
		case !known:
			t.fail(fmt.Errorf("%w: version %d", ErrUnknown, number))
		case pinned && (v.Compacted || v.textless()):
			t.fail(ErrShredded)
		case pinned:
			number = v.Number
		}
		for _, v := range rows(t, scanVersionRow, `UPDATE version SET pinned = ?`+ofKey+` AND CAST(? AS BIGINT) IN (0, number) AND pinned <> ? RETURNING `+versionColumns, count(pinned), k, number, count(pinned)) {
			refuseOwnText(t, k, v.SHA256, by)
		}
		var n int
		t.one(`SELECT count(*) FROM version`+ofKey+` AND pinned = 1`, []any{k}, &n)
		switch {
		case pinned && n > maxPinned:
			t.fail(fmt.Errorf("%w: %d versions are pinned", ErrFull, maxPinned))
		case k.Kind == memproxy.TargetMemory && t.record(k).Status.Pinned != (n > 0):
			changeLifetime(t, k, func(st *memproxy.Status) { st.Pinned = n > 0 })
		}
	}})
}
