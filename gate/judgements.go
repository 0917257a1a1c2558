package gate

import (
	"cmp"
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/access"
	"github.com/memproxy/memproxy/redaction"
)

// readable leaves out elements that do not say whose they are.
func readable(_ *answer, it *item) outcome {
	switch {
	case !it.Unreadable:
		return outcome{}
	case it.Pointer != "":
		return outcome{action: remove}
	}
	return outcome{action: refuse, status: StatusBadGateway, code: memproxy.UpstreamMalformed, detail: notFiltered}
}

// deleted leaves out what its author deleted and the backend still has a copy of.
// An event that says no more than that it was deleted is shown.
func deleted(ret *answer, it *item) outcome {
	if ret.answers || it.row == nil || !it.row.Deleted || it.Missing {
		return outcome{}
	}
	if it.Event == eventDelete && it.Text == "" && it.Before == "" && len(it.Also) == 0 && len(it.Metadata) == 0 {
		return outcome{}
	}
	return foreignItem
}

var (
	foreignItem = outcome{action: expel, code: memproxy.OwnerForeign, detail: "the target belongs to somebody else"}
	unknownItem = outcome{action: expel, code: memproxy.OwnerUnknown, detail: "this names what is not there for this caller's tenant"}
)

// visible leaves out what the caller may not see. What was asked for by its id
// was ruled on before the request was sent; another tenant's memory that comes in
// its place, or with it, was not.
func visible(ret *answer, it *item) outcome {
	target := slices.Contains(ret.op.Targets, it.ID)
	ours := it.row == nil || it.row.Scope.Tenant == ret.Principal.Tenant
	switch {
	case ret.settled:
		if ours || target {
			return outcome{}
		}
	case ret.answers && (target || it.row == nil):
		// What the ledger does not know has just come to be, unless it says that
		// it is somebody else's.
		if target || !ret.view.Denies(it.Memory, ret.fresh) {
			return outcome{}
		}
	case !ret.answers && it.Missing, ret.view.Sees(it.row, it.Memory):
		return outcome{}
	case !ret.answers && len(ret.op.Targets) > 0:
		return outcome{action: refuse, code: foreignItem.code, detail: foreignItem.detail}
	}
	if ret.answers {
		return unknownItem
	}
	return foreignItem
}

// confident leaves out memories of less confidence than the caller asked for: as
// the ledger has it, else as a stamp that verifies says.
func confident(ret *answer, it *item) outcome {
	least := ret.call.Wishes.MinTrust
	if ret.answers || least <= 0 || it.Missing || it.Layer == memproxy.Episodic {
		return outcome{}
	}
	is := memproxy.PerMille(-1)
	switch {
	case it.row != nil:
		is = it.row.Confidence
	case it.Stamp != nil && ret.signed(it.Memory):
		is = it.Stamp.Confidence
	}
	if is >= least {
		return outcome{}
	}
	return outcome{action: drop, code: memproxy.TrustBelow, detail: "the memory is of less confidence than was asked for"}
}

// unaltered names what is not what was written, and leaves it out where the
// rules say so.
func unaltered(ret *answer, it *item) outcome {
	if it.altered == "" {
		return outcome{}
	}
	o := outcome{note: &memproxy.Reason{Code: it.altered, Rule: it.ID, Pointer: it.Pointer, Detail: it.detail}}
	if ret.rules.Changed == ChangedWithhold {
		o.action, o.code, o.detail = drop, memproxy.IntegrityMismatch, "the memory is not what was written and is withheld"
	}
	return o
}

// byStatus withholds memories for their status. What a write says itself is shown
// to its writer.
func byStatus(ret *answer, it *item) outcome {
	switch {
	case ret.ownWords(it.Memory):
	case it.unsaid != "":
		return outcome{action: drop, code: memproxy.StateWithheld, detail: it.unsaid}
	case it.display == withhold:
		state := it.rec.Status.State
		return outcome{action: drop, code: memproxy.StateWithheld, detail: "the memory is " + string(state) + " and withheld" + opens(state)}
	}
	return outcome{}
}

// compiled leaves out what a backend made of memories that are withheld: the
// prompt of an agent among its messages.
func compiled(ret *answer, it *item) outcome {
	if !it.Compiled || !ret.hiding {
		return outcome{}
	}
	return outcome{action: drop, code: memproxy.StateWithheld, detail: "this is made of memories that are withheld"}
}

// harmless leaves out what looks like an attack, and hides what of a memory is
// dangerous: it may have been written around memproxy, or before a rule knew it.
func harmless(ret *answer, it *item) outcome {
	switch made := ret.answers && ret.op.Kind == memproxy.Learn && it.Event != "" && it.Event != eventNone; {
	case made, vouched(ret, it), ret.ownWords(it.Memory):
		return outcome{} // what the write made was ruled on with it
	case ret.rules.Withhold > 0 && it.judged.risk >= ret.rules.Withhold, unparted(ret, it):
		return outcome{action: drop, status: StatusForbidden, code: memproxy.ScreenWithheld, detail: "the memory looks like an attack and is withheld"}
	}
	spans := hidden(ret, it)
	if spans == nil {
		return outcome{}
	}
	return outcome{action: redact, text: redaction.Described(redaction.Text(it.Text, spans))}
}

// previous leaves out the text that a write replaced. In reads, earlier texts are
// judged with the memory: Memory.Also.
func previous(_ *answer, it *item) outcome {
	if !it.orphan {
		return outcome{}
	}
	return outcome{action: strip}
}

// enclosed leaves out what is part of an item that is left out.
func enclosed(_ *answer, it *item) outcome {
	if !it.inside {
		return outcome{}
	}
	return outcome{action: remove}
}

// provenance says of each memory where it comes from, for readers that ask. Raw
// messages, receipts and entities are no memories.
func provenance(ret *answer, it *item) outcome {
	if !ret.call.Wishes.Provenance || ret.answers || it.ID == "" || it.Missing || it.Layer == memproxy.Episodic || kindOf(it.Memory) != memproxy.TargetMemory {
		return outcome{}
	}
	p := knownOf(ret, it)
	return outcome{action: tell, told: &p}
}

// knownOf is what is known of a memory: by the ledger, else by a stamp that
// verifies. What belongs to another tenant is not told, not even where the
// memory itself may be seen.
func knownOf(ret *answer, it *item) memproxy.Provenance {
	p := memproxy.Provenance{Attestation: memproxy.AttestationUnknown, State: memproxy.StateUntrusted}
	row, known := &it.rec.Owner, it.row != nil
	own := known && row.Scope.Tenant == ret.Principal.Tenant
	if own {
		p.Actor, p.Trust, p.Confidence, p.Source, p.Decision, p.Written = row.Actor, row.Trust, row.Confidence, row.Source, row.Decision, row.Written
	}
	if s := it.Stamp; s != nil && (own || !known) && ret.signed(it.Memory) {
		if !known {
			p.Actor, p.Trust, p.Confidence, p.Source, p.Decision, p.Written = s.Actor, s.Trust, s.Confidence, s.Source, s.ID, s.Time
		}
		if p.Decision == s.ID {
			p.Received = s.Received
		}
		if p.Decision == s.ID && s.Attestation != "" {
			p.Attestation = s.Attestation
		}
	}
	if st := &it.rec.Status; it.rec.Rated() && st.Tenant == ret.Principal.Tenant {
		p.State, p.Contested, p.Unverified = st.State, st.Contested, st.Unverified
		if st.Attestation != "" {
			p.Attestation = st.Attestation
		}
	}
	p.Unverified = cmp.Or(p.Unverified, it.altered)
	return p
}

// RoleReviewer is the role of those who see what waits for review.
const RoleReviewer = "memproxy-reviewer"

// What is done with a memory in an answer.
type display uint8

const (
	show display = iota
	sanitise
	withhold
)

// display says how memories of a state are shown to those who review none
// (DOL-5). What has no state is untrusted.
func (r *Rules) display(state memproxy.MemoryState) display {
	switch state {
	case memproxy.StateQuarantined, memproxy.StatePending, memproxy.StateExpired, memproxy.StateSuperseded:
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

// opens says what shows a memory that is withheld for its state.
func opens(state memproxy.MemoryState) string {
	if state == memproxy.StatePending {
		return " from others than its author until a reviewer promotes it, or nobody has corrected it for as long as memories.quiet says"
	}
	return ""
}

// displayed says how a memory is shown to the principal. Authorship is the
// ledger's knowledge, not a signature's.
func displayed(ret *answer, it *item) display {
	st := &it.rec.Status
	d := ret.rules.display(st.State)
	switch {
	case st.State == memproxy.StatePending && (slices.Contains(ret.Principal.Roles, RoleReviewer) || access.MadeBy(&ret.Principal, it.row)):
		return show
	case d == show && restless(ret, it):
		return withhold
	case d == sanitise && (it.TextAt == "" || it.Text == "" || len(it.Also) > 0):
		return withhold // it cannot be shown in part
	}
	return d
}

// restless reports whether what is untrusted is withheld and a memory, though
// validated, says something else by now than was looked at: what it says was
// written around memproxy, or is on its way into the ledger.
func restless(ret *answer, it *item) bool {
	st := &it.rec.Status
	if !ret.rules.WithholdUntrusted || ret.rules.Changed == ChangedIgnore || st.State != memproxy.StateValidated || it.Text == "" || it.TextAt == "" {
		return false
	}
	validated := st.Text
	if validated == "" {
		validated = it.rec.Owner.SHA256
	}
	return validated != "" && validated != textHash(it.Text)
}

// vouched reports whether reviewers read a memory as it is now and let it be
// shown: it is then no attack, whatever it looks like. What could have been
// changed since without being seen is not vouched for, and what it said at
// another time is not what they read.
func vouched(ret *answer, it *item) bool {
	if it.Mutable || len(it.Also) > 0 || ret.rules.Changed == ChangedIgnore || it.altered != "" {
		return false
	}
	st := &it.rec.Status
	return st.State == memproxy.StateValidated && st.Attestation == memproxy.HumanConfirmed && st.Unverified == ""
}

// unseen reports whether a memory's text is not the one that last went through
// memproxy: it was written, or changed, around it. What came to be by it is ruled
// on by its status.
func unseen(it *item) bool {
	if kind := kindOf(it.Memory); kind == memproxy.TargetEvent || kind == memproxy.TargetExport || it.Uncounted || it.Common || it.Compiled || it.ID == "" {
		return false
	}
	return it.row == nil || len(it.Also) > 0 || it.row.SHA256 != textHash(it.Text)
}

// hidden says what of a memory's text is replaced (DOL-4, DOL-5): of a flagged
// one the spans for which it was flagged, as long as it is the text of which
// they are. Any other text is judged anew, as are those that were written around
// memproxy. Where neither says what is dangerous in a flagged one, all of it is.
// Nil is nothing.
func hidden(ret *answer, it *item) []memproxy.Finding {
	st, j, flagged := &it.rec.Status, &it.judged, it.display == sanitise
	switch {
	case flagged && st.Text != "" && st.Text == textHash(it.Text) && len(st.Findings) > 0:
		return st.Findings
	case ret.screened && ret.rules.Sanitise > 0 && j.score >= ret.rules.Sanitise && (flagged || unseen(it)):
	case flagged && (!ret.screened || st.Text == "" || st.Text == textHash(it.Text)):
		return []memproxy.Finding{{Rule: redaction.RuleUnspecified, Severity: "high", End: len(it.Text)}}
	default:
		return nil
	}
	if spans := dangerous(j.spans); len(spans) > 0 {
		return spans
	}
	return j.spans
}

// unparted reports whether a memory that was written around memproxy says
// something dangerous and cannot be shown in part.
func unparted(ret *answer, it *item) bool {
	return ret.rules.Sanitise > 0 && it.judged.risk >= ret.rules.Sanitise && (it.TextAt == "" || it.judged.score < ret.rules.Sanitise) && unseen(it)
}
