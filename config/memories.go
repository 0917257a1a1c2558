package config

// Memories says how long memories are kept and who sees which.
type Memories struct {
	NeverRefuse bool                `yaml:"never_refuse,omitempty" doc:"new memories are not held or refused for what screening finds in them, but written flagged or quarantined, where every read can be kept from showing them; what cannot is held or refused as ever" default:"false"`
	Untrusted   string              `yaml:"untrusted,omitempty" doc:"what becomes of memories in answers that nothing has validated yet" default:"show" enum:"show,withhold"`
	Pending     []string            `yaml:"pending,omitempty" doc:"tiers of callers whose new memories wait for review before others read them: anonymous, authenticated, established"`
	Quiet       *Duration           `yaml:"quiet,omitempty" doc:"pending memories that nobody corrected for so long are shown; 0 is never" default:"7d"`
	TTL         map[string]Duration `yaml:"ttl,omitempty" doc:"how long memories are kept, by governed field; default is for the others; what is absent is kept for ever"`
	Archive     *Duration           `yaml:"archive,omitempty" doc:"how long the texts of expired memories are kept; 0 is for ever" default:"180d"`
	Inferred    string              `yaml:"inferred,omitempty" doc:"what becomes of what a model inferred and no user stated: allowed, marked, held for review, refused" default:"mark" enum:"allow,mark,hold,refuse"`
	Namespaces  Namespaces          `yaml:"namespaces,omitempty" doc:"which keys content may be filed under"`
	Layers      Layers              `yaml:"layers,omitempty" doc:"what holds for one layer of memory"`
	Sweep       *Duration           `yaml:"sweep,omitempty" doc:"how often the backends and the chains of versions are looked through for what was changed behind memproxy; 0 is never, see docs/integrity.md" default:"0s"`
	Validate    *Duration           `yaml:"validate,omitempty" doc:"how often some memories are looked at again, also when the rules changed; 0 is never" default:"5m0s"`
}
