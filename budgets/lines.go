package budgets

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"net/url"
	"strings"

	"github.com/memproxy/memproxy"
)

// Lines returns the budget lines that a write by p on behalf of an end user is charged
// to: the hour and the total of p for that user ("" means no named user), of p for all
// users, of p's tenant and of each field, and a soft line that reports rapid writes.
// All callers without a credential share one more pair of lines, because they can
// choose the names of users and sessions freely. Corrections add no memories, so they
// are not charged to totals.
func Lines(l memproxy.Limits, p memproxy.Principal, kind memproxy.Kind, user string, fields []string) []memproxy.Line {
	own := l.Default
	if p.Trust == memproxy.TrustAnonymous {
		own = l.Anonymous
	}
	if o, ok := l.Overrides[p.PolicyID()]; ok {
		own = o.Or(own)
	}
	who, once := p.Account(), own
	account := shortenKey("principal/" + who)
	out := make([]memproxy.Line, 0, 8)
	if p.Trust != memproxy.TrustAnonymous && l.PrincipalFactor > 1 {
		out = appendLines(out, kind, userKey(who, user), own, memproxy.BudgetHour, memproxy.BudgetTotal)
		own.PerHour, own.Total = multiply(own.PerHour, l.PrincipalFactor), multiply(own.Total, l.PrincipalFactor)
	}
	out = appendLines(out, kind, account, own, memproxy.BudgetHour, memproxy.BudgetTotal)
	if strings.HasPrefix(p.ID, memproxy.AnonymousPrefix) {
		all := memproxy.WriteLimit{PerHour: multiply(once.PerHour, max(1, l.PrincipalFactor)), Total: multiply(once.Total, max(1, l.PrincipalFactor))}
		out = appendLines(out, kind, "principal/"+memproxy.Anonymous, all, memproxy.BudgetHour, memproxy.BudgetTotal)
	}
	if p.Tenant != "" {
		out = appendLines(out, kind, "tenant/"+p.Tenant, l.Tenant(p.Tenant), memproxy.BudgetTenant, memproxy.BudgetTenant)
	}
	for _, f := range fields {
		if n, ok := l.Namespaces[f]; ok {
			out = appendLines(out, kind, "namespace/"+f, n, memproxy.BudgetNamespace, memproxy.BudgetNamespace)
		}
	}
	if l.RapidPerMinute > 0 {
		out = append(out, memproxy.Line{Reason: memproxy.RapidWrites, Key: account, Window: memproxy.WindowMinute, Limit: l.RapidPerMinute, Soft: true})
	}
	return out
}

// userKey is the account of a principal for one end user. The caller chooses the user's
// name, so it is escaped as it is in audit records.
func userKey(principal, user string) string {
	return "user/" + url.PathEscape(principal) + "/" + url.PathEscape(memproxy.Inert(user))
}

func multiply(n, by int64) int64 {
	if n > math.MaxInt64/2/by {
		return math.MaxInt64 / 2
	}
	return n * by
}

// shortenKey shortens a key to the length that stores accept. The escaped form of a valid
// principal id may be too long; such a key ends in "#" and a hash of the whole key.
// Escaped keys contain no "#", so the result cannot collide with another key.
func shortenKey(key string) string {
	if len(key) <= MaxKey {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	end := "#" + hex.EncodeToString(sum[:16])
	return strings.ToValidUTF8(key[:MaxKey-len(end)], "") + end
}

func appendLines(out []memproxy.Line, kind memproxy.Kind, key string, w memproxy.WriteLimit, hour, total memproxy.ReasonCode) []memproxy.Line {
	key = shortenKey(key)
	if w.PerHour > 0 {
		out = append(out, memproxy.Line{Reason: hour, Key: key, Window: memproxy.WindowHour, Limit: w.PerHour})
	}
	if w.Total > 0 && kind != memproxy.Correct {
		out = append(out, memproxy.Line{Reason: total, Key: key, Window: memproxy.WindowTotal, Limit: w.Total})
	}
	return out
}
