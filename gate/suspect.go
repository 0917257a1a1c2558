package gate

import "github.com/memproxy/memproxy"

// A Suspicion is a text that the backend's own agents change, and that was seen
// as another than the one that is known. It may be on its way into the ledger,
// or was changed behind the proxy: who looks again can tell.
type Suspicion struct {
	memproxy.MemoryKey
	Tenant string // the owner's
	Known  string // SHA-256 of the text that is recorded, in hexadecimal
}

// suspect tells of a memory, if somebody looks again.
func (ret *returning) suspect(row *memproxy.Ownership) {
	if ret.g.opt.Suspect == nil {
		return
	}
	ret.g.opt.Suspect(Suspicion{
		MemoryKey: memproxy.MemoryKey{Backend: row.Backend, Kind: row.Kind, ID: row.ID},
		Tenant:    row.Scope.Tenant, Known: row.SHA256,
	})
}
