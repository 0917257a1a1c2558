// Package config reads memproxy.yaml.
//
// It promises: unknown and repeated keys are errors; all faults are reported
// at once, each with file and line; a secret never prints, and no fault quotes
// a value that came from a reference; and what a profile stands for is written
// out in the value that Load returns. It compiles nothing: the binary does.
package config

import (
	"maps"
	"time"

	"github.com/memproxy/memproxy"
)

// Config is memproxy.yaml. Field tags say everything about a key that the
// reader, the JSON Schema and docs/configuration.md need: doc is what it means,
// default what it is where it is absent, enum and keys what it may be, min and
// max its bounds, required that it must be there.
type Config struct {
	Profile    string     `yaml:"profile,omitempty" doc:"development or production: a named set of defaults, each overridable" default:"development" enum:"development,production" loose:"order:production,development"`
	Enforce    *bool      `yaml:"enforce,omitempty" doc:"false is shadow mode: rule and record, forward everything unchanged" default:"true" loose:"order:true,false;unsafe"`
	State      string     `yaml:"state,omitempty" doc:"directory of audit log, ledger, keys and counters" default:"./state" loose:"-"`
	Admin      Admin      `yaml:"admin,omitempty" doc:"the listener of probes and metrics"`
	Backends   []Backend  `yaml:"backends,omitempty" doc:"the memory services, each with a listener" required:"true"`
	Limits     Intake     `yaml:"limits,omitempty" doc:"what callers may cost before and while they are served"`
	Identity   Identity   `yaml:"identity,omitempty" doc:"who callers are"`
	Ownership  Ownership  `yaml:"ownership,omitempty" doc:"whose memories are"`
	Answers    Answers    `yaml:"answers,omitempty" doc:"what backends' answers may have in them"`
	Policy     Policy     `yaml:"policy,omitempty" doc:"the rules"`
	Ledger     Ledger     `yaml:"ledger,omitempty" doc:"where provenance, holds and versions are kept"`
	Review     Review     `yaml:"review,omitempty" doc:"the workflow of what is held"`
	Sessions   Sessions   `yaml:"sessions,omitempty" doc:"when writes are locked"`
	Memories   Memories   `yaml:"memories,omitempty" doc:"how long memories are kept, and who sees which"`
	Screening  Screening  `yaml:"screening,omitempty" doc:"how content is judged"`
	Sources    Sources    `yaml:"sources,omitempty" doc:"where content comes from"`
	Confidence Confidence `yaml:"confidence,omitempty" doc:"ceilings on confidence, from 0 to 1"`
	Budgets    Budgets    `yaml:"budgets,omitempty" doc:"how much may be written"`
	Audit      Audit      `yaml:"audit,omitempty" doc:"the signed log"`
	Telemetry  Telemetry  `yaml:"telemetry,omitempty" doc:"traces, metrics and logs over OTLP"`
	Log        Log        `yaml:"log,omitempty" doc:"the process's own log, on stderr"`

	file *file // what it was read from; nil: it was not
	// behindEnvoy is set where Envoy's clients are served, wherever Envoy listens, and
	// anyEnvoy where any process of the machine may say that it is Envoy.
	behindEnvoy, anyEnvoy bool
}

// Admin is the admin listener.
type Admin struct {
	Listen string   `yaml:"listen,omitempty" doc:"address of /healthz, /readyz and /metrics" default:"127.0.0.1:9901" loose:"-"`
	Hosts  []string `yaml:"hosts,omitempty" doc:"names by which the review API, /metrics and /debug may be asked, besides localhost and the address that the connection came to: the Host header must be one of them. Probes are answered by any name" loose:"more"`
	Probes string   `yaml:"probes,omitempty" doc:"a second address with /healthz, /readyz and /metrics and nothing else, for networks that may not reach the review API; absent: none" loose:"-"`
}

// Backend is one memory service behind the proxy.
type Backend struct {
	Name           string    `yaml:"name,omitempty" doc:"what policies, metrics and records call it" required:"true" loose:"-"`
	Kind           string    `yaml:"kind,omitempty" doc:"the wire format" enum:"mem0,letta" required:"true" loose:"-"`
	Listen         string    `yaml:"listen,omitempty" doc:"address that clients are given, host:port" required:"true" loose:"-"`
	Upstream       string    `yaml:"upstream,omitempty" doc:"base URL of the service; a path is a prefix" required:"true" loose:"-"`
	Tenant         string    `yaml:"tenant,omitempty" doc:"the one tenant whose memories the service holds: callers of others are refused, memories that nobody is known to have written are its own, and what is made of many memories is given; absent: several may share it" loose:"-"`
	Passthrough    []string  `yaml:"passthrough,omitempty" doc:"routes that the adapter does not know and that touch no memory: METHOD /path, * for a segment or a rest" loose:"more"`
	Credential     Secret    `yaml:"credential,omitempty" doc:"backend key that replaces the client's, so that agents never hold it" loose:"-"`
	CredentialAs   string    `yaml:"credential_as,omitempty" doc:"how the credential is presented" default:"token" enum:"token,bearer,x-api-key" loose:"-"`
	Ungated        string    `yaml:"ungated,omitempty" doc:"letta: agents' runs that cannot be gated call by call: deny them, or let them through and compensate: rule on what they wrote when they are over, and undo what is not let in" default:"deny in production, else compensate" enum:"deny,compensate" loose:"order:deny,compensate;unsafe"`
	Reconcile      *Duration `yaml:"reconcile,omitempty" doc:"letta: how long an agent may wait after its turn broke off until what waits is denied; after a restart at once; 0 is until its next turn" default:"30s" loose:"up0"`
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

// Limits bound bodies, in bytes.
type Limits struct {
	Body   int64 `yaml:"body,omitempty" doc:"largest request body that is read, bytes; what streams on passthrough routes is not bounded" default:"1048576" min:"1" loose:"up"`
	Answer int64 `yaml:"answer,omitempty" doc:"largest answer that is read before it is passed on, bytes" default:"16777216" min:"1" loose:"up"`
	Depth  int   `yaml:"depth,omitempty" doc:"deepest nesting of JSON in a request; answers may nest deeper" default:"32" min:"1" max:"100" loose:"up"`
}

// Timeouts bound what others may take.
type Timeouts struct {
	Body     Duration `yaml:"body,omitempty" doc:"for a client to send a body" default:"30s" min:"1ms" loose:"up"`
	Upstream Duration `yaml:"upstream,omitempty" doc:"for the backend to answer; a stream lasts as long as it is never silent for so long" default:"5m0s" min:"1ms" loose:"up"`
	Run      Duration `yaml:"run,omitempty" doc:"for an agent's turn to end, however many tool calls it takes; a streamed one lasts as long as it is never silent for so long" default:"30m0s" min:"1ms" loose:"up"`
}

// Identity says who callers are.
type Identity struct {
	Require *bool      `yaml:"require,omitempty" doc:"refuse callers that present nothing known; there is then no default principal" default:"true in production without identity.default, else false" loose:"order:true,false"`
	Default *Principal `yaml:"default,omitempty" doc:"whoever presents nothing else; one of kind anonymous is each session at each address by itself, anonymous:…, for which id is what policies and budgets call all of them"`
	Keys    []Key      `yaml:"keys,omitempty" doc:"backend API keys or bearer tokens, by hash"`
	OIDC    *OIDC      `yaml:"oidc,omitempty" doc:"tokens in Proxy-Authorization: Bearer or X-Memproxy-Token"`
	SPIFFE  *SPIFFE    `yaml:"spiffe,omitempty" doc:"client certificates"`

	Established Established `yaml:"established,omitempty" doc:"the record that makes an authenticated caller an established one for its writes, as long as it is that good"`
}

// Established is what a record must be like to earn the tier.
type Established struct {
	Facts     *int64    `yaml:"facts,omitempty" doc:"memories of the caller that were validated, by the rules or by a person; 0 is never" default:"200" min:"0" loose:"down0"`
	Age       *Duration `yaml:"age,omitempty" doc:"time since the first that the caller wrote" default:"30d" loose:"down"`
	Corrected *float64  `yaml:"corrected,omitempty" doc:"the highest share of them that others corrected, from 0 to 1" default:"0.02" min:"0" max:"1" loose:"up"`
}

// Memproxy is the vocabulary's form.
func (e *Established) Memproxy() memproxy.Earning {
	return memproxy.Earning{Facts: *e.Facts, Age: e.Age.Time(), Corrected: memproxy.PerMille(*e.Corrected*1000 + 0.5)}
}

// Principal is a caller as written down.
type Principal struct {
	ID     string   `yaml:"id,omitempty" doc:"name of the principal" required:"true" loose:"-"`
	Kind   string   `yaml:"kind,omitempty" doc:"what sort of caller" default:"agent; identity.default: anonymous" enum:"agent,human,service,anonymous" loose:"-"`
	Trust  string   `yaml:"trust,omitempty" doc:"tier, which sets the ceiling on confidence" default:"authenticated; identity.default: anonymous" enum:"anonymous,authenticated,established,human,system" loose:"order:anonymous,authenticated,established,human,system"`
	Tenant string   `yaml:"tenant,omitempty" doc:"whose memories it shares" loose:"-"`
	Roles  []string `yaml:"roles,omitempty" doc:"roles that policies name" loose:"more"`
	ActsAs Names    `yaml:"acts_as,omitempty" doc:"agents that it may name; absent: none; \"*\": all" loose:"more"`
	Users  *Names   `yaml:"users,omitempty" doc:"users that it may name; absent: all" loose:"names"`
	Apps   *Names   `yaml:"apps,omitempty" doc:"apps that it may name; absent: all" loose:"names"`
	Runs   *Names   `yaml:"runs,omitempty" doc:"runs that it may name; absent: all" loose:"names"`
}

// Key is a principal with its secret's hash.
type Key struct {
	SHA256    string `yaml:"sha256,omitempty" doc:"SHA-256 of the token, hex" required:"true" loose:"-"`
	Principal `yaml:",inline"`
}

// OIDC verifies tokens of one issuer.
type OIDC struct {
	Issuer   string            `yaml:"issuer,omitempty" doc:"issuer URL" required:"true" loose:"-"`
	Audience string            `yaml:"audience,omitempty" doc:"what aud must contain" required:"true" loose:"-"`
	Prefix   *string           `yaml:"prefix,omitempty" doc:"put before the id claim" default:"oidc:" loose:"-"`
	Kind     string            `yaml:"kind,omitempty" doc:"kind of those whose token does not say" default:"agent" enum:"agent,human,service" loose:"-"`
	Trust    string            `yaml:"trust,omitempty" doc:"tier of those whose token does not say" default:"authenticated" enum:"anonymous,authenticated,established,human,system" loose:"order:anonymous,authenticated,established,human,system"`
	MaxTrust string            `yaml:"max_trust,omitempty" doc:"the highest tier that a token may give itself" default:"human" enum:"anonymous,authenticated,established,human,system" loose:"order:anonymous,authenticated,established,human,system"`
	Claims   map[string]string `yaml:"claims,omitempty" doc:"which claims of the token are read; trust is capped by max_trust" default:"id: sub" keys:"id,tenant,roles,kind,trust,acts_as,users,apps,runs" loose:"-"`
	// For issuers within a cluster, whose tokens say no more than a name.
	CA        string     `yaml:"ca,omitempty" doc:"roots of the issuer's certificate, PEM; absent: the system's" loose:"-"`
	TokenFile string     `yaml:"token_file,omitempty" doc:"file of a token that the issuer is asked with, read each time; the issuer is then https" loose:"-"`
	Rules     []OIDCRule `yaml:"rules,omitempty" doc:"subjects to principals, the first that fits; a subject that none fits is refused. No claim but id is then read"`
}

// OIDCRule maps one subject.
type OIDCRule struct {
	Subject   string                         `yaml:"subject,omitempty" doc:"the id claim; * for one part between colons: system:serviceaccount:team-a:*" required:"true" loose:"-"`
	Principal `yaml:",inline" optional:"id"` // without an id it is the prefix and the subject
}

// SPIFFE maps certificates.
type SPIFFE struct {
	TrustDomain string       `yaml:"trust_domain,omitempty" doc:"trust domain of the certificates" required:"true" loose:"-"`
	Rules       []SPIFFERule `yaml:"rules,omitempty" doc:"paths to principals; without rules, each id is an authenticated agent of its own name"`
}

// SPIFFERule maps one path.
type SPIFFERule struct {
	Path      string                         `yaml:"path,omitempty" doc:"path of the SPIFFE id; * for one segment" required:"true" loose:"-"`
	Principal `yaml:",inline" optional:"id"` // without an id it is the SPIFFE id
}

// Ownership says what unattributed memories are.
type Ownership struct {
	Unattributed string `yaml:"unattributed,omitempty" doc:"who sees memories that were written around memproxy" default:"visible; named with several tenants" enum:"visible,named,hidden" loose:"order:hidden,named,visible;unsafe"`
	Changed      string `yaml:"changed,omitempty" doc:"what becomes of memories in answers that were changed behind memproxy: named in the record, left out as well, or not looked at" default:"report" enum:"report,withhold,ignore" loose:"order:withhold,report,ignore;unsafe"`
}

// Answers says what becomes of what memproxy does not know in answers.
type Answers struct {
	Headers   string `yaml:"headers,omitempty" doc:"what becomes of headers of answers that memproxy does not know clients to need: left out, or passed on; they are counted and reported either way" default:"drop in production, else pass" enum:"drop,pass" loose:"order:drop,pass;unsafe"`
	Unclaimed string `yaml:"unclaimed,omitempty" doc:"what becomes of members of answers that no row of the adapter's table claims: left out, or passed on; they are counted and reported either way" default:"drop in production, else pass" enum:"drop,pass" loose:"order:drop,pass;unsafe"`
}

// Policy names the rules.
type Policy struct {
	Dir     string   `yaml:"dir,omitempty" doc:"directory of *.cedar; absent: the built-in bundle" loose:"-"`
	Control *Control `yaml:"control,omitempty" doc:"the control plane that distributes the rules; until its first release comes, dir holds, or without one everything is refused"`
	Poll    Duration `yaml:"poll,omitempty" doc:"how often the directory is looked at; a change counts when two looks agree" default:"1s" min:"1ms" loose:"-"`
}

// Sources say how far content is trusted by the name of where it comes from.
type Sources struct {
	Names   map[string]string `yaml:"names,omitempty" doc:"tiers of names that metadata claim as source, besides the built-in ones: email stands for email:ann@example.org too, the longest name that fits counts, * is every other name" default:"the built-in table, and * is untrusted in production" enum:"trusted,verified,untrusted,hostile" loose:"order:hostile,untrusted,verified,trusted"`
	Pending []string          `yaml:"pending,omitempty" doc:"tiers of sources whose new memories wait for review before others than their author read them; [] is none" default:"hostile in production, else none" enum:"untrusted,hostile" loose:"fewer;unsafe"`
}

// everyOther is the row of the sources whose names the table lacks.
const everyOther = "*"

func (s *Sources) defaults(of profile) {
	if _, given := s.Names[everyOther]; of.unnamed != "" && !given {
		names := map[string]string{everyOther: of.unnamed}
		maps.Copy(names, s.Names)
		s.Names = names
	}
	if s.Pending == nil {
		s.Pending = of.waits
	}
}

// MarshalYAML prints the whole table.
func (s Sources) MarshalYAML() (any, error) {
	return map[string]any{"names": s.Table(), "pending": s.Pending}, nil
}

// Table is the built-in table with the file's entries over it.
func (s *Sources) Table() memproxy.SourceNames {
	over := map[string]memproxy.Source{}
	for name, tier := range s.Names {
		over[name] = memproxy.Source(tier)
	}
	return memproxy.DefaultSourceNames().With(over)
}

// Confidence are ceilings, from 0 to 1.
type Confidence struct {
	Clamp     *bool              `yaml:"clamp,omitempty" doc:"lower confidences to the ceilings; false: claims count as they are" default:"true" loose:"order:true,false;unsafe"`
	Principal map[string]float64 `yaml:"principal,omitempty" doc:"ceilings by tier of the principal" default:"0.3, 0.7, 0.9, 1, 1" keys:"anonymous,authenticated,established,human,system" min:"0" max:"1" loose:"up"`
	Source    map[string]float64 `yaml:"source,omitempty" doc:"ceilings by tier of the source" default:"1, 0.9, 0.6, 0.3" keys:"trusted,verified,untrusted,hostile" min:"0" max:"1" loose:"up"`
	Unclaimed *float64           `yaml:"unclaimed,omitempty" doc:"confidence of a write that claims none" default:"0.8" min:"0" max:"1" loose:"up"`
}

// Budgets bound writes.
type Budgets struct {
	Enforce        *bool                 `yaml:"enforce,omitempty" doc:"refuse what is over a budget; false: writes are counted and not refused" default:"true" loose:"order:true,false;unsafe"`
	Default        WriteLimit            `yaml:"default,omitempty" doc:"every principal on behalf of one end user, or of nobody that is named" default:"100 an hour, 10000 in all"`
	Anonymous      WriteLimit            `yaml:"anonymous,omitempty" doc:"principals of the anonymous tier, whatever users they name; callers of one address that present nothing are one, whatever sessions they name, and all of them have together times as much" default:"10 an hour, 100 in all"`
	Overrides      map[string]WriteLimit `yaml:"overrides,omitempty" doc:"by principal id; what is absent is inherited"`
	Tenants        map[string]WriteLimit `yaml:"tenants,omitempty" doc:"by tenant, \"*\" for each; absent: not limited"`
	Namespaces     map[string]WriteLimit `yaml:"namespaces,omitempty" doc:"by governed field; absent: not limited"`
	Together       int64                 `yaml:"together,omitempty" doc:"how many times its limit a principal may write for all of its end users together: the limits are those of one caller on behalf of one end user" default:"10" min:"1" loose:"up"`
	RapidPerMinute *int64                `yaml:"rapid_per_minute,omitempty" doc:"writes a minute that raise the event rapid_writes; 0 is off" default:"30" min:"0" loose:"up0;off:0"`
	Redis          *Redis                `yaml:"redis,omitempty" doc:"the shared store; absent: this process counts"`
}

// WriteLimit is one row of budgets, in memories.
type WriteLimit struct {
	PerHour int64 `yaml:"writes_per_hour,omitempty" doc:"memories an hour" min:"1" loose:"up"`
	Total   int64 `yaml:"writes_total,omitempty" doc:"memories in all; falls when they are deleted" min:"1" loose:"up"`
}

// Redis is the shared budget store.
type Redis struct {
	URL     Secret   `yaml:"url,omitempty" doc:"redis://, rediss:// or unix://; several hosts with commas for a Cluster; ?master=NAME for Sentinel" required:"true" loose:"-"`
	Timeout Duration `yaml:"timeout,omitempty" doc:"deadline of one charge" default:"50ms" min:"1ms" loose:"-"`
	Share   *float64 `yaml:"degraded_share,omitempty" doc:"share of each limit that one replica may use while Redis is away, up to 1" default:"0.25" min:"0.001" max:"1" loose:"up"`
}

// Audit is the signed log.
type Audit struct {
	Retention Duration `yaml:"retention,omitempty" doc:"how long records are kept; 0 keeps them for ever" default:"90d" loose:"down0"`
	Origin    string   `yaml:"origin,omitempty" doc:"name of the log in its checkpoints; unique to the installation" default:"memproxy/ and the key's fingerprint" loose:"-"`
	KeyFile   string   `yaml:"key_file,omitempty" doc:"the log's key, Ed25519, PKCS #8 PEM, as keygen makes it; it is never made. Logs that share a key need an origin each" default:"made in the state directory" loose:"-"`
}

// Telemetry goes to an OTLP collector.
type Telemetry struct {
	OTLP    string            `yaml:"otlp,omitempty" doc:"base URL of an OTLP/HTTP collector; absent: traces stay in memory, metrics on /metrics" loose:"-"`
	Headers map[string]Secret `yaml:"headers,omitempty" doc:"headers for the collector" loose:"-"`
	Sample  *float64          `yaml:"sample,omitempty" doc:"share of new traces that is recorded, from 0 to 1" default:"1" min:"0" max:"1" loose:"-"`
	Service string            `yaml:"service,omitempty" doc:"service.name" default:"memproxy" loose:"-"`
}

// Log is the process's own log.
type Log struct {
	Level  string `yaml:"level,omitempty" doc:"what is logged" default:"info" enum:"debug,info,warn,error" loose:"-"`
	Format string `yaml:"format,omitempty" doc:"how" default:"json in production, else text" enum:"text,json" loose:"-"`
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
