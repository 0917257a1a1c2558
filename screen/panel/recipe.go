package panel

import (
	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/screen"
	"github.com/memproxy/memproxy/screen/assembly"
)

// RuleRecipe is the rule of a write that completes, with others of whatever
// session and day, a way to carry data out.
const RuleRecipe = "assembled.recipe"

// cooked holds what completes a recipe.
func (p *Panel) cooked(s memproxy.Screening, findings []memproxy.Finding) []memproxy.Finding {
	written := texts(s.Operation)
	for _, i := range p.opt.Recipes.Complete(memoryOf(s), s.Decision, written, suspect(s.Operation), p.opt.Clock()) {
		findings = append(findings, memproxy.Finding{Rule: RuleRecipe, Severity: "high", Item: i, End: len(written[i]), Score: screen.Hold})
	}
	return findings
}

// memoryOf says into whose memory a write goes.
func memoryOf(s memproxy.Screening) assembly.Whose {
	sc := s.Operation.Scope
	return assembly.Whose{Tenant: s.Principal.Tenant, User: sc.User, Agent: sc.Agent, App: sc.App}
}

// suspect reports whether content comes from where it could be manipulated.
func suspect(op *memproxy.Operation) bool {
	return op.SourceClaim == memproxy.SourceUntrusted || op.SourceClaim == memproxy.SourceHostile
}
