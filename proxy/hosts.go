package proxy

import (
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Hosts are the names by which a listener may be asked. A page in a browser
// that has a name of its own lead to this listener (DNS rebinding) asks by that
// name, and is refused.
type Hosts struct {
	// Names are accepted in addition to loopback addresses and "localhost", in
	// lower case, without ports.
	Names []string
}

// accepts reports whether a Host header is one of them.
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
	for _, n := range h.Names {
		if strings.EqualFold(n, host) {
			return true
		}
	}
	return false
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
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusMisdirectedRequest)
		_ = json.NewEncoder(w).Encode(map[string]string{
			"detail": "this listener is not asked by that name; admin.hosts lists those that are", "code": "memproxy_host",
		})
	})
}
