// Package config reads memproxy.yaml.
//
// Unknown and repeated keys are errors. Faults are reported together, each with file and
// line: first those of syntax and references, then those of keys and values. Secrets are
// never printed, and no fault quotes a value that came from a reference. Load returns a
// configuration in which the defaults of the profile are filled in.
package config

import (
	"cmp"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/memproxy/memproxy"
)

// Config is memproxy.yaml. The struct tags of a field are the source of the reader, the
// JSON Schema and docs/configuration.md: doc is its meaning, default the value if absent,
// enum and keys the allowed values, min and max the limits, and required means that it
// must be present.
type Config struct {
	Profile    string         `yaml:"profile,omitempty" doc:"development or production: a named set of defaults, each of which can be overridden" default:"development" enum:"development,production" loose:"order:production,development"`
	Enforce    *bool          `yaml:"enforce,omitempty" doc:"false is shadow mode: decide and record, but forward everything unchanged" default:"true" loose:"order:true,false;unsafe"`
	State      string         `yaml:"state,omitempty" doc:"directory of audit log, ledger, keys and counters" default:"./state" loose:"-"`
	Admin      Admin          `yaml:"admin,omitempty" doc:"the listener of probes and metrics"`
	Backends   []Backend      `yaml:"backends,omitempty" doc:"the memory services, each with a listener" required:"true"`
	Limits     ResourceLimits `yaml:"limits,omitempty" doc:"limits on resources that callers may use"`
	Identity   Identity       `yaml:"identity,omitempty" doc:"how callers are identified"`
	Ownership  Ownership      `yaml:"ownership,omitempty" doc:"who sees memories without a recorded owner"`
	Answers    Answers        `yaml:"answers,omitempty" doc:"filtering of backends' responses"`
	Policy     Policy         `yaml:"policy,omitempty" doc:"where the rules come from"`
	Ledger     Ledger         `yaml:"ledger,omitempty" doc:"store of provenance, held writes and versions"`
	Review     Review         `yaml:"review,omitempty" doc:"review of held writes"`
	Sessions   Sessions       `yaml:"sessions,omitempty" doc:"when a session's or caller's writes are locked"`
	Memories   Memories       `yaml:"memories,omitempty" doc:"retention and visibility of memories"`
	Screening  Screening      `yaml:"screening,omitempty" doc:"screening of content"`
	Sources    Sources        `yaml:"sources,omitempty" doc:"trust in the sources of content"`
	Confidence Confidence     `yaml:"confidence,omitempty" doc:"ceilings on confidence, from 0 to 1"`
	Budgets    Budgets        `yaml:"budgets,omitempty" doc:"limits on writes"`
	Audit      Audit          `yaml:"audit,omitempty" doc:"the signed log"`
	Telemetry  Telemetry      `yaml:"telemetry,omitempty" doc:"traces, metrics and logs over OTLP"`
	Log        Log            `yaml:"log,omitempty" doc:"the process's own log, on stderr"`

	file *file // source file; nil if there is none
	// behindEnvoy is set if Envoy's clients are served, wherever Envoy listens. anyEnvoy
	// is set if any process on the machine can claim to be Envoy.
	behindEnvoy, anyEnvoy bool
	builtinOff            string // file that leaves the built-in policies out; "" if they are in force
}

// Admin is the admin listener.
type Admin struct {
	Listen string   `yaml:"listen,omitempty" doc:"address of /healthz, /readyz and /metrics" default:"127.0.0.1:9901" loose:"-"`
	Hosts  []string `yaml:"hosts,omitempty" doc:"host names under which the review API, /metrics and /debug are served, besides localhost and the address of the connection: the Host header must be one of them. Probes are answered under any name" loose:"more"`
	Probes string   `yaml:"probes,omitempty" doc:"a second address with /healthz, /readyz and /metrics only, for networks that must not reach the review API; absent: none" loose:"-"`
}

// Backend is one memory service behind the proxy.
type Backend struct {
	Name           string    `yaml:"name,omitempty" doc:"name in policies, metrics and records" required:"true" loose:"-"`
	Kind           string    `yaml:"kind,omitempty" doc:"the wire format" enum:"mem0,letta" required:"true" loose:"-"`
	Listen         string    `yaml:"listen,omitempty" doc:"address for clients, host:port" required:"true" loose:"-"`
	Upstream       string    `yaml:"upstream,omitempty" doc:"base URL of the service; a path is a prefix" required:"true" loose:"-"`
	Tenant         string    `yaml:"tenant,omitempty" doc:"the one tenant whose memories the service holds: callers of other tenants are refused, memories without a known author belong to it, and aggregates of many memories are allowed; absent: tenants may share the service" loose:"-"`
	Passthrough    []string  `yaml:"passthrough,omitempty" doc:"routes that the adapter does not know and that access no memory: METHOD /path, * for one segment or, at the end, any rest; GET includes HEAD" loose:"more"`
	Credential     Secret    `yaml:"credential,omitempty" doc:"backend key that replaces the client's, so that agents never hold it" loose:"-"`
	CredentialAs   string    `yaml:"credential_as,omitempty" doc:"how the credential is sent" default:"token" enum:"token,bearer,x-api-key" loose:"-"`
	Ungated        string    `yaml:"ungated,omitempty" doc:"letta: runs of agents that cannot be gated call by call: deny them, or forward and compensate: after the run, decide on its memory changes and undo the refused ones" default:"deny in production, else compensate" enum:"deny,compensate" loose:"order:deny,compensate;unsafe"`
	Reconcile      *Duration `yaml:"reconcile,omitempty" doc:"letta: how long the pending calls of an interrupted turn wait before they are declined; at once after a restart; 0: until the agent's next turn" default:"30s" loose:"up0"`
	ConfidenceKeys []string  `yaml:"confidence_keys,omitempty" doc:"metadata keys that claim a confidence" default:"confidence, importance" loose:"fewer"`
	FieldKey       string    `yaml:"field_key,omitempty" doc:"metadata key that names the governed field" default:"field; category and categories count as well" loose:"-"`
	TLS            TLS       `yaml:"tls,omitempty" doc:"https on the listener, and the upstream's roots"`
	Limits         Limits    `yaml:"limits,omitempty" doc:"bounds of bodies"`
	Timeouts       Timeouts  `yaml:"timeouts,omitempty" doc:"bounds in time"`
}

// TLS names PEM files.
type TLS struct {
	Cert       string `yaml:"cert,omitempty" doc:"certificate chain of the listener" loose:"-"`
	Key        string `yaml:"key,omitempty" doc:"its private key" loose:"-"`
	ClientCA   string `yaml:"client_ca,omitempty" doc:"roots of client certificates, for SPIFFE" loose:"-"`
	UpstreamCA string `yaml:"upstream_ca,omitempty" doc:"roots of an https upstream" default:"the system's" loose:"-"`
}

// Limits limits the size of bodies.
type Limits struct {
	Body   int64 `yaml:"body,omitempty" doc:"largest request body, bytes, at most half of limits.in_flight_per_address; streams on passthrough routes are not limited" default:"1048576" min:"1" loose:"up"`
	Answer int64 `yaml:"answer,omitempty" doc:"largest response that is buffered, bytes" default:"16777216" min:"1" loose:"up"`
	Depth  int   `yaml:"depth,omitempty" doc:"deepest nesting of JSON in a request; responses may nest deeper" default:"32" min:"1" max:"100" loose:"up"`
}

// Timeouts limits the time that clients and backends may take.
type Timeouts struct {
	Body     Duration `yaml:"body,omitempty" doc:"for a client to send a body" default:"30s" min:"1ms" loose:"up"`
	Upstream Duration `yaml:"upstream,omitempty" doc:"for the backend to respond; for a stream, the longest silence" default:"5m0s" min:"1ms" loose:"up"`
	Run      Duration `yaml:"run,omitempty" doc:"for an agent's turn with all its tool calls; for a streamed turn, the longest silence" default:"30m0s" min:"1ms" loose:"up"`
}

// Identity configures how callers are identified.
type Identity struct {
	Require *bool      `yaml:"require,omitempty" doc:"refuse callers without a known credential; there is then no default principal" default:"true in production without identity.default, else false" loose:"order:true,false"`
	Default *Principal `yaml:"default,omitempty" doc:"principal of callers without a known credential. With kind anonymous each session at each address has its own id, anonymous:…; policies and budgets refer to all of them by this id"`
	Keys    []Key      `yaml:"keys,omitempty" doc:"backend API keys or bearer tokens, by their hashes"`
	OIDC    *OIDC      `yaml:"oidc,omitempty" doc:"tokens in Proxy-Authorization: Bearer or X-Memproxy-Token"`
	SPIFFE  *SPIFFE    `yaml:"spiffe,omitempty" doc:"client certificates"`

	Established Established `yaml:"established,omitempty" doc:"the track record that makes an authenticated caller established for its writes, while it lasts"`
}

// Established is the track record with which a caller becomes established.
type Established struct {
	Facts     *int64    `yaml:"facts,omitempty" doc:"the caller's memories that were validated, by the rules or by a reviewer; 0: never" default:"200" min:"0" loose:"down0"`
	Age       *Duration `yaml:"age,omitempty" doc:"time since the caller's first write" default:"30d" loose:"down"`
	Corrected *float64  `yaml:"corrected,omitempty" doc:"the highest share of them that others corrected, from 0 to 1" default:"0.02" min:"0" max:"1" loose:"up"`
}

// PromotionRule converts to the root package's type.
func (e *Established) PromotionRule() memproxy.PromotionRule {
	return memproxy.PromotionRule{Facts: *e.Facts, Age: e.Age.Std(), Corrected: memproxy.FromFraction(*e.Corrected)}
}

// Principal is a caller in the configuration.
type Principal struct {
	ID     string   `yaml:"id,omitempty" doc:"name of the principal" required:"true" loose:"-"`
	Kind   string   `yaml:"kind,omitempty" doc:"kind of caller" default:"agent; identity.default: anonymous" enum:"agent,human,service,anonymous" loose:"-"`
	Trust  string   `yaml:"trust,omitempty" doc:"trust tier, which sets the ceiling on confidence" default:"authenticated; identity.default: anonymous" enum:"anonymous,authenticated,established,human,system" loose:"order:anonymous,authenticated,established,human,system"`
	Tenant string   `yaml:"tenant,omitempty" doc:"tenant whose memories it shares" loose:"-"`
	Roles  []string `yaml:"roles,omitempty" doc:"roles for policies" loose:"more"`
	ActsAs Names    `yaml:"acts_as,omitempty" doc:"agents that it may name; absent: none; \"*\": all" loose:"more"`
	Users  *Names   `yaml:"users,omitempty" doc:"users that it may name; absent: all" loose:"names"`
	Apps   *Names   `yaml:"apps,omitempty" doc:"apps that it may name; absent: all" loose:"names"`
	Runs   *Names   `yaml:"runs,omitempty" doc:"runs that it may name; absent: all" loose:"names"`
}

// Key is a principal with the hash of its secret.
type Key struct {
	SHA256    string `yaml:"sha256,omitempty" doc:"SHA-256 of the token, hex" required:"true" loose:"-"`
	Principal `yaml:",inline"`
}

// OIDC verifies the tokens of one issuer.
type OIDC struct {
	Issuer   string            `yaml:"issuer,omitempty" doc:"issuer URL" required:"true" loose:"-"`
	Audience string            `yaml:"audience,omitempty" doc:"required value in aud" required:"true" loose:"-"`
	Prefix   *string           `yaml:"prefix,omitempty" doc:"prefix of the principal's id, before the id claim" default:"oidc:" loose:"-"`
	Kind     string            `yaml:"kind,omitempty" doc:"kind of callers whose token does not state one" default:"agent" enum:"agent,human,service" loose:"-"`
	Trust    string            `yaml:"trust,omitempty" doc:"tier of callers whose token does not state one" default:"authenticated" enum:"anonymous,authenticated,established,human,system" loose:"order:anonymous,authenticated,established,human,system"`
	MaxTrust string            `yaml:"max_trust,omitempty" doc:"the highest tier that a token may claim" default:"human" enum:"anonymous,authenticated,established,human,system" loose:"order:anonymous,authenticated,established,human,system"`
	Claims   map[string]string `yaml:"claims,omitempty" doc:"names of the claims to read; trust is capped by max_trust" default:"id: sub" keys:"id,tenant,roles,kind,trust,acts_as,users,apps,runs" loose:"-"`
	// CA and TokenFile are for issuers within a cluster, whose tokens contain only a
	// name.
	CA        string     `yaml:"ca,omitempty" doc:"roots of the issuer's certificate, PEM; absent: the system's" loose:"-"`
	TokenFile string     `yaml:"token_file,omitempty" doc:"file with the bearer token for requests to the issuer, read each time; requires an https issuer" loose:"-"`
	Rules     []OIDCRule `yaml:"rules,omitempty" doc:"map subjects to principals; the first match counts and subjects without a match are refused. No claim but id is read then"`
}

// OIDCRule maps subjects to a principal.
type OIDCRule struct {
	Subject   string                         `yaml:"subject,omitempty" doc:"the id claim; * matches one part between colons: system:serviceaccount:team-a:*" required:"true" loose:"-"`
	Principal `yaml:",inline" optional:"id"` // default id: prefix and subject
}

// SPIFFE maps client certificates to principals.
type SPIFFE struct {
	TrustDomain string       `yaml:"trust_domain,omitempty" doc:"trust domain of the certificates" required:"true" loose:"-"`
	Rules       []SPIFFERule `yaml:"rules,omitempty" doc:"map paths to principals; without rules, each id is an authenticated agent named by it"`
}

// SPIFFERule maps paths to a principal.
type SPIFFERule struct {
	Path      string                         `yaml:"path,omitempty" doc:"path of the SPIFFE id; * matches one segment" required:"true" loose:"-"`
	Principal `yaml:",inline" optional:"id"` // default id: the SPIFFE id
}

// Ownership configures memories without a recorded owner, or changed out of band.
type Ownership struct {
	Unattributed string `yaml:"unattributed,omitempty" doc:"who sees memories that were written out-of-band and whose tenant is not known: all callers that may name their owners, only callers limited to one of their owners, or none" default:"visible; named with several tenants" enum:"visible,named,hidden" loose:"order:hidden,named,visible;unsafe"`
	Changed      string `yaml:"changed,omitempty" doc:"memories in responses that were changed out-of-band: report in the record, withhold as well, or do not check" default:"report" enum:"report,withhold,ignore" loose:"order:withhold,report,ignore;unsafe"`
}

// Answers configures the filtering of unknown parts of responses.
type Answers struct {
	Headers   string `yaml:"headers,omitempty" doc:"response headers that clients are not known to need: drop or pass; counted and reported either way" default:"drop in production, else pass" enum:"drop,pass" loose:"order:drop,pass;unsafe"`
	Unclaimed string `yaml:"unclaimed,omitempty" doc:"members of responses that are unknown to the adapter: drop or pass; counted and reported either way" default:"drop in production, else pass" enum:"drop,pass" loose:"order:drop,pass;unsafe"`
}

// Policy names the rules.
type Policy struct {
	Dir     string   `yaml:"dir,omitempty" doc:"directory of *.cedar; absent: the built-in bundle" loose:"-"`
	Control *Control `yaml:"control,omitempty" doc:"the control plane that distributes the rules; until its first release dir applies, or without dir everything is refused"`
	Poll    Duration `yaml:"poll,omitempty" doc:"how often the directory is read; a change takes effect when two reads agree" default:"1s" min:"1ms" loose:"-"`
}

// Sources maps names of content sources to trust tiers.
type Sources struct {
	Names   map[string]memproxy.Source `yaml:"names,omitempty" doc:"tiers of names that metadata claim as source, besides the built-in ones: email includes email:ann@example.org, the longest matching name counts, * is every other name" default:"the built-in table, and * is untrusted in production" enum:"trusted,verified,untrusted,hostile" loose:"order:hostile,untrusted,verified,trusted;unsafe"`
	Pending []memproxy.Source          `yaml:"pending,omitempty" doc:"tiers of sources whose new memories await review before callers other than their author can read them; []: none" default:"hostile in production, else none" enum:"untrusted,hostile" loose:"fewer;unsafe"`
}

const everyOther = "*" // entry for names of sources that have no entry of their own

// production sets absent keys to the defaults of the production profile.
func (s *Sources) production() {
	if _, given := s.Names[everyOther]; !given {
		names := map[string]memproxy.Source{everyOther: memproxy.SourceUntrusted}
		maps.Copy(names, s.Names)
		s.Names = names
	}
	if s.Pending == nil {
		s.Pending = []memproxy.Source{memproxy.SourceHostile}
	}
}

// MarshalYAML encodes the complete table.
func (s Sources) MarshalYAML() (any, error) {
	return map[string]any{"names": s.Table(), "pending": s.Pending}, nil
}

// Table returns the built-in table, overridden by the file's entries.
func (s *Sources) Table() memproxy.SourceNames {
	return memproxy.DefaultSourceNames().With(s.Names)
}

// Confidence configures ceilings on confidence, from 0 to 1.
type Confidence struct {
	Clamp                 *bool `yaml:"clamp,omitempty" doc:"lower confidences to the ceilings; false: claims are stored unchanged" default:"true" loose:"order:true,false;unsafe"`
	memproxy.CeilingTable `yaml:",inline"`
}

// Budgets limits writes.
type Budgets struct {
	Enforce              *bool `yaml:"enforce,omitempty" doc:"refuse writes over a budget; false: only count them" default:"true" loose:"order:true,false;unsafe"`
	memproxy.BudgetTable `yaml:",inline"`
	Redis                *Redis `yaml:"redis,omitempty" doc:"the shared store; absent: counts are in this process"`
}

// Redis is the shared budget store.
type Redis struct {
	URL     Secret   `yaml:"url,omitempty" doc:"redis://, rediss:// or unix://; several hosts with commas for a Cluster; ?master=NAME for Sentinel" required:"true" loose:"-"`
	Timeout Duration `yaml:"timeout,omitempty" doc:"deadline of one charge; a charge that takes longer sends the replica to its share" default:"250ms" min:"1ms" loose:"-"`
	Share   *float64 `yaml:"degraded_share,omitempty" doc:"share of each limit that one replica may use while Redis is unavailable, up to 1" default:"0.25" min:"0.001" max:"1" loose:"up"`
}

// Audit configures the signed log.
type Audit struct {
	Retention *Duration `yaml:"retention,omitempty" doc:"how long records are kept; 0: for ever" default:"90d" loose:"down0"`
	MaxBytes  int64     `yaml:"max_bytes,omitempty" doc:"largest total size of the records, in bytes; the oldest are removed first, once a minute; absent: unlimited" min:"1048576" loose:"down0"`
	Origin    string    `yaml:"origin,omitempty" doc:"name of the log in its checkpoints; unique to the installation" default:"memproxy/ and the key's fingerprint" loose:"-"`
	KeyFile   string    `yaml:"key_file,omitempty" doc:"the log's key (Ed25519, PKCS #8 PEM), as keygen makes it; must exist. Logs that share a key need different origins" default:"made in the state directory" loose:"-"`
}

// Telemetry configures the export to an OTLP collector.
type Telemetry struct {
	OTLP    string            `yaml:"otlp,omitempty" doc:"base URL of an OTLP/HTTP collector; absent: traces stay in memory, metrics on /metrics" loose:"-"`
	Headers map[string]Secret `yaml:"headers,omitempty" doc:"headers for the collector" loose:"-"`
	Sample  *float64          `yaml:"sample,omitempty" doc:"share of new traces that are recorded, from 0 to 1" default:"1" min:"0" max:"1" loose:"-"`
	Service string            `yaml:"service,omitempty" doc:"service.name" default:"memproxy" loose:"-"`
}

// Log configures the log of the process.
type Log struct {
	Level  string `yaml:"level,omitempty" doc:"lowest level that is logged" default:"info" enum:"debug,info,warn,error" loose:"-"`
	Format string `yaml:"format,omitempty" doc:"format of the log" default:"json in production, else text" enum:"text,json" loose:"-"`
}

func open(n *Names) memproxy.Limit {
	if n == nil {
		return memproxy.Limit{All: true}
	}
	return memproxy.LimitTo(*n)
}

// ToPrincipal converts a principal.
func (p Principal) ToPrincipal() memproxy.Principal {
	return memproxy.Principal{
		ID: p.ID, Kind: memproxy.PrincipalKind(p.Kind), Tenant: p.Tenant, Roles: p.Roles, Trust: memproxy.Trust(p.Trust),
		ActsAs: memproxy.LimitTo(p.ActsAs), Users: open(p.Users), Apps: open(p.Apps), Runs: open(p.Runs),
	}
}

// Std converts to time.Duration.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// NameError is the error of a value on the command line, such as a name that the configuration does not have.
type NameError string

func (e NameError) Error() string { return string(e) }

// Misuse makes it an error of the command line.
func (NameError) Misuse() bool { return true }

// Backend returns the backend with a name, or the only backend if name is "".
func (c *Config) Backend(name string) (Backend, error) {
	var names []string
	for _, b := range c.Backends {
		if b.Name == name || name == "" && len(c.Backends) == 1 {
			return b, nil
		}
		names = append(names, b.Name)
	}
	return Backend{}, NameError(fmt.Sprintf("the configuration has no backend %q; it has %s", name, strings.Join(names, ", ")))
}

// Principal returns the configured principal with an id, or the default one if id is "".
func (c *Config) Principal(id string) (memproxy.Principal, error) {
	if d := c.Identity.Default; d != nil && (id == "" || id == d.ID) {
		return d.ToPrincipal(), nil
	}
	var known []string
	for _, k := range c.Identity.Keys {
		if k.ID == id {
			return k.ToPrincipal(), nil
		}
		known = append(known, k.ID)
	}
	what := "default principal"
	if id != "" {
		what = fmt.Sprintf("principal %q", id)
	}
	return memproxy.Principal{}, NameError(fmt.Sprintf("the configuration has no %s; it has %s", what, cmp.Or(strings.Join(known, ", "), "none")))
}
