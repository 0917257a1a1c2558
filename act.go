package memproxy

import "time"

// Act is an action of a person, or of memproxy on behalf of one, on a held write or
// a memory: an approval, a rollback, the sending of an approved write. It is
// recorded when it is attempted and again with its result.
type Act struct {
	// Action names it: "hold.approve", "memory.rollback", "hold.replay".
	Action string `json:"action,omitzero"`
	// Have is how many reviewers agreed so far, Need how many must. Both are 0 where
	// reviewers are not counted.
	Have int `json:"have,omitzero"`
	Need int `json:"need,omitzero"`
	// Reason is the reason that the reviewer gave.
	Reason string `json:"reason,omitzero"`
	// Rule is the code of the rule that refused the act, or of its failure: "own_review",
	// "role", "state", "stale" and the other codes of the review API.
	Rule  string   `json:"rule,omitzero"`
	Stage ActStage `json:"stage,omitzero"`
}

// ActStage is the progress of an act.
type ActStage string

// The stages. An attempt that is not followed by another stage was interrupted.
const (
	ActAttempted ActStage = "attempted"
	ActDone      ActStage = "done"
	ActRefused   ActStage = "refused" // a rule refused it
	ActFailed    ActStage = "failed"  // it could not be done
	ActUnknown   ActStage = "unknown" // it was sent, and its result is unknown
)

// ActEvent returns the event that records an act, under the id of the decision that the act
// is about.
func ActEvent(at time.Time, by Principal, act Act, backend, decision string, targets ...string) Event {
	return Event{
		Type: EventReview, Time: at, Decision: decision, Route: "review." + act.Action, Principal: by,
		Kind: Admin, Backend: backend, Targets: targets, Claimed: -1, Confidence: -1, Act: &act,
	}
}

// ServiceEvent returns the record of an act of memproxy itself, or of its rules, on the hold.
func (h *HeldWrite) ServiceEvent(at time.Time, by string, act Act) Event {
	return ActEvent(at, Principal{ID: by, Kind: KindService, Tenant: h.Tenant}, act, h.Backend, h.ID, h.ID)
}

// VersionChange is one step in the history of a memory, as an audit event records it.
type VersionChange struct {
	// Before and After are the version numbers on both sides of the change; 0 means none.
	// For a compaction Before is the version whose text was deleted.
	After  int64 `json:"after,omitzero"`
	Before int64 `json:"before,omitzero"`
	// BeforeSHA256 and SHA256 are the hex SHA-256 hashes of the texts of Before and
	// After; "" where there is none.
	BeforeSHA256 string `json:"before_sha256,omitzero"`
	Field        string `json:"field,omitzero"`
	// Kind is TargetObject for the history of an object's members, and "" for the history
	// of a memory's text.
	Kind   TargetKind `json:"kind,omitzero"`
	Memory string     `json:"memory,omitzero"` // the backend's id
	Op     VersionOp  `json:"op,omitzero"`
	SHA256 string     `json:"sha256,omitzero"`
}

// Change returns the step that made a version.
func (v *Version) Change() VersionChange {
	c := VersionChange{After: v.Number, Before: v.Number - 1, BeforeSHA256: v.Before, Field: v.Field, Memory: v.ID, Op: v.Op, SHA256: v.SHA256}
	if v.Kind == TargetObject {
		c.Kind = v.Kind
	}
	return c
}

// SystemActor is the principal id of memproxy's own actions.
const SystemActor = "system:memproxy"
