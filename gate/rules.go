package gate

import (
	"errors"
	"fmt"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/access"
)

// Profile names a set of defaults.
type Profile string

// The profiles.
const (
	Development Profile = "development"
	Production  Profile = "production"
)

// Rules is everything that can be replaced while the gate runs. It is
// immutable: each request pins the pointer it started with, so that no request
// is ruled on by two versions.
type Rules struct {
	// Version identifies the rules in decisions and audit records.
	Version  string
	Profile  Profile
	Policy   Policy
	Screener Screener // nil: nothing is screened
	// Approved are the SHA-256 of texts that may instruct an agent, in hex.
	Approved map[string]bool
	// Withhold is the risk from which on a memory is left out of answers, and
	// what a backend's model extracted is taken back. Zero: never.
	Withhold memproxy.PerMille
	// Sanitise is the risk from which on the dangerous spans of a text that came
	// in around the proxy are replaced in answers. Zero: never. What is flagged
	// is sanitised in any case.
	Sanitise memproxy.PerMille
	// WithholdUntrusted leaves out what is untrusted, or not known, until it is
	// validated.
	WithholdUntrusted bool
	// NeverRefuse writes new memories that look dangerous and has their state
	// decide what is shown of them, where every read can be kept to it.
	NeverRefuse bool
	// Rewrite says how far a text that looks dangerous is changed in the place of
	// refusing the write. Empty is memproxy.RewriteOff.
	Rewrite memproxy.Rewriting
	// Changed says what becomes of memories that were changed behind the proxy.
	// Empty is ChangedReport.
	Changed Changed
	// Pending says which new memories wait for review before others read
	// them, TTL how long memories are kept. Nil: none, and for ever. A
	// record that nobody can look up is that of a stranger.
	Pending  Waits
	TTL      Lifetime
	Ceilings memproxy.Ceilings
	// Earning is what makes an authenticated caller an established one. The
	// zero value: nothing.
	Earning memproxy.Earning
	// Governance says how layers and keys are governed.
	Governance memproxy.Governance
	// Lines returns the budget lines that a write of a principal draws on, on
	// behalf of an end user ("": of nobody that is named), to some fields.
	Lines func(who memproxy.Principal, kind memproxy.Kind, user string, fields []string) []memproxy.Line
	// Enforce is false in shadow mode: everything is ruled on and recorded,
	// and forwarded unchanged.
	Enforce      bool
	Unattributed access.Unattributed
	// OneTenant is set where all callers are of one tenant. All that a backend
	// holds is then theirs, but for what the ledger knows to be another's.
	OneTenant bool
	// Unclaimed says what becomes of members of answers that no row claims.
	// Empty is UnclaimedDrop.
	Unclaimed Unclaimed
	// Headers says what becomes of headers of answers that no row claims. Empty
	// is UnclaimedDrop.
	Headers Unclaimed
}

func (r *Rules) validate() error {
	switch {
	case r == nil:
		return errors.New("gate: no rules")
	case r.Policy == nil:
		return errors.New("gate: rules without a policy")
	case r.Lines == nil:
		return errors.New("gate: rules without budget lines")
	case r.Version == "":
		return errors.New("gate: rules without a version")
	case r.Profile != Development && r.Profile != Production:
		return fmt.Errorf("gate: unknown profile %q", r.Profile)
	}
	for what, setting := range map[string]Unclaimed{"members": r.Unclaimed, "headers": r.Headers} {
		switch setting {
		case "", UnclaimedDrop, UnclaimedPass:
		default:
			return fmt.Errorf("gate: unknown setting %q for unclaimed %s of answers", setting, what)
		}
	}
	switch r.Rewrite {
	case "", memproxy.RewriteOff, memproxy.RewriteSoft, memproxy.RewriteHard:
	default:
		return fmt.Errorf("gate: unknown rewriting %q", r.Rewrite)
	}
	switch r.Unattributed {
	case access.Visible, access.Named, access.Hidden:
		return nil
	}
	return fmt.Errorf("gate: unknown setting %q for unattributed memories", r.Unattributed)
}

// The HTTP statuses of refusals (RFC 9110). The gate speaks them as numbers,
// because both faces answer HTTP but the gate itself does not.
const (
	StatusBadRequest   = 400
	StatusUnauthorized = 401
	StatusForbidden    = 403
	StatusNotFound     = 404
	StatusTooLarge     = 413
	StatusUnprocessed  = 422
	StatusTooMany      = 429
	StatusBadGateway   = 502
	StatusUnavailable  = 503
)
