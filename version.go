package memproxy

import "time"

// VersionOp is what made a version.
type VersionOp string

// The operations.
const (
	OpWrite    VersionOp = "write"
	OpUpdate   VersionOp = "update"
	OpSelfEdit VersionOp = "self_edit" // by the backend's own agent or model
	OpDelete   VersionOp = "delete"
	OpRollback VersionOp = "rollback"
	OpSeal     VersionOp = "seal"    // found in the backend when the history began
	OpPurge    VersionOp = "purge"   // its texts were destroyed
	OpCompact  VersionOp = "compact" // its text was given up, which makes no version
)

// Version is one state that a memory was in.
type Version struct {
	MemoryKey
	Tenant string `json:"tenant"`
	Field  string `json:"field,omitempty"`
	// Number counts the memory's versions from 1. The store gives it.
	Number      int64       `json:"version"`
	Op          VersionOp   `json:"op"`
	Time        time.Time   `json:"time"`
	Actor       string      `json:"actor"`
	Trust       Trust       `json:"trust"`
	Confidence  PerMille    `json:"confidence"`
	Attestation Attestation `json:"attestation"`
	Decision    string      `json:"decision"`
	// SHA256 is the hex hash of the text after, Before of the text before; ""
	// where there is none.
	SHA256 string   `json:"sha256"`
	Before string   `json:"before,omitempty"`
	Score  PerMille `json:"score"`
	Pinned bool     `json:"pinned,omitempty"`
	// Compacted is set when the text was given up because newer versions took
	// its place; the record of it stays.
	Compacted bool `json:"compacted,omitempty"`
	// Link is the hex hash that binds the record into its two chains.
	Link string `json:"link"`

	// Text and Metadata are encrypted at rest, and only there on request.
	Text     string `json:"-"`
	Metadata []byte `json:"-"`
}

// An Entry is what one decision makes of what is known of memories. A ledger
// applies it in this order, whole or not at all.
type Entry struct {
	// Seen are the owners of what was changed, as they were before the change was
	// sent. Where another process has put another by now (another Decision, or
	// Deleted), nothing is applied, and the error is ErrStale.
	Seen []Ownership
	// Found are memories as they were found, for those that have no history yet:
	// it begins with them. Versions follow.
	Found, Versions []Version
	States          []StateChange
	// Renewed are memories that were seen to hold: they expire at a new
	// time, never if it is zero, and expired ones come back in the state that they
	// had.
	Renewed []Renewal
	// Owners replace what is known by (Backend, Kind, ID).
	Owners []Ownership
	// Dissents are corrections that were not let through. Their memories are
	// contested until each is closed.
	Dissents []Dissent
	// Corrections that were admitted count against the author, once per memory and
	// decision. Changes of one's own memories do not count.
	Corrections []Correction
	// Retractions are texts that their authors deleted or replaced. They are
	// never kept themselves. The newest of the same words counts.
	Retractions []Retraction

	// Queued is set where nobody needs to wait until other processes find it.
	// The one that changed it does at once.
	Queued bool
}

// Renewal is a new time of expiry.
type Renewal struct {
	MemoryKey
	Expires time.Time
}

// Empty reports whether nothing is changed.
func (c *Entry) Empty() bool {
	return len(c.Found)+len(c.Versions)+len(c.States)+len(c.Renewed)+len(c.Owners)+len(c.Dissents)+len(c.Corrections)+len(c.Retractions) == 0
}

// ChainFault is one break in the chain of versions.
type ChainFault struct {
	// Class is tamper, truncate, delete, reorder, forge or missing-text.
	Class  FaultClass `json:"class"`
	Tenant string     `json:"tenant"`
	// Position is the record's place in the tenant's chain.
	Position  int64 `json:"position"`
	MemoryKey `json:"memory,omitzero"`
	Version   int64  `json:"version,omitempty"`
	Detail    string `json:"detail"`
	// Accepted is set when a person knows of it and takes it as it is.
	Accepted bool `json:"accepted,omitempty"`
}

// FaultClass names what was done to a chain, or to the store of a backend.
type FaultClass string

// The classes.
const (
	FaultTamper   FaultClass = "tamper"       // a record was changed
	FaultTruncate FaultClass = "truncate"     // the end is missing
	FaultDelete   FaultClass = "delete"       // a record is missing before the end
	FaultReorder  FaultClass = "reorder"      // records stand in another order
	FaultForge    FaultClass = "forge"        // a record that this installation did not sign
	FaultText     FaultClass = "missing-text" // a text is gone or is not the one that was recorded
	FaultInsert   FaultClass = "insert"       // in a backend, something that nobody wrote through the proxy
	FaultMetadata FaultClass = "metadata"     // in a backend, the metadata was changed
)

// ChainHead is the end of a tenant's chain. One that is kept elsewhere, as in
// the audit log, shows a later truncation of the whole store.
type ChainHead struct {
	Tenant   string `json:"tenant"`
	Position int64  `json:"position"`
	Link     string `json:"link"`
}

// ChainReport is the outcome of a verification.
type ChainReport struct {
	Tenant  string       `json:"tenant"`
	Checked int64        `json:"checked"`
	Head    ChainHead    `json:"head"`
	Faults  []ChainFault `json:"faults,omitempty"`
}

// Open is how many of the faults nobody accepted.
func (r *ChainReport) Open() int {
	n := 0
	for i := range r.Faults {
		if !r.Faults[i].Accepted {
			n++
		}
	}
	return n
}

// Rollback is a memory on its way back to what a version of it was: from
// before the backend is asked until the version of it is kept.
type Rollback struct {
	MemoryKey
	Tenant   string
	Decision string // id under which it is recorded
	Reviewer string
	Reason   string
	// Number is the version that it goes back to.
	Number int64
	// Before is the hex hash of the text in the backend when it
	// began.
	Before string
	Begun  time.Time
}
