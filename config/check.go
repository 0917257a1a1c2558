package config

import (
	"encoding/hex"
	"fmt"
	"net"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/memproxy/memproxy"
)

// defaults writes out what the profile stands for.
func (c *Config) defaults() {
	yes := func(b bool) *bool { return &b }
	set := func(s *string, d string) {
		if *s == "" {
			*s = d
		}
	}
	set(&c.Profile, "development")
	set(&c.State, "./state")
	set(&c.Admin.Listen, "127.0.0.1:9901")
	if c.Enforce == nil {
		c.Enforce = yes(true)
	}
	production := c.Profile == "production"
	if c.Identity.Require == nil {
		c.Identity.Require = yes(production && c.Identity.Default == nil)
	}
	if !*c.Identity.Require && c.Identity.Default == nil {
		c.Identity.Default = &Principal{ID: "anonymous"}
	}
	if d := c.Identity.Default; d != nil {
		set(&d.Kind, "anonymous")
		set(&d.Trust, "anonymous")
	}
	for i := range c.Identity.Keys {
		set(&c.Identity.Keys[i].Kind, "agent")
		set(&c.Identity.Keys[i].Trust, "authenticated")
	}
	if s := c.Identity.SPIFFE; s != nil {
		for i := range s.Rules {
			set(&s.Rules[i].Kind, "agent")
			set(&s.Rules[i].Trust, "authenticated")
		}
	}
	if o := c.Identity.OIDC; o != nil {
		set(&o.Kind, "agent")
		set(&o.Trust, "authenticated")
		set(&o.MaxTrust, "human")
	}
	if c.Ownership.Unattributed == "" {
		c.Ownership.Unattributed = "visible"
		if c.manyTenants() {
			c.Ownership.Unattributed = "named"
		}
	}
	for i := range c.Backends {
		b := &c.Backends[i]
		set(&b.CredentialAs, "token")
	}
	if c.Policy.Poll == 0 {
		c.Policy.Poll = Duration(time.Second)
	}
	limits := memproxy.DefaultLimits()
	row := func(w *WriteLimit, d memproxy.WriteLimit) {
		if w.PerHour == 0 {
			w.PerHour = d.PerHour
		}
		if w.Total == 0 {
			w.Total = d.Total
		}
	}
	row(&c.Budgets.Default, limits.Default)
	row(&c.Budgets.Anonymous, limits.Anonymous)
	if c.Budgets.RapidPerMinute == nil {
		c.Budgets.RapidPerMinute = &limits.RapidPerMinute
	}
	set(&c.Log.Level, "info")
	set(&c.Log.Format, "text")
	set(&c.Telemetry.Service, "memproxy")
}

// manyTenants reports whether the configuration knows more than one tenant, or
// cannot know how many there are.
func (c *Config) manyTenants() bool {
	tenants := map[string]bool{}
	for _, k := range c.Identity.Keys {
		tenants[k.Tenant] = true
	}
	if c.Identity.Default != nil {
		tenants[c.Identity.Default.Tenant] = true
	}
	if s := c.Identity.SPIFFE; s != nil {
		for _, r := range s.Rules {
			tenants[r.Tenant] = true
		}
	}
	if o := c.Identity.OIDC; o != nil && o.Claims["tenant"] != "" {
		return true
	}
	delete(tenants, "") // callers without a tenant share one space with nobody
	return len(tenants) > 1
}

// check finds what the types do not.
func (v *reader) check(c *Config, root *yaml.Node) {
	at := func(path ...any) int { return lineOf(root, path...) }
	v.enums(reflect.ValueOf(*c), root, nil)
	if len(c.Backends) == 0 {
		v.fault(1, "no backends: nothing would be proxied")
	}
	names, listens := map[string]bool{}, map[string]string{c.Admin.Listen: "admin"}
	v.listen(c.Admin.Listen, at("admin", "listen"))
	for i, b := range c.Backends {
		line := at("backends", i)
		if b.Name == "" || names[b.Name] || b.Name == "admin" {
			v.fault(line, "a backend needs a name of its own (and not admin)")
		}
		names[b.Name] = true
		v.listen(b.Listen, at("backends", i, "listen"))
		if other, taken := listens[b.Listen]; taken && !strings.HasSuffix(b.Listen, ":0") {
			v.fault(at("backends", i, "listen"), "%s is the address of %s already", b.Listen, other)
		}
		listens[b.Listen] = b.Name
		v.upstream(b.Upstream, at("backends", i, "upstream"))
		if (b.TLS.Cert == "") != (b.TLS.Key == "") {
			v.fault(at("backends", i, "tls"), "cert and key go together")
		}
		if b.TLS.ClientCA != "" && b.TLS.Cert == "" {
			v.fault(at("backends", i, "tls"), "client_ca needs cert and key")
		}
		if b.Limits.Body < 0 || b.Limits.Answer < 0 || b.Limits.Depth < 0 || b.Limits.Depth > 1000 {
			v.fault(at("backends", i, "limits"), "limits are positive, and depth at most 1000")
		}
		if b.Kind == "" {
			v.fault(line, "kind is missing: mem0")
		}
	}
	v.identity(c, at)
	v.numbers(c, at)
}

func (v *reader) identity(c *Config, at func(...any) int) {
	seen := map[string]bool{}
	for i, k := range c.Identity.Keys {
		line := at("identity", "keys", i)
		if b, err := hex.DecodeString(k.SHA256); err != nil || len(b) != 32 {
			v.fault(line, "sha256 is not 64 hex digits")
		}
		if k.ID == "" {
			v.fault(line, "id is missing")
		}
		if seen[strings.ToLower(k.SHA256)] {
			v.fault(line, "this key stands twice")
		}
		seen[strings.ToLower(k.SHA256)] = true
	}
	if d := c.Identity.Default; d != nil {
		if d.ID == "" {
			v.fault(at("identity", "default"), "id is missing")
		}
		if *c.Identity.Require {
			v.fault(at("identity", "require"), "require and default exclude each other")
		}
	}
	if o := c.Identity.OIDC; o != nil {
		if u, err := url.Parse(o.Issuer); err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
			v.fault(at("identity", "oidc", "issuer"), "issuer is not a URL")
		}
		if o.Audience == "" {
			v.fault(at("identity", "oidc"), "audience is missing: a token for anybody would do")
		}
		for name := range o.Claims {
			if !slices.Contains([]string{"id", "tenant", "roles", "kind", "trust", "acts_as", "users", "apps", "runs"}, name) {
				v.fault(at("identity", "oidc", "claims", name), "unknown key %q", name)
			}
		}
	}
	if s := c.Identity.SPIFFE; s != nil && s.TrustDomain == "" {
		v.fault(at("identity", "spiffe"), "trust_domain is missing")
	}
}

func (v *reader) numbers(c *Config, at func(...any) int) {
	share := func(f *float64, path ...any) {
		if f != nil && !(*f >= 0 && *f <= 1) {
			v.fault(at(path...), "%v is not from 0 to 1", *f)
		}
	}
	share(c.Telemetry.Sample, "telemetry", "sample")
	share(c.Confidence.Unclaimed, "confidence", "unclaimed")
	if c.Budgets.Redis != nil {
		share(c.Budgets.Redis.Share, "budgets", "redis", "degraded_share")
		if c.Budgets.Redis.URL == "" {
			v.fault(at("budgets", "redis"), "url is missing")
		}
	}
	for name, f := range c.Confidence.Principal {
		share(&f, "confidence", "principal", name)
		if !slices.Contains(memproxy.Trusts[:], memproxy.Trust(name)) {
			v.fault(at("confidence", "principal", name), "unknown tier %q", name)
		}
	}
	for name, f := range c.Confidence.Source {
		share(&f, "confidence", "source", name)
		if !slices.Contains([]memproxy.Source{memproxy.SourceTrusted, memproxy.SourceVerified, memproxy.SourceUntrusted, memproxy.SourceHostile}, memproxy.Source(name)) {
			v.fault(at("confidence", "source", name), "unknown source %q", name)
		}
	}
	row := func(w WriteLimit, path ...any) {
		if w.PerHour < 0 || w.Total < 0 {
			v.fault(at(path...), "a limit is not negative")
		}
	}
	row(c.Budgets.Default, "budgets", "default")
	row(c.Budgets.Anonymous, "budgets", "anonymous")
	for name, m := range map[string]map[string]WriteLimit{"overrides": c.Budgets.Overrides, "tenants": c.Budgets.Tenants, "namespaces": c.Budgets.Namespaces} {
		for k, w := range m {
			row(w, "budgets", name, k)
		}
	}
}

func (v *reader) listen(addr string, line int) {
	if _, port, err := net.SplitHostPort(addr); err != nil || port == "" {
		v.fault(line, "listen %q is not host:port", addr)
	}
}

func (v *reader) upstream(s string, line int) {
	u, err := url.Parse(s)
	switch {
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "":
		v.fault(line, "upstream is not an http or https URL")
	case u.User != nil:
		v.fault(line, "upstream must not carry a credential; use credential")
	case u.RawQuery != "" || u.Fragment != "":
		v.fault(line, "upstream has no query")
	}
}

// enums checks the values of fields with an enum tag.
func (v *reader) enums(val reflect.Value, root *yaml.Node, path []any) {
	switch val.Kind() {
	case reflect.Pointer:
		if !val.IsNil() {
			v.enums(val.Elem(), root, path)
		}
	case reflect.Slice:
		for i := range val.Len() {
			v.enums(val.Index(i), root, append(slices.Clone(path), i))
		}
	case reflect.Struct:
		for i := range val.NumField() {
			f := val.Type().Field(i)
			key, opts, _ := strings.Cut(f.Tag.Get("yaml"), ",")
			p := append(slices.Clone(path), key)
			if opts == "inline" {
				p = path
			}
			if e := f.Tag.Get("enum"); e != "" {
				if s := val.Field(i).String(); s != "" && !slices.Contains(strings.Split(e, ","), s) {
					v.fault(lineOf(root, p...), "%s is %s, not %q", key, strings.ReplaceAll(e, ",", " or "), s)
				}
				continue
			}
			v.enums(val.Field(i), root, p)
		}
	}
}

// lineOf finds the line of a path, or of the nearest thing above it.
func lineOf(n *yaml.Node, path ...any) int {
	if n.Kind == yaml.DocumentNode && len(n.Content) > 0 {
		n = n.Content[0]
	}
	if len(path) == 0 {
		return n.Line
	}
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i < len(n.Content); i += 2 {
			if n.Content[i].Value == fmt.Sprint(path[0]) {
				return lineOf(n.Content[i+1], path[1:]...)
			}
		}
	case yaml.SequenceNode:
		if i, ok := path[0].(int); ok && i < len(n.Content) {
			return lineOf(n.Content[i], path[1:]...)
		}
	}
	return n.Line
}
