package memproxy

// ReasonCode names a reason. The vocabulary is closed: docs/reasons.md
// documents each code, and a test compares the two.
type ReasonCode string

// The reason codes. The part before the dot is the control that gave the reason.
const (
	IdentityMissing ReasonCode = "identity.missing" // no credential was presented, and there is no default principal
	IdentityInvalid ReasonCode = "identity.invalid" // the credential was presented and not accepted
	IdentityActsAs  ReasonCode = "identity.acts_as" // names an agent that the principal may not act as
	IdentityUser    ReasonCode = "identity.user"    // names a user outside the principal's limit
	IdentityApp     ReasonCode = "identity.app"
	IdentityRun     ReasonCode = "identity.run"
	IdentityTenant  ReasonCode = "identity.tenant" // the principal's tenant differs from the one that the backend serves
	IdentityBroad   ReasonCode = "identity.broad"  // a wildcard or an exclusion in a dimension in which the principal is limited

	ScopeUnpinned ReasonCode = "scope.unpinned" // the answer cannot be filtered, and the request is not narrowed to what the principal may see
	ScopeConflict ReasonCode = "scope.conflict" // two positions of one payload name different owners
	OwnerForeign  ReasonCode = "owner.foreign"  // the target has another owner
	OwnerUnknown  ReasonCode = "owner.unknown"  // the owner of the target is unknown, or the target does not exist
	OwnerFiltered ReasonCode = "owner.filtered" // memories of others were removed from an answer

	// AnswerUnreadable: elements of an answer, or their owners, cannot be read.
	AnswerUnreadable ReasonCode = "answer.unreadable"
	AnswerUnclaimed  ReasonCode = "answer.unclaimed" // members of an answer that no row of the adapter's table claims

	RouteUnknown ReasonCode = "route.unknown" // a mutating request that the adapter does not know
	RunUngated   ReasonCode = "run.ungated"   // an agent whose own memory writes cannot be ruled on before they happen

	PayloadMalformed   ReasonCode = "payload.malformed"  // not the JSON that the route accepts
	PayloadDuplicate   ReasonCode = "payload.duplicate"  // a key that is repeated, also in another letter case; a memory twice in a batch; message ids that are in use
	PayloadEncoding    ReasonCode = "payload.encoding"   // not UTF-8, or compressed
	PayloadTooLarge    ReasonCode = "payload.too_large"  // over the body limit
	PayloadTooDeep     ReasonCode = "payload.too_deep"   // nested over the limit
	PayloadContentType ReasonCode = "payload.media_type" // not application/json
	PayloadSlow        ReasonCode = "payload.slow"       // the body did not arrive in time
	PayloadIncomplete  ReasonCode = "payload.incomplete" // the client disconnected before the body was complete or screened
	PayloadPath        ReasonCode = "payload.path"       // an ambiguous path, which two parsers may read differently
	PayloadReserved    ReasonCode = "payload.reserved"   // the client's memproxy_ keys were removed
	PayloadUnclaimed   ReasonCode = "payload.unclaimed"  // members that look like names of objects but that memproxy does not know were removed
	PayloadTooMany     ReasonCode = "payload.too_many"   // more names than one request may have
	PayloadUnseen      ReasonCode = "payload.unseen"     // content that the gate cannot inspect: a URL or binary data

	IntegrityMismatch ReasonCode = "integrity.mismatch" // the text is not the one that was written through memproxy
	IntegrityForged   ReasonCode = "integrity.forged"   // the provenance stamp was not signed by this installation, or not for this memory
	IntegrityUnknown  ReasonCode = "integrity.unknown"  // not written through memproxy, in a backend that was sealed
	IntegrityMetadata ReasonCode = "integrity.metadata" // the metadata differs from what was written
	IntegrityMissing  ReasonCode = "integrity.missing"  // missing from the backend, and not deleted through memproxy
	IntegrityChain    ReasonCode = "integrity.chain"    // the memory's history follows a break of the hash chain
	IntegrityLedger   ReasonCode = "integrity.ledger"   // the ledger's record of it was changed outside of memproxy

	ReviewApproved ReasonCode = "review.approved" // a reviewer approved the held write
	SessionLocked  ReasonCode = "session.locked"  // writes are locked after too many rejections, until the lock expires or a reviewer removes it
	StateWithheld  ReasonCode = "state.withheld"  // memories were removed from an answer because of their status
	StateSanitised ReasonCode = "state.sanitised" // dangerous spans of memories were replaced in an answer
	TrustBelow     ReasonCode = "trust.below"     // memories below the confidence that the caller asked for were removed
	TrustAuthority ReasonCode = "trust.authority" // the write would replace the text of a more trusted author

	TrustCorrection ReasonCode = "trust.correction" // the write changes another author's text; the detail names the author
	TrustClamped    ReasonCode = "trust.clamped"    // the claimed confidence exceeds the ceiling
	TrustBackdated  ReasonCode = "trust.backdated"  // a client timestamp sets the memory's time of creation

	TrustAttribution ReasonCode = "trust.attribution" // a claim about who said it, or that it was verified, was removed

	ScreenRisk      ReasonCode = "screen.risk"      // the content looks like an instruction to the agent, or an attack on it
	ScreenSecret    ReasonCode = "screen.secret"    // a credential, or personal data of a class that may not be stored
	ScreenFinding   ReasonCode = "screen.finding"   // one finding of screening, by its rule
	ScreenPattern   ReasonCode = "screen.pattern"   // content validation of governed fields: a mandatory pattern or heuristic failed
	ScreenExtracted ReasonCode = "screen.extracted" // what the backend's own model extracted from a write is worse than the write
	ScreenWithheld  ReasonCode = "screen.withheld"  // memories that look like attacks were removed from an answer
	ScreenStored    ReasonCode = "screen.stored"    // stored although it looks dangerous; the memory's status withholds it

	ScreenConfigured ReasonCode = "screen.configured" // found in a deployment's own configuration or approved text, which is not refused

	ScreenRewritten ReasonCode = "screen.rewritten" // dangerous parts were removed before it was stored

	FieldForbidden ReasonCode = "field.forbidden" // the field may not be written, or not by this role
	FieldSize      ReasonCode = "field.size"      // over the field's size

	FieldTrait     ReasonCode = "field.trait"     // a key for personality traits of a user
	LayerNamespace ReasonCode = "layer.namespace" // a key outside of the namespaces that may be written
	LayerInferred  ReasonCode = "layer.inferred"  // inferred by a model, and not stated by a user

	PolicyForbid   ReasonCode = "policy.forbid"    // a forbid policy without a reason of its own
	PolicyNoPermit ReasonCode = "policy.no_permit" // no policy permits the operation
	PolicyError    ReasonCode = "policy.error"     // a policy could not be evaluated; denied
	PolicyAdmin    ReasonCode = "policy.admin"     // an administrative operation
	PolicyBulk     ReasonCode = "policy.bulk"      // a bulk delete
	PolicySteering ReasonCode = "policy.steering"  // text that instructs the extractor

	BudgetHour      ReasonCode = "budget.hour"
	BudgetTotal     ReasonCode = "budget.total"
	BudgetTenant    ReasonCode = "budget.tenant"
	BudgetNamespace ReasonCode = "budget.namespace"
	HoldQueue       ReasonCode = "hold.queue"      // the caller has too many pending holds
	HoldReviewer    ReasonCode = "hold.reviewer"   // there is no reviewer for the held write
	BudgetDegraded  ReasonCode = "budget.degraded" // the shared store is unreachable; a local share of the limits applies
	RapidWrites     ReasonCode = "budget.rapid_writes"

	LimitRejections   ReasonCode = "limit.rejections"    // too many rejected requests from one address
	LimitInFlight     ReasonCode = "limit.in_flight"     // too many buffered bytes or concurrent requests
	LimitSideRequests ReasonCode = "limit.side_requests" // the request would need too many side requests to the backend

	IdentityUnavailable ReasonCode = "identity.unavailable" // the issuer of tokens does not answer
	AuditUnavailable    ReasonCode = "audit.unavailable"
	LedgerUnavailable   ReasonCode = "ledger.unavailable"
	UpstreamUnavailable ReasonCode = "upstream.unavailable"
	UpstreamMalformed   ReasonCode = "upstream.malformed" // the answer on an inspected route cannot be read
	InternalError       ReasonCode = "internal.error"
)

// ReasonCodes lists the vocabulary.
func ReasonCodes() []ReasonCode {
	return []ReasonCode{
		IdentityMissing, IdentityInvalid, IdentityActsAs, IdentityUser, IdentityApp, IdentityRun, IdentityTenant, IdentityBroad,
		ScopeUnpinned, ScopeConflict, OwnerForeign, OwnerUnknown, OwnerFiltered, AnswerUnclaimed, AnswerUnreadable, RouteUnknown,
		RunUngated,
		PayloadMalformed, PayloadDuplicate, PayloadEncoding, PayloadTooLarge, PayloadTooDeep, PayloadContentType, PayloadSlow, PayloadIncomplete, PayloadPath,
		PayloadReserved, PayloadUnclaimed, PayloadTooMany, PayloadUnseen,
		IntegrityMismatch, IntegrityForged, IntegrityUnknown, IntegrityMetadata, IntegrityMissing, IntegrityChain, IntegrityLedger, ReviewApproved,
		SessionLocked, StateWithheld, StateSanitised,
		TrustBelow, TrustAuthority, TrustCorrection, TrustClamped, TrustBackdated, TrustAttribution,
		ScreenRisk, ScreenSecret, ScreenFinding, ScreenPattern, ScreenExtracted, ScreenWithheld, ScreenStored, ScreenConfigured, ScreenRewritten,
		FieldForbidden, FieldSize, FieldTrait, LayerNamespace, LayerInferred,
		PolicyForbid, PolicyNoPermit, PolicyError, PolicyAdmin, PolicyBulk, PolicySteering,
		BudgetHour, BudgetTotal, BudgetTenant, BudgetNamespace, HoldQueue, HoldReviewer,
		BudgetDegraded, RapidWrites, LimitRejections, LimitInFlight, LimitSideRequests, IdentityUnavailable, AuditUnavailable,
		LedgerUnavailable, UpstreamUnavailable, UpstreamMalformed, InternalError,
	}
}
