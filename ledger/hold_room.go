package ledger

import (
	"encoding/json"

	"github.com/memproxy/memproxy"
)

// roomFor refuses a hold of a caller, or of an end user of it, of whom as many
// wait as may: nobody fills another's queue.
func (t *transaction) roomFor(h memproxy.HeldWrite) error {
	all, user := t.l.opt.MaxPrincipalHolds, t.l.opt.MaxUserHolds
	scopes, err := rows(t, scanText, `SELECT scope FROM hold WHERE tenant = ? AND principal = ? AND state = 'pending' LIMIT ?`, h.Tenant, h.Principal, all)
	if err != nil {
		return err
	}
	if len(scopes) >= all {
		return &memproxy.HoldsFull{Key: "holds/" + h.Principal, Limit: all}
	}
	n := 0
	for _, text := range scopes {
		var s memproxy.Scope
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			return err
		}
		if s.User == h.Scope.User {
			n++
		}
	}
	if h.Scope.User != "" && n >= user {
		return &memproxy.HoldsFull{Key: "holds/" + h.Principal + "/" + h.Scope.User, Limit: user}
	}
	return nil
}
