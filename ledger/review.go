package ledger

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/ledger/keys"
)

// maxNote limits a reviewer's note, in bytes.
const maxNote = 2000

func checkReview(r memproxy.Review) error {
	return cmp.Or(require(r.Reviewer != "" && storable(r.Reviewer) == nil, "a review needs a reviewer"),
		require(storableUpTo(maxNote, r.Note) == nil, "the note of a review is not UTF-8 of at most %d bytes", maxNote))
}

// lockedHold finds a hold and locks out other writers of it until the transaction ends.
const lockedHold = `UPDATE hold SET aged = aged WHERE id = ? RETURNING ` + holdColumns

// lockHold returns a hold, locked against other transactions until this one ends.
func lockHold(t *transaction, id string) memproxy.HeldWrite {
	return knownHold(t, id, lockedHold)
}

// failState fails with ErrState because of the state that a hold is in.
func failState(t *transaction, h *memproxy.HeldWrite) {
	t.fail(fmt.Errorf("%w: the hold is %s", ErrState, h.State))
}

// unsent reports whether a hold waits, or is approved and not claimed yet.
func unsent(h *memproxy.HeldWrite) bool {
	return h.State == memproxy.HoldPending || h.State == memproxy.HoldApproved
}

const voteColumns = `subject, reviewer, at, note, mac`

// vote is a reviewer's approval as it is stored. An edited row does not count.
type vote struct {
	subject, reviewer string
	at                int64
	note              string
	edited            bool
}

func (v *vote) row(b []byte) []byte {
	return keys.AppendFields(b, []string{"vote", v.subject, v.reviewer, v.note}, v.at)
}

func scanVote(of *store) func(scanner) (vote, error) {
	return func(s scanner) (v vote, err error) {
		var mark []byte
		err = s.Scan(&v.subject, &v.reviewer, &v.at, &v.note, &mark)
		if err == nil && !of.opt.Vault.MarkedRow(v.row, mark) {
			v.edited = true
			of.edits.note(memproxy.MemoryKey{Kind: "vote", ID: memproxy.InertID(v.subject)}, "", editedRow)
		}
		return v, err
	}
}

// vote stores a reviewer's approval and returns the tally, without the author's own
// vote and those of reviewers that are no longer eligible. It fails with ErrOwnReview for
// the author.
func (t *transaction) vote(subject, tenant, author string, r memproxy.Review) memproxy.VoteResult {
	tally := memproxy.VoteResult{Need: max(1, r.Need)}
	if r.Reviewer == author {
		t.fail(ErrOwnReview)
		return tally
	}
	yes := vote{subject, r.Reviewer, toMicros(t.store.opt.Clock()), r.Note, false}
	t.run(`INSERT INTO vote (`+voteColumns+`) VALUES (?, ?, ?, ?, ?) ON CONFLICT (subject, reviewer) DO UPDATE SET at = excluded.at, note = excluded.note, mac = excluded.mac`,
		yes.subject, yes.reviewer, yes.at, yes.note, t.store.opt.Vault.MarkRow(yes.row))
	for _, v := range rows(t, scanVote(t.store), `SELECT `+voteColumns+` FROM vote WHERE subject = ? AND reviewer <> ?`, subject, author) {
		tally.Have += int(count(!v.edited && (r.Eligible == nil || r.Eligible(v.reviewer, tenant))))
	}
	tally.Settled = tally.Have >= tally.Need
	return tally
}

// refuseOwnText fails with ErrOwnReview if a text of a memory is the reviewer's own, as its
// author or by a later change. A rollback restores another's text, and a change of the
// metadata keeps the text.
func refuseOwnText(t *transaction, k memproxy.MemoryKey, sha256 string, r memproxy.Review) {
	if t.one(`SELECT 1 FROM version`+ofKey+` AND sha256 = ? AND actor = ? AND preimage <> sha256 AND op <> ? LIMIT 1`,
		[]any{k, sha256, r.Reviewer, string(memproxy.OpRollback)}, new(int)) {
		t.fail(ErrOwnReview)
	}
}

// votesOn returns the subject of votes about a memory. about includes the text that the
// reviewers saw, so that the votes do not count for a changed text.
func votesOn(k memproxy.MemoryKey, about ...string) string {
	return ref(refMemory, append([]string{k.Backend, string(k.Kind), k.ID}, about...)...)
}

func (t *transaction) dropVotes(k memproxy.MemoryKey) int64 {
	of := votesOn(k)
	return t.run(`DELETE FROM vote WHERE substr(subject, 1, ?) = ?`, utf8.RuneCountInString(of), of)
}

// settleHold ends the review of a hold, which is approved or rejected, and returns the hold.
func settleHold(t *transaction, id string, state memproxy.HoldState, r memproxy.Review) *memproxy.HeldWrite {
	h, _ := row(t, scanHold,
		`UPDATE hold SET state = ?, reviewer = ?, reviewed = ?, note = ? WHERE id = ? RETURNING `+holdColumns,
		string(state), r.Reviewer, toMicros(t.store.opt.Clock()), r.Note, id)
	switch state {
	case memproxy.HoldRejected:
		endReview(t, id)
	case memproxy.HoldApproved:
		confirm(t, &h, confirmation{shownOf(&h), approvalOf(&h)})
	}
	return &h
}

// confirmation is what confirms the members of a waiting hold's row that may change. It is
// stored encrypted under the installation's key, so that an edit of the row can neither make nor
// change an approval, nor what a reviewer approves. It ends with the hold.
type confirmation struct {
	Shown    []byte // shownOf
	Approval []byte // approvalOf, once it is approved
}

// shownOf hashes what reviewers are shown of a hold in addition to its request.
func shownOf(h *memproxy.HeldWrite) []byte {
	return hashOf(h.State == memproxy.HoldRewritten, h.Reasons, h.Findings, h.Score, h.Policy, h.CurrentVerdict, h.Similarity, toMicros(h.Created))
}

// approvalOf hashes everything that an approval covers: what is sent or recorded of the
// hold, and who approved it.
func approvalOf(h *memproxy.HeldWrite) []byte {
	return hashOf(
		h.ID, h.Backend, h.Route, h.Method, h.EscapedPath, h.Tenant, h.Principal, h.Trust, h.Session, h.Scope, h.Kind, h.Reasons, h.ContentSHA256,
		h.Reviewer, h.Note, toMicros(h.Reviewed),
	)
}

func hashOf(members ...any) []byte {
	sum := sha256.Sum256(inJSON(members))
	return sum[:]
}

func confirmationIn(content []byte) (c confirmation) {
	_ = json.Unmarshal(content, &c) // zero if there is none
	return c
}

// confirm replaces the confirmation of a hold.
func confirm(t *transaction, h *memproxy.HeldWrite, c confirmation) {
	t.run(`DELETE FROM content WHERE ref = ?`, ref(refApproval, h.ID))
	t.encrypt(ref(refApproval, h.ID), h.Tenant, inJSON(c))
}

// isShown reports whether a locked hold is as its confirmation says.
func isShown(t *transaction, h *memproxy.HeldWrite) bool {
	return bytes.Equal(confirmationIn(t.opened(ref(refApproval, h.ID), h.Tenant)).Shown, shownOf(h))
}

// endReview ends what only a waiting hold has: its confirmation, so that it cannot be sent
// again, and its open dissents.
func endReview(t *transaction, id string) {
	t.run(`DELETE FROM content WHERE ref = ?`, ref(refApproval, id))
	closeDissents(t, id)
}

func forged(s *store, h *memproxy.HeldWrite) error {
	s.edits.note(memproxy.MemoryKey{Backend: h.Backend, Kind: "hold", ID: h.ID}, h.Tenant, editedRow)
	return fmt.Errorf("ledger: hold %s: %w", h.ID, memproxy.ErrForged)
}

func (hs Holds) confirmed(ctx context.Context, h *memproxy.HeldWrite) (confirmation, error) {
	content, err := hs.decrypt(ctx, ref(refApproval, h.ID), h.Tenant)
	if errors.Is(err, ErrShredded) || errors.Is(err, ErrSealed) {
		err = nil
	}
	return confirmationIn(content), err
}

// changed reports whether a hold is not any more as it was read, so that a confirmation that
// was read later says nothing about it.
func (hs Holds) changed(ctx context.Context, h *memproxy.HeldWrite) bool {
	now, err := hs.Get(ctx, h.ID)
	return err != nil || !reflect.DeepEqual(now, *h)
}

// withdrawApproval deletes the approval and the votes of a hold.
func withdrawApproval(t *transaction, h *memproxy.HeldWrite) {
	confirm(t, h, confirmation{Shown: confirmationIn(t.opened(ref(refApproval, h.ID), h.Tenant)).Shown})
	t.run(`UPDATE hold SET reviewer = '', reviewed = 0, note = '' WHERE id = ?`, h.ID)
	t.run(`DELETE FROM vote WHERE subject = ?`, ref(refHold, h.ID))
}

// Approve adds a reviewer's approval. The hold is approved, and ready for Claim, once Need
// distinct reviewers other than its author have approved it. Approving an approved hold
// adds a vote and changes nothing else. ErrState means that it was already sent or settled, ErrOwnReview that
// the reviewer is the author, ErrShredded that its content was destroyed.
func (hs Holds) Approve(ctx context.Context, id string, r memproxy.Review) (memproxy.VoteResult, error) {
	return changeResult(ctx, hs.store, checkReview(r), func(t *transaction) memproxy.VoteResult {
		return approveHold(t, id, r)
	})
}

func approveHold(t *transaction, id string, r memproxy.Review) memproxy.VoteResult {
	h := lockHold(t, id)
	if !unsent(&h) {
		failState(t, &h)
		return memproxy.VoteResult{}
	}
	if !t.one(`SELECT 1 FROM content WHERE ref = ? AND length(envelope) > 0`, []any{ref(refHold, id)}, new(int)) {
		t.fail(ErrShredded)
		return memproxy.VoteResult{}
	}
	if !isShown(t, &h) {
		t.fail(forged(t.store, &h))
		return memproxy.VoteResult{}
	}
	tally := t.vote(ref(refHold, id), h.Tenant, h.Principal, r)
	if !tally.Settled || h.State == memproxy.HoldApproved {
		return tally
	}
	if r.AuthorInvalid != "" {
		h.NoteAuthorInvalid(r.AuthorInvalid)
		t.run(`UPDATE hold SET reasons = ? WHERE id = ?`, asJSON(h.Reasons), id)
	}
	settleHold(t, id, memproxy.HoldApproved, r)
	return tally
}

// Reject rejects a hold that waits, or is approved and not yet claimed. One reviewer is
// enough. ErrState means that the hold is settled, rejected ones included, or being
// sent; the earlier reviewer and reason are kept.
func (hs Holds) Reject(ctx context.Context, id string, r memproxy.Review) error {
	return hs.change(ctx, checkReview(r), func(t *transaction) { rejectHold(t, id, r) })
}

func rejectHold(t *transaction, id string, r memproxy.Review) {
	h := lockHold(t, id)
	if r.Reviewer == h.Principal {
		t.fail(ErrOwnReview)
		return
	}
	if !unsent(&h) {
		failState(t, &h)
		return
	}
	settleHold(t, id, memproxy.HoldRejected, r)
}

const maxBatch = 500 // maximum number of holds that one batch settles

// ReviewGroup approves or rejects, all or none, the waiting holds of one similarity
// group of a tenant that were created before a time. There must be exactly expect of
// them, so that a reviewer settles only what was shown, and nothing that was added to
// the group since. Otherwise it returns ErrState.
func (hs Holds) ReviewGroup(ctx context.Context, tenant *string, similarity string, before time.Time, expect int, approve bool, r memproxy.Review) (memproxy.ReviewedGroup, error) {
	c := conditions{}
	c.tenant("tenant", tenant)
	c.add(`state = 'pending' AND similarity = ? AND created < ?`, similarity, toMicros(before))
	whole := similarity != "" && storable(similarity) == nil && !before.IsZero() && expect > 0 && expect <= maxBatch
	bad := cmp.Or(checkReview(r), c.bad, require(whole, "a batch needs a similarity, a time and how many are expected (at most %d)", maxBatch))
	return changeResult(ctx, hs.store, bad, func(t *transaction) (group memproxy.ReviewedGroup) {
		found := rows(t, scanHold, `SELECT `+holdColumns+` FROM hold`+c.where()+` ORDER BY id LIMIT ?`, append(c.args, maxBatch+1)...)
		if len(found) != expect {
			t.fail(fmt.Errorf("%w: %d holds wait in the group, not %d", ErrState, len(found), expect))
			return group
		}
		group.VoteResult = memproxy.VoteResult{Settled: true, Have: 1, Need: 1} // one reviewer rejects
		for _, h := range found {
			if !approve {
				rejectHold(t, h.ID, r)
			} else if tally := approveHold(t, h.ID, r); len(group.Holds) == 0 || tally.Have < group.Have {
				group.VoteResult = tally
			}
			if t.err != nil {
				t.err = fmt.Errorf("hold %s: %w", h.ID, t.err)
				return group
			}
			group.Holds = append(group.Holds, knownHold(t, h.ID, oneHold))
		}
		return group
	})
}

// Reevaluate stores a new verdict on a waiting hold, and returns the hold if the verdict
// settles it. If the verdict differs from the last one, a notice is queued.
func (hs Holds) Reevaluate(ctx context.Context, id string, v memproxy.Reevaluation) (*memproxy.HeldWrite, error) {
	bad := require(v.Policy != "" && storable(v.Policy) == nil, "a verdict needs the version of the rules")
	return changeResult(ctx, hs.store, bad, func(t *transaction) (settled *memproxy.HeldWrite) {
		h := lockHold(t, id)
		if h.State != memproxy.HoldPending || !isShown(t, &h) { // it was settled, or edited, meanwhile
			return nil
		}
		was := h.CurrentVerdict
		h.Policy, h.CurrentVerdict = v.Policy, ""
		if v.Verdict != memproxy.Hold && v.Settles == "" {
			h.CurrentVerdict = v.Verdict.String()
		} else { // why it still waits, or no longer waits
			h.Reasons, h.Findings, h.Score = v.Reasons, v.Findings, v.Score
		}
		h, _ = row(t, scanHold, `UPDATE hold SET reasons = ?, findings = ?, score = ?, policy = ?, today = ? WHERE id = ? RETURNING `+holdColumns,
			asJSON(h.Reasons), asJSON(h.Findings), int64(h.Score), h.Policy, h.CurrentVerdict, id)
		confirm(t, &h, confirmation{Shown: shownOf(&h)})
		if v.Settles != "" {
			r := memproxy.Review{Reviewer: memproxy.RulesReviewer(v.Policy), Note: "settled by a change of the rules"}
			settled, h.State = settleHold(t, id, v.Settles, r), v.Settles
		}
		if settled != nil || h.CurrentVerdict != was {
			t.notify(memproxy.NoticeRuled, h.Tenant, h.ID, h)
		}
		return settled
	})
}

// Age queues a notice for each hold that has waited since before a time and that it has not
// found yet, and returns their number.
func (hs Holds) Age(ctx context.Context, before time.Time) (int, error) {
	return changeResult(ctx, hs.store, nil, func(t *transaction) int {
		aged := rows(t, scanHold, `UPDATE hold SET aged = ? WHERE id IN
			(SELECT id FROM hold WHERE state = 'pending' AND created < ? AND aged = 0 ORDER BY created, id LIMIT ?)
			RETURNING `+holdColumns, t.now(), toMicros(before), maxBatch)
		for _, h := range aged {
			t.notify(memproxy.NoticeAged, h.Tenant, h.ID, h)
		}
		return len(aged)
	})
}

// clean makes external text storable: valid UTF-8 of limited length without NUL.
func clean(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "?"), "\x00", "?")
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "")
	}
	return text
}
