package config

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/memproxy/memproxy"
)

// Memories configures retention and visibility of memories.
type Memories struct {
	NeverRefuse    bool                `yaml:"never_refuse" doc:"screening does not hold or refuse new memories but writes them flagged or quarantined, provided that every read can be kept from showing them; otherwise they are held or refused as usual" default:"false" loose:"order:false,true"`
	Rewrite        string              `yaml:"rewrite,omitempty" doc:"remove what screening finds dangerous from new texts instead of refusing them, if no finding remains: soft replaces sentences by placeholders, hard then leaves out their lines; governed fields then await review, and reviewers see the original" default:"off" enum:"off,soft,hard" loose:"order:off,soft,hard"`
	Untrusted      string              `yaml:"untrusted,omitempty" doc:"memories in responses that were not validated yet" default:"show" enum:"show,withhold" loose:"order:withhold,show"`
	Pending        []string            `yaml:"pending,omitempty" doc:"callers whose new memories await review before callers other than their author can read them: by tier, and new callers; []: none" default:"anonymous and new in production, else none" enum:"anonymous,authenticated,established,new" loose:"fewer;unsafe"`
	New            Newcomers           `yaml:"new,omitempty" doc:"when an anonymous or authenticated caller stops being new: after some of its memories passed review, or some time"`
	UncorrectedFor *Duration           `yaml:"quiet,omitempty" doc:"how long pending memories must stay unchanged to be shown; 0: never" default:"7d" loose:"down0"`
	TTL            map[string]Duration `yaml:"ttl,omitempty" doc:"how long memories are kept, by governed field (field:persona, or persona) and by claimed source (source:hostile; for a change that claims none also the memory's first source); the shorter one counts; default is for the others; 0: for ever" default:"30d for learnings, preferences, gotchas, conventions and decisions unless default is given; the others for ever" loose:"up0"`
	Archive        *Duration           `yaml:"archive,omitempty" doc:"how long the texts of expired memories are kept; 0: for ever" default:"180d" loose:"-"`
	Deleted        *Duration           `yaml:"deleted,omitempty" doc:"how long the unreadable texts of deleted memories are kept before they are shredded; 0: for ever" default:"30d" loose:"-"`
	Inferred       string              `yaml:"inferred,omitempty" doc:"content that a model inferred and no user stated: allow, mark, hold for review, or refuse" default:"mark" enum:"allow,mark,hold,refuse" loose:"order:refuse,hold,mark,allow;unsafe"`
	Namespaces     Namespaces          `yaml:"namespaces,omitempty" doc:"keys that content may be stored under"`
	Layers         Layers              `yaml:"layers,omitempty" doc:"settings by layer of memory"`
	Seal           *bool               `yaml:"seal,omitempty" doc:"at the first start on a backend, record the hashes of what it holds, without an owner, so that later out-of-band additions are detected; false: only the command seals, see docs/integrity.md" default:"true in production, else false" loose:"order:true,false;unsafe"`
	Sweep          *Duration           `yaml:"sweep,omitempty" doc:"how often the backends and the version chains are searched for out-of-band changes, by one of the processes that share a ledger; 0: never, see docs/integrity.md" default:"1h in production, else 0" loose:"up0;off:0"`
	Validate       *Duration           `yaml:"validate,omitempty" doc:"how often a batch of memories is screened again, also after a change of the rules; 0: never" default:"5m0s" loose:"up0;off:0"`
}

// Newcomers configures when a caller stops being new.
type Newcomers struct {
	Accepted   *int64    `yaml:"accepted,omitempty" doc:"memories that passed review, by a reviewer or by time, after which a caller is no longer new" default:"10" min:"0" loose:"down;off:0"`
	Age        *Duration `yaml:"age,omitempty" doc:"time since its first memory after which a caller is no longer new in any case" default:"7d" loose:"down"`
	Configured bool      `yaml:"configured" doc:"callers whose id is in the configuration (identity.keys, rules with an id) can be new as well; false: only those identified by an issuer or a trust domain" default:"false" loose:"order:true,false"`
}

// pendingNew stands for new callers in memories.pending.
const pendingNew = "new"

// NeedsReview returns a function that reports whether a write is held for review because of
// the caller's track record and the source of the content. It is nil if no write is.
func (c *Config) NeedsReview() func(memproxy.Principal, memproxy.Source, memproxy.Track, time.Time) bool {
	m := &c.Memories
	if len(m.Pending) == 0 && len(c.Sources.Pending) == 0 {
		return nil
	}
	var known map[caller]bool
	if !m.New.Configured {
		known = c.configuredCallers()
	}
	return func(p memproxy.Principal, from memproxy.Source, t memproxy.Track, now time.Time) bool {
		if slices.Contains(m.Pending, string(p.Trust)) || slices.Contains(c.Sources.Pending, from) {
			return true
		}
		low := p.Trust == memproxy.TrustAnonymous || p.Trust == memproxy.TrustAuthenticated
		return low && slices.Contains(m.Pending, pendingNew) && !known[caller{p.Method, p.PolicyID()}] &&
			memproxy.Newcomers{Accepted: *m.New.Accepted, Age: m.New.Age.Std()}.Include(t, now)
	}
}

// caller is a principal's id and its method of identification. The method is "" if only
// the id is known, as for held writes that a reviewer approves.
type caller struct{ method, id string }

// configuredCallers returns the callers whose id is in the configuration. A token or certificate that
// merely claims such an id is not among them.
func (c *Config) configuredCallers() map[caller]bool {
	out := map[caller]bool{}
	for _, p := range c.principals() {
		if p.ID == "" || p.method == "default" && p.Kind == string(memproxy.KindAnonymous) { // every anonymous session has its own id
			continue
		}
		out[caller{p.method, p.ID}], out[caller{"", p.ID}] = true, true
	}
	return out
}

// Prefixes of the keys of TTL.
const (
	ttlField   = "field:"
	ttlSource  = "source:"
	ttlDefault = "default"
)

// Lifetime returns how long memories of a field, of a layer and from a source are kept at
// most; 0 is for ever. It is the shorter of the entries for field and source, else the
// default, and never more than that of the layer. The source of content that claims none
// is unstated.
func (m *Memories) Lifetime(field string, layer memproxy.Layer, s memproxy.Source) time.Duration {
	field, s = memproxy.Key(field), cmp.Or(s, memproxy.SourceUnstated)
	keys := []string{ttlField + field, field}
	if field == ttlDefault || strings.HasPrefix(field, ttlSource) || strings.HasPrefix(field, ttlField) {
		keys = keys[:1] // a field with the name of a source needs the prefix
	}
	of, said := m.firstTTL(keys...)
	from, also := m.firstTTL(ttlSource + string(s))
	ttl := memproxy.Shorter(of, from)
	if !said && !also {
		ttl = m.TTL[ttlDefault].Std()
	}
	return memproxy.Shorter(ttl, m.LayerTTL(layer))
}

func (m *Memories) firstTTL(keys ...string) (time.Duration, bool) {
	for _, key := range keys {
		if d, said := m.TTL[key]; said {
			return d.Std(), true
		}
	}
	return 0, false
}

// governedTTL is the default for the built-in governed fields, if the file has no
// default.
const governedTTL = Duration(30 * 24 * time.Hour)

func (m *Memories) ttlDefaults() {
	ttl := map[string]Duration{}
	for key, d := range m.TTL {
		ttl[memproxy.Key(key)] = d
	}
	m.TTL = ttl
	if _, all := ttl[ttlDefault]; all {
		return
	}
	for _, field := range memproxy.GovernedFields() {
		if _, given := m.firstTTL(ttlField+field, field); !given {
			ttl[ttlField+field] = governedTTL
		}
	}
}

// ttl checks the keys of TTL.
func (v *reader) ttl(m *Memories, at func(...any) int) {
	sources := append(memproxy.SourceTiers[:], memproxy.SourceUnstated)
	for key := range m.TTL {
		source, of := strings.CutPrefix(key, ttlSource)
		faultIf(v, of && !slices.Contains(sources, memproxy.Source(source)), at("memories", "ttl", key), "%q is not a source: want trusted, verified, untrusted, hostile, unstated", source)
		name, of := strings.CutPrefix(key, ttlField)
		_, twice := m.TTL[name]
		faultIf(v, of && (name == "" || twice && name != ttlDefault), at("memories", "ttl", key), "a field must have a name and be listed once")
	}
}

// Namespaces lists the keys under which content may be stored.
type Namespaces struct {
	Allow   []string `yaml:"allow,omitempty" doc:"governed fields, including Letta's labels, that may be written; replaces the default list" default:"format, tone, project, constraints, the built-in governed fields, human and persona" loose:"more"`
	Outside string   `yaml:"outside,omitempty" doc:"writes to other fields: allow, mark, hold for review, or refuse" default:"mark in production, else allow" enum:"allow,mark,hold,refuse" loose:"order:refuse,hold,mark,allow;unsafe"`
}

// Layers configures each layer of memory.
type Layers struct {
	Episodic Layer `yaml:"episodic,omitempty" doc:"raw messages"`
	Semantic Layer `yaml:"semantic,omitempty" doc:"facts and blocks"`
	Task     Layer `yaml:"task,omitempty" doc:"work items"`
}

// Layer configures one layer.
type Layer struct {
	Inferred string   `yaml:"inferred,omitempty" doc:"overrides memories.inferred" default:"as memories.inferred" enum:"allow,mark,hold,refuse" loose:"order:refuse,hold,mark,allow;unsafe"`
	TTL      Duration `yaml:"ttl,omitempty" doc:"longest time that its memories are kept; absent: as memories.ttl" loose:"up0"`
	Fields   []string `yaml:"fields,omitempty" doc:"governed fields that belong to it on any route; for tasks the default is task, tasks, task_list, todo, todos, todo_list, plan and plans" loose:"-"`
}

func (l *Layers) of() map[memproxy.Layer]*Layer {
	return map[memproxy.Layer]*Layer{memproxy.Episodic: &l.Episodic, memproxy.Semantic: &l.Semantic, memproxy.Task: &l.Task}
}

func (m *Memories) governanceDefaults() {
	if m.Namespaces.Allow == nil {
		m.Namespaces.Allow = memproxy.DefaultNamespaces()
	}
	for _, l := range m.Layers.of() {
		l.Inferred = cmp.Or(l.Inferred, m.Inferred)
	}
	if m.Layers.Task.Fields == nil {
		m.Layers.Task.Fields = memproxy.DefaultTaskFields()
	}
}

// Governance converts the settings of layers and keys.
func (m *Memories) Governance() memproxy.Governance {
	g := memproxy.Governance{
		Outside: memproxy.Treatment(m.Namespaces.Outside), Inferred: map[memproxy.Layer]memproxy.Treatment{}, Fields: map[string]memproxy.Layer{},
	}
	for _, name := range m.Namespaces.Allow {
		g.Namespaces = append(g.Namespaces, memproxy.Key(name))
	}
	for name, l := range m.Layers.of() {
		g.Inferred[name] = memproxy.Treatment(l.Inferred)
		for _, f := range l.Fields {
			g.Fields[memproxy.Key(f)] = name
		}
	}
	return g
}

// LayerTTL returns how long memories of a layer are kept at most; 0 is for ever.
func (m *Memories) LayerTTL(l memproxy.Layer) time.Duration {
	if layer := m.Layers.of()[l]; layer != nil {
		return layer.TTL.Std()
	}
	return 0
}

// governance checks that no field belongs to two layers.
func (v *reader) governance(m *Memories, at func(...any) int) {
	belongs := map[string]memproxy.Layer{}
	for _, name := range [...]memproxy.Layer{memproxy.Episodic, memproxy.Semantic, memproxy.Task} {
		for i, f := range m.Layers.of()[name].Fields {
			f = memproxy.Key(f)
			other, ok := belongs[f]
			faultIf(v, ok && other != name, at("memories", "layers", string(name), "fields", i), "the field %q belongs to the layer %s already", f, other)
			belongs[f] = name
		}
	}
}
