package memproxy

// ReasonCode names a reason. The vocabulary is closed: docs/reasons.md
// documents each code, and a test compares the two.
type ReasonCode string

// The reason codes. The first part is the room where the reason was found.
const (
	IdentityMissing ReasonCode = "identity.missing" // nothing presented and no default principal
	IdentityInvalid ReasonCode = "identity.invalid" // presented and not accepted
	IdentityActsAs  ReasonCode = "identity.acts_as" // names an agent that the principal may not act as
	IdentityUser    ReasonCode = "identity.user"    // names a user outside the principal's limit
	IdentityApp     ReasonCode = "identity.app"
	IdentityRun     ReasonCode = "identity.run"
	IdentityTenant  ReasonCode = "identity.tenant" // of another tenant than the one that the backend serves
	IdentityBroad   ReasonCode = "identity.broad"  // wildcard or exclusion in a dimension in which the principal is limited

	ScopeUnpinned ReasonCode = "scope.unpinned" // cannot be filtered, and not narrowed to what the principal may see
	ScopeConflict ReasonCode = "scope.conflict" // two places of one payload name different owners
	OwnerForeign  ReasonCode = "owner.foreign"  // the target has another owner
	OwnerUnknown  ReasonCode = "owner.unknown"  // the owner of the target is unknown, or it does not exist
	OwnerFiltered ReasonCode = "owner.filtered" // items of others were left out of an answer

	// AnswerUnreadable: elements of an answer that cannot be read, or whose owner
	// cannot.
	AnswerUnreadable ReasonCode = "answer.unreadable"
	AnswerUnclaimed  ReasonCode = "answer.unclaimed" // members of an answer without a claim

	RouteUnknown ReasonCode = "route.unknown" // a mutating request that the adapter does not know
	RunUngated   ReasonCode = "run.ungated"   // an agent whose own memory writes cannot be ruled on before they happen

	PayloadMalformed   ReasonCode = "payload.malformed"  // not the JSON that the route takes
	PayloadDuplicate   ReasonCode = "payload.duplicate"  // a key twice, or in another letter case; a memory twice in a batch; message ids that are in use
	PayloadEncoding    ReasonCode = "payload.encoding"   // not UTF-8, or a content encoding
	PayloadTooLarge    ReasonCode = "payload.too_large"  // over the body limit
	PayloadTooDeep     ReasonCode = "payload.too_deep"   // nested over the limit
	PayloadContentType ReasonCode = "payload.media_type" // not application/json
	PayloadSlow        ReasonCode = "payload.slow"       // did not arrive in time
	PayloadPath        ReasonCode = "payload.path"       // a path spelled to mean two things
	PayloadReserved    ReasonCode = "payload.reserved"   // client-supplied memproxy_ keys, removed
	PayloadUnclaimed   ReasonCode = "payload.unclaimed"  // called like a name of something that memproxy does not know, removed
	PayloadTooMany     ReasonCode = "payload.too_many"   // names more than one request may
	PayloadUnseen      ReasonCode = "payload.unseen"     // content the gate cannot see: URL or binary

	IntegrityMismatch ReasonCode = "integrity.mismatch" // the text is not the one that went through memproxy
	IntegrityForged   ReasonCode = "integrity.forged"   // a provenance stamp that this installation did not sign, or not for this memory
	IntegrityUnknown  ReasonCode = "integrity.unknown"  // not written through memproxy, in a backend that was sealed as a whole
	IntegrityMetadata ReasonCode = "integrity.metadata" // the metadata is not what was written
	IntegrityMissing  ReasonCode = "integrity.missing"  // missing from the backend, and not deleted through memproxy
	IntegrityChain    ReasonCode = "integrity.chain"    // its history follows a break of the chain
	IntegrityLedger   ReasonCode = "integrity.ledger"   // what the ledger says of it was changed outside of memproxy

	ReviewApproved ReasonCode = "review.approved" // a held write that a reviewer approved
	SessionLocked  ReasonCode = "session.locked"  // too many rejections; it ends by itself, or a reviewer unlocks it
	StateWithheld  ReasonCode = "state.withheld"  // memories left out of an answer for the state that they are in
	StateSanitised ReasonCode = "state.sanitised" // dangerous spans of memories were replaced in an answer
	TrustBelow     ReasonCode = "trust.below"     // memories of less confidence than the caller asked for were left out
	TrustAuthority ReasonCode = "trust.authority" // would replace the text of an author who is trusted more

	TrustCorrection ReasonCode = "trust.correction" // changes another author's text; says whose
	TrustClamped    ReasonCode = "trust.clamped"    // claimed more confidence than the ceiling
	TrustBackdated  ReasonCode = "trust.backdated"  // a client timestamp sets the memory's time of creation

	TrustAttribution ReasonCode = "trust.attribution" // claims who said it, or that it was checked; taken off

	ScreenRisk      ReasonCode = "screen.risk"      // the content looks like an instruction to the agent or an attack on it
	ScreenSecret    ReasonCode = "screen.secret"    // a credential, or personal data of a class that is not kept
	ScreenFinding   ReasonCode = "screen.finding"   // one thing that screening found, by its rule
	ScreenPattern   ReasonCode = "screen.pattern"   // content validation of governed fields: a mandatory pattern or heuristic
	ScreenExtracted ReasonCode = "screen.extracted" // what the backend's own model made of a write is worse than the write
	ScreenWithheld  ReasonCode = "screen.withheld"  // items that look like attacks were left out of an answer
	ScreenStored    ReasonCode = "screen.stored"    // written although it looks dangerous; the memory's state withholds it

	ScreenConfigured ReasonCode = "screen.configured" // found in what an owner configures, which refuses nothing

	ScreenRewritten ReasonCode = "screen.rewritten" // its dangerous parts were taken out before it was stored

	FieldForbidden ReasonCode = "field.forbidden" // the field may not be written, or not by this role
	FieldSize      ReasonCode = "field.size"      // over the field's size

	FieldTrait     ReasonCode = "field.trait"     // a key that models what kind of person a user is
	LayerNamespace ReasonCode = "layer.namespace" // a key outside the namespaces that may be written
	LayerInferred  ReasonCode = "layer.inferred"  // inferred by a model, not stated by a user

	PolicyForbid   ReasonCode = "policy.forbid"    // a forbid without a reason of its own
	PolicyNoPermit ReasonCode = "policy.no_permit" // no policy permits it
	PolicyError    ReasonCode = "policy.error"     // evaluation failed; denied
	PolicyAdmin    ReasonCode = "policy.admin"     // an administrative surface
	PolicyBulk     ReasonCode = "policy.bulk"      // a bulk delete
	PolicySteering ReasonCode = "policy.steering"  // text that instructs the extractor

	BudgetHour      ReasonCode = "budget.hour"
	BudgetTotal     ReasonCode = "budget.total"
	BudgetTenant    ReasonCode = "budget.tenant"
	BudgetNamespace ReasonCode = "budget.namespace"
	HoldQueue       ReasonCode = "hold.queue"      // too many writes of the caller wait for review
	HoldReviewer    ReasonCode = "hold.reviewer"   // there is no reviewer for it
	BudgetDegraded  ReasonCode = "budget.degraded" // the shared store is away; the local share applies
	RapidWrites     ReasonCode = "budget.rapid_writes"

	LimitRejections   ReasonCode = "limit.rejections"    // too many rejected requests of one address
	LimitInFlight     ReasonCode = "limit.in_flight"     // too many bytes are held, or requests under way, at once
	LimitSideRequests ReasonCode = "limit.side_requests" // the backend would have to be asked too often

	AuditUnavailable    ReasonCode = "audit.unavailable"
	LedgerUnavailable   ReasonCode = "ledger.unavailable"
	UpstreamUnavailable ReasonCode = "upstream.unavailable"
	UpstreamMalformed   ReasonCode = "upstream.malformed" // an answer to an inspected route that cannot be read
	InternalError       ReasonCode = "internal.error"
)

// ReasonCodes lists the vocabulary.
func ReasonCodes() []ReasonCode {
	return []ReasonCode{
		IdentityMissing, IdentityInvalid, IdentityActsAs, IdentityUser, IdentityApp, IdentityRun, IdentityTenant, IdentityBroad,
		ScopeUnpinned, ScopeConflict, OwnerForeign, OwnerUnknown, OwnerFiltered, AnswerUnclaimed, AnswerUnreadable, RouteUnknown,
		RunUngated,
		PayloadMalformed, PayloadDuplicate, PayloadEncoding, PayloadTooLarge, PayloadTooDeep, PayloadContentType, PayloadSlow, PayloadPath,
		PayloadReserved, PayloadUnclaimed, PayloadTooMany, PayloadUnseen,
		IntegrityMismatch, IntegrityForged, IntegrityUnknown, IntegrityMetadata, IntegrityMissing, IntegrityChain, IntegrityLedger, ReviewApproved,
		SessionLocked, StateWithheld, StateSanitised,
		TrustBelow, TrustAuthority, TrustCorrection, TrustClamped, TrustBackdated, TrustAttribution,
		ScreenRisk, ScreenSecret, ScreenFinding, ScreenPattern, ScreenExtracted, ScreenWithheld, ScreenStored, ScreenConfigured, ScreenRewritten,
		FieldForbidden, FieldSize, FieldTrait, LayerNamespace, LayerInferred,
		PolicyForbid, PolicyNoPermit, PolicyError, PolicyAdmin, PolicyBulk, PolicySteering,
		BudgetHour, BudgetTotal, BudgetTenant, BudgetNamespace, HoldQueue, HoldReviewer,
		BudgetDegraded, RapidWrites, LimitRejections, LimitInFlight, LimitSideRequests, AuditUnavailable,
		LedgerUnavailable, UpstreamUnavailable, UpstreamMalformed, InternalError,
	}
}
