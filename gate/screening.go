package gate

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
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
	if err := overdrawn(ctx, r); err != nil || r.verdict.Stops() && r.enforced() {
		return err
	}
	asked := r.screening()
	if items := r.screened(); len(items) > len(r.op.Items) {
		asked.Operation.Items = items
	}
	findings, err := r.rules.Screener.Screen(ctx, asked)
	var crowded *memproxy.Malformed
	if errors.As(err, &crowded) {
		r.malformed(crowded)
		return nil
	}
	r.findings, r.configured = r.divide(findings)
	r.q.Findings = r.findings
	for _, f := range r.configured {
		why := memproxy.Reason{Code: memproxy.ScreenConfigured, Pointer: r.op.Items[f.Item].Pointer, Detail: "screening found something in what an owner configures, or what was approved"}
		if !slices.Contains(r.notes, why) {
			r.note(why)
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
func (r *run) divide(findings []memproxy.Finding) (count, configured []memproxy.Finding) {
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
func (r *run) explainFindings(reasons []memproxy.Reason) {
	if len(r.q.Findings) == 0 || !slices.ContainsFunc(reasons, func(why memproxy.Reason) bool {
		return strings.HasPrefix(string(why.Code), "screen.")
	}) {
		return
	}
	items := r.screened()
	for _, f := range worst(r.q.Findings, maxNamed) {
		why := memproxy.Reason{Code: memproxy.ScreenFinding, Rule: f.Rule}
		if f.Item >= 0 && f.Item < len(items) {
			why.Pointer = items[f.Item].Pointer
		}
		if !slices.Contains(r.notes, why) {
			r.reasons = append(r.reasons, why)
		}
	}
}
