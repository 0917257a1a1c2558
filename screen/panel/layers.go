package panel

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/screen"
	"github.com/memproxy/memproxy/screen/assembly"
	"github.com/memproxy/memproxy/screen/baseline"
	"github.com/memproxy/memproxy/screen/judge"
	"github.com/memproxy/memproxy/screen/secrets"
	"github.com/memproxy/memproxy/screen/similar"
	"github.com/memproxy/memproxy/screen/synapse"
)

// keysOf returns the keys of the earlier writes that a write is joined with: those of the
// caller to the same memory, and those of its session, unless the caller is anonymous
// with a session of its own choice (several ids of one account). The session alone is not
// enough: the caller chooses its name, and could use another session for each piece.
func keysOf(s memproxy.Screening) []assembly.Key {
	sc, k := s.Operation.Scope, assembly.Key{Tenant: s.Principal.Tenant, Principal: s.Principal.Account(), Session: s.Session}
	memory := "\x00" + sc.User + "\x00" + sc.Agent + "\x00" + sc.App
	if sc.User+sc.Agent+sc.App == "" {
		memory += "\x00" + sc.Run // with any of these set, a run is a session in the same memory
	}
	keys := append(make([]assembly.Key, 0, 2), assembly.Key{Tenant: k.Tenant, Principal: k.Principal, Session: memory})
	if k.Session != "" && k.Principal == s.Principal.ID {
		keys = append(keys, k)
	}
	return keys
}

// assembled screens the texts that the write forms together with earlier ones. A finding
// within one text, or within earlier writes only, is not attributed to this write.
func (p *Panel) assembled(s memproxy.Screening, findings []memproxy.Finding) []memproxy.Finding {
	for _, j := range p.opt.Assembly.Assemble(s.Decision, texts(s.Operation), p.opt.Clock(), keysOf(s)...) {
		if j.Kind == assembly.Credential && p.opt.Secrets {
			for _, hit := range secrets.Scan(j.Text) {
				if hit.Class.Secret() && j.SpansTexts(hit.Start, hit.End) {
					findings = attribute(findings, j, s.Decision, memproxy.Finding{
						Rule: "secret.assembled_" + string(hit.Class), Severity: hit.Class.Severity(), Start: hit.Start, End: hit.End,
					})
				}
			}
			continue
		}
		report := p.opt.Base.AssembledText(j.Text, string(s.Operation.SourceClaim), string(s.Principal.Trust))
		if report.Score < screen.HoldThreshold {
			continue
		}
		for _, f := range report.Findings {
			if strings.HasPrefix(f.Rule, "classify.") {
				continue // the classifier was trained on texts written in one piece
			}
			if j.Kind == assembly.Encoded || j.SpansTexts(f.Start, f.End) {
				f.Rule, f.Score = "assembled."+f.Rule, report.Score
				findings = attribute(findings, j, s.Decision, f)
			}
		}
	}
	return findings
}

// attribute adds a finding in a joined text at the parts of it that this write contains.
// If several joins give the same finding, the highest score is kept.
func attribute(findings []memproxy.Finding, j assembly.JoinedText, write string, f memproxy.Finding) []memproxy.Finding {
	for _, seg := range j.SegmentsOf(write, f.Start, f.End) {
		own := f
		own.Item, own.Start, own.End = seg.Text, seg.From, seg.To
		at := slices.IndexFunc(findings, func(f memproxy.Finding) bool {
			return f.Rule == own.Rule && f.Item == own.Item && f.Start == own.Start && f.End == own.End
		})
		if at < 0 {
			findings = append(findings, own)
			continue
		}
		findings[at].Score = max(findings[at].Score, own.Score)
	}
	return findings
}

// note records the result of a layer for an item, and appends a finding if it failed.
func (p *Panel) note(ctx context.Context, layer string, item int, err error, findings []memproxy.Finding) []memproxy.Finding {
	p.opt.Outages.note(ctx, p.opt.Log, p.opt.Clock(), layer, err)
	if err == nil {
		return findings
	}
	return append(findings, memproxy.Finding{Rule: layer + ".unavailable", Severity: "low", Item: item})
}

// similar compares items with known attacks by embedding. The threshold depends on the
// source. After a call that took too long, or calls that failed slowly, it fails for the other
// items at once, so that the write does not wait for each.
func (p *Panel) similar(ctx context.Context, op *memproxy.Operation, findings []memproxy.Finding) []memproxy.Finding {
	var lost time.Duration // by failures
	var away error         // for the other items
	for i := range op.Items {
		if !judged(&op.Items[i]) {
			continue
		}
		begun, m, err := p.opt.Clock(), similar.Match{}, away
		if away == nil {
			m, err = p.opt.Similar.Match(ctx, op.Items[i].Text, op.SourceClaim)
		}
		findings = p.note(ctx, "similar", i, err, findings)
		if err == nil {
			findings = resembles(findings, "similar", m, i)
		} else if lost += p.opt.Clock().Sub(begun); lost >= 5*time.Second || errors.Is(err, context.DeadlineExceeded) {
			away = err
		}
	}
	return findings
}

// asker returns the key by which calls are counted for fair shares: the account, or one
// key for all anonymous callers, since anyone can have many anonymous identities.
func asker(p *memproxy.Principal) string {
	if p.Trust == memproxy.TrustAnonymous {
		return "anonymous"
	}
	return p.Tenant + "\x00" + p.Account()
}

// opined has the findings for the judge's opinions.
var opined = map[judge.Opinion]memproxy.Finding{
	judge.Suspicious: {Rule: "judge.medium", Severity: "medium", Score: screen.HoldThreshold},
	judge.Dangerous:  {Rule: "judge.high", Severity: "high", Score: screen.DenyThreshold},
}

// opinions asks the judge about borderline items.
func (p *Panel) opinions(ctx context.Context, who string, op *memproxy.Operation, findings []memproxy.Finding) []memproxy.Finding {
	risks := make(map[int]memproxy.PerMille)
	for _, f := range findings {
		risks[f.Item] = max(risks[f.Item], f.Score)
	}
	for i := range op.Items {
		if !judged(&op.Items[i]) {
			continue
		}
		opinion, err := p.opt.Judge.Ask(ctx, who, op.Items[i].Text, risks[i])
		if opinion == judge.NotAsked && err == nil {
			continue
		}
		findings = p.note(ctx, "judge", i, err, findings)
		if f, ok := opined[opinion]; ok {
			f.Item, f.End, f.Score = i, len(op.Items[i].Text), max(f.Score, risks[i])
			findings = append(findings, f)
		}
	}
	return findings
}

// resembles appends the finding for an item that matches a known attack over the
// threshold.
func resembles(out []memproxy.Finding, layer string, m similar.Match, item int) []memproxy.Finding {
	if !m.OverThreshold() {
		return out
	}
	return append(out, memproxy.Finding{Rule: layer + "." + m.Family, Severity: "high", Item: item, Start: m.Start, End: m.End, Score: screen.HoldThreshold})
}

// RuleRecipe is the rule of a write that completes an exfiltration recipe together with
// other writes, of any session and day.
const RuleRecipe = "assembled.recipe"

// recipes adds a finding that holds for each text that completes a recipe.
func (p *Panel) recipes(s memproxy.Screening, findings []memproxy.Finding) []memproxy.Finding {
	written := texts(s.Operation)
	for _, i := range p.opt.Recipes.Completing(memoryOf(s), s.Decision, written, suspect(s.Operation), p.opt.Clock()) {
		findings = append(findings, memproxy.Finding{Rule: RuleRecipe, Severity: "high", Item: i, End: len(written[i]), Score: screen.HoldThreshold})
	}
	return findings
}

// memoryOf returns the memory that a write goes to.
func memoryOf(s memproxy.Screening) assembly.RecipeKey {
	sc := s.Operation.Scope
	return assembly.RecipeKey{Tenant: s.Principal.Tenant, User: sc.User, Agent: sc.Agent, App: sc.App}
}

// suspect reports whether content comes from a source that an attacker may control.
func suspect(op *memproxy.Operation) bool {
	return op.SourceClaim == memproxy.SourceUntrusted || op.SourceClaim == memproxy.SourceHostile
}

// governed reports whether the mandatory patterns count in an item: in governed fields,
// and in all fields if the source is suspect.
func (p *Panel) governed(s memproxy.Screening, it *memproxy.Item) bool {
	return p.opt.Synapse && !s.FromBackend && writes(s.Operation) && (suspect(s.Operation) || governs(it))
}

// governs reports whether an item writes a governed field.
func governs(it *memproxy.Item) bool {
	is := func(field string) bool { return slices.Contains(memproxy.GovernedFields(), memproxy.Key(field)) }
	return is(it.Field) || slices.ContainsFunc(it.OtherFields, is)
}

// validated adds the mandatory patterns where they count, and the heuristics of the style
// of governed fields. They have no score: the policy decides.
func (p *Panel) validated(s memproxy.Screening, found []*textFindings, findings []memproxy.Finding) []memproxy.Finding {
	_, name, _ := strings.Cut(s.Principal.ID, ":")
	own := append([]string{s.Operation.Scope.Agent, name}, s.Principal.Roles...) // by which the writer may call itself
	for i := range s.Operation.Items {
		it := &s.Operation.Items[i]
		if !judged(it) || !p.governed(s, it) {
			continue
		}
		hits := slices.Clip(found[i].patterns)
		if governs(it) {
			hits = append(hits, synapse.Heuristics(it.Text, own)...)
		}
		for _, h := range hits {
			h.Item = i
			findings = append(findings, h)
		}
	}
	return findings
}

// profileOf returns the baseline profile for a write: that of the user it is about, else
// that of the principal.
func profileOf(s memproxy.Screening) baseline.Key {
	return baseline.Key{Tenant: s.Principal.Tenant, User: cmp.Or(s.Operation.Scope.User, "\x00"+s.Principal.Account())}
}

// filled returns the non-empty texts of a write, and the index of their items.
func filled(op *memproxy.Operation) (out []string, items []int) {
	for i, t := range texts(op) {
		if t != "" {
			out, items = append(out, t), append(items, i)
		}
	}
	return out, items
}

// deviations adds the baseline's deviations. They are hints: by themselves they hold
// nothing, unless the source is hostile.
func (p *Panel) deviations(s memproxy.Screening, findings []memproxy.Finding) []memproxy.Finding {
	list, items := filled(s.Operation)
	for _, f := range p.opt.Baseline.Check(profileOf(s), list, p.opt.Clock()) {
		f.Item = items[f.Item]
		if s.Operation.SourceClaim != memproxy.SourceHostile {
			f.Score = min(f.Score, screen.HoldThreshold-1)
		}
		findings = append(findings, f)
	}
	return findings
}
