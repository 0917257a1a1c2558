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
	Screener Screener // nil: screening is off
	// Approved are the SHA-256 of texts that may instruct an agent, in hex.
	Approved map[string]bool
	// Withhold is the risk from which a memory is removed from answers, and a
	// memory that a backend's model extracted is retracted. Zero: never.
	Withhold memproxy.PerMille
	// Sanitise is the risk from which the dangerous spans of a text that was
	// written out-of-band are replaced in answers. Zero: never. Flagged memories
	// are always sanitised.
	Sanitise memproxy.PerMille
	// WithholdUntrusted removes memories that are untrusted, or unknown, until they
	// are validated.
	WithholdUntrusted bool
	// NeverRefuse admits new memories that look dangerous and lets their status
	// decide how they are shown, if every read can be filtered accordingly.
	NeverRefuse bool
	// Rewrite is how far a text that looks dangerous is rewritten instead of
	// refusing the write. Empty is memproxy.RewriteOff.
	Rewrite memproxy.Rewriting
	// Changed is how memories that were changed out-of-band are treated. Empty is
	// ChangedReport.
	Changed Changed
	// Pending selects the new memories that wait for review before others read
	// them, TTL how long memories are kept. Nil: none, and for ever. A caller whose
	// record cannot be looked up counts as new.
	Pending  Waits
	TTL      Lifetime
	Ceilings memproxy.Ceilings
	// Earning is what makes an authenticated caller an established one. The
	// zero value: nothing.
	Earning memproxy.Earning
	// Governance says how layers and keys are governed.
	Governance memproxy.Governance
	// Lines returns the budget lines that a principal's write to some fields draws
	// on, on behalf of an end user ("": none is named).
	Lines func(who memproxy.Principal, kind memproxy.Kind, user string, fields []string) []memproxy.Line
	// Enforce is false in shadow mode: everything is ruled on and recorded, and
	// forwarded unchanged.
	Enforce      bool
	Unattributed access.Unattributed
	// OneTenant is set if all callers are of one tenant. Everything in a backend is
	// then theirs, unless the ledger has it as another tenant's.
	OneTenant bool
	// Unclaimed is how members of answers without a claim are treated. Empty is
	// UnclaimedDrop.
	Unclaimed Unclaimed
	// Headers is how headers of answers without a claim are treated. Empty is
	// UnclaimedDrop.
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

// The HTTP statuses of refusals (RFC 9110). The gate has its own constants because
// both faces answer HTTP but the gate does not depend on it.
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
