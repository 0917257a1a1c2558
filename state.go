package memproxy

import "time"

// MemoryState determines how a memory may be shown.
type MemoryState string

// The states. A memory without a record is untrusted.
const (
	StateUntrusted   MemoryState = "untrusted"
	StateValidated   MemoryState = "validated"
	StateFlagged     MemoryState = "flagged"        // shown with the dangerous spans replaced
	StateQuarantined MemoryState = "quarantined"    // never shown
	StatePending     MemoryState = "pending_review" // shown to reviewers
	StateExpired     MemoryState = "expired"        // left out of recall, archived, then purged
	StateSuperseded  MemoryState = "superseded"     // it was replaced by a newer one
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

// Status is what the ledger knows of a memory other than its owner.
type Status struct {
	MemoryKey
	Tenant    string      `json:"tenant"`
	State     MemoryState `json:"state"`
	Reason    string      `json:"reason,omitempty"`   // a reason code or a sentence; quotes no content
	Decision  string      `json:"decision,omitempty"` // id of the decision that led to the state
	Changed   time.Time   `json:"changed"`
	Contested bool        `json:"contested,omitempty"` // a less trusted principal contradicts it
	Pinned    bool        `json:"pinned,omitempty"`    // never expires
	// Unverified is why the memory is not what was written; "" is nothing.
	Unverified  ReasonCode  `json:"unverified,omitempty"`
	Expires     time.Time   `json:"expires,omitzero"` // zero: never
	Attestation Attestation `json:"attestation,omitempty"`
	// Rules is the version under which it was last examined.
	Rules string `json:"rules,omitempty"`
	// Findings are the spans of its text for which it was flagged. They apply only
	// to the text whose SHA-256 (hex) is Text; "" is unknown.
	Findings []Finding `json:"findings,omitempty"`
	Text     string    `json:"text_sha256,omitempty"`
	// Reviewed is the hex hash of the text on whose status a person decided,
	// AnyText if the text is unknown, or "". The decision holds until the text
	// changes.
	Reviewed string `json:"reviewed,omitempty"`
	// CurrentRules is the state that the current rules would give it if a person
	// decided otherwise: the person is asked, and nothing is undone.
	CurrentRules MemoryState `json:"current_rules,omitempty"`
}

// Overdue reports whether the memory's time is over, whether or not that is marked
// yet. Quarantined ones stay quarantined.
func (s *Status) Overdue(now time.Time) bool {
	return !s.Expires.IsZero() && !s.Expires.After(now) && !s.Pinned && s.State != StateExpired && s.State != StateQuarantined
}

// AnyText stands for the hash of an unknown text.
const AnyText = "*"

// StateChange changes the state of a memory. Expiry, pin and contest stay.
type StateChange struct {
	MemoryKey
	Tenant string
	State  MemoryState
	// From, if not empty, are the states in which the change applies.
	From []MemoryState
	// Seen, if set, is Status.Changed when it was read: the change applies only if
	// the state has not changed since.
	Seen             time.Time
	Reason, Decision string
	Rules            string
	Findings         []Finding
	Text             string // hex SHA-256 of the text that the state is of; "" is not known
	// Person is set if a person decided it. No other change of the same text undoes
	// that: it is recorded as the state under the current rules.
	Person bool
	// Attestation, if set, replaces the present one.
	Attestation Attestation
	// Expires, if set, replaces the present time.
	Expires time.Time
}

// StatusFilter selects statuses. Empty fields select all.
type StatusFilter struct {
	Backend string
	Tenant  *string // nil is every one, "" those without
	State   MemoryState
	// NotRules excludes memories that were last examined under this version.
	NotRules string
	// Unverified excludes memories without an integrity finding.
	Unverified bool
	// Overdue excludes memories whose time is not over, and those that are marked as
	// expired or quarantined.
	Overdue bool
	// QuietSince excludes memories that were changed or corrected at or after it.
	QuietSince time.Time
	// After is the last key of the page before; the zero key begins.
	After MemoryKey
	// Limit is the size of a page; 0 is 10, at most 1000.
	Limit int
}

// Correction records that a principal changed a memory.
type Correction struct {
	Backend   string     `json:"backend"`
	Kind      TargetKind `json:"kind"`
	ID        string     `json:"id"`
	Tenant    string     `json:"tenant"`    // of its author
	Author    string     `json:"author"`    // principal id of the author
	Corrector string     `json:"corrector"` // principal id of the corrector
	Trust     Trust      `json:"trust"`     // of the corrector
	Decision  string     `json:"decision"`  // id of the decision that admitted the change
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

// Dissent is a correction that was refused because the memory's author is trusted
// more. The memory is contested while it is open.
type Dissent struct {
	Correction
	// SHA256 is the hex hash of the proposed text; Text is that text, stored
	// encrypted.
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
	// Unsure marks a rejection on one kind of evidence: it is counted and stored,
	// and locks nothing.
	Unsure bool `json:"-"`
}
