package gate

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/content"
)

// maxNamed bounds the findings that a refusal names, and maxRecorded those
// that a record does.
const (
	maxNamed    = 8
	maxRecorded = 64
)

// worst are the findings with the highest scores first, at most n.
func worst(findings []memproxy.Finding, n int) []memproxy.Finding {
	if len(findings) == 0 {
		return nil
	}
	sorted := slices.SortedStableFunc(slices.Values(findings), func(a, b memproxy.Finding) int { return int(b.Score) - int(a.Score) })
	return sorted[:min(len(sorted), n)]
}

// screen asks the screener for findings in what the operation writes and what
// it brings; the policy decides what they mean. What a budget refuses is not
// screened.
func screen(ctx context.Context, r *run) error {
	if err := overdrawn(ctx, r); err != nil || r.verdict.worst.Stops() && r.enforced() {
		return err
	}
	asked := r.screening()
	asked.Operation.Items = content.Screened(r.op, brings(r.call, r.op))
	findings, err := r.rules.Screener.Screen(ctx, asked)
	var crowded *memproxy.Malformed
	if errors.As(err, &crowded) {
		r.verdict.malformed(crowded)
		return nil
	}
	r.findings, r.configured = divide(r, findings)
	r.q.Findings = r.findings
	for _, f := range r.configured {
		why := memproxy.Reason{Code: memproxy.ScreenConfigured, Pointer: r.op.Items[f.Item].Pointer, Detail: "screening found something in what an owner configures, or what was approved"}
		if !slices.Contains(r.verdict.notes, why) {
			r.verdict.note(why)
		}
	}
	return err
}

// RoleOwner is who configures the agents that it may name, besides those who
// administer.
const (
	RoleOwner = "memproxy-owner"
	roleAdmin = "memproxy-admin"
)

// owns reports whether the caller was given the say in what configures: by its
// roles, which come from the identity configuration and from no payload. Whom
// nobody knows owns nothing.
func (a *Admission) owns() bool {
	p := &a.Principal
	return p.Trust != "" && p.Trust != memproxy.TrustAnonymous && p.Kind != memproxy.KindAnonymous &&
		(slices.Contains(p.Roles, RoleOwner) || slices.Contains(p.Roles, roleAdmin))
}

// divide parts what was found in what an owner configures, or was approved by its
// hash, from all else. A system prompt instructs, a tool's description shows markup,
// and instructions to an extractor name the secrets that it must not keep: rules for
// what was planted say nothing of such texts, so what they find there is recorded and
// told, and refuses nothing. It excuses nothing either: what a model then makes of
// the write is measured by what else was found in it.
func divide(r *run, findings []memproxy.Finding) (count, configured []memproxy.Finding) {
	owns := r.owns()
	if !owns && len(r.rules.Approved) == 0 {
		return findings, nil
	}
	for _, f := range findings {
		if f.Item >= 0 && f.Item < len(r.op.Items) && configuration(r, &r.op.Items[f.Item], owns) {
			configured = append(configured, f)
		} else {
			count = append(count, f)
		}
	}
	return count, configured
}

// configuration reports whether screening has no say on a text. Clients send approved
// reminders among the messages of a run as well; there the approval counts for owners
// only, because messages are where end users speak.
func configuration(r *run, it *memproxy.Item, owns bool) bool {
	steers := it.Kind == memproxy.ItemSteering
	reminds := it.Kind == memproxy.ItemContent && r.op.Kind == memproxy.Run && owns
	return steers && owns && it.Configures || (steers || reminds) && r.rules.Approved[memproxy.TextSHA256(it.Text)]
}

// screening is the operation as a screener sees it: a copy, with the source that the
// caller's word can make its content come from.
func (a *Admission) screening() memproxy.Screening {
	op := *a.op
	op.SourceClaim = a.Principal.Trust.Screened(op.SourceClaim)
	return memproxy.Screening{Principal: a.Principal, Session: a.namedSession(), Decision: a.Decision.ID, Operation: &op}
}

// explainFindings names what was found where that is why the policy rules as
// it does: the rules and the places, never the content.
func explainFindings(r *run, reasons []memproxy.Reason) {
	if len(r.q.Findings) == 0 || !slices.ContainsFunc(reasons, func(why memproxy.Reason) bool {
		return strings.HasPrefix(string(why.Code), "screen.")
	}) {
		return
	}
	items := content.Screened(r.op, brings(r.call, r.op))
	for _, f := range worst(r.q.Findings, maxNamed) {
		why := memproxy.Reason{Code: memproxy.ScreenFinding, Rule: f.Rule}
		if f.Item >= 0 && f.Item < len(items) {
			why.Pointer = items[f.Item].Pointer
		}
		if !slices.Contains(r.verdict.notes, why) {
			r.verdict.reasons = append(r.verdict.reasons, why)
		}
	}
}

// judged is what screening says of a memory as the answer shows it.
type judged struct {
	risk memproxy.PerMille
	// spans are what was found in the memory's own text, and score the worst of
	// them. What was found next to it counts for the risk alone.
	spans []memproxy.Finding
	score memproxy.PerMille
}

// judge screens memories as the answer shows them, by their places in the
// list. Raw messages are what somebody said, and are left to those who read
// them. Nil is that nothing is screened.
func (ret *answer) judge(ctx context.Context, memories []memproxy.Memory) (map[int]judged, error) {
	if ret.rules.Screener == nil {
		return nil, nil
	}
	op := &memproxy.Operation{Kind: ret.op.Kind, Backend: ret.op.Backend, Route: ret.op.Route, Scope: ret.op.Scope}
	asked := ret.screening()
	if ret.op.Kind.Writes() { // it is judged as the write was
		op.SourceClaim = asked.Operation.SourceClaim
	}
	type place struct {
		memory int
		beside bool
	}
	var places []place
	for i := range memories {
		m := &memories[i]
		if m.Drop || m.Missing || m.Layer == memproxy.Episodic {
			continue
		}
		for j, text := range append([]string{m.Text}, m.Also...) {
			if text == "" {
				continue
			}
			op.Items = append(op.Items, memproxy.Item{Kind: memproxy.ItemContent, Text: text, Field: m.Field, Layer: memproxy.Semantic})
			places = append(places, place{i, j > 0})
		}
	}
	found := map[int]judged{}
	if len(places) == 0 {
		return found, nil
	}
	asked.Operation, asked.Reading = op, true
	findings, err := ret.rules.Screener.Screen(ctx, asked)
	if err != nil {
		return nil, err
	}
	for _, f := range findings {
		if f.Item < 0 || f.Item >= len(places) {
			continue
		}
		at := places[f.Item]
		j := found[at.memory]
		if j.risk = max(j.risk, f.Score); !at.beside {
			j.score = max(j.score, f.Score)
			j.spans = append(j.spans, f)
		}
		found[at.memory] = j
	}
	return found, nil
}

// dangerous are the spans for which a text is flagged: all but the sum over
// the text, which is of no place.
func dangerous(findings []memproxy.Finding) []memproxy.Finding {
	return slices.DeleteFunc(slices.Clone(findings), func(f memproxy.Finding) bool {
		return f.Score == 0 || f.Rule == string(memproxy.ScreenRisk)
	})
}

// risks are the risks of memories' texts, by their places in the list.
func (ret *answer) risks(ctx context.Context, memories []memproxy.Memory) (map[int]memproxy.PerMille, error) {
	if ret.rules.Withhold <= 0 {
		return nil, nil
	}
	found, err := ret.judge(ctx, memories)
	risks := make(map[int]memproxy.PerMille, len(found))
	for i, j := range found {
		risks[i] = j.risk
	}
	return risks, err
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
		return []memproxy.Finding{{Rule: memproxy.RuleUnspecified, Severity: "high", End: len(it.Text)}}
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
