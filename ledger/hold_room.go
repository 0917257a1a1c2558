package ledger

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/memproxy/memproxy"
)

// roomFor refuses a hold where as many wait as may: of a caller, of an end user
// of it, of all whom nobody knows, of the tenant. Nobody fills another's queue,
// and neither do many together: whoever is known and has nothing waiting may
// have one write held, however many wait, up to as many again.
func (t *transaction) roomFor(h memproxy.HeldWrite) error {
	all, user, total := t.l.opt.MaxPrincipalHolds, t.l.opt.MaxUserHolds, t.l.opt.MaxHolds
	account := memproxy.Account(h.Principal)
	whose, who := `principal = ?`, []any{h.Tenant, account}
	if strings.HasPrefix(account, memproxy.AnonymousPrefix) { // the sessions of one address wait in one line
		whose, who = `(principal = ? OR principal > ? AND principal < ?)`, []any{h.Tenant, account, account + "-", account + "."}
	}
	scopes, err := rows(t, scanText, `SELECT scope FROM hold WHERE tenant = ? AND `+whose+` AND state = 'pending' LIMIT ?`, append(who, all)...)
	if err != nil {
		return err
	}
	if len(scopes) >= all {
		return &memproxy.HoldsFull{Key: "holds/" + account, Limit: all, Setting: "review.max_held"}
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
		return &memproxy.HoldsFull{Key: "holds/" + account + "/" + h.Scope.User, Limit: user, Setting: "review.max_held_user"}
	}
	var waiting, anonymous int
	if _, err := t.one(`SELECT count(*) FROM hold WHERE tenant = ? AND state = 'pending'`, []any{h.Tenant}, &waiting); err != nil {
		return err
	}
	known := h.Trust != memproxy.TrustAnonymous
	if !known { // whoever wants has another identity
		_, err := t.one(`SELECT count(*) FROM hold WHERE tenant = ? AND state = 'pending' AND trust = ?`, []any{h.Tenant, string(memproxy.TrustAnonymous)}, &anonymous)
		if err != nil {
			return err
		}
		if share := max(1, total/4); anonymous >= share {
			return &memproxy.HoldsFull{Key: "holds/anonymous", Limit: share, Setting: "a quarter of review.max_held_tenant"}
		}
	}
	if waiting < total || known && len(scopes) == 0 && waiting < 2*total {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrFull, &memproxy.HoldsFull{Key: "holds", Limit: total, Setting: "review.max_held_tenant"})
}
