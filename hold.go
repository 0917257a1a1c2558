package memproxy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// HoldState is the state of a held write.
type HoldState string

// The states of a hold: pending → approved → replaying → done or failed; pending →
// rejected. An approved hold may still be rejected until a replay claims it. A rewritten
// hold needs no review: it keeps the evidence of a write that was stored in rewritten
// form.
const (
	HoldPending   HoldState = "pending"
	HoldApproved  HoldState = "approved"
	HoldRejected  HoldState = "rejected"
	HoldReplaying HoldState = "replaying" // claimed by a replay; it may have been sent
	HoldDone      HoldState = "done"
	HoldFailed    HoldState = "failed"
	HoldRewritten HoldState = "rewritten"
)

// HoldStates lists the states.
var HoldStates = [...]HoldState{HoldPending, HoldApproved, HoldRejected, HoldReplaying, HoldDone, HoldFailed, HoldRewritten}

// HeldWrite is the record of a held write, without its content.
type HeldWrite struct {
	ID          string `json:"id"` // the decision id
	Backend     string `json:"backend"`
	Route       string `json:"route"`
	Method      string `json:"method"`
	EscapedPath string `json:"path"`
	Tenant      string `json:"tenant"`
	Principal   string `json:"principal"` // principal id of the author
	Trust       Trust  `json:"trust"`
	Session     string `json:"session,omitempty"`
	Scope       Scope  `json:"scope"`
	Kind        Kind   `json:"kind"`
	// Reasons and Findings are why the write was held. Neither quotes content.
	Reasons  []Reason  `json:"reasons,omitempty"`
	Findings []Finding `json:"findings,omitempty"`
	Score    PerMille  `json:"score"`
	Policy   string    `json:"policy"` // version of the rules that ruled on it last
	// CurrentVerdict is the verdict of the current rules, if it is not Hold. Reasons remain
	// those for which the write was held.
	CurrentVerdict string `json:"today,omitempty"`
	// ContentSHA256 is the hex hash of the body as received.
	ContentSHA256 string    `json:"content_sha256"`
	Created       time.Time `json:"created"`

	State    HoldState `json:"state"`
	Reviewer string    `json:"reviewer,omitempty"` // of the final review
	Reviewed time.Time `json:"reviewed,omitzero"`
	Note     string    `json:"note,omitempty"`
	// Similarity is the id of the tenant's group of similar holds to which this one
	// belongs. The store sets it.
	Similarity string `json:"similarity"`
	// Votes are the reviewers who approved it while it is pending, if their number is not
	// sufficient yet; only Get sets it.
	Votes []string `json:"votes,omitempty"`
	// Lease is until when one replay has the exclusive right to send the write. A pending
	// hold with a lease comes from a restored ledger: it may have been sent after the
	// backup was made.
	Lease  time.Time  `json:"lease,omitzero"`
	Result HoldResult `json:"result,omitzero"`
}

// HoldResult is the result of sending an approved write upstream.
type HoldResult struct {
	Status   int      `json:"status"`             // the backend's HTTP status; 0 if it was not reached
	Memories []string `json:"memories,omitempty"` // ids that the backend returned
	Detail   string   `json:"detail,omitempty"`   // for a person; quotes no content
	// SentBefore reports that the write was sent before but the backend does not have it. The
	// earlier attempt was charged.
	SentBefore bool `json:"again,omitempty"`
	// Cleared reports that all memories of the write's owner were deleted after it was
	// held.
	Cleared bool `json:"cleared,omitempty"`
}

// HoldContent is the part of a hold that is encrypted at rest. It includes the query and
// headers because a write may carry text there.
type HoldContent struct {
	Query  string `json:"query,omitempty"`
	Header Header `json:"header,omitempty"` // selected by the gate; never credentials
	Body   []byte `json:"body,omitempty"`
	// Reserved is the number of memories that were charged when the write was held.
	Reserved int64 `json:"reserved,omitempty"`
	// Objects are the ids of the objects that the write changes, by the names that the
	// write has for them (a block's label). An approval applies to these ids only.
	Objects map[string]string `json:"objects,omitempty"`
	// Author is the author as authenticated at the time of the write.
	Author *Principal `json:"author,omitempty"`
	// Before are the hashes, by memory id, of the texts that the write replaces or
	// deletes, as of when it was held.
	Before map[string]string `json:"before,omitempty"`
	// Texts are the operation's items, in order. Finding.Item and the span of a finding
	// refer to them.
	Texts []HeldText `json:"texts,omitempty"`
	// Rewritten are the rewritten texts, by JSON pointer. Body is the rewritten body if
	// the write is pending, and the original one if it was sent.
	Rewritten []HeldText `json:"rewritten,omitempty"`
}

// HeldText is one item of a held write.
type HeldText struct {
	Pointer string `json:"pointer"`
	Text    string `json:"text"`
	// Empty is set if the write leaves no text there. Any other item without a text only
	// names a place: of a block that the write deletes or renames.
	Empty bool `json:"empty,omitempty"`
}

// HoldLimitError is the error of a store of holds if the caller, or one of its end users, has
// the maximum number of pending holds. It is a refusal, not a failure.
type HoldLimitError struct {
	Key     string // "holds/PRINCIPAL", "holds/PRINCIPAL/USER", "holds/anonymous", or "holds" of a tenant
	Limit   int
	Setting string // the setting that defines the limit
}

// Error makes HoldLimitError an error.
func (h *HoldLimitError) Error() string {
	return fmt.Sprintf("%s: the limit of %d writes awaiting review is reached", h.Key, h.Limit)
}

// ErrNoReviewer is the error of a store of holds if no reviewer is configured. It is a
// refusal, not a failure.
var ErrNoReviewer = errors.New("no reviewer is configured for held writes")

// HoldFilter selects holds. Empty fields select all.
type HoldFilter struct {
	State              HoldState
	Open               bool    // pending, approved or replaying
	Tenant             *string // nil selects every tenant, "" holds without one
	Backend, Principal string
	Session            string
	Similarity         string
	// NotPolicy excludes holds on which this version of the rules ruled last.
	NotPolicy     string
	Since, Before time.Time // Created in [Since, Before)
	// After is HoldPage.Next of the previous page.
	After string
	// Limit is the page size: at most 500; 0 is 50.
	Limit int
}

// HoldPage is a page of holds, oldest first.
type HoldPage struct {
	Holds []HeldWrite `json:"holds"`
	// Next is the cursor of the next page; "" on the last page.
	Next string `json:"next,omitempty"`
}

// Review is a reviewer's decision on a held write or a memory.
type Review struct {
	Reviewer string
	Note     string
	// Need is how many distinct reviewers must agree; values below 1 count as 1.
	Need int
	// Eligible reports whether a reviewer may decide on objects of a tenant, so that the
	// earlier votes of those who no longer may do not count. If it is nil, all count.
	Eligible func(reviewer, tenant string) bool
	// AuthorInvalid is the reason, as shown to the reviewer, why the author could no longer
	// write; "" if it still could.
	AuthorInvalid string
}

// InvalidReason explains why an author can no longer write, by its authentication method.
func (p Principal) InvalidReason() string {
	switch p.Method {
	case "key":
		return "the author's key was removed from the configuration"
	case "oidc":
		return "the author's tokens are no longer accepted"
	case "spiffe":
		return "the author's certificates are no longer accepted"
	}
	return "the author had no credential, and callers without one are no longer identified as this author"
}

// NoteAuthorInvalid adds a reason to the hold: the reviewer was informed why its author
// could no longer write.
func (h *HeldWrite) NoteAuthorInvalid(why string) {
	h.Reasons = append(h.Reasons, Reason{Code: IdentityInvalid, Detail: why + "; its approver was notified"})
}

// AuthorInvalidNoted reports whether NoteAuthorInvalid was called. No other reason of a
// hold has the code IdentityInvalid, because a write with an invalid credential is refused
// and never held.
func (h *HeldWrite) AuthorInvalidNoted() bool {
	return slices.ContainsFunc(h.Reasons, func(r Reason) bool { return r.Code == IdentityInvalid })
}

// VoteResult is the result of a review.
type VoteResult struct {
	// Settled is set once enough reviewers have agreed.
	Settled bool `json:"settled"`
	// Have is how many reviewers agreed, Need how many must.
	Have int `json:"have"`
	Need int `json:"need"`
}

// ReviewedGroup is a similarity group after a review, with the lowest of its holds'
// tallies.
type ReviewedGroup struct {
	Holds []HeldWrite `json:"holds"`
	VoteResult
}

// Replay is the exclusive claim to send one approved write upstream.
type Replay struct {
	Hold    HeldWrite
	Content HoldContent
	// Token proves the claim to the ledger.
	Token string
}

// Reevaluation is a new verdict on a pending hold.
type Reevaluation struct {
	Verdict Verdict
	// Settles is the state in which the verdict ends the hold's wait: HoldRejected or
	// HoldApproved. If it is "" the hold remains pending, with the new reasons if the
	// verdict is Hold, else with the verdict recorded.
	Settles  HoldState
	Reasons  []Reason
	Findings []Finding
	Score    PerMille
	Policy   string // version of the rules
}

// RulesReviewer returns the reviewer of holds that a reload of the rules decides. It is
// not a person, so a write that it admits does not count as confirmed by a person.
func RulesReviewer(version string) string { return rulesReviewer + version }

// ByRules reports whether the rules made the final decision on a hold.
func (h *HeldWrite) ByRules() bool { return strings.HasPrefix(h.Reviewer, rulesReviewer) }

const rulesReviewer = "rules:"

// NoticeKind is the event that a notice reports.
type NoticeKind string

// The notices.
const (
	NoticeHold   NoticeKind = "hold.created"
	NoticeAged   NoticeKind = "hold.aged"
	NoticeRuled  NoticeKind = "hold.reevaluated"
	NoticeLocked NoticeKind = "session.locked"
	NoticeEnded  NoticeKind = "session.ended"
	// NoticeFlagged and NoticeQuarantined: a stored memory was flagged or quarantined, or
	// the current rules would do so although a person has validated it.
	NoticeFlagged     NoticeKind = "memory.flagged"
	NoticeQuarantined NoticeKind = "memory.quarantined"
	NoticeMemoryRuled NoticeKind = "memory.reevaluated"
)

// Notice is a message to external subscribers. It contains no content.
type Notice struct {
	ID      string     `json:"id"`
	Kind    NoticeKind `json:"kind"`
	Tenant  string     `json:"tenant"`
	Subject string     `json:"subject"` // id of the hold, the session or the memory
	Created time.Time  `json:"created"`
	// Data is the JSON of the hold, the session, or the memory's status.
	Data []byte `json:"-"`
	// Attempts is the number of failed deliveries.
	Attempts int `json:"-"`
}

// Outcome is the result of a request that memproxy sends on behalf of a principal: an
// approved write, or a rollback. The zero value is unknown: the request may have been
// processed, and only the backend can tell.
type Outcome uint8

// The outcomes.
const (
	OutcomeUnknown  Outcome = iota // the backend may have processed it
	OutcomeDone                    // the backend processed it
	OutcomeRefused                 // memproxy refused it; nothing was sent
	OutcomeRejected                // the backend refused it
	OutcomeUnsent                  // nothing was sent or taken; another attempt may succeed
	OutcomeDenied                  // the backend rejected memproxy's credential and did nothing
)

// SendResult is the result of a request that memproxy sent on behalf of a principal.
type SendResult struct {
	Outcome Outcome
	Result  HoldResult // for OutcomeRefused, Detail is the reason
	Err     error      // the error, for OutcomeUnsent and OutcomeUnknown
}

// CallFailed is the detail of a call that the backend answered with a status of success and
// reports as failed.
const CallFailed = "the backend reports that the call failed"

// AnsweredResult returns the outcome of a request that the backend answered. A backend that
// answers with a server error or a timeout may have written before.
func AnsweredResult(r HoldResult) SendResult {
	switch {
	case r.Detail == CallFailed:
		return SendResult{Outcome: OutcomeRejected, Result: r}
	case IsSuccess(r.Status):
		return SendResult{Outcome: OutcomeDone, Result: r}
	case r.Status == StatusUnauthorized:
		r.Detail = "the backend rejects memproxy's credential: check backends[].credential"
		return SendResult{Outcome: OutcomeDenied, Result: r}
	case r.Status == StatusTooMany:
		return UnsentResult(fmt.Errorf("%w: it answered 429", ErrAway))
	case r.Status >= 300 && r.Status < 500 && r.Status != StatusRequestTimeout:
		return SendResult{Outcome: OutcomeRejected, Result: r}
	}
	return SendResult{Result: r}
}

// UnsentResult returns the outcome of a request that was not sent.
func UnsentResult(err error) SendResult { return SendResult{Outcome: OutcomeUnsent, Err: err} }

// ErrAway means that no connection to a backend could be made, or that it answered 429.
var ErrAway = errors.New("the backend takes no requests at present")
