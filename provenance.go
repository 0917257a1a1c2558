package memproxy

import (
	"encoding/json"
	"time"
)

// ProvenanceKey is the metadata key under which a reader that asks for it is
// told where a memory comes from. It begins as the stamp's keys do: a client
// cannot write it.
const ProvenanceKey = StampPrefix + "provenance"

// Provenance is what a reader is told of a memory: whose word it is, and what
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
	written := ""
	if !p.Written.IsZero() {
		written = p.Written.UTC().Format(time.RFC3339)
	}
	received := ""
	if !p.Received.IsZero() {
		received = p.Received.UTC().Format(time.RFC3339)
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
	}{p.Actor, p.Trust, float64(p.Confidence) / 1000, p.Source, p.Attestation, p.State, p.Contested, p.Unverified, p.Decision, written, received})
}
