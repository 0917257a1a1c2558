package gate

import "github.com/memproxy/memproxy"

// Changed says what becomes of memories in answers that were changed behind
// the proxy.
type Changed string

// The settings.
const (
	// ChangedReport names them in the record of the read.
	ChangedReport Changed = "report"
	// ChangedWithhold leaves them out as well.
	ChangedWithhold Changed = "withhold"
	// ChangedIgnore does not look.
	ChangedIgnore Changed = "ignore"
)

// whole checks a memory against what is known of it: its text against the hash
// of the one that went through, its stamp against the key. It reports false
// where the memory is to be left out.
func (ret *returning) whole(row *memproxy.Ownership, m *memproxy.Memory) bool {
	if ret.rules.Changed == ChangedIgnore || m.Missing || m.ID == "" {
		return true
	}
	var code memproxy.ReasonCode
	switch {
	case m.Stamp != nil && !ret.signed(m.Stamp, row):
		code = memproxy.IntegrityForged
	case row != nil && row.SHA256 != "" && m.Text != "" && m.TextAt != "" && !m.Mutable && row.SHA256 != textHash(m.Text):
		code = memproxy.IntegrityMismatch
	default:
		return true
	}
	ret.broken = append(ret.broken, m.ID)
	ret.reasons = append(ret.reasons, memproxy.Reason{Code: code, Rule: m.ID, Pointer: m.Pointer, Detail: "changed behind memproxy"})
	return ret.rules.Changed != ChangedWithhold
}

// signed reports whether a stamp is this installation's, for the tenant that
// wrote the memory.
func (ret *returning) signed(stamp *memproxy.Stamp, row *memproxy.Ownership) bool {
	s := *stamp
	s.Tenant = ret.Principal.Tenant
	if row != nil {
		s.Tenant = row.Scope.Tenant
	}
	return ret.g.opt.Signer.Verify(s)
}
