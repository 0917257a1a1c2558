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
