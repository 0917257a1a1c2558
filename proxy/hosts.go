package proxy

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Hosts are the accepted host names of a listener, in addition to loopback addresses
// and "localhost", without ports. A web page whose own name resolves to this listener
// (DNS rebinding) sends that name, and is refused.
type Hosts []string

// accepts reports whether a request's Host header is accepted.
func (h Hosts) accepts(r *http.Request) bool {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if ip, err := netip.ParseAddr(host); err == nil {
		// DNS rebinding needs a name: a browser that uses an address in the URL is
		// protected by the same-origin policy.
		return ip.IsLoopback() || h.named(ip.String()) || local(r, ip)
	}
	return host == "localhost" || h.named(host)
}

func (h Hosts) named(host string) bool {
	return slices.ContainsFunc(h, func(name string) bool { return strings.EqualFold(name, host) })
}

// local reports whether an address is the local address of the connection.
func local(r *http.Request, ip netip.Addr) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	to, err := netip.ParseAddrPort(addr.String())
	return err == nil && to.Addr().Unmap() == ip.Unmap()
}

// Guard rejects requests whose Host is not accepted (DNS rebinding).
func (h Hosts) Guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h.accepts(r) {
			next.ServeHTTP(w, r)
			return
		}
		reply(w, http.StatusMisdirectedRequest, map[string]string{
			"detail": "this listener is not asked by that name; admin.hosts lists those that are", "code": "memproxy_host",
		})
	})
}
