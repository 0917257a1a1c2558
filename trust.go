package memproxy

import (
	"math"
	"slices"
	"strings"
	"time"
)

// PerMille is a share in thousandths, 0 to 1000. Confidence and trust ceilings
// are whole per mille so that they compare and serialise exactly.
type PerMille int

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

// Source is how far the origin of content is trusted, whoever brings it.
type Source string

// The source tiers, highest first.
const (
	SourceTrusted   Source = "trusted"
	SourceVerified  Source = "verified"
	SourceUntrusted Source = "untrusted"
	SourceHostile   Source = "hostile"
	// SourceUnstated marks content without a stated origin. It has no ceiling of
	// its own: the principal's applies.
	SourceUnstated Source = "unstated"
)

// Attestation is how well a memory's source is known, weakest first.
type Attestation string

// The attestations.
const (
	// AttestationUnknown marks a memory that was there before the proxy, or was
	// written around it.
	AttestationUnknown Attestation = "unknown"
	Inferred           Attestation = "inferred" // a model's conclusion that nobody stated
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

// Outranks reports whether a source is known better by a than by b. A value that is
// not in the list ranks with unknown.
func (a Attestation) Outranks(b Attestation) bool {
	return slices.Index(Attestations[1:], a) > slices.Index(Attestations[1:], b)
}

// Track is the track record of an author's facts.
type Track struct {
	// Facts is how many memories were ever remembered as the author's.
	Facts int64 `json:"facts"`
	// Corrections is how many corrections by others they received.
	Corrections int64 `json:"corrections"`
	// Accepted counts facts that were promoted from review, or vouched for by a
	// person.
	Accepted int64 `json:"accepted,omitempty"`
	// Validated is how many were looked at and found sound, by the rules or by a
	// person, and were not flagged or quarantined since.
	Validated int64 `json:"validated,omitempty"`
	// Since is when the first was recorded; zero if unknown, which for an author
	// with facts means long ago.
	Since time.Time `json:"since,omitzero"`
}

// The bounds of a track record.
const (
	// TrackFloor is the factor of the worst track record.
	TrackFloor PerMille = 500
	// trackSmoothing is the number of uncorrected facts that each author is
	// credited with, so that one early correction costs a newcomer a tenth and not
	// a half.
	trackSmoothing = 10
)

// Factor is the factor for the ceiling of the author's tier: 1 - corrections /
// (facts + 10), and never less than TrackFloor. Without corrections it is Full.
func (t Track) Factor() PerMille {
	facts, corrections := max(0, t.Facts), max(0, t.Corrections)
	if share := float64(corrections) / (float64(facts) + trackSmoothing); share < 0.5 {
		return max(TrackFloor, Full-PerMille(math.Ceil(share*float64(Full))))
	}
	return TrackFloor
}

// Ceilings are the highest confidences that tiers may claim.
type Ceilings struct {
	Principal map[Trust]PerMille
	Source    map[Source]PerMille
	// Unclaimed is the confidence of a write that claims none.
	Unclaimed PerMille
}

// DefaultCeilings are the ceilings of the built-in bundle.
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

// Lifted are ceilings without an effect.
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

// Ceiling is the highest confidence that a principal of tier t may give to content
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

// Credentials are what a caller presents, outside of the payload.
type Credentials struct {
	Header Header
	// PeerURIs are the URI SANs of the client certificate, only when the TLS
	// stack verified it against the configured roots.
	PeerURIs []string
	// Peer is the remote address of the connection, without its port, or "". It is
	// never taken from a header.
	Peer string
	// Host is the host that the request names, with a port or without.
	Host string
	// Session is the session that the caller names, or none.
	Session SessionName
}

// Limit lists the values of one identity dimension that a principal may name. The
// zero value allows none.
type Limit struct {
	All    bool
	Values []string
}

// Allows reports whether value may be named.
func (l Limit) Allows(value string) bool {
	return l.All || slices.Contains(l.Values, value)
}

// Principal is an authenticated caller.
type Principal struct {
	ID string
	// Group is the name by which policies and budgets know the principal, if it is
	// not ID: that of all callers without credentials together.
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

// May returns the principal's limit in dimension d. The actor dimension is
// never limited: it is recorded and carries no authority.
func (p Principal) May(d Dimension) Limit { return *p.limit(d) }

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

// Naming is the principal with a name more that it may use in dimension d.
func (p Principal) Naming(d Dimension, name string) Principal {
	if limit := p.limit(d); !limit.Allows(name) {
		limit.Values = append(slices.Clone(limit.Values), name)
	}
	return p
}

// StampPrefix begins every metadata key that is the proxy's own. Clients'
// keys with this prefix are removed and reported.
const StampPrefix = "memproxy_"

// Reserved reports whether a metadata key is the proxy's own, ignoring case.
func Reserved(key string) bool {
	return len(key) >= len(StampPrefix) && strings.EqualFold(key[:len(StampPrefix)], StampPrefix)
}

// Stamp is the provenance that travels with a memory in its metadata, as flat
// scalar keys with StampPrefix, under 1 KB in all.
type Stamp struct {
	ID          string      // decision id of the write
	Actor       string      // principal id
	Tenant      string      // signed, not written: the reader knows it or fails
	Trust       Trust       //
	Confidence  PerMille    //
	Source      Source      //
	Attestation Attestation //
	Time        time.Time   // when the proxy ruled, to the second, UTC
	SHA256      string      // hex, of the content as it was ruled on
	Mark        string      // codes of the reasons for which it is marked, with spaces between; "" is not written
	// Received is when the proxy took the write in: before Time where a person
	// approved it later. Zero is not written, in stamps of before.
	Received  time.Time
	Session   string   // hash of the caller's name of its session; "" is not written
	Trigger   string   // what led to the write: id of the route, or "rollback"; "" is not written
	Score     PerMille // how dangerous screening found it
	Flags     string   // the worst of the rules that found something, with spaces between
	Metadata  string   // hashes of the members of metadata that it was written next to; "" is not written
	Signature string   // over all the above
}

// Rejected is the error of a credential that was presented and not accepted,
// or is missing where none is allowed.
type Rejected struct {
	Code   ReasonCode // identity.missing or identity.invalid
	Detail string     // for a person; never quotes the credential
}

// Error makes Rejected an error.
func (r *Rejected) Error() string { return string(r.Code) + ": " + r.Detail }
