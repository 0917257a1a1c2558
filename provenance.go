package memproxy

import (
	"encoding/json"
	"time"
)

// ProvenanceKey is the metadata key under which a reader that asks for it is
// told where a memory comes from. It begins as the stamp's keys do: a client
// cannot write it.
const ProvenanceKey = StampPrefix + "provenance"

// Provenance is what a reader is told about a memory: who stated it, and what
// became of it. What nobody knows is empty; the attestation is then "unknown".
type Provenance struct {
	Actor       string // principal id of the author
	Trust       Trust  // of the author, when it was written
	Confidence  PerMille
	Source      Source
	Attestation Attestation
	State       MemoryState
	// Contested: somebody of less trust says otherwise.
	Contested bool
	// Unverified is what speaks against the memory being what was written.
	Unverified ReasonCode
	Decision   string // id of the decision that let it in, or last changed it
	Written    time.Time
	// Received is when the write came in: before Written where it waited for a
	// person. Zero where nobody knows.
	Received time.Time
}

// MarshalJSON writes the form in which it stands in answers: flat, the
// confidence from 0 to 1, the time in RFC 3339 to the second.
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

// An Attribution is one place in a payload that says of its content what
// readers would believe and nobody has checked: who said it, in what role, or
// that somebody vouches for it.
type Attribution struct {
	Pointer string
	Kind    AttributionKind
	// Values are the words that stand there. Legible is false where something
	// else stands there than words: it then claims anything.
	Values  []string
	Legible bool
	// Instead is what takes the place of a member that cannot be left out, "" if
	// it can.
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
)

// NewUntil says how long a principal is new: until so many of its memories were
// let out of review, or it has been known for so long, whichever is first.
type NewUntil struct {
	Accepted int64
	Age      time.Duration
}

// New reports whether an author is new. One of whom nothing is known is.
func (n NewUntil) New(t Track, now time.Time) bool {
	if t.Since.IsZero() {
		return t.Facts == 0
	}
	return t.Accepted < n.Accepted && now.Sub(t.Since) < n.Age
}

// Earning says what makes an authenticated author an established one.
type Earning struct {
	// Facts are the validated memories that it takes; zero is never. What was
	// refused, waits for review, or nobody has looked at yet earns nothing.
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
