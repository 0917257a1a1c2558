package memproxy

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// PerMille is a share in thousandths, 0 to 1000. Confidence and trust ceilings
// are whole per mille so that they compare and serialise exactly.
type PerMille int

// FromFraction converts a number from 0 to 1, rounded to the nearest per mille.
func FromFraction(f float64) PerMille { return PerMille(f*1000 + 0.5) }

// Fraction converts to a number from 0 to 1.
func (p PerMille) Fraction() float64 { return float64(p) / 1000 }

// Decimal reads a number in plain decimal digits, such as 0.25: without a sign, an exponent or
// another base.
func Decimal(text string) (n float64, ok bool) {
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil && strings.Trim(text, "0123456789.") == ""
}

// Full is certainty.
const Full PerMille = 1000

// Trust is the tier of a principal.
type Trust string

// The trust tiers, lowest first.
const (
	TrustAnonymous     Trust = "anonymous"
	TrustAuthenticated Trust = "authenticated"
	TrustEstablished   Trust = "established"
	TrustHuman         Trust = "human"
	TrustSystem        Trust = "system"
)

// Trusts lists the tiers, lowest first.
var Trusts = [...]Trust{TrustAnonymous, TrustAuthenticated, TrustEstablished, TrustHuman, TrustSystem}

// Source is how far the origin of content is trusted, whichever principal delivers it.
type Source string

// The source tiers, highest first.
const (
	SourceTrusted   Source = "trusted"
	SourceVerified  Source = "verified"
	SourceUntrusted Source = "untrusted"
	SourceHostile   Source = "hostile"
	// SourceUnstated marks content of unstated origin. It has no ceiling of its own; the
	// ceiling of the principal applies.
	SourceUnstated Source = "unstated"
)

// SourceTiers lists the tiers that have a ceiling, highest first.
var SourceTiers = [...]Source{SourceTrusted, SourceVerified, SourceUntrusted, SourceHostile}

// Lower returns the lower tier. One without a ceiling counts as the highest.
func (s Source) Lower(other Source) Source {
	if rank := SourceTiers[:]; slices.Index(rank, other) > slices.Index(rank, s) {
		return other
	}
	return s
}

// Attestation is how well a memory's source is known.
type Attestation string

// The attestations, weakest first.
const (
	// AttestationUnknown marks a memory that is older than the proxy, or was written out
	// of band.
	AttestationUnknown Attestation = "unknown"
	Inferred           Attestation = "inferred" // inferred by a model, and not stated by a person
	SelfReported       Attestation = "self-reported"
	ToolObserved       Attestation = "tool-observed"
	ContentHashed      Attestation = "content-hashed"
	HumanConfirmed     Attestation = "human-confirmed"
	LogAnchored        Attestation = "log-anchored"
)

// Attestations lists the attestations, weakest first.
var Attestations = [...]Attestation{
	AttestationUnknown, Inferred, SelfReported, ToolObserved, ContentHashed, HumanConfirmed, LogAnchored,
}

// Outranks reports whether attestation a is stronger than b. A value that is not in
// Attestations ranks as unknown.
func (a Attestation) Outranks(b Attestation) bool {
	return slices.Index(Attestations[1:], a) > slices.Index(Attestations[1:], b)
}

// Track is the track record of an author's facts.
type Track struct {
	// Facts is how many of the author's memories were ever stored.
	Facts int64 `json:"facts"`
	// Corrections is how many corrections by others these memories received.
	Corrections int64 `json:"corrections"`
	// Accepted counts memories that were promoted from review, or confirmed by a person.
	Accepted int64 `json:"accepted,omitempty"`
	// Validated is how many were examined and accepted, by the rules or by a person, and
	// were not flagged or quarantined since.
	Validated int64 `json:"validated,omitempty"`
	// Since is when the first memory was recorded. Zero means unknown; for an author with
	// facts it then counts as long ago.
	Since time.Time `json:"since,omitzero"`
	// Unknown is set if the record could not be looked up.
	Unknown bool `json:"-"`
}

// The bounds of a track record.
const (
	// TrackFloor is the factor of the worst track record.
	TrackFloor PerMille = 500
	// trackSmoothing is the number of uncorrected facts with which each author starts, so
	// that one early correction costs a new author a tenth and not a half.
	trackSmoothing = 10
)

// Factor returns the factor for the ceiling of the author's tier: 1 - corrections /
// (facts + 10), and at least TrackFloor. Without corrections it is Full. An unknown record
// counts as the worst.
func (t Track) Factor() PerMille {
	facts, corrections := max(0, t.Facts), max(0, t.Corrections)
	if share := float64(corrections) / (float64(facts) + trackSmoothing); share < 0.5 && !t.Unknown {
		return max(TrackFloor, Full-PerMille(math.Ceil(share*float64(Full))))
	}
	return TrackFloor
}

// Ceilings are the highest confidences that each tier may claim.
type Ceilings struct {
	Principal map[Trust]PerMille
	Source    map[Source]PerMille
	// Unclaimed is the confidence of a write that claims none.
	Unclaimed PerMille
}

// DefaultCeilings returns the ceilings of the built-in bundle.
func DefaultCeilings() Ceilings {
	return Ceilings{
		Principal: map[Trust]PerMille{
			TrustAnonymous: 300, TrustAuthenticated: 700, TrustEstablished: 900, TrustHuman: 1000, TrustSystem: 1000,
		},
		Source: map[Source]PerMille{
			SourceTrusted: 1000, SourceVerified: 900, SourceUntrusted: 600, SourceHostile: 300,
		},
		Unclaimed: 800,
	}
}

// CeilingTable is the ceilings on confidence as written, like BudgetTable.
type CeilingTable struct {
	Principal map[Trust]float64  `json:"principal,omitempty" yaml:"principal,omitempty" doc:"ceilings by tier of the principal" default:"0.3, 0.7, 0.9, 1, 1" keys:"anonymous,authenticated,established,human,system" min:"0" max:"1" loose:"up"`
	Source    map[Source]float64 `json:"source,omitempty" yaml:"source,omitempty" doc:"ceilings by tier of the source" default:"1, 0.9, 0.6, 0.3" keys:"trusted,verified,untrusted,hostile" min:"0" max:"1" loose:"up"`
	Unclaimed *float64           `json:"unclaimed,omitzero" yaml:"unclaimed,omitempty" doc:"confidence of a write that claims none" default:"0.8" min:"0" max:"1" loose:"up"`
}

// Ceilings checks and converts the table. Absent values are those of the built-in bundle.
func (t CeilingTable) Ceilings() (Ceilings, error) {
	c := DefaultCeilings()
	principal, source := setCeilings("principal", c.Principal, t.Principal), setCeilings("source", c.Source, t.Source)
	var unclaimed error
	if t.Unclaimed != nil {
		c.Unclaimed, unclaimed = ceiling("unclaimed", *t.Unclaimed)
	}
	return c, errors.Join(principal, source, unclaimed)
}

func setCeilings[T ~string](name string, all map[T]PerMille, listed map[T]float64) error {
	var faults []error
	for _, tier := range slices.Sorted(maps.Keys(listed)) {
		if _, known := all[tier]; !known {
			faults = append(faults, fmt.Errorf("confidence.%s has no tier %q", name, tier))
		}
		p, err := ceiling(name+"."+string(tier), listed[tier])
		all[tier], faults = p, append(faults, err)
	}
	return errors.Join(faults...)
}

func ceiling(name string, f float64) (PerMille, error) {
	if !(f >= 0 && f <= 1) { // also refuses NaN
		return 0, fmt.Errorf("confidence.%s is not from 0 to 1", name)
	}
	return FromFraction(f), nil
}

// Table returns the ceilings as a table, with all values filled in.
func (c Ceilings) Table() *CeilingTable {
	return &CeilingTable{fractions(c.Principal), fractions(c.Source), new(c.Unclaimed.Fraction())}
}

func fractions[T ~string](all map[T]PerMille) map[T]float64 {
	out := make(map[T]float64, len(all))
	for tier, p := range all {
		out[tier] = p.Fraction()
	}
	return out
}

// Lifted returns ceilings that limit nothing.
func (c Ceilings) Lifted() Ceilings {
	out := Ceilings{Principal: map[Trust]PerMille{}, Source: map[Source]PerMille{}, Unclaimed: c.Unclaimed}
	for t := range c.Principal {
		out.Principal[t] = Full
	}
	for s := range c.Source {
		out.Source[s] = Full
	}
	return out
}

// Ceiling returns the highest confidence that a principal of tier t may give to content
// from source s. Unknown tiers count as the lowest.
func (c Ceilings) Ceiling(t Trust, s Source) PerMille {
	p, ok := c.Principal[t]
	if !ok {
		p = c.Principal[TrustAnonymous]
	}
	if s == "" || s == SourceUnstated {
		return p
	}
	q, ok := c.Source[s]
	if !ok {
		q = c.Source[SourceHostile]
	}
	return min(p, q)
}

// PrincipalKind is the kind of a caller.
type PrincipalKind string

// The principal kinds.
const (
	KindAgent     PrincipalKind = "agent"
	KindHuman     PrincipalKind = "human"
	KindService   PrincipalKind = "service"
	KindAnonymous PrincipalKind = "anonymous"
)

// Credentials are what a caller presents outside of the payload.
type Credentials struct {
	Header Header
	// PeerURIs are the URI SANs of the client certificate. They are set only if the TLS
	// stack verified the certificate against the configured roots.
	PeerURIs []string
	// PeerExpired is set if that certificate has expired since the connection was made.
	PeerExpired bool
	// Peer is the remote address of the connection without the port, or "". It is never
	// taken from a header.
	Peer string
	// Host is the requested host, with or without a port.
	Host string
	// Session is the session that the caller names; the zero value is none.
	Session SessionName
}

// Limit is the set of values of one identity dimension that a principal may name. The
// zero value allows none.
type Limit struct {
	All    bool
	Values []string
}

// LimitTo returns the limit to some values; "*" among them allows all.
func LimitTo(values []string) Limit {
	return Limit{All: slices.Contains(values, "*"), Values: append([]string(nil), values...)}
}

// Allows reports whether value may be named.
func (l Limit) Allows(value string) bool {
	return l.All || slices.Contains(l.Values, value)
}

// Roles that the built-in policies and the gate know. Others are the installation's own.
const (
	RoleOwner    = "memproxy-owner"    // configures the agents that the caller may name
	RoleForget   = "memproxy-forget"   // deletes all that one named owner has
	RoleAdmin    = "memproxy-admin"    // administers the backend
	RoleReviewer = "memproxy-reviewer" // sees memories that wait for review
)

// Roles lists the roles above.
func Roles() []string { return []string{RoleOwner, RoleForget, RoleAdmin, RoleReviewer} }

// Principal is an authenticated caller.
type Principal struct {
	ID string
	// Group is the name by which policies and budgets know the principal, if it is not
	// ID: all callers without credentials share one name.
	Group  string
	Kind   PrincipalKind
	Tenant string
	Roles  []string
	Trust  Trust
	// Method is how the caller was identified: "key", "oidc", "spiffe",
	// "default".
	Method string
	// ActsAs, Users, Apps and Runs limit which owners the principal may name and
	// whose memories it may see.
	ActsAs, Users, Apps, Runs Limit
}

// CallerNames are the names that callers can have by the configuration.
type CallerNames struct {
	Tenants     []string
	OpenTenants bool // tokens may name other tenants
	Principals  []Principal
	// OpenPrincipals is set if tokens or certificates give other ids, or if each caller
	// without a credential has its own.
	OpenPrincipals bool
}

// LimitIn returns the principal's limit in dimension d. The actor dimension is never limited:
// it is recorded and carries no authority.
func (p *Principal) LimitIn(d Dimension) Limit { return *p.limit(d) }

func (p *Principal) limit(d Dimension) *Limit {
	switch d {
	case DimUser:
		return &p.Users
	case DimAgent:
		return &p.ActsAs
	case DimApp:
		return &p.Apps
	case DimRun:
		return &p.Runs
	}
	return &Limit{All: true}
}

// WithName returns the principal with one more name that it may use in dimension d.
func (p Principal) WithName(d Dimension, name string) Principal {
	if limit := p.limit(d); !limit.Allows(name) {
		limit.Values = append(slices.Clone(limit.Values), name)
	}
	return p
}

// StampPrefix begins every metadata key of the proxy's own. Clients' keys with this
// prefix are removed and reported.
const StampPrefix = "memproxy_"

// Reserved reports whether a metadata key is the proxy's own, ignoring case.
func Reserved(key string) bool {
	return len(key) >= len(StampPrefix) && strings.EqualFold(key[:len(StampPrefix)], StampPrefix)
}

// Stamp is the provenance of a memory that is stored in its metadata, as flat scalar keys
// with StampPrefix, under 1 KB in total.
type Stamp struct {
	ID          string // decision id of the write
	Actor       string // principal id
	Tenant      string // signed but not stored: verification fails for another tenant
	Trust       Trust
	Confidence  PerMille
	Source      Source
	Attestation Attestation
	Time        time.Time // when the proxy ruled on it, to the second, UTC
	SHA256      string    // hex SHA-256 of the content that was ruled on
	Mark        string    // codes of the reasons for the mark, separated by spaces; "" is not stored
	// Received is when the proxy received the write; it is earlier than Time if a person
	// approved the write later. Zero is not stored, as in older stamps.
	Received  time.Time
	Session   string   // hash of the caller's name for its session; "" is not stored
	Trigger   string   // what caused the write: a route id, or "rollback"; "" is not stored
	Score     PerMille // risk that screening found
	Flags     string   // the highest-ranking rules that matched, separated by spaces
	Metadata  string   // hashes of the metadata members it was stored with; "" is not stored
	Signature string   // over all fields above
}

// CredentialError is the error for a credential that was presented and not accepted, or
// that is missing where one is required.
type CredentialError struct {
	Code   ReasonCode // identity.missing or identity.invalid
	Detail string     // for a person; never quotes the credential
}

// Error makes CredentialError an error.
func (e *CredentialError) Error() string { return string(e.Code) + ": " + e.Detail }
