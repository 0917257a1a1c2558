package gate

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/access"
	"github.com/memproxy/memproxy/redaction"
)

func readable(_ *answer, it *item) judgement {
	switch {
	case !it.Unreadable:
		return judgement{}
	case it.Pointer != "":
		return judgement{action: remove}
	}
	return judgement{action: refuse, status: memproxy.StatusBadGateway, code: memproxy.UpstreamMalformed, detail: notFiltered}
}

// deleted removes memories that were deleted but of which the backend still has a copy:
// according to the ledger or, if it does not know the memory, to the backend that was asked
// for the request's target. What the answer reports as made or changed by a write is shown,
// and an event that only reports the deletion.
func deleted(ret *answer, it *item) judgement {
	gone := it.row != nil && it.row.Deleted || it.row == nil && ret.op.Current[it.ID].Missing
	if !gone || it.Missing || ret.toWrite && (it.Event != "" || slices.Contains(ret.op.Targets, it.ID)) {
		return judgement{}
	}
	if it.Event == memproxy.MemoryDeleted && it.Text == "" && it.Before == "" && len(it.OtherTexts) == 0 && len(it.Metadata) == 0 {
		return judgement{}
	}
	return foreignItem
}

var (
	foreignItem = judgement{action: expel, code: memproxy.OwnerForeign, detail: "the target has another owner"}
	unknownItem = judgement{action: expel, code: memproxy.OwnerUnknown, detail: "not found in this caller's tenant"}
)

// visible removes memories that the caller may not see. The targets were ruled on
// before the request was sent, by the ledger. Another tenant's memory that the backend
// returns instead of a target, or along with it, was not, nor was the owner that a memory
// names in the answer.
func visible(ret *answer, it *item) judgement {
	target := slices.Contains(ret.op.Targets, it.ID)
	ours := it.row == nil || it.row.Scope.Tenant == ret.Principal.Tenant
	switch {
	case ret.targetsChecked:
		if (ours || target) && !ret.view.Denies(it.Memory, nil) {
			return judgement{}
		}
	case ret.toWrite && (target || it.row == nil):
		// This write has just made a memory that is not in the ledger, unless the memory
		// names an owner that is not the caller's.
		if target || !ret.view.Denies(it.Memory, ret.madeIDs) {
			return judgement{}
		}
	case !ret.toWrite && it.Missing, ret.view.Sees(it.row, it.Memory):
		return judgement{}
	case !ret.toWrite && len(ret.op.Targets) > 0:
		return judgement{action: refuse, code: foreignItem.code, detail: foreignItem.detail}
	}
	if ret.toWrite {
		return unknownItem
	}
	return foreignItem
}

// unaltered reports memories that fail the integrity check, and removes them if the
// rules say so.
func unaltered(ret *answer, it *item) judgement {
	if it.altered == "" {
		return judgement{}
	}
	o := judgement{note: &memproxy.Reason{Code: it.altered, Rule: it.ID, Pointer: it.Pointer, Detail: it.detail}}
	if ret.rules.Changed == ChangedWithhold {
		o.action, o.code, o.detail = drop, memproxy.IntegrityMismatch, "the memory differs from what was written and is withheld"
	}
	return o
}

// confident removes memories below the confidence that the caller asked for. The
// confidence is the one in the ledger, else the one in a verified stamp. A memory that
// fails the integrity check has no known confidence.
func confident(ret *answer, it *item) judgement {
	least := ret.call.ReadOptions.MinTrust
	if ret.toWrite || least <= 0 || it.Missing || it.IsContainer || it.Layer == memproxy.Episodic {
		return judgement{}
	}
	is := memproxy.PerMille(-1)
	switch {
	case it.altered != "":
	case it.row != nil:
		is = it.row.Confidence
	case it.Stamp != nil && ret.signed(it.Memory):
		is = it.Stamp.Confidence
	}
	if is >= least {
		return judgement{}
	}
	return judgement{action: drop, code: memproxy.TrustBelow, detail: "the memory's confidence is below the requested minimum"}
}

// byStatus withholds memories for their status. A write's own content is shown to
// its writer.
func byStatus(ret *answer, it *item) judgement {
	switch {
	case ret.ownText(it.Memory):
	case it.statusUnknown != "":
		return judgement{action: drop, code: memproxy.StateWithheld, detail: it.statusUnknown}
	case it.display == withhold:
		state := it.rec.Status.State
		detail := "the memory is " + string(state) + " and withheld"
		if state == memproxy.StatePending {
			detail += " from all callers but its author until a reviewer promotes it, " +
				"or it stays unchanged for memories.quiet"
		}
		return judgement{action: drop, code: memproxy.StateWithheld, detail: detail}
	}
	return judgement{}
}

// compiled removes texts that the backend compiled from memories, such as an agent's
// prompt among its messages, if some of these memories are withheld.
func compiled(ret *answer, it *item) judgement {
	if !it.Compiled || !ret.hidesCompiled {
		return judgement{}
	}
	return judgement{action: drop, code: memproxy.StateWithheld, detail: "the response is derived from withheld memories"}
}

// harmless removes memories that look like an attack, and redacts dangerous spans.
// Such a memory may have been written out-of-band, or before the rule existed.
func harmless(ret *answer, it *item) judgement {
	switch made := ret.toWrite && ret.op.Kind == memproxy.Learn && it.Event != "" && it.Event != memproxy.MemoryUnchanged; {
	case made, approvedAsIs(ret, it), ret.ownText(it.Memory):
		return judgement{} // it was ruled on with the write
	case ret.rules.Withhold > 0 && it.judged.risk >= ret.rules.Withhold, irredactable(ret, it):
		return judgement{action: drop, status: memproxy.StatusForbidden, code: memproxy.ScreenWithheld, detail: "the memory looks like an attack and is withheld"}
	}
	spans := spansToRedact(ret, it)
	if spans == nil {
		return judgement{}
	}
	return judgement{action: redact, text: redaction.AppendDescriptions(redaction.Redact(it.Text, spans))}
}

// previous removes a replaced text from the answer to a write. In answers to reads
// the earlier texts (Memory.OtherTexts) are judged together with the memory.
func previous(_ *answer, it *item) judgement {
	if !it.hidesBefore {
		return judgement{}
	}
	return judgement{action: strip}
}

func enclosed(ret *answer, it *item) judgement {
	if len(ret.removed) > 0 {
		for at := strings.LastIndexByte(it.Pointer, '/'); at > 0; at = strings.LastIndexByte(it.Pointer[:at], '/') {
			if ret.removed[it.Pointer[:at]] {
				return judgement{action: remove}
			}
		}
	}
	return judgement{}
}

func findRemoved(_ context.Context, ret *answer) error {
	ret.removed = map[string]bool{}
	for i := range ret.items {
		if it := &ret.items[i]; it.Drop {
			ret.removed[it.Pointer] = true
		}
	}
	return nil
}

// provenance adds its provenance to each memory, for readers who ask for it, and in place
// of one that was planted in the backend. Raw messages, receipts and entities are not
// memories.
func provenance(ret *answer, it *item) judgement {
	if !ret.call.ReadOptions.Provenance && !it.ClaimsProvenance || ret.toWrite || it.ID == "" || it.Missing || it.Layer == memproxy.Episodic || it.Memory.TargetKind() != memproxy.TargetMemory {
		return judgement{}
	}
	return judgement{action: annotate, provenance: new(provenanceOf(ret, it))}
}

// provenanceOf returns the provenance of a memory: from the ledger, else from a verified
// stamp. The provenance of another tenant's memory is not disclosed, even if the
// memory itself may be seen. What fails the integrity check is not what was attested.
func provenanceOf(ret *answer, it *item) memproxy.Provenance {
	p := memproxy.Provenance{State: memproxy.StateUntrusted}
	row, s := it.row, it.Stamp
	if st := &it.rec.Status; it.rec.HasStatus() && st.Tenant == ret.Principal.Tenant {
		p.State, p.Contested, p.Unverified, p.Attestation = st.State, st.Contested, st.Unverified, st.Attestation
	}
	p.Unverified = cmp.Or(p.Unverified, it.altered)
	if row == nil && p.Unverified == "" && ret.signed(it.Memory) {
		row = new(OwnerFromStamp(ret.op.Backend, it.Memory, ret.Principal.Tenant))
	}
	if row != nil && row.Scope.Tenant == ret.Principal.Tenant {
		p.Actor, p.Trust, p.Confidence, p.Source, p.Decision, p.Written = row.Actor, row.Trust, row.Confidence, row.Source, row.Decision, row.Written
		if ret.signed(it.Memory) && p.Decision == s.ID {
			p.Received, p.Attestation = s.Received, cmp.Or(p.Attestation, s.Attestation)
		}
	}
	if p.Unverified != "" {
		p.Confidence, p.Attestation = 0, ""
	}
	p.Attestation = cmp.Or(p.Attestation, memproxy.AttestationUnknown)
	return p
}

// A display is how a memory is shown in an answer.
type display uint8

const (
	show display = iota
	sanitise
	withhold
)

// display returns how memories of a state are shown to callers with roles (DOL-5). A memory
// without a state is untrusted.
func (r *Rules) display(state memproxy.MemoryState, roles []string) display {
	switch state {
	case memproxy.StatePending:
		if slices.Contains(roles, memproxy.RoleReviewer) {
			return show
		}
		return withhold
	case memproxy.StateQuarantined, memproxy.StateExpired, memproxy.StateSuperseded:
		return withhold
	case memproxy.StateFlagged:
		return sanitise
	case memproxy.StateUntrusted, "":
		if r.WithholdUntrusted {
			return withhold
		}
	}
	return show
}

// displayTo returns how a memory with its present text is shown to a reader, and its state in
// words. A nil reader is an agent, which reads inside the backend. Authorship comes from the
// ledger, or is what bindLate records there, and not from a signature alone. Deletion is
// judged by the callers.
func (r *Rules) displayTo(reader *memproxy.Principal, rec *memproxy.Record, m *memproxy.Memory) (display, string) {
	st := &rec.Status
	reader = cmp.Or(reader, &memproxy.Principal{})
	switch d := r.display(st.State, reader.Roles); {
	case r.Changed == ChangedWithhold && st.Unverified != "", m.TextAt != "" && changedSinceValidated(r, rec, m.Text):
		return withhold, "changed out-of-band"
	case st.State == memproxy.StatePending && access.MadeBy(reader, &rec.Owner):
		return show, ""
	case st.State == "" && m.Layer == memproxy.Episodic: // a message
		return show, ""
	case (st.State == memproxy.StateUntrusted || st.State == "") && m.Text == "" && len(m.OtherTexts) == 0:
		return show, "" // an agent, for example: it has no text to validate, so it would be withheld for good
	case d == sanitise && (m.TextAt == "" || m.Text == "" || len(m.OtherTexts) > 0):
		return withhold, string(st.State) // no span of it can be redacted
	default:
		return d, string(cmp.Or(st.State, memproxy.StateUntrusted))
	}
}

// changedSinceValidated reports whether untrusted memories are withheld and the text of
// a validated memory is not the one that was validated: the new text was written
// out-of-band, or the ledger does not have it yet.
func changedSinceValidated(rules *Rules, rec *memproxy.Record, text string) bool {
	st := &rec.Status
	if !rules.WithholdUntrusted || rules.Changed == ChangedIgnore || st.State != memproxy.StateValidated || text == "" {
		return false
	}
	validated := cmp.Or(st.Text, rec.Owner.SHA256)
	return validated != "" && validated != memproxy.Hash(text)
}

// approvedAsIs reports whether a reviewer confirmed the memory with its present text, so
// that screening findings no longer count against it. A memory that can change without
// memproxy seeing it is never approved as it is. The reviewer did not read earlier texts, nor
// the texts next to the memory's own.
func approvedAsIs(ret *answer, it *item) bool {
	if it.Mutable || len(it.OtherTexts) > 0 || it.judged.risk > it.judged.score || ret.rules.Changed == ChangedIgnore || it.altered != "" {
		return false
	}
	st := &it.rec.Status
	return st.State == memproxy.StateValidated && st.Attestation == memproxy.HumanConfirmed && st.Unverified == ""
}

// outOfBand reports whether a memory's text was written out-of-band: it is not the last
// one that went through memproxy. Items derived from a memory never count as such, because
// the status of the memory decides on them.
func outOfBand(it *item) bool {
	if kind := it.Memory.TargetKind(); kind == memproxy.TargetEvent || kind == memproxy.TargetExport || it.Uncounted || it.BuiltIn || it.Compiled || it.ID == "" {
		return false
	}
	return it.row == nil || len(it.OtherTexts) > 0 || it.row.SHA256 != memproxy.Hash(it.Text)
}

// spansToRedact returns the spans of a memory's text that are redacted (DOL-4, DOL-5), or nil.
// For a flagged memory these are the recorded spans while its text is unchanged. A
// changed text is screened again, as are memories that were written out-of-band. If no
// span of a flagged memory is known, its whole text is redacted.
func spansToRedact(ret *answer, it *item) []memproxy.Finding {
	st, j, flagged := &it.rec.Status, &it.judged, it.display == sanitise
	switch {
	case flagged && st.Text != "" && st.Text == memproxy.Hash(it.Text) && len(st.Findings) > 0:
		return st.Findings
	case ret.screened && ret.rules.Sanitise > 0 && j.score >= ret.rules.Sanitise && (flagged || outOfBand(it)):
	case flagged && (!ret.screened || st.Text == "" || st.Text == memproxy.Hash(it.Text)):
		return []memproxy.Finding{{Rule: redaction.RuleUnspecified, Severity: "high", End: len(it.Text)}}
	default:
		return nil
	}
	if spans := memproxy.Dangerous(j.spans); len(spans) > 0 {
		return spans
	}
	return j.spans
}

// irredactable reports whether a memory was written out-of-band, is dangerous, and has
// no spans that could be redacted.
func irredactable(ret *answer, it *item) bool {
	return ret.rules.Sanitise > 0 && it.judged.risk >= ret.rules.Sanitise && (it.TextAt == "" || it.judged.score < ret.rules.Sanitise) && outOfBand(it)
}
