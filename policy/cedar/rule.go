package cedar

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cedar-policy/cedar-go"

	"github.com/memproxy/memproxy"
)

// Rule implements the gate's policy. A write to several fields is asked once
// for each, and the worst answer counts.
func (p *Policy) Rule(_ context.Context, q memproxy.Question) (memproxy.Ruling, error) {
	if q.Operation == nil {
		return memproxy.Ruling{}, fmt.Errorf("cedar: a question without an operation")
	}
	principal, entities := p.entitiesOf(q)
	part := p.partOf(q.Operation.Kind)
	req := cedar.Request{
		Principal: principal,
		Action:    cedar.NewEntityUID("Action", cedar.String(q.Operation.Kind)),
		Resource:  cedar.NewEntityUID("Memory", cedar.String(q.Operation.Backend)),
	}
	var out memproxy.Ruling
	for _, f := range fieldsOf(q.Operation) {
		req.Context = contextOf(q, f)
		if err := p.validate.Request(req); err != nil {
			return memproxy.Ruling{}, fmt.Errorf("cedar: the question does not fit the schema: %w", err)
		}
		p.ask(&out, part, entities, req)
	}
	sortReasons(out.Reasons)
	sortReasons(out.Shadow)
	out.Reasons = slices.Compact(out.Reasons)
	out.Shadow = slices.Compact(out.Shadow)
	return out, nil
}

// ask puts one request to the policies and merges the answer.
func (p *Policy) ask(out *memproxy.Ruling, part part, entities cedar.EntityGetter, req cedar.Request) {
	decision, diag := cedar.Authorize(part.enforced, entities, req)
	switch {
	case len(diag.Errors) > 0:
		// A forbid that fails is skipped by Cedar, and the answer may be yes.
		out.Verdict = memproxy.Deny
		for _, e := range diag.Errors {
			out.Reasons = append(out.Reasons, memproxy.Reason{Code: memproxy.PolicyError, Rule: string(e.PolicyID), Detail: "the policy could not be evaluated"})
		}
	case decision == cedar.Deny && len(diag.Reasons) == 0:
		out.Verdict = memproxy.Deny
		out.Reasons = append(out.Reasons, memproxy.Reason{Code: memproxy.PolicyNoPermit, Detail: "no policy permits this"})
	case decision == cedar.Deny:
		v, reasons := p.forbidden(diag.Reasons)
		out.Verdict = max(out.Verdict, v)
		out.Reasons = append(out.Reasons, reasons...)
	}
	if len(part.shadowed) == 0 {
		return
	}
	if decision, diag = cedar.Authorize(part.shadowed, entities, req); decision == cedar.Deny && len(diag.Reasons) > 0 {
		v, reasons := p.forbidden(diag.Reasons)
		out.ShadowVerdict = max(out.ShadowVerdict, v)
		out.Shadow = append(out.Shadow, reasons...)
	}
}

// forbidden is deny, or hold when every policy that forbids asks for that.
func (p *Policy) forbidden(diag []cedar.DiagnosticReason) (memproxy.Verdict, []memproxy.Reason) {
	v := memproxy.Hold
	reasons := make([]memproxy.Reason, 0, len(diag))
	for _, d := range diag {
		r := p.rules[d.PolicyID]
		v = max(v, r.verdict)
		reasons = append(reasons, memproxy.Reason{Code: r.reason, Rule: r.id, Detail: r.detail})
	}
	return v, reasons
}

// Where returns the file and line of a policy, for explanations.
func (p *Policy) Where(id string) (string, int, bool) {
	r, ok := p.rules[cedar.PolicyID(id)]
	if !ok {
		return "", 0, false
	}
	return r.file, r.line, true
}

// IDs lists the compiled policies, sorted.
func (p *Policy) IDs() []string {
	var ids []string
	for _, s := range [...]set{p.whole.enforced, p.whole.shadowed} {
		for _, r := range s {
			ids = append(ids, r.id)
		}
	}
	slices.Sort(ids)
	return ids
}

func sortReasons(rs []memproxy.Reason) {
	slices.SortFunc(rs, func(a, b memproxy.Reason) int {
		if c := strings.Compare(string(a.Code), string(b.Code)); c != 0 {
			return c
		}
		return strings.Compare(a.Rule, b.Rule)
	})
}

// written is one governed field with how much is written to it.
type written struct {
	name string
	size int
}

// fieldsOf are the fields that an operation writes; a write without one, and
// every other operation, is asked once with none.
func fieldsOf(op *memproxy.Operation) []written {
	out := make([]written, 0, 1)
	for i := range op.Items {
		it := &op.Items[i]
		if it.Kind != memproxy.ItemContent {
			continue
		}
		name := strings.ToLower(strings.TrimSpace(it.Field))
		n := utf8.RuneCountInString(it.Text)
		if at := slices.IndexFunc(out, func(w written) bool { return w.name == name }); at >= 0 {
			out[at].size += n
		} else {
			out = append(out, written{name, n})
		}
	}
	if len(out) == 0 {
		out = append(out, written{})
	}
	return out
}

func plainName(s string) bool {
	for _, c := range s {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

func contextOf(q memproxy.Question, f written) cedar.Record {
	op := q.Operation
	unseen := false
	for i := range op.Items {
		unseen = unseen || op.Items[i].Kind == memproxy.ItemURL || op.Items[i].Kind == memproxy.ItemData
	}
	found := foundOf(q.Findings)
	return cedar.NewRecord(cedar.RecordMap{
		"profile": cedar.String(q.Profile), "route": cedar.String(op.Route),
		"bulk": cedar.Boolean(op.Bulk), "steering": cedar.Boolean(op.Steering), "derived": cedar.Boolean(op.Derived),
		"unseen": cedar.Boolean(unseen), "backdated": cedar.Boolean(len(op.Backdated) > 0),
		"field": cedar.String(f.name), "fieldKnown": cedar.Boolean(plainName(f.name)), "size": cedar.Long(f.size),
		"items": cedar.Long(len(op.Items)), "claimed": cedar.Long(q.Claimed), "confidence": cedar.Long(q.Confidence),
		"source": cedar.String(op.SourceClaim),
		"user":   cedar.String(op.Scope.User), "agent": cedar.String(op.Scope.Agent), "app": cedar.String(op.Scope.App), "run": cedar.String(op.Scope.Run),
		"risk": cedar.Long(found.risk), "findings": found.rules, "secret": cedar.Boolean(found.secret), "personal": cedar.Boolean(found.personal),
		"authorTrust": cedar.Long(q.AuthorTrust),
	})
}

// found is what screening found, as policies see it.
type found struct {
	risk             memproxy.PerMille
	rules            cedar.Set
	secret, personal bool
}

// nothing is the empty set of rules, made once: most content has none.
var nothing = cedar.NewSet()

// maxRules bounds the rules that a policy is shown.
const maxRules = 64

func foundOf(findings []memproxy.Finding) found {
	f := found{rules: nothing}
	if len(findings) == 0 {
		return f
	}
	var names []cedar.Value
	for i := range findings {
		rule := findings[i].Rule
		f.risk = max(f.risk, findings[i].Score)
		f.secret = f.secret || strings.HasPrefix(rule, "secret.")
		f.personal = f.personal || strings.HasPrefix(rule, "pii.")
		if len(names) < maxRules {
			names = append(names, cedar.String(rule))
		}
	}
	f.rules = cedar.NewSet(names...)
	return f
}
