package memproxy

import "time"

// VersionOp is the operation that made a version.
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
	Pinned bool     `json:"pinned"`
	// Compacted is set when the text was given up because newer versions took
	// its place; the record of it stays.
	Compacted bool `json:"compacted,omitempty"`
	// Link is the hex hash that binds the record into its two chains.
	Link string `json:"link"`

	// Text and Metadata are encrypted at rest, and only there on request.
	Text     string `json:"-"`
	Metadata []byte `json:"-"`
}

// An Entry is the ledger's change for one decision. It is applied in this order,
// atomically.
type Entry struct {
	// Seen are the owners of the changed objects, as they were before the change
	// was sent. If another process has changed one since (another Decision, or
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
	// Owners replace the rows with the same (Backend, Kind, ID).
	Owners []Ownership
	// Dissents are corrections that were refused. Their memories are contested
	// until each is closed.
	Dissents []Dissent
	// Corrections that were admitted count against the author, once per memory and
	// decision. Changes of one's own memories do not count.
	Corrections []Correction
	// Retractions are texts that their authors deleted or replaced. The texts
	// themselves are never stored. The newest of the same words counts.
	Retractions []Retraction

	// Queued is set if the change need not be visible to other processes at once.
	// This process sees it immediately.
	Queued bool
}

// Renewal is a new time of expiry. Sooner is for a memory that was moved and not
// written again: a time that is over earlier stays.
type Renewal struct {
	MemoryKey
	Expires time.Time
	Sooner  bool `json:",omitempty"`
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
	// Accepted is set if a person has accepted it.
	Accepted bool `json:"accepted,omitempty"`
}

// FaultClass is the kind of damage to a chain, or to the store of a backend.
type FaultClass string

// The classes.
const (
	FaultTamper   FaultClass = "tamper"       // a record was changed
	FaultTruncate FaultClass = "truncate"     // the end is missing
	FaultDelete   FaultClass = "delete"       // a record is missing before the end
	FaultReorder  FaultClass = "reorder"      // records are in another order
	FaultForge    FaultClass = "forge"        // a record that this installation did not sign
	FaultText     FaultClass = "missing-text" // a text is missing or is not the one that was recorded
	FaultRow      FaultClass = "row"          // what the ledger says of an object was changed
	FaultInsert   FaultClass = "insert"       // in a backend, something that was not written through the proxy
	FaultMetadata FaultClass = "metadata"     // in a backend, the metadata was changed
)

// ChainHead is the end of a tenant's chain. A copy that is kept elsewhere, as in
// the audit log, reveals a later truncation of the whole store.
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

// Open is the number of faults that were not accepted.
func (r *ChainReport) Open() int {
	n := 0
	for i := range r.Faults {
		if !r.Faults[i].Accepted {
			n++
		}
	}
	return n
}

// Rollback is a rollback under way: from before the backend is asked until its
// version is stored.
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
