package memproxy

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
