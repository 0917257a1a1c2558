package memproxy

import (
	"slices"
	"strings"
)

// Facts are what policies were asked about a call besides what its Event says
// anyway: names of roles, sizes and kinds, and never content. With them a
// decision can be asked again of other policies.
type Facts struct {
	Roles  []string
	Writes []Written
	// Claims are the layers that the payload claims besides.
	Claims []Layer
	// As in Operation.
	Bulk, Single, Steering, Derived, Unseen, Backdated bool
	Source                                             Source
	// What screening found: the highest score, and whether a credential or
	// personal data is among it.
	Risk             PerMille
	Secret, Personal bool
	// As in Question.
	AuthorTrust       PerMille
	Others            bool
	AuthorAttestation Attestation
	Attestation       Attestation
	Track, Ceiling    PerMille
}

// Written is how much of what a call writes where.
type Written struct {
	Field    string
	Member   string // as in Item
	Layer    Layer
	Inferred bool
	Size     int // characters
}

// The bounds of what is recorded of Facts: with more there are none.
const (
	maxFacts     = 64   // roles, and writes
	maxFactBytes = 8192 // of all names together
)

// FactsOf are the facts of a question, or nil where there are too many of them.
func FactsOf(q *Question) *Facts {
	op := q.Operation
	f := &Facts{
		Roles: q.Principal.Roles, Bulk: op.Bulk, Single: op.Single, Steering: op.Steering, Derived: op.Derived, Backdated: len(op.Backdated) > 0, Source: op.SourceClaim, Claims: op.LayerClaims,
		AuthorTrust: q.AuthorTrust, Others: q.Others, AuthorAttestation: q.AuthorAttestation, Attestation: q.Attestation, Track: q.Track, Ceiling: q.Ceiling,
	}
	f.Risk, f.Secret, f.Personal = riskOf(q.Findings)
	bytes := 0
	for _, r := range f.Roles {
		bytes += len(r)
	}
	items := q.Content()
	for i := range items {
		it := &items[i]
		f.Unseen = f.Unseen || it.Kind == ItemURL || it.Kind == ItemData
		if it.Kind != ItemContent && it.Member == "" {
			continue
		}
		for _, field := range it.Written() {
			one := *it
			one.Field = field
			w := Written{Member: it.Member}
			if it.Kind == ItemContent { // the rules of fields, layers and inference are about content
				w.Field, w.Layer, w.Inferred = Key(field), q.Governance.LayerOf(&one), it.Inferred && it.Text != ""
			}
			k := slices.IndexFunc(f.Writes, func(o Written) bool {
				return o.Field == w.Field && o.Member == w.Member && o.Layer == w.Layer && o.Inferred == w.Inferred
			})
			if k < 0 {
				k = len(f.Writes)
				f.Writes = append(f.Writes, w)
				bytes += len(w.Field) + len(w.Member)
			}
			f.Writes[k].Size += it.Characters()
		}
	}
	if len(f.Roles) > maxFacts || len(f.Writes) > maxFacts || len(f.Claims) > maxFacts || bytes > maxFactBytes {
		return nil
	}
	return f
}

// Risk is how dangerous findings are: as much as the worst of them.
func Risk(findings []Finding) PerMille {
	risk, _, _ := riskOf(findings)
	return risk
}

func riskOf(findings []Finding) (risk PerMille, secret, personal bool) {
	for i := range findings {
		risk = max(risk, findings[i].Score)
		secret = secret || strings.HasPrefix(findings[i].Rule, "secret.")
		personal = personal || strings.HasPrefix(findings[i].Rule, "pii.")
	}
	return risk, secret, personal
}
