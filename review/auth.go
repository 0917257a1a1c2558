package review

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
)

// Role is a permission of a reviewer.
type Role string

// The roles. None includes another.
const (
	RoleView    Role = "view"    // list and read sanitised content
	RoleReview  Role = "review"  // decide: approve, reject, unlock, promote, pin, roll back
	RoleContent Role = "content" // read original content
)

// Reviewer is a caller that may use the API.
type Reviewer struct {
	// ID is recorded with every action of the reviewer.
	ID string
	// Sum is the hash of the bearer token. The local operator, who has none, has no hash.
	Sum   [sha256.Size]byte
	Roles []Role
	// Tenants are the tenants whose holds, memories and sessions the reviewer may
	// see.
	Tenants memproxy.Limit
}

func (r *Reviewer) refuseOwn(author string) error {
	if author == r.ID {
		return memproxy.ErrOwnReview
	}
	return nil
}

// decides reports whether a reviewer may decide on objects of a tenant.
func (r *Reviewer) decides(tenant string) bool {
	return slices.Contains(r.Roles, RoleReview) && r.Tenants.Allows(tenant)
}

// eligible reports whether the reviewer with an id may decide on objects of a tenant. No
// configuration lists the operators of the machines that share a ledger.
func (a *API) eligible(id, tenant string) bool {
	return strings.HasPrefix(id, OperatorPrefix) ||
		slices.ContainsFunc(a.opt.Reviewers, func(r Reviewer) bool { return r.ID == id && r.decides(tenant) })
}

// EligibleReviewers returns how many reviewers may decide on a held write: those of its
// tenant without its author, each counted once.
func EligibleReviewers(reviewers []Reviewer, h *memproxy.HeldWrite) int {
	ids := map[string]bool{}
	for _, r := range reviewers {
		if r.decides(h.Tenant) && r.ID != h.Principal {
			ids[r.ID] = true
		}
	}
	return len(ids)
}

const minToken = 22 // minimum length of a token in characters: 16 bytes in base64

// bearer returns the reviewer whose token a request has. It compares every hash in constant
// time, so that the time reveals nothing about a partial match.
func (a *API) bearer(r *http.Request) (Reviewer, bool) {
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return Reviewer{}, false
	}
	scheme, token, ok := strings.Cut(values[0], " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") || len(token) < minToken {
		return Reviewer{}, false
	}
	sum, at := sha256.Sum256([]byte(token)), -1
	for i := range a.opt.Reviewers {
		at = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(sum[:], a.opt.Reviewers[i].Sum[:]), i, at)
	}
	if at < 0 {
		return Reviewer{}, false
	}
	return a.opt.Reviewers[at], true
}

// OperatorPrefix begins the ids of reviewers on the local socket, before the user's name.
const OperatorPrefix = "os:"

// OperatorHandler returns the API for a listener made by Operators only, because it
// trusts the connection's remote address.
func (a *API) OperatorHandler() http.Handler {
	return a.routes(func(r *http.Request) (Reviewer, bool) {
		name, ok := strings.CutPrefix(r.RemoteAddr, OperatorPrefix)
		return Reviewer{ID: OperatorPrefix + name, Roles: []Role{RoleView, RoleReview, RoleContent}, Tenants: memproxy.Limit{All: true}}, ok && name != ""
	})
}

// Operators accepts connections on a Unix socket from the user that this process runs as,
// and from root, as the kernel identifies them. Their remote address is OperatorPrefix
// and the user's name.
func Operators(ln *net.UnixListener) net.Listener { return operators{ln} }

type operators struct{ *net.UnixListener }

// Accept closes connections of other users.
func (o operators) Accept() (net.Conn, error) {
	for {
		c, err := o.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if name, ok := operator(c); ok {
			return operatorConn{c, &net.UnixAddr{Name: OperatorPrefix + name, Net: "unix"}}, nil
		}
		_ = c.Close() // rejected peers get no answer
	}
}

type operatorConn struct {
	*net.UnixConn
	who *net.UnixAddr
}

// RemoteAddr identifies the peer.
func (c operatorConn) RemoteAddr() net.Addr { return c.who }
