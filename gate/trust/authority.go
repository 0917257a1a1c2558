package trust

import (
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
)

// Authority is how far the authors of a memory that a caller would change are trusted.
type Authority struct {
	Own bool // the caller is the original author
	// Others is how far the most trusted other author or corrector of the memory is
	// trusted; zero if there is none.
	Others      memproxy.PerMille
	Attestation memproxy.Attestation
}

// AuthorityOf derives the authority from the memory's ownership row and its stamp, which
// the caller has verified, or which is empty. It fills the stamp's author into a row
// without one.
func AuthorityOf(c memproxy.Ceilings, caller string, row *memproxy.Ownership, stamp *memproxy.Stamp) Authority {
	if row.Actor == "" && stamp.Actor != "" {
		row.Actor, row.Trust, row.Confidence, row.Source = stamp.Actor, stamp.Trust, stamp.Confidence, stamp.Source
		row.Scope.Tenant = stamp.Tenant
	}
	a := Authority{Own: row.Actor != "" && row.Actor == caller, Attestation: stamp.Attestation}
	if row.Actor != "" && !a.Own {
		a.Others = worth(c, row.Trust, row.Source, row.Confidence)
	}
	if stamp.Actor != "" && stamp.Actor != caller { // the stamp names the author of the last write
		a.Others = max(a.Others, worth(c, stamp.Trust, stamp.Source, stamp.Confidence))
	}
	return a
}

// worth returns how far an author is trusted: its ceiling, or the confidence with which
// the text was admitted if that is lower.
func worth(c memproxy.Ceilings, t memproxy.Trust, s memproxy.Source, given memproxy.PerMille) memproxy.PerMille {
	if ceiling := c.Ceiling(t, s); given <= 0 || given > ceiling {
		return ceiling
	}
	return given
}

// Attested raises the attestation to the recorded one.
func (a *Authority) Attested(recorded memproxy.Attestation) {
	if recorded.Outranks(a.Attestation) {
		a.Attestation = recorded
	}
}

// Corrected adds the authors of later corrections, other than the caller. A correction or
// an approval by a person always counts, whoever proposed the change.
func (a *Authority) Corrected(c memproxy.Ceilings, caller string, by []memproxy.Correction) {
	for i := range by {
		if by[i].Corrector != caller || by[i].Trust == memproxy.TrustHuman {
			a.Others = max(a.Others, c.Ceiling(by[i].Trust, ""))
		}
	}
}

// MayAttribute reports whether a caller may state who said the content, or that it was
// checked, which readers would believe. A caller with full confidence may. Others may
// only name an author for whom they may speak. The policy decides on instructions.
func MayAttribute(c memproxy.Ceilings, p *memproxy.Principal, s *memproxy.Scope, at *memproxy.Attribution) bool {
	if c.Ceiling(p.Trust, "") >= memproxy.Full || at.Kind == memproxy.AttributesInstruction {
		return true
	}
	return at.Kind == memproxy.AttributesAuthor && at.Legible && !slices.ContainsFunc(at.Values, func(name string) bool { return !speaksAs(p, s, name) })
}

// speaksAs reports whether a name is the caller's, one that it may act for, the
// operation's owner, which was checked against the caller before, or the role of a
// machine, which lowers how far a memory is trusted.
func speaksAs(p *memproxy.Principal, s *memproxy.Scope, name string) bool {
	switch memproxy.Key(name) {
	case "":
		return false
	case "assistant", "ai", "agent", "bot", "model", "llm":
		return true
	}
	_, plain, _ := strings.Cut(p.ID, ":")
	return slices.Contains([]string{p.ID, plain, s.User, s.Agent, s.App}, name) || slices.Contains(p.ActsAs.Values, name) || slices.Contains(p.Users.Values, name)
}
