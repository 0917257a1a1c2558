package memproxy

import (
	"strings"
	"time"
)

// EventType is the type of an audit event.
type EventType string

// The types of log entries. What an operation does to memory (learn, correct, forget and
// so on) is its Kind, which a decision event records.
const (
	EventDecision       EventType = "decision"        // a ruling, recorded before the request is forwarded
	EventOutcome        EventType = "outcome"         // the result of a request
	EventBudgetWarning  EventType = "budget_warning"  // 80 % of a budget is used
	EventBudgetExceeded EventType = "budget_exceeded" // a budget refused a write
	EventRapidWrites    EventType = "rapid_writes"
	// EventCrossCorrection records that a principal changed another author's memory, and
	// why it was allowed to.
	EventCrossCorrection EventType = "cross_correction"
	// EventRejections has the number of rejected requests from one address that were not
	// recorded individually.
	EventRejections EventType = "rejections"
	EventReload     EventType = "reload" // rules were replaced, or an invalid edit was not loaded
	EventStart      EventType = "start"
	EventStop       EventType = "stop"
	EventRepair     EventType = "repair"       // records are missing: the end that a crash cut off, or all before a new log
	EventPrune      EventType = "prune"        // old records of the log were removed
	EventReview     EventType = "review"       // a reviewer's action, or access to content
	EventLock       EventType = "session_lock" // too many rejections locked the writes of a session or a principal

	EventVersion    EventType = "version"    // a memory has a new version
	EventCompaction EventType = "compaction" // texts of old versions were deleted
	EventPurge      EventType = "purge"      // content was destroyed, or its records were removed

	EventAnchor     EventType = "chain_anchor" // the head of a tenant's hash chain of versions
	EventChainBreak EventType = "chain_break"  // the hash chain differs from what was written
	EventAccept     EventType = "chain_accept" // a person accepted a broken chain
	EventIntegrity  EventType = "integrity"    // a memory in the backend differs, or no longer differs, from what was written
	EventSeal       EventType = "seal"         // existing memories of a backend were recorded with the lowest trust
	EventSweep      EventType = "sweep"        // a backend and the hash chains were checked
)

// EventTypes lists the types, sorted.
func EventTypes() []EventType {
	return []EventType{
		EventBudgetExceeded, EventBudgetWarning, EventAccept, EventAnchor, EventChainBreak, EventCompaction, EventCrossCorrection, EventDecision,
		EventIntegrity, EventOutcome, EventPrune, EventPurge, EventRapidWrites, EventRejections, EventReload, EventRepair, EventReview, EventSeal,
		EventLock, EventStart, EventStop, EventSweep, EventVersion,
	}
}

// Event is one entry of the audit log. It contains hashes of content, never content, and
// no credentials. The log adds the index, the time, and the hash of the previous record.
type Event struct {
	Type     EventType
	Time     time.Time
	Decision string // decision id; links the events of one request
	Trace    string // W3C trace id, hex, or ""
	Session  string // the caller's session or run id, or ""

	Principal Principal // only ID, Kind, Tenant, Trust and Method are recorded; roles are in Facts
	Kind      Kind
	Backend   string
	Route     string
	Method    string
	Scope     Scope
	Targets   []string
	Fields    []string // governed fields that are written, sorted
	Items     int
	// ContentSHA256 is the hex hash of the request body as received, or "".
	ContentSHA256 string

	Verdict       Verdict
	ShadowVerdict Verdict
	Reasons       []Reason
	Policy        string // version of the rules
	// Findings are the rules and positions that screening found, the worst first. If
	// there are too many, only the worst are included.
	Findings []Finding
	// Facts are the further inputs of the policy. It is nil if no policy was asked, or if
	// the facts exceed their bounds.
	Facts *Facts

	Claimed    PerMille // requested confidence; -1 if none
	Confidence PerMille // granted confidence; -1 if not applicable
	Budget     []LineState
	Degraded   bool
	// Unsafe are the settings that weakened a production profile at the time of the
	// event. The log fills it in.
	Unsafe []string

	// Act is set in events about a reviewer's or memproxy's own action. Versions are the
	// changes of the histories of memories.
	Act      *Act
	Versions []VersionChange

	// The result of the request.
	Status    int       // the backend's HTTP status; 0 if it was not reached
	Memories  []string  // ids of written or returned memories
	Filtered  int       // number of items removed from the answer
	Cancelled bool      // the client disconnected
	Ended     StreamEnd // how a streamed answer ended

	// Detail is a sentence for events that do not belong to a request.
	Detail string
	// KeptFrom is the index of the first record that a pruning of the log keeps.
	KeptFrom int64
}

// Facts are the inputs of the policy that an Event does not have otherwise: names of
// roles, sizes and kinds, never content. With them a recorded decision can be replayed
// against other policies.
type Facts struct {
	Roles  []string  `json:"roles"`
	Writes []Written `json:"writes"`
	// Claims are the layers that the payload's metadata claims.
	Claims []Layer `json:"claims"`

	// As in Operation. Unseen is set if the gate cannot inspect an item (a URL or binary
	// data), Backdated if there is a client's timestamp. Source is the claimed one.
	Bulk        bool   `json:"bulk"`
	SingleOwner bool   `json:"single"`
	Steering    bool   `json:"steering"`
	Derived     bool   `json:"derived"`
	Unseen      bool   `json:"unseen"`
	Backdated   bool   `json:"backdated"`
	Source      Source `json:"source"`

	// The results of screening: the highest score, and whether a credential or
	// personal data was found.
	Risk     PerMille `json:"risk"`
	Secret   bool     `json:"secret"`
	Personal bool     `json:"personal"`

	// As in Question.
	AuthorTrust       PerMille    `json:"author_trust"`
	Others            bool        `json:"others"`
	AuthorAttestation Attestation `json:"author_attestation"`
	Attestation       Attestation `json:"attestation"`
	Track             PerMille    `json:"track"`
	Ceiling           PerMille    `json:"ceiling"`
}

// Written is the amount of text that a call writes to one field or member.
type Written struct {
	Field    string `json:"field"`
	Spelled  string `json:"-"`      // Field as the payload spells it; not recorded
	Member   string `json:"member"` // as in Item
	Layer    Layer  `json:"layer"`
	Inferred bool   `json:"inferred"`
	Size     int    `json:"size"` // characters
}

// The bounds of Facts. If they are exceeded, no facts are recorded.
const (
	maxFacts     = 64   // number of roles, and of writes
	maxFactBytes = 8192 // total length of all names, in bytes
)

// FactsOf returns the facts of a question for its record, or nil if they exceed the bounds.
func FactsOf(q *Question) *Facts {
	f, ok := q.facts(true)
	if !ok || len(f.Roles) > maxFacts || len(f.Claims) > maxFacts {
		return nil
	}
	bytes := 0
	for _, r := range f.Roles {
		bytes += len(r)
	}
	for _, w := range f.Writes {
		bytes += len(w.Field) + len(w.Member)
	}
	if bytes > maxFactBytes {
		return nil
	}
	return &f
}

// Facts returns what policies see of the operation: Recorded, or else all of it.
func (q *Question) Facts() Facts {
	if q.Recorded != nil {
		return *q.Recorded
	}
	f, _ := q.facts(false)
	return f
}

// facts returns the facts of a question. For a record ok is false if there are too many writes.
func (q *Question) facts(record bool) (f Facts, ok bool) {
	op := q.Operation
	f = Facts{
		Roles: q.Principal.Roles, Bulk: op.Bulk, SingleOwner: op.SingleOwner, Steering: op.Steering,
		Derived: op.Derived, Backdated: len(op.Backdated) > 0, Source: op.SourceClaim, Claims: op.LayerClaims,
		AuthorTrust: q.AuthorTrust, Others: q.Others, AuthorAttestation: q.AuthorAttestation, Attestation: q.Attestation, Track: q.Track, Ceiling: q.Ceiling,
	}
	f.Risk, f.Secret, f.Personal = riskOf(q.Findings)
	items, index := q.Content(), map[Written]int{} // of Writes
	for i := range items {
		it := &items[i]
		f.Unseen = f.Unseen || it.Kind == ItemURL || it.Kind == ItemData
		if it.Kind != ItemContent && it.Member == "" {
			continue
		}
		fields, content := it.Written(), it.Kind == ItemContent
		if !content { // rules of fields, layers and inference apply to content only
			fields = fields[:1]
		}
		for _, field := range fields {
			one := *it
			one.Field = field
			w := Written{Member: it.Member}
			if content {
				w.Field, w.Layer, w.Inferred = Key(field), q.Governance.LayerOf(&one), it.Inferred && it.Text != ""
				if !record {
					w.Spelled = field
				}
			}
			k, known := index[w]
			if !known {
				if k = len(f.Writes); record && k == maxFacts {
					return f, false
				}
				index[w] = k
				f.Writes = append(f.Writes, w)
			}
			f.Writes[k].Size += it.Characters()
		}
	}
	return f, true
}

// Risk returns the risk of the worst finding.
func Risk(findings []Finding) PerMille {
	risk, _, _ := riskOf(findings)
	return risk
}

func riskOf(findings []Finding) (risk PerMille, secret, personal bool) {
	for i := range findings {
		risk = max(risk, findings[i].Score)
		secret = secret || findings[i].IsSecret()
		personal = personal || strings.HasPrefix(findings[i].Rule, "pii.")
	}
	return risk, secret, personal
}
