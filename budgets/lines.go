package budgets

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"net/url"
	"strings"

	"github.com/memproxy/memproxy"
)

// Lines are the budgets that a write of p on behalf of an end user draws on: hour and
// total of p for that user ("": no named user), those of p for all users, its tenant's,
// each field's, and the soft line that reports rapid writes. All callers without a
// credential share one more bound, whatever users and sessions they name, because they
// can choose names freely. Corrections add no memories, so they have no total lines.
func Lines(l memproxy.Limits, p memproxy.Principal, kind memproxy.Kind, user string, fields []string) []memproxy.Line {
	own := l.Default
	if p.Trust == memproxy.TrustAnonymous {
		own = l.Anonymous
	}
	if o, ok := l.Overrides[p.Named()]; ok {
		own = o.Or(own)
	}
	who, once := p.Account(), own
	account := fit("principal/" + who)
	out := make([]memproxy.Line, 0, 8)
	if p.Trust != memproxy.TrustAnonymous && l.Together > 1 {
		out = pair(out, kind, userKey(who, user), own, memproxy.BudgetHour, memproxy.BudgetTotal)
		own.PerHour, own.Total = times(own.PerHour, l.Together), times(own.Total, l.Together)
	}
	out = pair(out, kind, account, own, memproxy.BudgetHour, memproxy.BudgetTotal)
	if strings.HasPrefix(p.ID, memproxy.AnonymousPrefix) {
		all := memproxy.WriteLimit{PerHour: times(once.PerHour, max(1, l.Together)), Total: times(once.Total, max(1, l.Together))}
		out = pair(out, kind, "principal/"+memproxy.Anonymous, all, memproxy.BudgetHour, memproxy.BudgetTotal)
	}
	if p.Tenant != "" {
		out = pair(out, kind, "tenant/"+p.Tenant, l.Tenant(p.Tenant), memproxy.BudgetTenant, memproxy.BudgetTenant)
	}
	for _, f := range fields {
		if n, ok := l.Namespaces[f]; ok {
			out = pair(out, kind, "namespace/"+f, n, memproxy.BudgetNamespace, memproxy.BudgetNamespace)
		}
	}
	if l.RapidPerMinute > 0 {
		out = append(out, memproxy.Line{Reason: memproxy.RapidWrites, Key: account, Window: memproxy.WindowMinute, Limit: l.RapidPerMinute, Soft: true})
	}
	return out
}

// userKey is the account of a principal for one end user. The user's name is
// caller-chosen, so it is escaped as in records.
func userKey(principal, user string) string {
	return "user/" + url.PathEscape(principal) + "/" + url.PathEscape(memproxy.Inert(user))
}

func times(n, by int64) int64 {
	if n > math.MaxInt64/2/by {
		return math.MaxInt64 / 2
	}
	return n * by
}

// fit shortens a key to what stores accept. An id of a principal may be valid and still be
// too long once it is escaped: the key then ends in a hash of all of it. No other key can
// be the same, because escaping leaves no #.
func fit(key string) string {
	if len(key) <= MaxKey {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	end := "#" + hex.EncodeToString(sum[:16])
	return strings.ToValidUTF8(key[:MaxKey-len(end)], "") + end
}

func pair(out []memproxy.Line, kind memproxy.Kind, key string, w memproxy.WriteLimit, hour, total memproxy.ReasonCode) []memproxy.Line {
	key = fit(key)
	if w.PerHour > 0 {
		out = append(out, memproxy.Line{Reason: hour, Key: key, Window: memproxy.WindowHour, Limit: w.PerHour})
	}
	if w.Total > 0 && kind != memproxy.Correct {
		out = append(out, memproxy.Line{Reason: total, Key: key, Window: memproxy.WindowTotal, Limit: w.Total})
	}
	return out
}
