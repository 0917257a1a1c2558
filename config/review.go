package config

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/memproxy/memproxy"
)

// Review configures the review of held writes.
type Review struct {
	Answer        string     `yaml:"answer,omitempty" doc:"response to a held write: accept answers like a write that is processed asynchronously, if the backend's clients know that form; refuse is 403" default:"accept" enum:"accept,refuse" loose:"-"`
	Reevaluate    string     `yaml:"reevaluate,omitempty" doc:"effect of a change of the rules on held writes: note stores the new verdict; reject also settles those that are denied now; release also those that are allowed now" default:"note" enum:"note,reject,release" loose:"order:reject,note,release;unsafe"`
	Reviewers     []Reviewer `yaml:"reviewers,omitempty" doc:"who may use the review API on the admin listener; without any it is off"`
	Need          int        `yaml:"need,omitempty" doc:"number of distinct reviewers for an approval, a promotion or a rollback" default:"1" min:"1" max:"10" loose:"down"`
	MaxHeld       int        `yaml:"max_held,omitempty" doc:"writes of one caller that may await review; further ones are answered 429" default:"100" min:"1" max:"10000" loose:"up"`
	MaxHeldTenant int        `yaml:"max_held_tenant,omitempty" doc:"writes of one tenant that may await review; a known caller without waiting writes may have one more, and at most a quarter may be of unknown callers" default:"10000" min:"4" max:"100000" loose:"up"`
	MaxHeldUser   int        `yaml:"max_held_user,omitempty" doc:"writes of one caller on behalf of one end user that may await review" default:"50" min:"1" max:"10000" loose:"up"`
	Age           *Duration  `yaml:"age,omitempty" doc:"age at which held writes are reported; 0: never" default:"1d" loose:"up0"`
	Idle          *Duration  `yaml:"idle,omitempty" doc:"sessions without a refusal for this long have ended and are reported; 0: never" default:"30m0s" loose:"up0"`
	Webhook       *Webhook   `yaml:"webhook,omitempty" doc:"where notices of held writes and sessions are sent"`
}

// Reviewer is a user of the review API.
type Reviewer struct {
	ID      string   `yaml:"id,omitempty" doc:"name in records" required:"true" loose:"-"`
	SHA256  string   `yaml:"sha256,omitempty" doc:"SHA-256 of the bearer token, hex; the token has at least 22 characters" required:"true" loose:"-"`
	Roles   []string `yaml:"roles,omitempty" doc:"view: list and read, sanitised; review: decide; content: read the original" default:"view, review" enum:"view,review,content" loose:"more"`
	Tenants Names    `yaml:"tenants,omitempty" doc:"tenants whose held writes, memories and sessions are visible; absent: those without a tenant; \"*\": all" loose:"more"`
}

// Sum returns the hash of a token, of a configuration from Load.
func Sum(digits string) (sum [sha256.Size]byte) {
	_, _ = hex.Decode(sum[:], []byte(digits)) // Load has checked them
	return sum
}

// Webhook is a receiver of notices.
type Webhook struct {
	URL   Secret                `yaml:"url,omitempty" doc:"URL for notices; a query may have a credential of the receiver" required:"true" loose:"-"`
	Key   Secret                `yaml:"key,omitempty" doc:"key of their signature, at least 16 bytes" required:"true" loose:"-"`
	Kinds []memproxy.NoticeKind `yaml:"kinds,omitempty" doc:"kinds of notices to send" default:"all of them" enum:"hold.created,hold.aged,hold.reevaluated,session.locked,session.ended,memory.flagged,memory.quarantined,memory.reevaluated" loose:"fewer"`
}

// Sessions configures when writes are locked, because repeated rejections suggest
// probing. A change also applies to earlier rejections.
type Sessions struct {
	MaxRejections          *int      `yaml:"max_rejections,omitempty" doc:"rejected writes of one caller that lock a session's writes; 0: never" default:"3" min:"0" max:"100" loose:"up0;off:0"`
	MaxUserRejections      *int      `yaml:"max_user_rejections,omitempty" doc:"rejected writes of one caller on behalf of one end user (or of none) within an hour, across sessions, that lock its writes for that user; refusals by the operator's own policies alone do not count; 0: never" default:"10" min:"0" max:"100" loose:"up0;off:0"`
	MaxPrincipalRejections *int      `yaml:"max_principal_rejections,omitempty" doc:"rejected writes of one caller within an hour, for all end users, that lock all of its writes; one end user adds at most max_user_rejections; 0: never; absent: ten times max_user_rejections" default:"100" min:"0" max:"1000" loose:"up0;off:0"`
	LockFor                *Duration `yaml:"lock_for,omitempty" doc:"how long a lock lasts, unless a reviewer unlocks earlier" default:"1h0m0s" min:"1s" loose:"down"`
	Strikes                int       `yaml:"strikes,omitempty" doc:"old name of max_rejections, which takes precedence" min:"1" max:"100" loose:"up"`
	PrincipalStrikes       *int      `yaml:"principal_strikes,omitempty" doc:"old name of max_user_rejections, which takes precedence" min:"0" max:"100" loose:"up0;off:0"`
}

// Ledger configures the store of provenance, held writes and versions.
type Ledger struct {
	URL       Secret    `yaml:"url,omitempty" doc:"postgres://, a database that replicas share; absent: a file in state" loose:"-"`
	Retention Retention `yaml:"keep,omitempty" doc:"retention; checked once a day"`
}

// Retention configures how long finished items are kept.
type Retention struct {
	Holds    *Duration `yaml:"holds,omitempty" doc:"settled held writes, with their contents" default:"90d" min:"1h" loose:"-"`
	Sessions *Duration `yaml:"sessions,omitempty" doc:"sessions that ended and are not locked" default:"90d" min:"1h" loose:"-"`
	Deleted  *Duration `yaml:"deleted,omitempty" doc:"tombstones of deleted memories, and who corrected whom" default:"180d" min:"1h" loose:"-"`
	Records  *Duration `yaml:"records,omitempty" doc:"records of versions whose texts were deleted" default:"365d" min:"1h" loose:"-"`
}

// Screening configures how content is judged.
type Screening struct {
	Enabled     *bool             `yaml:"enabled,omitempty" doc:"screen writes and reads" default:"true" loose:"order:true,false;unsafe"`
	Sensitivity string            `yaml:"sensitivity,omitempty" doc:"how readily content is held" default:"medium" enum:"low,medium,high" loose:"order:high,medium,low"`
	Sources     map[string]string `yaml:"sources,omitempty" doc:"sensitivity by tier of the content's source: trusted, verified, untrusted, hostile, unstated" keys:"trusted,verified,untrusted,hostile,unstated" enum:"low,medium,high" loose:"order:high,medium,low"`
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

// SimilarThresholds are cosine similarities.
type SimilarThresholds struct {
	Trusted   float64 `yaml:"trusted" doc:"of a trusted source" required:"true" min:"0.001" max:"1" loose:"up"`
	Verified  float64 `yaml:"verified" doc:"of a verified source" required:"true" min:"0.001" max:"1" loose:"up"`
	Untrusted float64 `yaml:"untrusted" doc:"of an untrusted or unstated source" required:"true" min:"0.001" max:"1" loose:"up"`
	Hostile   float64 `yaml:"hostile" doc:"of a hostile source" required:"true" min:"0.001" max:"1" loose:"up"`
}

// Baseline learns what is usual for each user. Deviations are noted; on their own they
// lead to a hold only for content of a hostile source.
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

// ResourceLimits limits the resources that callers may use. The defaults suit a sidecar with
// 256 MiB.
type ResourceLimits struct {
	Connections        int      `yaml:"connections,omitempty" doc:"connections of one listener; beyond it, the oldest without an accepted caller are closed first, then idle ones" default:"2048" min:"1" loose:"up"`
	PerAddress         int      `yaml:"connections_per_address,omitempty" doc:"of those, connections of one client address; one caller gets a quarter of these" default:"three quarters of connections" min:"1" loose:"up"`
	InFlight           int64    `yaml:"in_flight,omitempty" doc:"bytes that bodies and responses of one backend's listener may take at once, half for buffering, half for processing; large ones leave a quarter free" default:"67108864" min:"65536" loose:"up"`
	InFlightPerAddress int64    `yaml:"in_flight_per_address,omitempty" doc:"of those, bytes of one client address; one caller gets three quarters of these" default:"three quarters of in_flight, 50331648 at most" min:"65536" loose:"up"`
	Write              Duration `yaml:"write,omitempty" doc:"how long a client may not read what is written to it" default:"30s" min:"1ms" loose:"up"`
	Rejections         *int     `yaml:"rejections,omitempty" doc:"rejected requests per minute of one address, or of one caller at it, that are recorded individually; further ones are answered 429 and counted; 0: record all" default:"300" min:"0" loose:"-"`
}

// RejectionLimit returns Rejections as the gate expects it: negative for no limit.
func (l *ResourceLimits) RejectionLimit() int {
	if n := *l.Rejections; n > 0 {
		return n
	}
	return -1
}
