package ledger

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/memproxy/memproxy"
)

// The prefixes of refs, by the sort of content.
const (
	refHold     = "hold/"
	refApproval = "approval/"
	refRollback = "rollback/"
	refBreaches = "breaches/"
	refVersion  = "version/"
	refDissent  = "dissent/"
	refSimilar  = "similar"
	refClock    = "pace"
)

// ref returns the unambiguous name of a content: the prefix, then each part after its
// length.
func ref(kind string, parts ...string) string {
	b := append(make([]byte, 0, 128), kind...)
	for _, p := range parts {
		b = append(strconv.AppendInt(b, int64(len(p)), 10), ':')
		b = append(append(b, p...), '/')
	}
	return string(b)
}

func versionRef(k memproxy.MemoryKey, number int64) string {
	return ref(refVersion, k.Backend, string(k.Kind), k.ID, strconv.FormatInt(number, 10))
}

// encrypt stores a content, encrypted, unless there is one under that ref.
func (t *transaction) encrypt(ref, tenant string, plain []byte) {
	t.run(`INSERT INTO content (ref, envelope) VALUES (?, ?) ON CONFLICT DO NOTHING`, ref, t.seal(ref, tenant, plain))
}

func (t *transaction) seal(ref, tenant string, plain []byte) []byte {
	envelope, err := t.store.opt.Vault.Seal(ref, tenant, plain)
	t.fail(err)
	return envelope
}

// opened returns the plain text of a content, or nil if this installation wrote none.
func (t *transaction) opened(ref, tenant string) []byte {
	envelope, _ := row(t, scanOne[[]byte], envelopeOf, ref)
	plain, _ := t.store.opt.Vault.Open(ref, tenant, envelope) // fails if it was edited
	return plain
}

const envelopeOf = `SELECT envelope FROM content WHERE ref = ?`

// decrypt returns the plain text of a content, or ErrShredded if it is gone.
func (s *store) decrypt(ctx context.Context, ref, tenant string) ([]byte, error) {
	return unseal(ctx, s, ref, tenant, envelopeOf, ref)
}

// unseal returns the plain text of the envelope that a query finds, or ErrShredded.
func unseal(ctx context.Context, s *store, ref, tenant, query string, args ...any) ([]byte, error) {
	envelope, _, err := first(queryRows(ctx, s, "read a content", scanOne[[]byte], query, args...))
	if err != nil {
		return nil, err
	}
	return s.opt.Vault.Open(ref, tenant, envelope)
}

// compact destroys the oldest texts above Options.KeepVersions and records that. If a
// version was tampered with, all texts are kept as evidence and the memory is flagged;
// Chains.Verify reports the place.
func compact(t *transaction, r *versionRow) {
	if r.Number <= int64(t.store.opt.KeepVersions) {
		return
	}
	old := rows(t, scanVersionRow, `SELECT `+versionColumns+` FROM version`+ofKey+` AND field = ? AND pinned = 0 AND compacted = 0
		ORDER BY number DESC LIMIT 100 OFFSET ?`, r.MemoryKey, r.Field, t.store.opt.KeepVersions)
	for i := range old {
		next, there := row(t, scanVersionRow, oneVersion, r.MemoryKey, old[i].Number+1)
		if sound := there && next.previous == old[i].Link && old[i].fault(t.store.opt.Vault) == ""; !sound {
			t.broken = true
			t.flag(&memproxy.Discrepancy{MemoryKey: r.MemoryKey, Tenant: r.Tenant, Code: memproxy.IntegrityChain})
			return
		}
	}
	for i := range old {
		gone := &old[i]
		t.run(destroyTexts+` AND number = ?`, r.MemoryKey, gone.Number)
		gone.Actor, gone.Decision, gone.Op = memproxy.SystemActor, r.Decision, memproxy.OpCompact
		change := gone.Change()
		change.Before, change.After, change.BeforeSHA256, change.SHA256 = gone.Number, 0, gone.SHA256, ""
		t.step(gone, change)
	}
}

// destroyTexts destroys the texts of a memory's versions.
const destroyTexts = `UPDATE version SET compacted = 1, pinned = 0, envelope = ''` + ofKey + ` AND compacted = 0`

const rollbackColumns = `decision, backend, kind, id, tenant, number, reviewer, reason, preimage, begun`

func scanRollback(s scanner) (r memproxy.Rollback, err error) {
	err = s.Scan(&r.Decision, &r.Backend, &r.Kind, &r.ID, &r.Tenant, &r.Number, &r.Reviewer, &r.Reason, &r.Before, (*sqlTime)(&r.Begun))
	return r, err
}

// Rollbacks stores the rollbacks in progress, so that one interrupted by the end of the
// process can be finished.
type Rollbacks struct{ *store }

// AppendFound records texts that the backend holds and that are in no version, before
// they are overwritten. They are in the history when AppendFound returns.
func (rs Rollbacks) AppendFound(ctx context.Context, found ...memproxy.Version) error {
	in, err := asSealVersions(found)
	return rs.change(ctx, err, func(t *transaction) { each(t, in, keepFound) })
}

// Approve adds a reviewer's approval of a rollback to a version. Once Need distinct
// reviewers other than the version's author have approved it for the same present text,
// it may begin. The author, and whoever wrote its text, gets ErrOwnReview.
func (rs Rollbacks) Approve(ctx context.Context, to memproxy.Version, by memproxy.Review) (memproxy.VoteResult, error) {
	bad := cmp.Or(validKey(to.MemoryKey), checkReview(by))
	return changeResult(ctx, rs.store, bad, func(t *transaction) memproxy.VoteResult {
		over, _ := t.lastVersion(to.MemoryKey)
		subject := votesOn(to.MemoryKey, over.SHA256, "version", strconv.FormatInt(to.Number, 10))
		if refuseOwnText(t, to.MemoryKey, to.SHA256, by); to.Op == memproxy.OpRollback { // the text is another's
			to.Actor = ""
		}
		return t.vote(subject, to.Tenant, to.Actor, by)
	})
}

// Begin records that a memory is about to be restored to a version, and uses up the votes on
// the memory. The record is durable on return, so that Unfinished returns the rollback if this
// process ends. ErrState means that another rollback of the memory has begun.
func (rs Rollbacks) Begin(ctx context.Context, r memproxy.Rollback, lease time.Duration) error {
	bad := cmp.Or(validKey(r.MemoryKey), storableParts("rollback", r.Tenant, r.Decision, r.Reviewer, r.Reason, r.Before),
		require(r.Decision != "" && r.Number > 0, "a rollback needs a decision and a version"))
	return rs.change(ctx, bad, func(t *transaction) {
		now := leaseTime(t)
		n := t.run(`INSERT INTO rollback (`+rollbackColumns+`, lease) VALUES (?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT DO NOTHING`,
			r.Decision, r.MemoryKey, r.Tenant, r.Number, r.Reviewer, r.Reason, r.Before, toMicros(now), toMicros(now.Add(lease)))
		if n == 0 || t.dropVotes(r.MemoryKey) == 0 {
			t.fail(fmt.Errorf("%w: another rollback of the memory is not over, or used up the votes", ErrState))
		}
		t.encrypt(ref(refRollback, r.Decision), r.Tenant, begunOf(r))
	})
}

// begunOf returns the content that confirms a rollback, so that an edit of the ledger cannot
// begin or change one.
func begunOf(r memproxy.Rollback) []byte {
	r.Begun = time.Time{}
	return inJSON(r)
}

// Unfinished claims and returns the rollbacks whose lease has expired, oldest first. It
// deletes rows that Begin did not write, and those of rollbacks that made their version.
func (rs Rollbacks) Unfinished(ctx context.Context, lease time.Duration) ([]memproxy.Rollback, error) {
	return changeResult(ctx, rs.store, nil, func(t *transaction) []memproxy.Rollback {
		now := leaseTime(t)
		mine := rows(t, scanRollback, `UPDATE rollback SET lease = ?1 WHERE (lease <= ?2 OR lease > ?3) AND decision IN
			(SELECT decision FROM rollback WHERE lease <= ?2 OR lease > ?3 ORDER BY begun LIMIT 100) RETURNING `+rollbackColumns,
			toMicros(now.Add(lease)), toMicros(now), toMicros(now.Add(longestLease)))
		slices.SortFunc(mine, func(a, b memproxy.Rollback) int { return a.Begun.Compare(b.Begun) })
		return slices.DeleteFunc(mine, func(r memproxy.Rollback) bool {
			begun := bytes.Equal(t.opened(ref(refRollback, r.Decision), r.Tenant), begunOf(r))
			ended := t.one(`SELECT 1 FROM version`+ofKey+` AND decision = ? AND op = ? LIMIT 1`, []any{r.MemoryKey, r.Decision, string(memproxy.OpRollback)}, new(int))
			if begun && !ended || t.err != nil {
				return false
			}
			t.store.edits.note(memproxy.MemoryKey{Backend: r.Backend, Kind: "rollback", ID: memproxy.InertID(r.ID)}, r.Tenant, editedRow)
			return dropRollback(t, r.Decision)
		})
	})
}

// End deletes a rollback and records the version that it made, if any, in one
// transaction. A memory's record gets the version's text hash and decision, so that the
// text does not count as an out-of-band change, and its confidence and attestation,
// because the restored text is as trustworthy as before. For a rollback that has ended
// already, End returns the existing version. It changes nothing, with ErrStale, if the version
// would not get its Number (0 is any), because another was recorded since.
func (rs Rollbacks) End(ctx context.Context, decision string, made *memproxy.Version) (memproxy.Version, error) {
	var bad error
	if made != nil {
		bad = validVersion(made)
	}
	return changeResult(ctx, rs.store, bad, func(t *transaction) memproxy.Version {
		open := dropRollback(t, decision)
		if made == nil {
			return memproxy.Version{}
		}
		v := t.append(*made)
		if open && made.Number != 0 && v.Number != made.Number {
			t.fail(memproxy.ErrStale)
		}
		if r := t.record(v.MemoryKey); open && v.Kind == memproxy.TargetMemory && r.HasOwner() {
			row := r.Owner
			row.SHA256, row.Decision, row.Confidence, row.Deleted = v.SHA256, decision, v.Confidence, false
			r.setOwner(&row, t.now())
			if st := r.Status; r.HasStatus() {
				st.Attestation = v.Attestation
				t.putStatus(r, st, r.prior)
			}
		}
		return v
	})
}

// dropRollback deletes a rollback with what confirms it, and reports whether there was one.
func dropRollback(t *transaction, decision string) bool {
	t.run(`DELETE FROM content WHERE ref = ?`, ref(refRollback, decision))
	return t.run(`DELETE FROM rollback WHERE decision = ?`, decision) > 0
}
