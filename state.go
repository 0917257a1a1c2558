package memproxy

import "time"

// MemoryState determines whether and how a memory may be shown.
type MemoryState string

// The states. A memory without a record counts as untrusted.
const (
	StateUntrusted   MemoryState = "untrusted"
	StateValidated   MemoryState = "validated"
	StateFlagged     MemoryState = "flagged"        // shown with the dangerous spans replaced
	StateQuarantined MemoryState = "quarantined"    // never shown
	StatePending     MemoryState = "pending_review" // shown to reviewers only
	StateExpired     MemoryState = "expired"        // not returned by reads; archived, then purged
	StateSuperseded  MemoryState = "superseded"     // replaced by a newer memory
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

// Status is what the ledger knows about a memory other than its ownership.
type Status struct {
	MemoryKey
	Tenant    string      `json:"tenant"`
	State     MemoryState `json:"state"`
	Reason    string      `json:"reason,omitempty"`   // a reason code or a sentence; quotes no content
	Decision  string      `json:"decision,omitempty"` // id of the decision that set the state
	Changed   time.Time   `json:"changed"`
	Contested bool        `json:"contested,omitempty"` // a principal of lower trust contradicts it
	Pinned    bool        `json:"pinned,omitempty"`    // never expires
	// Unverified is the reason why the memory is not what was written through memproxy;
	// "" if it is.
	Unverified  ReasonCode  `json:"unverified,omitempty"`
	Expires     time.Time   `json:"expires,omitzero"` // zero: never
	Attestation Attestation `json:"attestation,omitempty"`
	// Rules is the version of the rules under which it was last examined.
	Rules string `json:"rules,omitempty"`
	// Findings are the spans of its text for which it was flagged. They apply only to the
	// text whose hex SHA-256 is Text; "" is unknown.
	Findings []Finding `json:"findings,omitempty"`
	Text     string    `json:"text_sha256,omitempty"`
	// Reviewed is the hex SHA-256 of the text on whose status a person decided, AnyText
	// if that text is unknown, or "" if no person decided. The decision holds until the
	// text changes.
	Reviewed string `json:"reviewed,omitempty"`
	// CurrentRules is the state that the current rules would set, if a person decided on
	// another one. The person's decision holds until a person reviews it again.
	CurrentRules MemoryState `json:"current_rules,omitempty"`
}

// Overdue reports whether the memory has expired by its time, whether or not its state
// says so yet. Quarantined memories stay quarantined.
func (s *Status) Overdue(now time.Time) bool {
	return !s.Expires.IsZero() && !s.Expires.After(now) && !s.Pinned && s.State != StateExpired && s.State != StateQuarantined
}

// Shorter returns the shorter of two lifetimes, where 0 is for ever.
func Shorter(a, b time.Duration) time.Duration {
	if a > 0 && b > 0 {
		return min(a, b)
	}
	return max(a, b)
}

// AnyText stands for the hash of an unknown text.
const AnyText = "*"

// StateChange changes the state of a memory. Expiry, pin and contest remain unless
// stated.
type StateChange struct {
	MemoryKey
	Tenant string
	State  MemoryState
	// From, if not empty, are the states from which the change applies.
	From []MemoryState
	// Seen, if set, is Status.Changed as read before: the change applies only if the
	// state has not changed since (optimistic locking).
	Seen             time.Time
	Reason, Decision string
	Rules            string
	Findings         []Finding
	Text             string // hex SHA-256 of the text that the state refers to; "" if unknown
	// Person is set if a person decided the change. No later change by memproxy undoes
	// that for the same text: it is recorded in Status.CurrentRules.
	Person bool
	// Attestation, if set, replaces the attestation.
	Attestation Attestation
	// Expires, if set, replaces the time of expiry.
	Expires time.Time
}

// StatusFilter selects statuses. Empty fields select all.
type StatusFilter struct {
	Backend string
	Tenant  *string // nil selects every tenant, "" statuses without one
	State   MemoryState
	// NotRules excludes memories that were last examined under this version of the rules.
	NotRules string
	// Unverified excludes memories without an integrity finding.
	Unverified bool
	// Overdue selects only memories that are past their time of expiry and not yet marked
	// as expired or quarantined.
	Overdue bool
	// QuietSince excludes memories whose status changed or that have a version of this time
	// or later, and those that are contested.
	QuietSince time.Time
	// Deleted, if set, selects memories that were deleted at this time or later, with or
	// without a status; only their keys are complete.
	Deleted *time.Time
	// Within, with Deleted, selects memories of all these owners; its tenant does not count.
	Within Scope
	// After is the last key of the previous page; the zero key starts at the beginning.
	After MemoryKey
	// Limit is the page size: at most 1000; 0 is 10.
	Limit int
}

// Correction records that a principal changed a memory.
type Correction struct {
	MemoryKey
	Tenant    string    `json:"tenant"`    // of the memory's author
	Author    string    `json:"author"`    // principal id of the author
	Corrector string    `json:"corrector"` // principal id of the corrector
	Trust     Trust     `json:"trust"`     // of the corrector
	Decision  string    `json:"decision"`  // id of the decision that admitted the change
	Reason    string    `json:"reason,omitempty"`
	Time      time.Time `json:"time"`
}

// Retraction is a text that its author deleted or replaced.
type Retraction struct {
	Tenant, Author string
	Text           string
	Confidence     PerMille
	Attestation    Attestation
	Time           time.Time
}

// Dissent is a correction that was refused because the memory's author has more trust.
// The memory is contested while the dissent is open.
type Dissent struct {
	Correction
	// SHA256 is the hex hash of the proposed text; Text is that text, stored
	// encrypted.
	SHA256 string `json:"sha256"`
	Text   string `json:"-"`
	Open   bool   `json:"open"`
}

// Session is the record of the rejections of one session, or of a principal; see
// SessionKind.
type Session struct {
	Tenant            string         `json:"tenant"`
	ID                string         `json:"id"`
	Principal         string         `json:"principal"` // of the last event
	Begun             time.Time      `json:"begun"`
	Last              time.Time      `json:"last"`
	Held              int            `json:"held"`
	Rejections        int            `json:"rejections"`      // total number
	CountedRejections int            `json:"strikes"`         // those that count towards a lock, see LockLimits
	Limit             int            `json:"limit,omitempty"` // the number that locks; zero if none does
	LastRejection     time.Time      `json:"last_rejection,omitzero"`
	Locked            time.Time      `json:"locked,omitzero"` // when the lock in force began; zero if there is none
	Until             time.Time      `json:"locked_until,omitzero"`
	Counted           time.Time      `json:"-"` // CountedRejections counts rejections after this time
	Kind              SessionKind    `json:"kind,omitempty"`
	User              string         `json:"user,omitempty"` // the end user, if the writes name one
	Name              string         `json:"name,omitempty"` // the caller's name for the session
	Unlocked          time.Time      `json:"unlocked,omitzero"`
	UnlockedBy        string         `json:"unlocked_by,omitempty"`
	Ended             time.Time      `json:"ended,omitzero"`
	Reasons           []ReasonTally  `json:"reasons,omitempty"` // most frequent first
	Refused           []SessionEvent `json:"refused,omitempty"` // the newest ones, in order of time
}

// ReasonTally counts the occurrences of one reason.
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
	// WeakEvidence marks a rejection that rests on one kind of evidence only. It is counted
	// and stored, and does not lead to a lock.
	WeakEvidence bool `json:"-"`
}
