package memproxy

import "time"

// Tally is how many memories of one author for one end user an operation removed.
type Tally struct {
	Tenant, Actor string
	Trust         Trust
	User          string // the user they were written for, or ""
	Field         string // the governed field that they were first written to, or ""
	Memories      int64
}

// Swept is what a deletion of everything within a scope ended.
type Swept struct {
	Tallies []Tally // of the memories, by author
	// Holds are the writes that waited for review, or to be sent, and now never are.
	Holds []HeldWrite
}

// TenantNobody is the tenant of names that several tenants share: nobody may use
// them, because no caller is of this tenant.
const TenantNobody = "\x01"

// Ownership is the ledger's record of a memory's owner and author, or those of an
// asynchronous write's receipt.
type Ownership struct {
	Backend    string
	Kind       TargetKind
	ID         string // the backend's id
	Scope      Scope  // Scope.Tenant is the writer's tenant
	Actor      string // principal id of the author
	Trust      Trust
	Confidence PerMille
	Source     Source
	Decision   string // id of the decision that admitted it
	SHA256     string // hex, of the text when last seen leaving or entering
	Written    time.Time
	// Deleted is set when it was deleted through the proxy.
	Deleted bool
}

// Listing is whether an object without an owner was in its backend when that was
// sealed.
type Listing uint8

// The listings.
const (
	NotSealed Listing = iota // the backend is not sealed: the object may be older than memproxy
	Listed                   // the backend held it
	Unlisted                 // it was added later, and not through memproxy
)

// A Record is what the ledger knows of one object of a backend.
type Record struct {
	Owner   Ownership // the owner; see Owned
	Status  Status    // the status; see Rated
	Listing Listing
	// FirstSeen is the hex hash of the text that a listed object had when it was
	// listed; "" where it could not be read.
	FirstSeen string
}

// Owned reports whether an owner is recorded.
func (r *Record) Owned() bool { return r.Owner.ID != "" }

// Rated reports whether a status is recorded. Without one the object is
// untrusted.
func (r *Record) Rated() bool { return r.Status.State != "" }

// Progress receives the progress of a long operation: how much is done, and the
// total, 0 if unknown. A nil Progress is not called.
type Progress func(done, total int64)

// Counting returns a function that adds to the progress, with an unknown total.
func (p Progress) Counting() func(more int) {
	var done int64
	return func(more int) {
		if done += int64(more); p != nil && more > 0 {
			p(done, 0)
		}
	}
}

// Discrepancy is one difference between a backend's store and what went through the
// proxy.
type Discrepancy struct {
	Class     FaultClass `json:"class"`
	Code      ReasonCode `json:"code"`
	Tenant    string     `json:"tenant"`
	MemoryKey `json:"memory"`
	Detail    string `json:"detail"` // for a person; quotes no content
}

// IntegrityFlag is an integrity finding about a memory. An empty code withdraws it.
type IntegrityFlag struct {
	MemoryKey
	Tenant string
	Code   ReasonCode
}

// Found is a memory without a known author that a backend had when it was sealed.
type Found struct {
	MemoryKey
	SHA256 string // hex hash of the text; "" where it could not be read
}

// Sealing is how far a backend's memories are recorded.
type Sealing struct {
	Backend string
	Cursor  string // of the next page; "" is the first
	Pass    int    // from 1: pages shift while others delete
	Fresh   int    // memories that this pass found first
	Found   int    // memories that all passes found
}

// Breach is a recorded fault of a chain. Records at Position or after it are not
// verified any more, until a person accepts it. A breach is never repaired.
type Breach struct {
	ChainFault
	Noted time.Time `json:"noted"`
}

// TargetKind is the kind of object that the ledger has the memory as: TargetMemory
// where the adapter says nothing else.
func (m *Memory) TargetKind() TargetKind {
	if m.Kind == "" {
		return TargetMemory
	}
	return m.Kind
}
