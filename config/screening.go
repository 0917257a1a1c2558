package config

// Screening configures how content is judged.
type Screening struct {
	Enabled     *bool             `yaml:"enabled,omitempty" doc:"screen writes and reads" default:"true" loose:"order:true,false;unsafe"`
	Sensitivity string            `yaml:"sensitivity,omitempty" doc:"how readily content is held" default:"medium" enum:"low,medium,high" loose:"order:high,medium,low"`
	Sources     map[string]string `yaml:"sources,omitempty" doc:"sensitivity by source of the content: low, medium or high" keys:"trusted,verified,untrusted,hostile,unstated" enum:"low,medium,high" loose:"order:high,medium,low"`
	Pack        string            `yaml:"pack,omitempty" doc:"directory with a pack of rules and weights; absent: the built-in one" loose:"-"`
	Disable     []string          `yaml:"disable,omitempty" doc:"layers to disable" enum:"lexicon,directive,classify,secrets,assembly,synapse,likeness" loose:"more;unsafe"`
	Withhold    *float64          `yaml:"withhold,omitempty" doc:"risk from which a memory is left out of responses, and an extraction of the backend's model is undone; 0: never" default:"0.85" min:"0" max:"1" loose:"up0;off:0,1"`
	Approved    []string          `yaml:"approved,omitempty" doc:"SHA-256 of texts that may instruct an agent (a client's system prompt, a tool's description), whoever sends them, besides those of released clients; memproxy approve writes it" loose:"more"`
	Exemplars   string            `yaml:"exemplars,omitempty" doc:"file with further known attacks, one per line: a family (a-z), a tab, the text; added to the built-in ones" loose:"-"`
	Similar     *Similar          `yaml:"similar,omitempty" doc:"similarity to known attacks; absent: off" loose:"present"`
	Baseline    *Baseline         `yaml:"baseline,omitempty" doc:"what is usual for each user; absent: off" loose:"present"`
	Judge       *Judge            `yaml:"judge,omitempty" doc:"opinion of a model on borderline content; absent: off" loose:"present"`
}

// Similar compares texts by embeddings from an API.
type Similar struct {
	URL        string             `yaml:"url,omitempty" doc:"base URL of an OpenAI-compatible API, without /embeddings" required:"true" loose:"-"`
	Model      string             `yaml:"model,omitempty" doc:"name of the model" required:"true" loose:"-"`
	Key        Secret             `yaml:"key,omitempty" doc:"bearer token" loose:"-"`
	Thresholds *SimilarThresholds `yaml:"thresholds,omitempty" doc:"cosines that count, by source of the text; the layer does not start if they flag harmless texts; absent: 0.85, 0.75, 0.60, 0.45" loose:"-"`
}

// SimilarThresholds are cosines.
type SimilarThresholds struct {
	Trusted   float64 `yaml:"trusted" doc:"of a trusted source" required:"true" min:"0.001" max:"1" loose:"up"`
	Verified  float64 `yaml:"verified" doc:"of a verified source" required:"true" min:"0.001" max:"1" loose:"up"`
	Untrusted float64 `yaml:"untrusted" doc:"of an untrusted or unstated source" required:"true" min:"0.001" max:"1" loose:"up"`
	Hostile   float64 `yaml:"hostile" doc:"of a hostile source" required:"true" min:"0.001" max:"1" loose:"up"`
}

// Baseline learns what is usual for each user. Deviations are noted; on their own they
// hold only content of a hostile source.
type Baseline struct {
	Learn int `yaml:"learn,omitempty" doc:"texts of a user to learn from before deviations are noted" default:"50" min:"5" loose:"up"`
	Users int `yaml:"users,omitempty" doc:"users to remember; the least recently seen are dropped first" default:"10000" min:"1" loose:"down"`
}

// Judge is a model behind an API.
type Judge struct {
	URL       string   `yaml:"url,omitempty" doc:"base URL of an OpenAI-compatible API, without /chat/completions" required:"true" loose:"-"`
	Model     string   `yaml:"model,omitempty" doc:"name of the model" required:"true" loose:"-"`
	Key       Secret   `yaml:"key,omitempty" doc:"bearer token" loose:"-"`
	Timeout   Duration `yaml:"timeout,omitempty" doc:"deadline of one question" default:"5s" min:"1ms" loose:"-"`
	PerMinute int      `yaml:"per_minute,omitempty" doc:"questions per minute, at most half of them about one caller; beyond it the model is not asked" default:"60" min:"1" loose:"down"`
}
