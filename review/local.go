package review

import (
	"net"
	"net/http"
	"strings"

	"github.com/memproxy/memproxy"
)

// OperatorPrefix begins the names of reviewers on the local socket; a user's
// follows.
const OperatorPrefix = "os:"

// Local is the API for a socket that Operators listens on, and for nothing
// else: it believes the address of the other end.
func (a *API) Local() http.Handler {
	return a.routes(func(r *http.Request) (Reviewer, bool) {
		name, ok := strings.CutPrefix(r.RemoteAddr, OperatorPrefix)
		return Reviewer{ID: OperatorPrefix + name, Roles: []Role{RoleView, RoleReview, RoleContent}, Tenants: memproxy.Limit{All: true}}, ok && name != ""
	})
}

// Operators accepts connections on a Unix socket from those whom the system
// names: the user that this process runs as, and root. Their address is
// OperatorPrefix and the user's name.
func Operators(ln *net.UnixListener) net.Listener { return operators{ln} }

type operators struct{ *net.UnixListener }

// Accept closes connections of others.
func (o operators) Accept() (net.Conn, error) {
	for {
		c, err := o.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if name, ok := operator(c); ok {
			return operatorConn{c, operatorAddr(OperatorPrefix + name)}, nil
		}
		_ = c.Close() // it has nothing to say to anybody
	}
}

type operatorConn struct {
	*net.UnixConn
	who operatorAddr
}

// RemoteAddr is who is at the other end.
func (c operatorConn) RemoteAddr() net.Addr { return c.who }

type operatorAddr string

func (operatorAddr) Network() string  { return "unix" }
func (a operatorAddr) String() string { return string(a) }
