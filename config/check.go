package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/memproxy/memproxy"
)

func faultIf(v *reader, wrong bool, line int, format string, args ...any) {
	if wrong {
		v.fault(line, format, args...)
	}
}

func isSHA256(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == sha256.Size
}

// check finds faults that types and tags cannot express: duplicates, settings that
// require or exclude each other, and invalid addresses.
func (v *reader) check(c *Config, at func(...any) int) {
	faultIf(v, len(c.Backends) == 0, at("backends"), "no backends: nothing would be proxied")
	names, listens := map[string]bool{}, map[string]string{c.Admin.Listen: "admin"}
	v.listen(c.Admin.Listen, at("admin", "listen"))
	if p := c.Admin.Probes; p != "" {
		v.listen(p, at("admin", "probes"))
		faultIf(v, p == c.Admin.Listen && !strings.HasSuffix(p, ":0"), at("admin", "probes"), "%s is the address of admin already", p)
		listens[p] = "admin.probes"
	}
	for i, b := range c.Backends {
		faultIf(v, names[b.Name] || b.Name == "admin" || b.Name == "probes", at("backends", i, "name"), "a backend needs a unique name (admin and probes are reserved)")
		names[b.Name] = true
		v.listen(b.Listen, at("backends", i, "listen"))
		other, taken := listens[b.Listen]
		faultIf(v, taken && !strings.HasSuffix(b.Listen, ":0"), at("backends", i, "listen"), "%s is the address of %s already", b.Listen, other)
		listens[b.Listen] = b.Name
		v.url(b.Upstream, at("backends", i, "upstream"), "upstream", "use credential", false)
		headerValue(v, b.Credential, at("backends", i, "credential"), "credential")
		for j := range c.Backends[:i] {
			// If both backends serve the same single tenant, no tenants need to be
			// separated.
			if other := &c.Backends[j]; c.Profile == "production" && sameStore(other, &b) && (b.Tenant == "" || b.Tenant != other.Tenant) {
				v.fault(at("backends", i, "upstream"), "%s; give both the same tenant, or use one of them", oneUpstream(other, &b))
			}
		}
		faultIf(v, (b.TLS.Cert == "") != (b.TLS.Key == ""), at("backends", i, "tls"), "cert and key go together")
		faultIf(v, b.TLS.ClientCA != "" && b.TLS.Cert == "", at("backends", i, "tls"), "client_ca needs cert and key")
		all, one := c.Limits.InFlight, c.Limits.InFlightPerAddress
		faultIf(v, b.Limits.Body > min(all, one)/2, at("backends", i, "limits", "body"), "backends[%d].limits.body is %d, over half of limits.in_flight (%d) or limits.in_flight_per_address (%d): there would be no room for the largest body next to other requests", i, b.Limits.Body, all, one)
		for j, p := range b.Passthrough {
			method, path, _ := strings.Cut(p, " ")
			faultIf(v, method == "" || !strings.HasPrefix(path, "/"), at("backends", i, "passthrough", j), "%q is not METHOD /path", p)
		}
	}
	for i, b := range c.Backends {
		for addr, name := range listens {
			faultIf(v, leadsTo(b.Upstream, addr), at("backends", i, "upstream"), "upstream is the address of %s, a listener of memproxy itself: requests would loop", name)
		}
	}
	v.identity(c, at)
	sharedNames(v, c, at)
	if c.Policy.Control != nil {
		v.control(c.Policy.Control, func(path ...any) int { return at(append([]any{"policy", "control"}, path...)...) })
	}
	v.screening(&c.Screening, at)
	v.review(&c.Review, c.Identity.Keys, at)
	u := c.Ledger.URL.Reveal()
	faultIf(v, u != "" && !strings.HasPrefix(u, "postgres://") && !strings.HasPrefix(u, "postgresql://"), at("ledger", "url"), "url must begin with postgres://")
	v.governance(&c.Memories, at)
	v.ttl(&c.Memories, at)
	if c.Telemetry.OTLP != "" {
		v.url(c.Telemetry.OTLP, at("telemetry", "otlp"), "otlp", "use headers", false)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Telemetry.Headers)) {
		line := at("telemetry", "headers", name)
		faultIf(v, !headerName.MatchString(name), line, "%q cannot be the name of a header", name)
		headerValue(v, c.Telemetry.Headers[name], line, "headers."+name)
	}
	if r := c.Budgets.Redis; r != nil {
		scheme, rest, _ := strings.Cut(r.URL.Reveal(), "://")
		faultIf(v, !slices.Contains([]string{"redis", "rediss", "unix"}, scheme) || rest == "", at("budgets", "redis", "url"), "url must begin with redis://, rediss:// or unix://")
	}
}

func (v *reader) identity(c *Config, at func(...any) int) {
	seen := map[string]int{}
	named := func(id string, path ...any) { // identity refuses every request of such a caller
		faultIf(v, strings.HasPrefix(id, memproxy.AnonymousPrefix), at(append(path, "id")...), "ids that begin with %s are reserved for callers without a credential", memproxy.AnonymousPrefix)
	}
	for i, k := range c.Identity.Keys {
		named(k.ID, "identity", "keys", i)
		line := at("identity", "keys", i, "sha256")
		if !isSHA256(k.SHA256) {
			v.fault(line, "identity.keys[%d].sha256 is not 64 hex digits", i)
			continue
		}
		// The hash of an unset variable would admit callers with an empty token.
		faultIf(v, strings.EqualFold(k.SHA256, emptySHA256), line, "identity.keys[%d].sha256 is the hash of the empty string", i)
		hash := strings.ToLower(k.SHA256)
		if other, twice := seen[hash]; twice {
			v.fault(line, "this key is listed twice; the first is on line %d", other)
			continue
		}
		seen[hash] = line
	}
	faultIf(v, c.Identity.Default != nil && *c.Identity.Require, at("identity", "require"), "require and default exclude each other")
	if p := c.Identity.Default; p != nil && p.Kind != "anonymous" {
		named(p.ID, "identity", "default")
	}
	if s := c.Identity.SPIFFE; s != nil {
		for i, r := range s.Rules {
			named(r.ID, "identity", "spiffe", "rules", i)
		}
	}
	if o := c.Identity.OIDC; o != nil {
		for i, r := range o.Rules {
			named(r.ID, "identity", "oidc", "rules", i)
		}
		v.url(o.Issuer, at("identity", "oidc", "issuer"), "issuer", "it is public", false)
		faultIf(v, o.TokenFile != "" && !strings.HasPrefix(o.Issuer, "https://"), at("identity", "oidc", "token_file"), "token_file would be sent to the issuer unencrypted: use https")
	}
}

const emptySHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// leadsTo reports whether a URL points to a listener on this machine, so that memproxy
// would forward to itself. It does not resolve names or list the machine's other
// addresses.
func leadsTo(upstream, listen string) bool {
	u, err := url.Parse(upstream)
	host, port, notSplit := net.SplitHostPort(listen)
	if err != nil || notSplit != nil || port == "0" || PortOf(u) != port {
		return false
	}
	own, other := net.ParseIP(host), net.ParseIP(u.Hostname())
	switch {
	case host == "" || own.IsUnspecified():
		return loopback(u.Hostname()) || other.IsUnspecified()
	case own != nil && other != nil:
		return own.Equal(other) || own.IsLoopback() && other.IsUnspecified()
	}
	return strings.EqualFold(host, u.Hostname()) || loopback(host) && loopback(u.Hostname())
}

// PortOf returns the port of a URL, explicit or default.
func PortOf(u *url.URL) string {
	return cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
}

func isPort(s string) bool {
	_, err := strconv.ParseUint(s, 10, 16)
	return err == nil
}

func (v *reader) listen(addr string, line int) {
	_, port, err := net.SplitHostPort(addr)
	faultIf(v, err != nil || !isPort(port), line, "listen %q is not host:port", addr)
}

// url checks a base URL. Its faults never quote the URL, which may contain a credential.
func (v *reader) url(s string, line int, key, instead string, query bool) {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		v.fault(line, "%s must begin with http:// or https://", key)
	case !isPort(PortOf(u)):
		v.fault(line, "%s has port %s: want at most 65535", key, u.Port())
	case u.User != nil:
		v.fault(line, "%s must not carry a credential; %s", key, instead)
	case !query && (u.RawQuery != "" || u.ForceQuery):
		v.fault(line, "%s must not have a query", key)
	case u.Fragment != "":
		v.fault(line, "%s must not have a fragment", key)
	}
}

// headerName matches the name of a header, a token of HTTP.
var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// headerValue checks a value that is sent in a header. With another one no request could be
// sent, and each would look like an outage of the server.
func headerValue(v *reader, s Secret, line int, key string) {
	text := strings.Trim(s.Reveal(), " \t") // a header loses these only
	faultIf(v, s.Reveal() != "" && text == "", line, "%s is blank", key)
	faultIf(v, strings.ContainsFunc(text, unicode.IsControl), line, "%s has a line break or another control character, which a header cannot have", key)
}

// lineOf returns the line of a path, or of its nearest existing ancestor.
func lineOf(n *yaml.Node, path ...any) int {
	at, _ := find(n, path)
	return at.Line
}

func (v *reader) screening(s *Screening, at func(...any) int) {
	for i, sum := range s.Approved {
		faultIf(v, !isSHA256(sum) || strings.ToLower(sum) != sum, at("screening", "approved", i), "approved must be 64 hex digits in lower case; memproxy approve adds those of a text")
	}
	if x := s.Similar; x != nil && x.URL != "" {
		v.url(x.URL, at("screening", "similar", "url"), "url", "use key", false)
		headerValue(v, x.Key, at("screening", "similar", "key"), "key")
	}
	if j := s.Judge; j != nil && j.URL != "" {
		v.url(j.URL, at("screening", "judge", "url"), "url", "use key", false)
		headerValue(v, j.Key, at("screening", "judge", "key"), "key")
	}
}

func (v *reader) review(r *Review, callers []Key, at func(...any) int) {
	seen, deciding, keys := map[string]bool{}, map[string]bool{}, map[string]string{}
	for i := range callers {
		keys[strings.ToLower(callers[i].SHA256)] = callers[i].ID
	}
	for i, who := range r.Reviewers {
		if slices.Contains(who.Roles, "review") {
			deciding[who.ID] = true
		}
		own, _, prefixed := strings.Cut(who.ID, ":")
		faultIf(v, prefixed && slices.Contains([]string{"os", "rules", "system"}, own), at("review", "reviewers", i, "id"), "%q is an id that memproxy records for itself: choose one that does not begin with %s:", who.ID, own)
		faultIf(v, slices.Contains(who.Roles, "content") && !slices.Contains(who.Roles, "view"), at("review", "reviewers", i, "roles"), "content allows nothing without the role view")
		faultIf(v, !isSHA256(who.SHA256), at("review", "reviewers", i, "sha256"), "sha256 must be 64 hex digits")
		hash := strings.ToLower(who.SHA256)
		faultIf(v, seen[hash], at("review", "reviewers", i, "sha256"), "two reviewers have the same token")
		seen[hash] = true
		id, calls := keys[hash]
		faultIf(v, calls && id != who.ID, at("review", "reviewers", i, "sha256"), "the token is the key of caller %q, which could decide on its own writes: use another one, or id %q", id, id)
	}
	faultIf(v, r.Need > 1 && len(deciding) < r.Need, at("review", "need"), "need is %d, and %d reviewer(s) have the role review", r.Need, len(deciding))
	if w := r.Webhook; w != nil {
		v.url(w.URL.Reveal(), at("review", "webhook", "url"), "url", "a query may have one", true)
		faultIf(v, len(w.Key.Reveal()) < 16, at("review", "webhook", "key"), "key must have at least 16 bytes")
	}
}

// sameStore reports whether two backends have the same upstream, as far as their
// addresses show.
func sameStore(a, b *Backend) bool {
	plain := func(raw string) string {
		u, err := url.Parse(raw)
		if err != nil {
			return raw
		}
		host := strings.ToLower(u.Hostname())
		if loopback(host) {
			host = "localhost"
		}
		return host + ":" + PortOf(u) + strings.TrimRight(u.Path, "/")
	}
	return plain(a.Upstream) == plain(b.Upstream)
}

func oneUpstream(a, b *Backend) string {
	return fmt.Sprintf("backends %s and %s have the same upstream: owners are recorded per backend, so neither knows what was written through the other", a.Name, b.Name)
}

// apiVersion matches a base URL that ends with the version of an API.
var apiVersion = regexp.MustCompile(`/v[0-9]+/?$`)

// Warnings describes valid settings that are probably not intended.
func (c *Config) Warnings() []string {
	var out []string
	for i, b := range c.Backends {
		for _, other := range c.Backends[:i] {
			if sameStore(&other, &b) {
				out = append(out, oneUpstream(&other, &b))
			}
		}
		host, _, err := net.SplitHostPort(b.Listen)
		if err == nil && b.TLS.Cert == "" && !loopback(host) {
			out = append(out, fmt.Sprintf("backend %s listens on %s without TLS: callers present their keys in the clear", b.Name, b.Listen))
		}
		if version := apiVersion.FindString(b.Upstream); version != "" {
			out = append(out, fmt.Sprintf("the upstream of backend %s ends in %s, which the routes of its API begin with: the backend would receive it twice", b.Name, version))
		}
		if b.Credential.Reveal() == "" && strings.HasPrefix(b.Upstream, "https://") {
			out = append(out, fmt.Sprintf("backend %s has no credential: a backend that requires a key rejects approved writes, rollbacks, the seal and sweeps", b.Name))
		}
	}
	if host, _, err := net.SplitHostPort(c.Admin.Listen); err == nil && !loopback(host) {
		out = append(out, "the admin listener is reachable from other hosts")
	}
	if w := c.AnonymousAccess(); w != "" {
		out = append(out, w)
	}
	if o := c.Identity.OIDC; o != nil {
		if len(o.Rules) > 0 && (len(o.Claims) > 1 || len(o.Claims) == 1 && o.Claims["id"] == "") {
			out = append(out, "identity.oidc has rules, so only the claim id is read: the others under claims have no effect")
		}
		if u, err := url.Parse(o.Issuer); err == nil && u.Scheme == "http" && !loopback(u.Hostname()) {
			out = append(out, "the OIDC issuer's keys are fetched in the clear: an attacker who changes them can pose as any caller")
		}
	}
	for _, p := range c.principals() {
		who := cmp.Or(p.ID, "a rule of identity."+p.method)
		if !slices.ContainsFunc(c.Backends, func(b Backend) bool { return b.Serves(p.Tenant) }) {
			whom := "callers without a tenant, such as " + who
			if p.Tenant != "" {
				whom = "tenant " + p.Tenant + " of " + who
			}
			out = append(out, "no backend serves "+whom+": each of their requests is refused (identity.tenant)")
		}
		for _, role := range p.Roles {
			if strings.HasPrefix(role, "memproxy-") && !slices.Contains(memproxy.Roles(), role) {
				out = append(out, fmt.Sprintf("the role %s of %s is none of memproxy's: %s", role, who, strings.Join(memproxy.Roles(), ", ")))
			}
		}
	}
	if !*c.Enforce {
		out = append(out, "enforce is false: nothing is refused")
	}
	return out
}

// AnonymousAccess describes how production serves callers without a credential. It is "" if
// production refuses them.
func (c *Config) AnonymousAccess() string {
	if c.Profile != "production" || c.Identity.Default == nil {
		return ""
	}
	return fmt.Sprintf("callers without a credential are identified as %s, with trust %s", c.Identity.Default.ID, c.Identity.Default.Trust)
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
