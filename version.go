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
	OpCompact  VersionOp = "compact" // its text was deleted to save space, which makes no new version
)

// Version is one state of a memory.
type Version struct {
	MemoryKey
	Tenant string `json:"tenant"`
	Field  string `json:"field,omitempty"`
	// Number counts the versions of the memory from 1. The store assigns it.
	Number      int64       `json:"version"`
	Op          VersionOp   `json:"op"`
	Time        time.Time   `json:"time"`
	Actor       string      `json:"actor"`
	Trust       Trust       `json:"trust"`
	Confidence  PerMille    `json:"confidence"`
	Attestation Attestation `json:"attestation"`
	Decision    string      `json:"decision"`
	// SHA256 is the hex hash of the text after the operation, Before that of the text
	// before it; "" where there is none.
	SHA256 string   `json:"sha256"`
	Before string   `json:"before,omitempty"`
	Score  PerMille `json:"score"`
	Pinned bool     `json:"pinned"`
	// Compacted is set if the text was deleted because newer versions exist. The record
	// remains.
	Compacted bool `json:"compacted,omitempty"`
	// Link is the hex hash that links the record into its two hash chains.
	Link string `json:"link"`

	// Text and Metadata are encrypted at rest, and set only on request.
	Text     string `json:"-"`
	Metadata []byte `json:"-"`
}

// Entry is the ledger's change for one decision. It is applied atomically, in the order
// of its fields.
type Entry struct {
	// ExpectedOwners are the owners of the changed objects as they were before the change
	// was sent. If another process has changed one since (another Decision, or Deleted),
	// nothing is applied and the error is ErrStale.
	ExpectedOwners []Ownership
	// Found are the first versions of memories without a history, as they were found.
	// Versions are the versions after these.
	Found, Versions []Version
	States          []StateChange
	// Renewed are memories with a new time of expiry (zero is never). Expired ones that
	// are live again return to their previous state.
	Renewed []Renewal
	// Owners replace the rows with the same (Backend, Kind, ID).
	Owners []Ownership
	// Dissents are corrections that were refused. Their memories are contested until
	// every dissent is closed.
	Dissents []Dissent
	// Corrections are admitted corrections. Each counts against the author once per
	// memory and decision, except for changes of one's own memories.
	Corrections []Correction
	// Retractions are texts that their authors deleted or replaced. The texts themselves
	// are never stored. Of retractions of equal text the newest counts.
	Retractions []Retraction

	// Queued is set if the change may reach other processes later. This process sees it
	// immediately.
	Queued bool
}

// Renewal is a new time of expiry, zero for never. Sooner is for a memory that was moved and not
// rewritten: an earlier time of expiry remains.
type Renewal struct {
	MemoryKey
	Expires time.Time
	Sooner  bool `json:",omitempty"`
}

// Empty reports whether the entry changes nothing.
func (c *Entry) Empty() bool {
	return len(c.Found)+len(c.Versions)+len(c.States)+len(c.Renewed)+len(c.Owners)+len(c.Dissents)+len(c.Corrections)+len(c.Retractions) == 0
}

// ChainFault is one break in the chain of versions.
type ChainFault struct {
	// Class is tamper, truncate, delete, reorder, forge or missing-text.
	Class  FaultClass `json:"class"`
	Tenant string     `json:"tenant"`
	// Position is the index of the record in the tenant's chain.
	Position  int64 `json:"position"`
	MemoryKey `json:"memory,omitzero"`
	Version   int64  `json:"version,omitempty"`
	Detail    string `json:"detail"`
	// Accepted is set if a person has accepted it.
	Accepted bool `json:"accepted,omitempty"`
}

// FaultClass is the kind of damage to a chain, or to the store of a backend.
type FaultClass string

// The fault classes.
const (
	FaultTamper   FaultClass = "tamper"       // a record was changed
	FaultTruncate FaultClass = "truncate"     // the end is missing
	FaultDelete   FaultClass = "delete"       // a record is missing before the end
	FaultReorder  FaultClass = "reorder"      // records are in another order
	FaultForge    FaultClass = "forge"        // the record was not signed by this installation
	FaultText     FaultClass = "missing-text" // the text is missing, or differs from what was recorded
	FaultRow      FaultClass = "row"          // the ledger's row of an object was changed
	FaultInsert   FaultClass = "insert"       // in a backend: something was written out of band
	FaultMetadata FaultClass = "metadata"     // in a backend: the metadata was changed
)

// ChainHead is the end of a tenant's hash chain. A copy in another place, such as the
// audit log, reveals a later truncation of the whole store.
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

// Open returns the number of faults that are not accepted.
func (r *ChainReport) Open() int {
	n := 0
	for i := range r.Faults {
		if !r.Faults[i].Accepted {
			n++
		}
	}
	return n
}

// Rollback is a rollback in progress: from before the backend request until its version
// is stored.
type Rollback struct {
	MemoryKey
	Tenant   string
	Decision string // id of the decision that records it
	Reviewer string
	Reason   string
	// Number is the version that is restored.
	Number int64
	// Before is the hex hash of the text in the backend when the rollback began.
	Before string
	Begun  time.Time
}
