package config

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/memproxy/memproxy"
)

// Memories says how long memories are kept and who sees which.
type Memories struct {
	NeverRefuse bool                `yaml:"never_refuse" doc:"new memories are not held or refused for what screening finds in them, but written flagged or quarantined, where every read can be kept from showing them; what cannot is held or refused as ever" default:"false" loose:"order:false,true"`
	Rewrite     string              `yaml:"rewrite,omitempty" doc:"what screening finds dangerous is taken out of new texts in the place of refusing them, if nothing is said against what is left: soft puts placeholders for the sentences, hard also leaves out their lines; governed fields wait for review then, and reviewers can see what was said" default:"off" enum:"off,soft,hard" loose:"order:off,soft,hard"`
	Untrusted   string              `yaml:"untrusted,omitempty" doc:"what becomes of memories in answers that nothing has validated yet" default:"show" enum:"show,withhold" loose:"order:withhold,show"`
	Pending     []string            `yaml:"pending,omitempty" doc:"whose new memories wait for review before others than their author read them: callers of a tier, and new ones; [] is nobody's" default:"anonymous and new in production, else nobody" enum:"anonymous,authenticated,established,new" loose:"fewer;unsafe"`
	New         Newcomers           `yaml:"new,omitempty" doc:"who is new: an anonymous or authenticated caller until some of its memories were let out of review, or it has been known for a time"`
	Quiet       *Duration           `yaml:"quiet,omitempty" doc:"pending memories that nobody corrected for so long are shown; 0 is never" default:"7d" loose:"down0"`
	TTL         map[string]Duration `yaml:"ttl,omitempty" doc:"how long memories are kept: by governed field (field:persona, or persona) and by claimed source (source:hostile), of both the shorter; default is for the others; 0 is for ever" default:"30d for learnings, preferences, gotchas, conventions and decisions unless default is given; the others for ever" loose:"up0"`
	Archive     *Duration           `yaml:"archive,omitempty" doc:"how long the texts of expired memories are kept; 0 is for ever" default:"180d" loose:"-"`
	Deleted     *Duration           `yaml:"deleted,omitempty" doc:"how long the texts of deleted memories are kept, which nobody can read any more, until they are shredded; 0 is for ever" default:"30d" loose:"-"`
	Inferred    string              `yaml:"inferred,omitempty" doc:"what becomes of what a model inferred and no user stated: allowed, marked, held for review, refused" default:"mark" enum:"allow,mark,hold,refuse" loose:"order:refuse,hold,mark,allow;unsafe"`
	Namespaces  Namespaces          `yaml:"namespaces,omitempty" doc:"which keys content may be filed under"`
	Layers      Layers              `yaml:"layers,omitempty" doc:"what holds for one layer of memory"`
	Seal        *bool               `yaml:"seal,omitempty" doc:"at the first start on a backend, what it holds is taken down, as hashes and nobody's, so that what appears there later around memproxy is named; false: only what the command seals, see docs/integrity.md" default:"true in production, else false" loose:"order:true,false;unsafe"`
	Sweep       *Duration           `yaml:"sweep,omitempty" doc:"how often the backends and the chains of versions are looked through for what was changed behind memproxy, by one of the processes that share a ledger; 0 is never, see docs/integrity.md" default:"1h in production, else 0" loose:"up0;off:0"`
	Validate    *Duration           `yaml:"validate,omitempty" doc:"how often some memories are looked at again, also when the rules changed; 0 is never" default:"5m0s" loose:"up0;off:0"`
}

// Newcomers says who is new.
type Newcomers struct {
	Accepted   *int64    `yaml:"accepted,omitempty" doc:"memories that were let out of review, by a reviewer or by time, until a caller is no longer new" default:"10" min:"0" loose:"down;off:0"`
	Age        *Duration `yaml:"age,omitempty" doc:"time since its first memory until a caller is no longer new, whatever was let out" default:"7d" loose:"down"`
	Configured bool      `yaml:"configured" doc:"callers to whom the configuration gives an id (identity.keys, rules with an id) are new as well; else only those of whom it knows no more than an issuer or a trust domain" default:"false" loose:"order:true,false"`
}

// until is the vocabulary's form.
func (n *Newcomers) until() memproxy.NewUntil {
	return memproxy.NewUntil{Accepted: *n.Accepted, Age: n.Age.Time()}
}

// pendingNew is who is new, among those whose memories wait.
const pendingNew = "new"

// Waits says whether what a caller writes waits for review, by its record and
// by the source of the content. Nil: nothing waits.
func (c *Config) Waits() func(memproxy.Principal, memproxy.Source, memproxy.Track, time.Time) bool {
	m := &c.Memories
	if len(m.Pending) == 0 && len(c.Sources.Pending) == 0 {
		return nil
	}
	var known map[caller]bool
	if !m.New.Configured {
		known = c.named()
	}
	return func(p memproxy.Principal, from memproxy.Source, t memproxy.Track, now time.Time) bool {
		if slices.Contains(m.Pending, string(p.Trust)) || slices.Contains(c.Sources.Pending, string(from)) {
			return true
		}
		low := p.Trust == memproxy.TrustAnonymous || p.Trust == memproxy.TrustAuthenticated
		return low && slices.Contains(m.Pending, pendingNew) && !known[caller{p.Method, p.Named()}] && m.New.until().New(t, now)
	}
}

// caller is a principal's id, and how it was identified: "" where only the id is
// known, of writes that a person lets through later.
type caller struct{ method, id string }

// named are the callers to whom the configuration gives an id. A token or a
// certificate that merely says such an id of itself is none of them.
func (c *Config) named() map[caller]bool {
	out := map[caller]bool{}
	for _, p := range c.principals() {
		if p.ID == "" || p.method == "default" && p.Kind == string(memproxy.KindAnonymous) { // then each is a session by itself
			continue
		}
		out[caller{p.method, p.ID}], out[caller{"", p.ID}] = true, true
	}
	return out
}

// The beginnings of TTL's keys.
const (
	ttlField   = "field:"
	ttlSource  = "source:"
	ttlDefault = "default"
)

// Lifetime is how long memories of a field and from a source are kept at most, 0 is for
// ever: the shorter of what is said of the two, else the default. What claims no source
// is unstated.
func (m *Memories) Lifetime(field string, s memproxy.Source) time.Duration {
	field, s = memproxy.Key(field), cmp.Or(s, memproxy.SourceUnstated)
	keys := []string{ttlField + field, field}
	if field == ttlDefault || strings.HasPrefix(field, ttlSource) || strings.HasPrefix(field, ttlField) {
		keys = keys[:1] // a field of such a name is meant with its prefix only
	}
	of, said := m.said(keys...)
	from, also := m.said(ttlSource + string(s))
	switch {
	case !said && !also:
		return m.TTL[ttlDefault].Time()
	case of > 0 && from > 0:
		return min(of, from)
	}
	return max(of, from)
}

// said is what the first of some keys that is there says.
func (m *Memories) said(keys ...string) (time.Duration, bool) {
	for _, key := range keys {
		if d, said := m.TTL[key]; said {
			return d.Time(), true
		}
	}
	return 0, false
}

// governedTTL is how long memories of the built-in governed fields are kept
// where the file says nothing of the field, and has no default.
const governedTTL = Duration(30 * 24 * time.Hour)

func (m *Memories) ttlDefaults() {
	ttl := map[string]Duration{}
	if _, all := m.TTL[ttlDefault]; !all {
		for _, field := range memproxy.GovernedFields() {
			ttl[ttlField+field] = governedTTL
		}
	}
	for key, d := range m.TTL {
		key = memproxy.Key(key)
		delete(ttl, ttlField+key)
		ttl[key] = d
	}
	m.TTL = ttl
}

// ttl checks the keys.
func (v *reader) ttl(m *Memories, at func(...any) int) {
	sources := []memproxy.Source{memproxy.SourceTrusted, memproxy.SourceVerified, memproxy.SourceUntrusted, memproxy.SourceHostile, memproxy.SourceUnstated}
	for key := range m.TTL {
		if name, of := strings.CutPrefix(key, ttlSource); of && !slices.Contains(sources, memproxy.Source(name)) {
			v.fault(at("memories", "ttl", key), "%q is no source: trusted, verified, untrusted, hostile, unstated", name)
		}
		if name, of := strings.CutPrefix(key, ttlField); of && (name == "" || m.TTL[name].Time() > 0 && name != ttlDefault) {
			v.fault(at("memories", "ttl", key), "a field is named once, and has a name")
		}
	}
}
