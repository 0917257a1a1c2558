package config

import (
	"slices"
	"strings"
	"time"

	"github.com/memproxy/memproxy"
)

// Memories says how long memories are kept and who sees which.
type Memories struct {
	NeverRefuse bool                `yaml:"never_refuse,omitempty" doc:"new memories are not held or refused for what screening finds in them, but written flagged or quarantined, where every read can be kept from showing them; what cannot is held or refused as ever" default:"false"`
	Untrusted   string              `yaml:"untrusted,omitempty" doc:"what becomes of memories in answers that nothing has validated yet" default:"show" enum:"show,withhold"`
	Pending     []string            `yaml:"pending,omitempty" doc:"tiers of callers whose new memories wait for review before others read them: anonymous, authenticated, established"`
	Quiet       *Duration           `yaml:"quiet,omitempty" doc:"pending memories that nobody corrected for so long are shown; 0 is never" default:"7d"`
	TTL         map[string]Duration `yaml:"ttl,omitempty" doc:"how long memories are kept: by governed field (field:persona, or persona) and by claimed source (source:hostile), of both the shorter; default is for the others; what is absent is kept for ever"`
	Archive     *Duration           `yaml:"archive,omitempty" doc:"how long the texts of expired memories are kept; 0 is for ever" default:"180d"`
	Deleted     *Duration           `yaml:"deleted,omitempty" doc:"how long the texts of deleted memories are kept, which nobody can read any more, until they are shredded; 0 is for ever" default:"30d"`
	Inferred    string              `yaml:"inferred,omitempty" doc:"what becomes of what a model inferred and no user stated: allowed, marked, held for review, refused" default:"mark" enum:"allow,mark,hold,refuse"`
	Namespaces  Namespaces          `yaml:"namespaces,omitempty" doc:"which keys content may be filed under"`
	Layers      Layers              `yaml:"layers,omitempty" doc:"what holds for one layer of memory"`
	Sweep       *Duration           `yaml:"sweep,omitempty" doc:"how often the backends and the chains of versions are looked through for what was changed behind memproxy; 0 is never, see docs/integrity.md" default:"0s"`
	Validate    *Duration           `yaml:"validate,omitempty" doc:"how often some memories are looked at again, also when the rules changed; 0 is never" default:"5m0s"`
}

// The beginnings of TTL's keys.
const (
	ttlField   = "field:"
	ttlSource  = "source:"
	ttlDefault = "default"
)

// FieldTTL is how long memories of a field are kept at most, 0 where nothing is
// said of it.
func (m *Memories) FieldTTL(field string) time.Duration {
	if d, ok := m.TTL[ttlField+field]; ok {
		return d.Time()
	}
	if field == ttlDefault || strings.HasPrefix(field, ttlSource) || strings.HasPrefix(field, ttlField) {
		return 0 // a field of such a name is meant with its prefix only
	}
	return m.TTL[field].Time()
}

// SourceTTL is how long memories from a source are kept at most, 0 where nothing
// is said of it. What claims none is unstated.
func (m *Memories) SourceTTL(s memproxy.Source) time.Duration {
	if s == "" {
		s = memproxy.SourceUnstated
	}
	return m.TTL[ttlSource+string(s)].Time()
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
