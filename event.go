package memproxy

import "time"

// EventType is what an audit event tells of.
type EventType string

// The event types. Learn, correct, forget and the others of the provenance
// literature are the Kind of a decision; these are the rows of the log.
const (
	EventDecision       EventType = "decision"        // ruled on, before anything leaves
	EventOutcome        EventType = "outcome"         // what came of it
	EventBudgetWarning  EventType = "budget_warning"  // 80 % of a budget is used
	EventBudgetExceeded EventType = "budget_exceeded" // a budget refused
	EventRapidWrites    EventType = "rapid_writes"
	// EventCrossCorrection tells that somebody changed what another wrote, and
	// why that was let in.
	EventCrossCorrection EventType = "cross_correction"
	// EventRejections tells how many rejected requests of one address were not
	// recorded one by one.
	EventRejections EventType = "rejections"
	EventReload     EventType = "reload" // rules were replaced, or a broken edit was not
	EventStart      EventType = "start"
	EventStop       EventType = "stop"
	EventRepair     EventType = "repair" // a torn tail was cut after a crash
	EventPrune      EventType = "prune"  // old records of the log were removed
)

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
	// Findings are what screening found: rules and places, the worst first. Of
	// very many only the worst are there.
	Findings []Finding
	// Facts are what policies were asked besides; nil where they were not
	// asked, or the facts are too many.
	Facts *Facts

	Claimed    PerMille // confidence asked for; -1 when none was
	Confidence PerMille // confidence given; -1 when it does not apply
	Budget     []LineState
	Degraded   bool
	// Unsafe are the settings that weaken production while this happened. The
	// log fills it in.
	Unsafe []string

	// Act is set in events about what somebody did; Versions are the steps of
	// memories' histories that the event tells of.
	Act      *Act
	Versions []VersionChange

	// Outcome fields.
	Status    int       // the backend's HTTP status, 0 when it was not reached
	Memories  []string  // ids that were written or shown
	Filtered  int       // items left out of the answer
	Cancelled bool      // the caller hung up
	Ended     StreamEnd // how an answer ended that was passed on as it came

	// Detail is a sentence for events that are not about a request.
	Detail string
}

// Receipt proves that an event is in the log.
type Receipt struct {
	Index uint64 // position in the log
	Hash  string // hex, leaf hash
}
