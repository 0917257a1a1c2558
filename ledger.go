package memproxy

import (
	"cmp"
	"time"
)

// AuthorCount is how many memories of one author, written for one end user, an operation
// removed.
type AuthorCount struct {
	Tenant, Actor string
	Trust         Trust
	User          string // the user they were written for, or ""
	Field         string // the governed field to which they were first written, or ""
	Memories      int64
}

// ScopeDeletion is what a deletion of everything in a scope removed.
type ScopeDeletion struct {
	Tallies []AuthorCount // the removed memories, by author
	// Holds are the pending and approved writes that are cancelled.
	Holds []HeldWrite
}

// TenantInaccessible is the tenant of names that several tenants share. No caller has this
// tenant, so no caller may use these names.
const TenantInaccessible = "\x01"

// Ownership is the ledger's record of the owner and the author of a memory, or of the
// receipt of an asynchronous write.
type Ownership struct {
	Backend    string
	Kind       TargetKind
	ID         string // the backend's id
	Scope      Scope  // Scope.Tenant is the tenant of the writer
	Actor      string // principal id of the author
	Trust      Trust
	Confidence PerMille
	Source     Source
	Decision   string // id of the decision that admitted it
	SHA256     string // hex SHA-256 of the text as last written or returned
	Written    time.Time
	// Deleted is set if the memory was deleted through memproxy.
	Deleted bool
}

// Key returns the name of the object that is owned.
func (o *Ownership) Key() MemoryKey {
	return MemoryKey{Backend: o.Backend, Kind: o.Kind, ID: o.ID}
}

// Presence tells whether an object without an owner was in its backend when that backend
// was sealed.
type Presence uint8

// The presences.
const (
	NotSealed      Presence = iota // the backend is not sealed: the object may predate memproxy
	PresentAtSeal                  // it was in the backend when that was sealed
	AddedAfterSeal                 // it was added later, out of band
)

// Record is what the ledger knows about one object of a backend.
type Record struct {
	Owner    Ownership // the owner; see HasOwner
	Status   Status    // the status; see HasStatus
	Presence Presence
	// FirstSeen is the hex SHA-256 of the text that a listed object had when it was
	// listed; "" if the text could not be read.
	FirstSeen string
}

// Records are the records that were found of objects, by key. They are shared, so they must
// not be changed.
type Records map[MemoryKey]*Record

// Of returns a copy of an object's record, which is empty if there is none.
func (r Records) Of(k MemoryKey) (rec Record) {
	if found := r[k]; found != nil {
		rec = *found
	}
	return rec
}

// HasOwner reports whether an owner is recorded.
func (r *Record) HasOwner() bool { return r.Owner.ID != "" }

// HasStatus reports whether a status is recorded. An object without a status is untrusted.
func (r *Record) HasStatus() bool { return r.Status.State != "" }

// Progress receives the progress of a long operation: how much is done, and the total; 0
// if unknown. A nil Progress is not called.
type Progress func(done, total int64)

// Counting returns a function that adds to the amount done, with an unknown total.
func (p Progress) Counting() func(more int) {
	var done int64
	return func(more int) {
		done += int64(more)
		if p != nil && more > 0 {
			p(done, 0)
		}
	}
}

// Discrepancy is one difference between a backend's content and what was written through
// memproxy.
type Discrepancy struct {
	Class     FaultClass `json:"class"`
	Code      ReasonCode `json:"code"`
	Tenant    string     `json:"tenant"`
	MemoryKey `json:"memory"`
	Detail    string `json:"detail"` // for a person; quotes no content
}

// Found is a memory without a known author that was in a backend when it was sealed.
type Found struct {
	MemoryKey
	SHA256 string // hex SHA-256 of the text; "" if it could not be read
}

// SealProgress is the progress of recording a backend's existing memories.
type SealProgress struct {
	Backend string
	Cursor  string // of the next page; "" is the first page
	Pass    int    // from 1; there are several because concurrent deletions shift pages
	Fresh   int    // memories that this pass found for the first time
	Found   int    // memories that all passes found
}

// Breach is a recorded break of a hash chain. Records from Position on remain unverified
// until a person accepts the breach. memproxy never repairs it.
type Breach struct {
	Position int64
	Class    FaultClass
	Accepted bool `json:",omitempty"`
}

// TargetKind returns the kind under which the ledger stores the memory: Kind, or
// TargetMemory if Kind is "".
func (m *Memory) TargetKind() TargetKind { return cmp.Or(m.Kind, TargetMemory) }
