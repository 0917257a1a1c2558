package config

import "github.com/memproxy/memproxy"

// Review configures the review of held writes.
type Review struct {
	Answer      string     `yaml:"answer,omitempty" doc:"response to a held write: accept answers like a write that is processed asynchronously, if the backend's clients know that form; refuse is 403" default:"accept" enum:"accept,refuse" loose:"-"`
	Reevaluate  string     `yaml:"reevaluate,omitempty" doc:"effect of a change of the rules on held writes: note stores the new verdict; reject also settles those that are denied now; release also those that are allowed now" default:"note" enum:"note,reject,release" loose:"order:reject,note,release;unsafe"`
	Reviewers   []Reviewer `yaml:"reviewers,omitempty" doc:"who may use the review API on the admin listener; without any it is off"`
	Need        int        `yaml:"need,omitempty" doc:"number of distinct reviewers for an approval or a promotion" default:"1" min:"1" max:"10" loose:"down"`
	MaxHeld     int        `yaml:"max_held,omitempty" doc:"writes of one caller that may await review; further ones are answered 429" default:"100" min:"1" max:"10000" loose:"up"`
	MaxHeldAll  int        `yaml:"max_held_tenant,omitempty" doc:"writes of one tenant that may await review; a known caller without waiting writes may have one more, and at most a quarter may be of unknown callers" default:"10000" min:"4" max:"100000" loose:"up"`
	MaxHeldUser int        `yaml:"max_held_user,omitempty" doc:"writes of one caller on behalf of one end user that may await review" default:"50" min:"1" max:"10000" loose:"up"`
	Age         *Duration  `yaml:"age,omitempty" doc:"age at which held writes are reported; 0: never" default:"1d" loose:"up0"`
	Idle        *Duration  `yaml:"idle,omitempty" doc:"sessions without a refusal for this long have ended and are reported; 0: never" default:"30m0s" loose:"up0"`
	Webhook     *Webhook   `yaml:"webhook,omitempty" doc:"where notices of held writes and sessions are sent"`
}

// Reviewer is a user of the review API.
type Reviewer struct {
	ID      string   `yaml:"id,omitempty" doc:"name in records" required:"true" loose:"-"`
	SHA256  string   `yaml:"sha256,omitempty" doc:"SHA-256 of the bearer token, hex; the token has at least 22 characters" required:"true" loose:"-"`
	Roles   []string `yaml:"roles,omitempty" doc:"view: list and read, sanitised; review: decide; content: read the original" default:"view, review" enum:"view,review,content" loose:"more"`
	Tenants Names    `yaml:"tenants,omitempty" doc:"tenants whose held writes, memories and sessions are visible; absent: those without a tenant; \"*\": all" loose:"more"`
}

// Webhook is where notices are posted.
type Webhook struct {
	URL   string                `yaml:"url,omitempty" doc:"URL for notices" required:"true" loose:"-"`
	Key   Secret                `yaml:"key,omitempty" doc:"key of their signature, at least 16 bytes" required:"true" loose:"-"`
	Kinds []memproxy.NoticeKind `yaml:"kinds,omitempty" doc:"kinds of notices to send" default:"all of them" enum:"hold.created,hold.aged,hold.reevaluated,session.locked,session.ended,memory.flagged,memory.quarantined,memory.reevaluated" loose:"fewer"`
}

// Sessions configures when writes are locked: repeated rejections suggest probing. A
// change also applies to earlier rejections.
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
	URL  Secret `yaml:"url,omitempty" doc:"postgres://, a database that replicas share; absent: a file in state" loose:"-"`
	Keep Keep   `yaml:"keep,omitempty" doc:"retention; checked once a day"`
}

// Keep configures how long finished items are kept.
type Keep struct {
	Holds    *Duration `yaml:"holds,omitempty" doc:"settled held writes, with their contents" default:"90d" min:"1h" loose:"-"`
	Sessions *Duration `yaml:"sessions,omitempty" doc:"sessions that ended and are not locked" default:"90d" min:"1h" loose:"-"`
	Deleted  *Duration `yaml:"deleted,omitempty" doc:"tombstones of deleted memories, and who corrected whom" default:"180d" min:"1h" loose:"-"`
	Records  *Duration `yaml:"records,omitempty" doc:"records of versions whose texts were deleted" default:"365d" min:"1h" loose:"-"`
}
