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
