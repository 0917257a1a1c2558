package memproxy

import "time"

// Tally is how many memories of one author for one end user an operation removed.
type Tally struct {
	Tenant, Actor string
	Trust         Trust
	User          string // whom they were written for, or ""
	Memories      int64
}

// TenantNobody is the tenant of what several tenants have a part in: it is
// nobody's to name, for no caller is of this tenant.
const TenantNobody = "\x01"

// Ownership is what the ledger knows of a memory, or of an asynchronous
// write's receipt: whose it is and who wrote it.
type Ownership struct {
	Backend    string
	Kind       TargetKind
	ID         string // the backend's id
	Scope      Scope  // Scope.Tenant is the writer's tenant
	Actor      string // principal id of the author
	Trust      Trust
	Confidence PerMille
	Source     Source
	Decision   string // id of the decision that let it in
	SHA256     string // hex, of the text when last seen leaving or entering
	Written    time.Time
	// Deleted is set when it was deleted through the proxy.
	Deleted bool
}

// Listing says of an object without an owner whether its backend held it when it
// was sealed.
type Listing uint8

// The listings.
const (
	NotSealed Listing = iota // the backend is not sealed: the object may be older than memproxy
	Listed                   // the backend held it
	Unlisted                 // it came later, and not through memproxy
)

// A Record is what the ledger knows of one object of a backend.
type Record struct {
	Owner   Ownership // whose it is; see Owned
	Status  Status    // what may be shown of it; see Rated
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

// Progress is told how far something is that lasts: how much of it is done, and
// how much there is in all, 0 where that is not known. A nil one is told nothing.
type Progress func(done, total int64)

// Counting returns what adds to what is done, of a total that is not known.
func (p Progress) Counting() func(more int) {
	var done int64
	return func(more int) {
		if done += int64(more); p != nil && more > 0 {
			p(done, 0)
		}
	}
}

// Discrepancy is one way in which a backend's store is not what went through
// the proxy.
type Discrepancy struct {
	Class     FaultClass `json:"class"`
	Code      ReasonCode `json:"code"`
	Tenant    string     `json:"tenant"`
	MemoryKey `json:"memory"`
	Detail    string `json:"detail"` // for a person; quotes no content
}

// Doubt says what speaks against a memory. An empty code takes it back.
type Doubt struct {
	MemoryKey
	Tenant string
	Code   ReasonCode
}

// Found is a memory that a backend held when it was sealed, and that nobody is
// known to have written.
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

// Breach is a fault of a chain that was noted. What was recorded at Position
// or after it is not verified any more, until a person accepts it. A breach is
// never repaired.
type Breach struct {
	ChainFault
	Noted time.Time `json:"noted"`
}
