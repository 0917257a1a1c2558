package config

import "cmp"

// Screening says how content is judged.
type Screening struct {
	Enabled     *bool  `yaml:"enabled,omitempty" doc:"judge what is written, and what is read" default:"true"`
	Sensitivity string `yaml:"sensitivity,omitempty" doc:"how readily content is held" default:"medium" enum:"low,medium,high"`
	// Sources are sensitivities of their own.
	Sources   map[string]string `yaml:"sources,omitempty" doc:"how readily content of a source is held instead: low, medium or high" keys:"trusted,verified,untrusted,hostile,unstated" enum:"low,medium,high"`
	Pack      string            `yaml:"pack,omitempty" doc:"directory of a pack of rules and weights; absent: the built-in one"`
	Disable   []string          `yaml:"disable,omitempty" doc:"layers that are left out: lexicon, directive, classify, form, secrets, assembly, synapse, likeness"`
	Withhold  *float64          `yaml:"withhold,omitempty" doc:"risk from which on a memory is left out of answers, and what the backend's model extracted is taken back; 0 is never" default:"0.85" min:"0" max:"1"`
	Exemplars string            `yaml:"exemplars,omitempty" doc:"file of further known attacks, one a line: a family (a-z), a tab, the text; the built-in ones, the memory firewall's fourteen among them, stay"`
	Similar   *Similar          `yaml:"similar,omitempty" doc:"likeness to known attacks; absent: not looked at"`
	Baseline  *Baseline         `yaml:"baseline,omitempty" doc:"what is usual for each user; absent: not looked at"`
	Judge     *Judge            `yaml:"judge,omitempty" doc:"a model's opinion on the borderline; absent: not asked"`
}

// Similar compares by embeddings, of a model behind an API or of local files.
type Similar struct {
	URL       string `yaml:"url,omitempty" doc:"base URL of an OpenAI-compatible API, without /embeddings"`
	Model     string `yaml:"model,omitempty" doc:"its model"`
	Key       Secret `yaml:"key,omitempty" doc:"its bearer token"`
	Tokenizer string `yaml:"tokenizer,omitempty" doc:"instead of url: tokenizer.json or vocab.txt of a static embedding"`
	Table     string `yaml:"table,omitempty" doc:"its vectors, a safetensors file"`
	// Thresholds are fitted to the model.
	Thresholds *SimilarThresholds `yaml:"thresholds,omitempty" doc:"from which cosine on a text counts, by its source; the layer does not start where they take harmless texts for attacks; absent: 0.85, 0.75, 0.60, 0.45"`
}

// SimilarThresholds are cosines.
type SimilarThresholds struct {
	Trusted   float64 `yaml:"trusted" doc:"of a trusted source" required:"true" min:"0.001" max:"1"`
	Verified  float64 `yaml:"verified" doc:"of a verified source" required:"true" min:"0.001" max:"1"`
	Untrusted float64 `yaml:"untrusted" doc:"of an untrusted or unstated source" required:"true" min:"0.001" max:"1"`
	Hostile   float64 `yaml:"hostile" doc:"of a hostile source" required:"true" min:"0.001" max:"1"`
}

// Baseline learns how each user's memories usually read. What departs from it
// is noted, and holds nothing by itself unless its source is hostile.
type Baseline struct {
	Learn int `yaml:"learn,omitempty" doc:"texts that are learnt of a user before anything departs from what is usual" default:"50" min:"5"`
	Users int `yaml:"users,omitempty" doc:"users that are kept; who was seen longest ago goes first" default:"10000" min:"1"`
}

func (b *Baseline) defaults() {
	b.Learn, b.Users = cmp.Or(b.Learn, 50), cmp.Or(b.Users, 10000)
}

// Judge is a model behind an API.
type Judge struct {
	URL       string   `yaml:"url,omitempty" doc:"base URL of an OpenAI-compatible API, without /chat/completions" required:"true"`
	Model     string   `yaml:"model,omitempty" doc:"its model" required:"true"`
	Key       Secret   `yaml:"key,omitempty" doc:"its bearer token"`
	Timeout   Duration `yaml:"timeout,omitempty" doc:"deadline of one question" default:"5s" min:"1ms"`
	PerMinute int      `yaml:"per_minute,omitempty" doc:"questions a minute; further ones go unasked" default:"60" min:"1"`
}
