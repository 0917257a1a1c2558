package memproxy

import (
	"encoding/json"
	"time"
)

// ProvenanceKey is the metadata key of a memory's provenance, for readers that ask
// for it. It has the prefix of the stamp's keys: a client cannot write it.
const ProvenanceKey = StampPrefix + "provenance"

// Provenance is what a reader is shown about a memory: its author, and what
// happened to it since. Unknown values are empty; the attestation is then
// "unknown".
type Provenance struct {
	Actor       string // principal id of the author
	Trust       Trust  // of the author, when it was written
	Confidence  PerMille
	Source      Source
	Attestation Attestation
	State       MemoryState
	// Contested: a less trusted principal contradicts it.
	Contested bool
	// Unverified is why the memory is not what was written.
	Unverified ReasonCode
	Decision   string    // id of the decision that admitted it, or last changed it
	Written    time.Time // when it was first written
	// Received is when the write or change of Decision was received. Zero if unknown.
	Received time.Time
}

// MarshalJSON encodes the form for answers: flat, the confidence from 0 to 1, the
// time in RFC 3339 to the second.
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
	}{p.Actor, p.Trust, float64(p.Confidence) / 1000, p.Source, p.Attestation, p.State, p.Contested, p.Unverified, p.Decision, at(p.Written), at(p.Received)})
}

// An Attribution is an unverified statement of a payload about its content that
// readers would believe: who said it, in what role, or that somebody vouches for
// it.
type Attribution struct {
	Pointer string
	Kind    AttributionKind
	// Values are the words of the statement. Legible is false if it is not text: it
	// then claims anything.
	Values  []string
	Legible bool
	// Instead is the replacement of a member that cannot be removed, "" if it can.
	Instead string
	// Removed is set by the gate; the adapter takes the member out.
	Removed bool
}

// AttributionKind is what an attribution claims.
type AttributionKind string

// The kinds of attribution.
const (
	AttributesAuthor AttributionKind = "author" // who said or wrote it, by name or by role
	AttributesStatus AttributionKind = "status" // that it was checked, or is to be trusted
	// AttributesInstruction: that it instructs the model like the system prompt. The
	// policy decides whether the caller may.
	AttributesInstruction AttributionKind = "instruction"
)

// NewUntil is how long a principal counts as new: until so many of its memories
// were promoted from review, or it has been known for so long, whichever is first.
type NewUntil struct {
	Accepted int64
	Age      time.Duration
}

// New reports whether an author is new. An unknown author is.
func (n NewUntil) New(t Track, now time.Time) bool {
	if t.Since.IsZero() {
		return t.Facts == 0
	}
	return t.Accepted < n.Accepted && now.Sub(t.Since) < n.Age
}

// Earning is what makes an authenticated author an established one.
type Earning struct {
	// Facts are the validated memories that it takes; zero is never. Memories that
	// were refused, wait for review, or were not examined yet do not count.
	Facts int64
	// Age is how long the author must have been known.
	Age time.Duration
	// Corrected is the highest share of them that others may have corrected.
	Corrected PerMille
}

// Earned reports whether a record is good enough.
func (e Earning) Earned(t Track, now time.Time) bool {
	return e.Facts > 0 && t.Validated >= e.Facts && (t.Since.IsZero() || now.Sub(t.Since) >= e.Age) &&
		t.Corrections*int64(Full) <= t.Validated*int64(e.Corrected)
}
