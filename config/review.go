package config

// Review is the workflow of what is held: who reviews, and who is told.
type Review struct {
	Answer      string     `yaml:"answer,omitempty" doc:"how a held write is answered: accept is the form that the backend's clients know of one that takes its time, where there is one; refuse is 403" default:"accept" enum:"accept,refuse" loose:"-"`
	Reevaluate  string     `yaml:"reevaluate,omitempty" doc:"what a change of the rules does to what waits: note says how the rules of today rule on it; reject settles what they deny, release what they let through as well" default:"note" enum:"note,reject,release" loose:"order:reject,note,release;unsafe"`
	Reviewers   []Reviewer `yaml:"reviewers,omitempty" doc:"who may use the review API on the admin listener; without any there is none"`
	Need        int        `yaml:"need,omitempty" doc:"how many distinct reviewers an approval or a promotion takes" default:"1" min:"1" max:"10" loose:"down"`
	MaxHeld     int        `yaml:"max_held,omitempty" doc:"so many writes of one caller may wait for review; one more is 429" default:"100" min:"1" max:"10000" loose:"up"`
	MaxHeldAll  int        `yaml:"max_held_tenant,omitempty" doc:"so many of one tenant; a caller who is known and of whom nothing waits may have one more held, and a quarter may be of callers whom nobody knows" default:"10000" min:"4" max:"100000" loose:"up"`
	MaxHeldUser int        `yaml:"max_held_user,omitempty" doc:"so many of one caller on behalf of one end user" default:"50" min:"1" max:"10000" loose:"up"`
	Age         *Duration  `yaml:"age,omitempty" doc:"holds that have waited this long are reported; 0 is never" default:"1d" loose:"up0"`
	Idle        *Duration  `yaml:"idle,omitempty" doc:"sessions without a refusal for this long have ended, and are reported; 0 is never" default:"30m0s" loose:"up0"`
	Webhook     *Webhook   `yaml:"webhook,omitempty" doc:"who is told of holds and sessions"`
}

// Reviewer is one of them.
type Reviewer struct {
	ID      string   `yaml:"id,omitempty" doc:"name that is recorded" required:"true" loose:"-"`
	SHA256  string   `yaml:"sha256,omitempty" doc:"SHA-256 of the bearer token, hex; the token has at least 22 characters" required:"true" loose:"-"`
	Roles   []string `yaml:"roles,omitempty" doc:"view: list and see, sanitised; review: decide; content: see as it is" default:"view, review" enum:"view,review,content" loose:"more"`
	Tenants Names    `yaml:"tenants,omitempty" doc:"whose holds, memories and sessions; absent: those without a tenant; \"*\": all" loose:"more"`
}

// Webhook is where notices are posted.
type Webhook struct {
	URL   string   `yaml:"url,omitempty" doc:"where notices are posted" required:"true" loose:"-"`
	Key   Secret   `yaml:"key,omitempty" doc:"signs them, at least 16 bytes" required:"true" loose:"-"`
	Kinds []string `yaml:"kinds,omitempty" doc:"which are sent" default:"all of them" enum:"hold.created,hold.aged,hold.reevaluated,session.locked,session.ended,memory.flagged,memory.quarantined,memory.reevaluated" loose:"fewer"`
}

// Sessions says when writes are locked: three rejections show somebody who
// tries doors. A change holds for what was counted before.
type Sessions struct {
	MaxRejections          *int      `yaml:"max_rejections,omitempty" doc:"so many rejected writes of one caller lock a session's writes; 0 is never" default:"3" min:"0" max:"100" loose:"up0;off:0"`
	MaxUserRejections      *int      `yaml:"max_user_rejections,omitempty" doc:"so many rejected writes of one caller on behalf of one end user (or of none that is named) within an hour, in whatever sessions or none, lock its writes for that user; what the operator's own policies alone refuse does not count; 0 is never" default:"10" min:"0" max:"100" loose:"up0;off:0"`
	MaxPrincipalRejections *int      `yaml:"max_principal_rejections,omitempty" doc:"so many of one caller for whomever, within an hour, lock all of its writes; one end user adds at most max_user_rejections; 0 is never; absent: ten times max_user_rejections" default:"100" min:"0" max:"1000" loose:"up0;off:0"`
	LockFor                *Duration `yaml:"lock_for,omitempty" doc:"how long a lock lasts, unless a reviewer unlocks earlier" default:"1h0m0s" min:"1s" loose:"down"`
	Strikes                int       `yaml:"strikes,omitempty" doc:"the old name of max_rejections, which counts where both are there" min:"1" max:"100" loose:"up"`
	PrincipalStrikes       *int      `yaml:"principal_strikes,omitempty" doc:"the old name of max_user_rejections, which counts where both are there" min:"0" max:"100" loose:"up0;off:0"`
}

// Ledger is where provenance, holds and versions are kept.
type Ledger struct {
	URL  Secret `yaml:"url,omitempty" doc:"postgres://, a database that replicas share; absent: a file in state" loose:"-"`
	Keep Keep   `yaml:"keep,omitempty" doc:"how long what is over is kept; looked through once a day"`
}

// Keep is how long things that are over are kept.
type Keep struct {
	Holds    *Duration `yaml:"holds,omitempty" doc:"settled holds, with their contents" default:"90d" min:"1h" loose:"-"`
	Sessions *Duration `yaml:"sessions,omitempty" doc:"sessions that ended and are not locked" default:"90d" min:"1h" loose:"-"`
	Deleted  *Duration `yaml:"deleted,omitempty" doc:"that a memory was deleted, and who corrected whom" default:"180d" min:"1h" loose:"-"`
	Records  *Duration `yaml:"records,omitempty" doc:"records of versions whose texts were given up" default:"365d" min:"1h" loose:"-"`
}
