package config

import (
	"time"

	"github.com/memproxy/memproxy"
)

// Config is memproxy.yaml. Field tags say everything about a key that the
// reader, the JSON Schema and docs/configuration.md need: doc is what it means,
// enum and keys what it may be, min and max its bounds, required that it must
// stand.
type Config struct {
	Profile    string     `yaml:"profile" doc:"development or production: a named set of defaults, each overridable" enum:"development,production"`
	Enforce    *bool      `yaml:"enforce" doc:"false is shadow mode: rule and record, forward everything unchanged"`
	State      string     `yaml:"state" doc:"directory of audit log, ledger, keys and counters"`
	Admin      Admin      `yaml:"admin" doc:"the listener of probes and metrics"`
	Backends   []Backend  `yaml:"backends" doc:"the memory services, each with a listener" required:"true"`
	Identity   Identity   `yaml:"identity" doc:"who callers are"`
	Ownership  Ownership  `yaml:"ownership" doc:"whose memories are"`
	Policy     Policy     `yaml:"policy" doc:"the rules"`
	Confidence Confidence `yaml:"confidence" doc:"ceilings on confidence, from 0 to 1"`
	Budgets    Budgets    `yaml:"budgets" doc:"how much may be written"`
	Audit      Audit      `yaml:"audit" doc:"the signed log"`
	Telemetry  Telemetry  `yaml:"telemetry" doc:"traces, metrics and logs over OTLP"`
	Log        Log        `yaml:"log" doc:"the process's own log, on stderr"`
}

// Admin is the admin listener.
type Admin struct {
	Listen string `yaml:"listen" doc:"address of /healthz, /readyz and /metrics"`
}

// Backend is one memory service behind the proxy.
type Backend struct {
	Name           string   `yaml:"name" doc:"what policies, metrics and records call it" required:"true"`
	Kind           string   `yaml:"kind" doc:"the wire format" enum:"mem0" required:"true"`
	Listen         string   `yaml:"listen" doc:"address that clients are given, host:port" required:"true"`
	Upstream       string   `yaml:"upstream" doc:"base URL of the service; a path is a prefix" required:"true"`
	Passthrough    []string `yaml:"passthrough" doc:"routes that the adapter does not know and that touch no memory: METHOD /path, * for a segment or a rest"`
	Credential     Secret   `yaml:"credential" doc:"backend key that replaces the client's, so that agents never hold it"`
	CredentialAs   string   `yaml:"credential_as" doc:"how the credential is presented" enum:"token,bearer,x-api-key"`
	ConfidenceKeys []string `yaml:"confidence_keys" doc:"metadata keys that claim a confidence"`
	FieldKey       string   `yaml:"field_key" doc:"metadata key that names the governed field"`
	TLS            TLS      `yaml:"tls" doc:"https on the listener, and the upstream's roots"`
	Limits         Limits   `yaml:"limits" doc:"bounds of bodies"`
	Timeouts       Timeouts `yaml:"timeouts" doc:"bounds in time"`
}

// TLS names PEM files.
type TLS struct {
	Cert       string `yaml:"cert" doc:"certificate chain of the listener"`
	Key        string `yaml:"key" doc:"its private key"`
	ClientCA   string `yaml:"client_ca" doc:"roots of client certificates, for SPIFFE"`
	UpstreamCA string `yaml:"upstream_ca" doc:"roots of an https upstream; the system's if absent"`
}

// Limits bound bodies, in bytes.
type Limits struct {
	Body   int64 `yaml:"body" doc:"largest request body on memory routes, bytes" min:"1"`
	Answer int64 `yaml:"answer" doc:"largest answer that is read before it is passed on, bytes" min:"1"`
	Depth  int   `yaml:"depth" doc:"deepest nesting of JSON" min:"1" max:"1000"`
}

// Timeouts bound what others may take.
type Timeouts struct {
	Body     Duration `yaml:"body" doc:"for a client to send a body" min:"1ms"`
	Upstream Duration `yaml:"upstream" doc:"for the backend to answer" min:"1ms"`
}

// Identity says who callers are.
type Identity struct {
	Require *bool      `yaml:"require" doc:"refuse callers that present nothing known; there is then no default principal"`
	Default *Principal `yaml:"default" doc:"whoever presents nothing else"`
	Keys    []Key      `yaml:"keys" doc:"backend API keys or bearer tokens, by hash"`
	OIDC    *OIDC      `yaml:"oidc" doc:"tokens in Proxy-Authorization: Bearer or X-Memproxy-Token"`
	SPIFFE  *SPIFFE    `yaml:"spiffe" doc:"client certificates"`
}

// Principal is a caller as written down.
type Principal struct {
	ID     string   `yaml:"id" doc:"name of the principal" required:"true"`
	Kind   string   `yaml:"kind" doc:"what sort of caller" enum:"agent,human,service,anonymous"`
	Trust  string   `yaml:"trust" doc:"tier, which sets the ceiling on confidence" enum:"anonymous,authenticated,established,human,system"`
	Tenant string   `yaml:"tenant" doc:"whose memories it shares"`
	Roles  []string `yaml:"roles" doc:"roles that policies name"`
	ActsAs Names    `yaml:"acts_as" doc:"agents that it may name; absent: none; \"*\": all"`
	Users  *Names   `yaml:"users" doc:"users that it may name; absent: all"`
	Apps   *Names   `yaml:"apps" doc:"apps that it may name; absent: all"`
	Runs   *Names   `yaml:"runs" doc:"runs that it may name; absent: all"`
}

// Key is a principal with its secret's hash.
type Key struct {
	SHA256    string `yaml:"sha256" doc:"SHA-256 of the token, hex" required:"true"`
	Principal `yaml:",inline"`
}

// OIDC verifies tokens of one issuer.
type OIDC struct {
	Issuer   string            `yaml:"issuer" doc:"issuer URL" required:"true"`
	Audience string            `yaml:"audience" doc:"what aud must contain" required:"true"`
	Prefix   *string           `yaml:"prefix" doc:"put before the id claim; oidc: if absent"`
	Kind     string            `yaml:"kind" doc:"kind of those whose token does not say" enum:"agent,human,service"`
	Trust    string            `yaml:"trust" doc:"tier of those whose token does not say" enum:"anonymous,authenticated,established,human,system"`
	MaxTrust string            `yaml:"max_trust" doc:"the highest tier that a token may give itself" enum:"anonymous,authenticated,established,human,system"`
	Claims   map[string]string `yaml:"claims" doc:"claim names for id, tenant, roles, kind, trust, acts_as, users, apps, runs" keys:"id,tenant,roles,kind,trust,acts_as,users,apps,runs"`
}

// SPIFFE maps certificates.
type SPIFFE struct {
	TrustDomain string       `yaml:"trust_domain" doc:"trust domain of the certificates" required:"true"`
	Rules       []SPIFFERule `yaml:"rules" doc:"paths to principals; without rules, each id is an authenticated agent of its own name"`
}

// SPIFFERule maps one path.
type SPIFFERule struct {
	Path      string `yaml:"path" doc:"path of the SPIFFE id; * for one segment" required:"true"`
	Principal `yaml:",inline"`
}

// Ownership says what unattributed memories are.
type Ownership struct {
	Unattributed string `yaml:"unattributed" doc:"who sees memories that were written around memproxy" enum:"visible,named,hidden"`
}

// Policy names the rules.
type Policy struct {
	Dir  string   `yaml:"dir" doc:"directory of *.cedar; absent: the built-in bundle"`
	Poll Duration `yaml:"poll" doc:"how often the directory is looked at; a change counts when two looks agree" min:"1ms"`
}

// Confidence are ceilings, from 0 to 1.
type Confidence struct {
	Principal map[string]float64 `yaml:"principal" doc:"ceilings by tier of the principal" keys:"anonymous,authenticated,established,human,system" min:"0" max:"1"`
	Source    map[string]float64 `yaml:"source" doc:"ceilings by tier of the source" keys:"trusted,verified,untrusted,hostile" min:"0" max:"1"`
	Unclaimed *float64           `yaml:"unclaimed" doc:"confidence of a write that claims none" min:"0" max:"1"`
}

// Budgets bound writes.
type Budgets struct {
	Default        WriteLimit            `yaml:"default" doc:"every principal"`
	Anonymous      WriteLimit            `yaml:"anonymous" doc:"principals of the anonymous tier"`
	Overrides      map[string]WriteLimit `yaml:"overrides" doc:"by principal id; what is absent is inherited"`
	Tenants        map[string]WriteLimit `yaml:"tenants" doc:"by tenant, \"*\" for each; absent: not limited"`
	Namespaces     map[string]WriteLimit `yaml:"namespaces" doc:"by governed field; absent: not limited"`
	RapidPerMinute *int64                `yaml:"rapid_per_minute" doc:"writes a minute that raise the event rapid_writes; 0 is off" min:"0"`
	Redis          *Redis                `yaml:"redis" doc:"the shared store; absent: this process counts"`
}

// WriteLimit is one row of budgets, in memories.
type WriteLimit struct {
	PerHour int64 `yaml:"writes_per_hour" doc:"memories an hour" min:"1"`
	Total   int64 `yaml:"writes_total" doc:"memories in all; falls when they are deleted" min:"1"`
}

// Redis is the shared budget store.
type Redis struct {
	URL     Secret   `yaml:"url" doc:"redis://, rediss:// or unix://; several hosts with commas for a Cluster; ?master=NAME for Sentinel" required:"true"`
	Timeout Duration `yaml:"timeout" doc:"deadline of one charge" min:"1ms"`
	Share   *float64 `yaml:"degraded_share" doc:"share of each limit that one replica may use while Redis is away, from 0 to 1" min:"0" max:"1"`
}

// Audit is the signed log.
type Audit struct {
	Retention Duration `yaml:"retention" doc:"how long records are kept; 0 keeps them for ever"`
	Origin    string   `yaml:"origin" doc:"name of the log in its checkpoints; unique to the installation"`
}

// Telemetry goes to an OTLP collector.
type Telemetry struct {
	OTLP    string            `yaml:"otlp" doc:"base URL of an OTLP/HTTP collector; absent: traces stay in memory, metrics on /metrics"`
	Headers map[string]Secret `yaml:"headers" doc:"headers for the collector"`
	Sample  *float64          `yaml:"sample" doc:"share of new traces that is recorded, from 0 to 1" min:"0" max:"1"`
	Service string            `yaml:"service" doc:"service.name"`
}

// Log is the process's own log.
type Log struct {
	Level  string `yaml:"level" doc:"what is logged" enum:"debug,info,warn,error"`
	Format string `yaml:"format" doc:"how" enum:"text,json"`
}

// Limit is the vocabulary's form of a list of names.
func (n Names) Limit() memproxy.Limit {
	l := memproxy.Limit{}
	for _, v := range n {
		if v == "*" {
			l.All = true
		}
		l.Values = append(l.Values, v)
	}
	return l
}

func open(n *Names) memproxy.Limit {
	if n == nil {
		return memproxy.Limit{All: true}
	}
	return n.Limit()
}

// Memproxy is the vocabulary's form of a principal.
func (p Principal) Memproxy() memproxy.Principal {
	return memproxy.Principal{
		ID: p.ID, Kind: memproxy.PrincipalKind(p.Kind), Tenant: p.Tenant, Roles: p.Roles, Trust: memproxy.Trust(p.Trust),
		ActsAs: p.ActsAs.Limit(), Users: open(p.Users), Apps: open(p.Apps), Runs: open(p.Runs),
	}
}

// Time is the duration.
func (d Duration) Time() time.Duration { return time.Duration(d) }
