package config

// Screening says how content is judged.
type Screening struct {
	Enabled     *bool  `yaml:"enabled,omitempty" doc:"judge what is written, and what is read" default:"true" loose:"order:true,false;unsafe"`
	Sensitivity string `yaml:"sensitivity,omitempty" doc:"how readily content is held" default:"medium" enum:"low,medium,high" loose:"order:high,medium,low"`
	// Sources are sensitivities of their own.
	Sources  map[string]string `yaml:"sources,omitempty" doc:"how readily content of a source is held instead: low, medium or high" keys:"trusted,verified,untrusted,hostile,unstated" enum:"low,medium,high" loose:"order:high,medium,low"`
	Pack     string            `yaml:"pack,omitempty" doc:"directory of a pack of rules and weights; absent: the built-in one" loose:"-"`
	Disable  []string          `yaml:"disable,omitempty" doc:"layers that are left out" enum:"lexicon,directive,classify,secrets,assembly,synapse,likeness" loose:"more;unsafe"`
	Withhold *float64          `yaml:"withhold,omitempty" doc:"risk from which on a memory is left out of answers, and what the backend's model extracted is taken back; 0 is never" default:"0.85" min:"0" max:"1" loose:"up0;off:0,1"`
	// Approved are not judged where they instruct an agent, whoever sends them.
	Approved  []string  `yaml:"approved,omitempty" doc:"SHA-256 of texts that may instruct an agent (a client's system prompt, a tool's description), whoever sends them, besides those of released clients; memproxy approve writes it" loose:"more"`
	Exemplars string    `yaml:"exemplars,omitempty" doc:"file of further known attacks, one a line: a family (a-z), a tab, the text; the built-in ones, the memory firewall's fourteen among them, stay" loose:"-"`
	Similar   *Similar  `yaml:"similar,omitempty" doc:"likeness to known attacks; absent: not looked at" loose:"present"`
	Baseline  *Baseline `yaml:"baseline,omitempty" doc:"what is usual for each user; absent: not looked at" loose:"present"`
	Judge     *Judge    `yaml:"judge,omitempty" doc:"a model's opinion on the borderline; absent: not asked" loose:"present"`
}

// Similar compares by embeddings, of a model behind an API.
type Similar struct {
	URL   string `yaml:"url,omitempty" doc:"base URL of an OpenAI-compatible API, without /embeddings" required:"true" loose:"-"`
	Model string `yaml:"model,omitempty" doc:"its model" required:"true" loose:"-"`
	Key   Secret `yaml:"key,omitempty" doc:"its bearer token" loose:"-"`
	// Thresholds are fitted to the model.
	Thresholds *SimilarThresholds `yaml:"thresholds,omitempty" doc:"from which cosine on a text counts, by its source; the layer does not start where they take harmless texts for attacks; absent: 0.85, 0.75, 0.60, 0.45" loose:"-"`
}

// SimilarThresholds are cosines.
type SimilarThresholds struct {
	Trusted   float64 `yaml:"trusted" doc:"of a trusted source" required:"true" min:"0.001" max:"1" loose:"up"`
	Verified  float64 `yaml:"verified" doc:"of a verified source" required:"true" min:"0.001" max:"1" loose:"up"`
	Untrusted float64 `yaml:"untrusted" doc:"of an untrusted or unstated source" required:"true" min:"0.001" max:"1" loose:"up"`
	Hostile   float64 `yaml:"hostile" doc:"of a hostile source" required:"true" min:"0.001" max:"1" loose:"up"`
}

// Baseline learns how each user's memories usually read. What departs from it
// is noted, and holds nothing by itself unless its source is hostile.
type Baseline struct {
	Learn int `yaml:"learn,omitempty" doc:"texts that are learnt of a user before anything departs from what is usual" default:"50" min:"5" loose:"up"`
	Users int `yaml:"users,omitempty" doc:"users that are kept; who was seen longest ago goes first" default:"10000" min:"1" loose:"down"`
}

// Judge is a model behind an API.
type Judge struct {
	URL       string   `yaml:"url,omitempty" doc:"base URL of an OpenAI-compatible API, without /chat/completions" required:"true" loose:"-"`
	Model     string   `yaml:"model,omitempty" doc:"its model" required:"true" loose:"-"`
	Key       Secret   `yaml:"key,omitempty" doc:"its bearer token" loose:"-"`
	Timeout   Duration `yaml:"timeout,omitempty" doc:"deadline of one question" default:"5s" min:"1ms" loose:"-"`
	PerMinute int      `yaml:"per_minute,omitempty" doc:"questions a minute, at most half of them of one caller; further ones go unasked" default:"60" min:"1" loose:"down"`
}
