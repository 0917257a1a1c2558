package memproxy

import "time"

// MemoryState says what may be shown of a memory.
type MemoryState string

// The states. A memory of which nothing is recorded is untrusted.
const (
	StateUntrusted   MemoryState = "untrusted"
	StateValidated   MemoryState = "validated"
	StateFlagged     MemoryState = "flagged"        // shown with the dangerous spans replaced
	StateQuarantined MemoryState = "quarantined"    // never shown
	StatePending     MemoryState = "pending_review" // shown to reviewers
	StateExpired     MemoryState = "expired"        // left out of recall, archived, then purged
	StateSuperseded  MemoryState = "superseded"     // something newer took its place
)

// MemoryStates lists the states.
var MemoryStates = [...]MemoryState{
	StateUntrusted, StateValidated, StateFlagged, StateQuarantined, StatePending, StateExpired, StateSuperseded,
}

// MemoryKey names a memory.
type MemoryKey struct {
	Backend string     `json:"backend"`
	Kind    TargetKind `json:"kind"`
	ID      string     `json:"id"`
}

// Status is what the ledger knows of a memory besides whose it is.
type Status struct {
	MemoryKey
	Tenant    string      `json:"tenant"`
	State     MemoryState `json:"state"`
	Reason    string      `json:"reason,omitempty"`   // a reason code or a sentence; quotes no content
	Decision  string      `json:"decision,omitempty"` // id of the decision that led to the state
	Changed   time.Time   `json:"changed"`
	Contested bool        `json:"contested,omitempty"` // somebody of less trust says otherwise
	Pinned    bool        `json:"pinned,omitempty"`    // never expires
	// Unverified is what speaks against the memory being what was written; ""
	// is nothing.
	Unverified  ReasonCode  `json:"unverified,omitempty"`
	Expires     time.Time   `json:"expires,omitzero"` // zero: never
	Attestation Attestation `json:"attestation,omitempty"`
	// Rules is the version under which it was last examined.
	Rules string `json:"rules,omitempty"`
	// Findings are the spans of its text that made it flagged. They are of the
	// text whose SHA-256 (hex) Text is, and of no other; "" is not known.
	Findings []Finding `json:"findings,omitempty"`
	Text     string    `json:"text_sha256,omitempty"`
	// Reviewed is the hex hash of the text of which a person decided how it
	// stands, AnyText where the text is not known, or "". The decision stays until
	// the text changes.
	Reviewed string `json:"reviewed,omitempty"`
	// CurrentRules is the state that the rules in force would put it into, where
	// a person decided otherwise: he is asked, and nothing is undone.
	CurrentRules MemoryState `json:"current_rules,omitempty"`
}

// AnyText stands for the hash of a text that is not known.
const AnyText = "*"

// StateChange changes the state of a memory. Expiry, pin and contest stay.
type StateChange struct {
	MemoryKey
	Tenant string
	State  MemoryState
	// From, if not empty, are the states in which the change applies.
	From []MemoryState
	// Seen, if set, is Status.Changed as it was looked at: the change applies
	// only if nothing changed the state since.
	Seen             time.Time
	Reason, Decision string
	Rules            string
	Findings         []Finding
	Text             string // hex SHA-256 of the text that the state is of; "" is not known
	// Person is set where a person decided it. No other change of the same text
	// undoes that: it is noted as what the current rules say.
	Person bool
	// Attestation, if set, replaces the present one.
	Attestation Attestation
	// Expires, if set, replaces the present time.
	Expires time.Time
}

// StatusFilter selects statuses. Empty fields select all.
type StatusFilter struct {
	Backend, Tenant string
	State           MemoryState
	// NotRules leaves out what was last examined under this version.
	NotRules string
	// Unverified leaves out what nothing speaks against.
	Unverified bool
	// QuietSince leaves out what changed or was corrected at or after it.
	QuietSince time.Time
	// After is the last key of the page before; the zero key begins.
	After MemoryKey
	// Limit is the size of a page; 0 is 10, at most 1000.
	Limit int
}

// Correction tells that somebody changed a memory.
type Correction struct {
	Backend   string     `json:"backend"`
	Kind      TargetKind `json:"kind"`
	ID        string     `json:"id"`
	Tenant    string     `json:"tenant"`    // of its author
	Author    string     `json:"author"`    // principal id of who wrote it
	Corrector string     `json:"corrector"` // principal id of who changed it
	Trust     Trust      `json:"trust"`     // of the corrector
	Decision  string     `json:"decision"`  // id of the decision that let the change in
	Reason    string     `json:"reason,omitempty"`
	Time      time.Time  `json:"time"`
}

// Retraction is a text that its author deleted or replaced.
type Retraction struct {
	Tenant, Author string
	Text           string
	Confidence     PerMille
	Attestation    Attestation
	Time           time.Time
}

// Dissent is a correction that was not let through because the memory's
// author is trusted more. The memory is contested while it is open.
type Dissent struct {
	Correction
	// SHA256 is the hex hash of what the dissenter would have it say; Text is
	// that, kept encrypted.
	SHA256 string `json:"sha256"`
	Text   string `json:"-"`
	Open   bool   `json:"open"`
}

// Session is the record of one session's refusals.
type Session struct {
	Tenant     string         `json:"tenant"`
	ID         string         `json:"id"`
	Principal  string         `json:"principal"` // of the last event
	Begun      time.Time      `json:"begun"`
	Last       time.Time      `json:"last"`
	Passed     int            `json:"passed"` // zero: what passes is not counted
	Held       int            `json:"held"`
	Rejections int            `json:"rejections"`      // in all
	Strikes    int            `json:"strikes"`         // those that count, see LockLimits
	Limit      int            `json:"limit,omitempty"` // how many lock it; zero: none do
	Struck     time.Time      `json:"last_rejection,omitzero"`
	Locked     time.Time      `json:"locked,omitzero"` // while it is
	Until      time.Time      `json:"locked_until,omitzero"`
	Counted    time.Time      `json:"-"` // Strikes are counted from then on
	Kind       SessionKind    `json:"kind,omitempty"`
	User       string         `json:"user,omitempty"` // the end user, where one was named
	Name       string         `json:"name,omitempty"` // the caller's name of the session
	Unlocked   time.Time      `json:"unlocked,omitzero"`
	UnlockedBy string         `json:"unlocked_by,omitempty"`
	Ended      time.Time      `json:"ended,omitzero"`
	Reasons    []ReasonTally  `json:"reasons,omitempty"` // most frequent first
	Refused    []SessionEvent `json:"refused,omitempty"` // the newest, oldest first
}

// ReasonTally counts one reason.
type ReasonTally struct {
	Code  ReasonCode `json:"code"`
	Rule  string     `json:"rule,omitempty"`
	Count int        `json:"count"`
}

// SessionEvent is one decision in a session: a refusal or a hold.
type SessionEvent struct {
	Tenant    string    `json:"-"`
	Principal string    `json:"principal"`
	Decision  string    `json:"decision"`
	Verdict   Verdict   `json:"verdict"`
	Route     string    `json:"route,omitempty"`
	Reasons   []Reason  `json:"reasons,omitempty"`
	Time      time.Time `json:"time"`
	// Unsure marks a rejection on one kind of evidence: it is counted and kept,
	// and locks nothing.
	Unsure bool `json:"-"`
}
