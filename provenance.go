package memproxy

import (
	"encoding/json"
	"time"
)

// ProvenanceKey is the metadata key under which readers that ask for it get a memory's
// provenance. It has the prefix of the stamp's keys, so a client cannot write it.
const ProvenanceKey = StampPrefix + "provenance"

// Provenance is what a reader is shown about a memory: its author, and what happened to
// it since. Unknown values are empty; an unknown attestation is "unknown".
type Provenance struct {
	Actor       string // principal id of the author
	Trust       Trust  // of the author, at the time of the write
	Confidence  PerMille
	Source      Source
	Attestation Attestation
	State       MemoryState
	// Contested is set if a principal of lower trust contradicts the memory.
	Contested bool
	// Unverified is the reason why the memory is not what was written through memproxy;
	// "" if it is.
	Unverified ReasonCode
	Decision   string    // id of the decision that admitted it, or its last change
	Written    time.Time // when it was first written
	// Received is when the write or the change of Decision arrived; zero if unknown.
	Received time.Time
}

// MarshalJSON encodes the provenance for answers: a flat object, the confidence from 0 to
// 1, times in RFC 3339 to the second.
func (p Provenance) MarshalJSON() ([]byte, error) {
	at := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.UTC().Format(time.RFC3339)
	}
	return json.Marshal(struct {
		Actor       string      `json:"actor,omitempty"`
		Trust       Trust       `json:"trust,omitempty"`
		Confidence  float64     `json:"confidence"`
		Source      Source      `json:"source,omitempty"`
		Attestation Attestation `json:"attestation"`
		State       MemoryState `json:"state"`
		Contested   bool        `json:"contested"`
		Unverified  ReasonCode  `json:"unverified,omitempty"`
		Decision    string      `json:"decision,omitempty"`
		Written     string      `json:"written,omitempty"`
		Received    string      `json:"received_at,omitempty"`
	}{p.Actor, p.Trust, p.Confidence.Fraction(), p.Source, p.Attestation, p.State, p.Contested, p.Unverified, p.Decision, at(p.Written), at(p.Received)})
}

// Attribution is an unverified claim of a payload about its content that readers would
// believe: who said it, in which role, or that it was verified.
type Attribution struct {
	Pointer string
	Kind    AttributionKind
	// Values are the texts of the claim. Legible is false if it is not text; it then
	// counts as every possible claim.
	Values  []string
	Legible bool
	// Instead replaces a member that cannot be removed; "" if it can be removed.
	Instead string
	// Removed is set by the gate. The adapter then removes or replaces the member.
	Removed bool
}

// AttributionKind is the subject of an attribution.
type AttributionKind string

// The kinds of attribution.
const (
	AttributesAuthor AttributionKind = "author" // who said or wrote it, by name or by role
	AttributesStatus AttributionKind = "status" // that it was verified, or is to be trusted
	// AttributesInstruction claims that the content instructs the model like a system
	// prompt. The policy decides whether the caller may claim that.
	AttributesInstruction AttributionKind = "instruction"
)

// Newcomers is how long a principal counts as new: until Accepted of its memories were
// promoted from review, or until it has been known for long enough, whichever comes
// first.
type Newcomers struct {
	Accepted int64
	Age      time.Duration
}

// Include reports whether an author is new. Unknown authors are new.
func (n Newcomers) Include(t Track, now time.Time) bool {
	if t.Since.IsZero() {
		return t.Facts == 0
	}
	return t.Accepted < n.Accepted && now.Sub(t.Since) < n.Age
}

// PromotionRule is the track record with which an authenticated author becomes an established
// one.
type PromotionRule struct {
	// Facts is the required number of validated memories; with zero no author is
	// promoted. Memories that were refused, are held, or were not examined yet do not
	// count.
	Facts int64
	// Age is how long the author must have been known.
	Age time.Duration
	// Corrected is the maximum share of them that others have corrected.
	Corrected PerMille
}

// Met reports whether a track record meets the requirements.
func (r PromotionRule) Met(t Track, now time.Time) bool {
	return r.Facts > 0 && t.Validated >= r.Facts && (t.Since.IsZero() || now.Sub(t.Since) >= r.Age) &&
		t.Corrections*int64(Full) <= t.Validated*int64(r.Corrected)
}
