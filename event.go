package memproxy

import (
	"slices"
	"strings"
	"time"
)

// EventType is the type of an audit event.
type EventType string

// The event types. Learn, correct, forget and the others of the provenance
// literature are the Kind of a decision; these are the rows of the log.
const (
	EventDecision       EventType = "decision"        // ruled on, before anything leaves
	EventOutcome        EventType = "outcome"         // its result
	EventBudgetWarning  EventType = "budget_warning"  // 80 % of a budget is used
	EventBudgetExceeded EventType = "budget_exceeded" // a budget refused
	EventRapidWrites    EventType = "rapid_writes"
	// EventCrossCorrection records that a principal changed another author's
	// memory, and why that was admitted.
	EventCrossCorrection EventType = "cross_correction"
	// EventRejections has the number of rejected requests of one address that were
	// not recorded one by one.
	EventRejections EventType = "rejections"
	EventReload     EventType = "reload" // rules were replaced, or a broken edit was not
	EventStart      EventType = "start"
	EventStop       EventType = "stop"
	EventRepair     EventType = "repair"       // a torn tail was cut after a crash
	EventPrune      EventType = "prune"        // old records of the log were removed
	EventReview     EventType = "review"       // a reviewer's action, or access to content
	EventLock       EventType = "session_lock" // rejections locked the writes of a session, or of a principal

	EventVersion    EventType = "version"    // a memory has another version
	EventCompaction EventType = "compaction" // texts of old versions were given up
	EventPurge      EventType = "purge"      // content was destroyed, or records of it were removed

	EventAnchor     EventType = "chain_anchor" // where a tenant's chain of versions ends
	EventChainBreak EventType = "chain_break"  // the chain differs from what was written
	EventAccept     EventType = "chain_accept" // a person takes a broken chain as it is
	EventIntegrity  EventType = "integrity"    // a memory in the backend differs from what was written, or no longer does
	EventSeal       EventType = "seal"         // the memories of a backend were taken over, with the lowest trust
	EventSweep      EventType = "sweep"        // a backend and the chains were looked through
)

// EventTypes lists the types, sorted.
func EventTypes() []EventType {
	return []EventType{
		EventBudgetExceeded, EventBudgetWarning, EventAccept, EventAnchor, EventChainBreak, EventCompaction, EventCrossCorrection, EventDecision,
		EventIntegrity, EventOutcome, EventPrune, EventPurge, EventRapidWrites, EventRejections, EventReload, EventRepair, EventReview, EventSeal,
		EventLock, EventStart, EventStop, EventSweep, EventVersion,
	}
}

// Event is one fact for the audit log. It holds hashes of content and never
// content, and no credential. The log adds index, time of append and the hash
// of the previous record.
type Event struct {
	Type     EventType
	Time     time.Time
	Decision string // decision id; ties events of one request together
	Trace    string // W3C trace id, hex, or ""
	Session  string // the caller's session or run id, or ""

	Principal Principal // only ID, Kind, Tenant, Trust and Method are recorded; roles are among the Facts
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

	Verdict Verdict
	Would   Verdict
	Reasons []Reason
	Policy  string // version of the rules
	// Findings are the findings of screening: rules and places, the worst first. If
	// there are too many only the worst are included.
	Findings []Finding
	// Facts are the further inputs of policies; nil if no policy was asked, or
	// there are too many facts.
	Facts *Facts

	Claimed    PerMille // confidence asked for; -1 when none was
	Confidence PerMille // confidence given; -1 when it does not apply
	Budget     []LineState
	Degraded   bool
	// Unsafe are the settings that weaken production while this happened. The
	// log fills it in.
	Unsafe []string

	// Act is set in events about an action; Versions are the changes of memories'
	// histories in the event.
	Act      *Act
	Versions []VersionChange

	// Outcome fields.
	Status    int       // the backend's HTTP status, 0 when it was not reached
	Memories  []string  // ids that were written or shown
	Filtered  int       // items left out of the answer
	Cancelled bool      // the caller hung up
	Ended     StreamEnd // how a streamed answer ended

	// Detail is a sentence for events that are not about a request.
	Detail string
}

// Receipt proves that an event is in the log.
type Receipt struct {
	Index uint64 // position in the log
	Hash  string // hex, leaf hash
}

// Facts are the inputs of policies that an Event does not have otherwise: names of
// roles, sizes and kinds, and never content. With them a recorded decision can be
// replayed against other policies.
type Facts struct {
	Roles  []string  `json:"roles"`
	Writes []Written `json:"writes"`
	// Claims are further layers that the payload claims.
	Claims []Layer `json:"claims"`

	// As in Operation.
	Bulk      bool   `json:"bulk"`
	Single    bool   `json:"single"`
	Steering  bool   `json:"steering"`
	Derived   bool   `json:"derived"`
	Unseen    bool   `json:"unseen"`
	Backdated bool   `json:"backdated"`
	Source    Source `json:"source"`

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

// Written is an amount that a call writes to a place.
type Written struct {
	Field    string `json:"field"`
	Member   string `json:"member"` // as in Item
	Layer    Layer  `json:"layer"`
	Inferred bool   `json:"inferred"`
	Size     int    `json:"size"` // characters
}

// The bounds of Facts: if they are exceeded no facts are recorded.
const (
	maxFacts     = 64   // roles, and writes
	maxFactBytes = 8192 // of all names together
)

// FactsOf are the facts of a question, or nil where there are too many of them.
func FactsOf(q *Question) *Facts {
	op := q.Operation
	f := &Facts{
		Roles: q.Principal.Roles, Bulk: op.Bulk, Single: op.Single, Steering: op.Steering, Derived: op.Derived, Backdated: len(op.Backdated) > 0, Source: op.SourceClaim, Claims: op.LayerClaims,
		AuthorTrust: q.AuthorTrust, Others: q.Others, AuthorAttestation: q.AuthorAttestation, Attestation: q.Attestation, Track: q.Track, Ceiling: q.Ceiling,
	}
	f.Risk, f.Secret, f.Personal = riskOf(q.Findings)
	bytes := 0
	for _, r := range f.Roles {
		bytes += len(r)
	}
	items := q.Content()
	for i := range items {
		it := &items[i]
		f.Unseen = f.Unseen || it.Kind == ItemURL || it.Kind == ItemData
		if it.Kind != ItemContent && it.Member == "" {
			continue
		}
		for _, field := range it.Written() {
			one := *it
			one.Field = field
			w := Written{Member: it.Member}
			if it.Kind == ItemContent { // the rules of fields, layers and inference are about content
				w.Field, w.Layer, w.Inferred = Key(field), q.Governance.LayerOf(&one), it.Inferred && it.Text != ""
			}
			k := slices.IndexFunc(f.Writes, func(o Written) bool {
				return o.Field == w.Field && o.Member == w.Member && o.Layer == w.Layer && o.Inferred == w.Inferred
			})
			if k < 0 {
				k = len(f.Writes)
				f.Writes = append(f.Writes, w)
				bytes += len(w.Field) + len(w.Member)
			}
			f.Writes[k].Size += it.Characters()
		}
	}
	if len(f.Roles) > maxFacts || len(f.Writes) > maxFacts || len(f.Claims) > maxFacts || bytes > maxFactBytes {
		return nil
	}
	return f
}

// Risk is how dangerous findings are: as much as the worst of them.
func Risk(findings []Finding) PerMille {
	risk, _, _ := riskOf(findings)
	return risk
}

func riskOf(findings []Finding) (risk PerMille, secret, personal bool) {
	for i := range findings {
		risk = max(risk, findings[i].Score)
		secret = secret || strings.HasPrefix(findings[i].Rule, "secret.")
		personal = personal || strings.HasPrefix(findings[i].Rule, "pii.")
	}
	return risk, secret, personal
}
