package proxy

import (
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Check is one condition for the sidecar to be ready.
type Check struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// Degraded is set if the check works with restrictions: an operator should look at
	// it, but the pod stays in service.
	Degraded bool `json:"degraded,omitempty"`
	// Detail is what is wrong or what is in force, without secrets.
	Detail string `json:"detail,omitempty"`
}

// AdminOptions configure the admin listener.
type AdminOptions struct {
	// Ready returns the checks of /readyz, which is 503 if one of them is not OK.
	Ready func() []Check
	// Metrics serves /metrics.
	Metrics http.Handler
	// Spans serves /debug/spans, the recent spans of an installation without a collector.
	// If it is nil, the path is not served.
	Spans http.Handler
	// Fleet serves /fleet, the state of a fleet. If it is nil, the path is not served.
	Fleet http.Handler
	// Review serves /v1/, the review of holds, memories and sessions, to authenticated
	// callers. If it is nil, the path is not served.
	Review http.Handler
	// Hosts are the host names under which everything except the status of a probe is
	// served. Loopback names and the connection's own address are always accepted.
	Hosts Hosts
}

// NewAdmin returns the admin handler. It serves /healthz and the status of /readyz to
// every client, and everything else only under an accepted host name.
func NewAdmin(o AdminOptions) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		checks := o.Ready()
		status, word := http.StatusOK, "ready"
		for _, c := range checks {
			switch {
			case !c.OK:
				status, word = http.StatusServiceUnavailable, "not ready"
			case c.Degraded && status == http.StatusOK:
				word = "degraded"
			}
		}
		said := map[string]any{"status": word}
		if o.Hosts.accepts(r) {
			said["checks"] = checks
		}
		reply(w, status, said)
	})
	for route, h := range map[string]http.Handler{
		"GET /metrics": o.Metrics, "GET /debug/spans": o.Spans, "GET /fleet": o.Fleet, "GET /fleet/": o.Fleet, "/v1/": o.Review,
	} {
		if h != nil {
			mux.Handle(route, o.Hosts.Guard(h))
		}
	}
	return mux
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the prober may have disconnected
}

// Hosts are the accepted host names of a listener, without ports, in addition to loopback
// addresses and "localhost". A web page whose own name resolves to this listener (DNS
// rebinding) sends its own name as Host, and is refused.
type Hosts []string

func (h Hosts) accepts(r *http.Request) bool {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if ip, err := netip.ParseAddr(host); err == nil {
		// DNS rebinding needs a name: the same-origin policy protects browsers that use
		// an address in the URL.
		return ip.IsLoopback() || h.named(ip.String()) || local(r, ip)
	}
	return host == "localhost" || h.named(host)
}

func (h Hosts) named(host string) bool {
	return slices.ContainsFunc(h, func(name string) bool { return strings.EqualFold(name, host) })
}

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
			"detail": "this listener does not accept the Host of the request; admin.hosts lists accepted names", "code": "memproxy_host",
		})
	})
}
