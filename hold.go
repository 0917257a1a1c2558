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

// The states of a hold. pending → approved → replaying → done or failed; pending →
// rejected. An approved one may still be rejected, until it is claimed. A rewritten
// one needs no review: it is the evidence of a write that was stored in rewritten
// form.
const (
	HoldPending   HoldState = "pending"
	HoldApproved  HoldState = "approved"
	HoldRejected  HoldState = "rejected"
	HoldReplaying HoldState = "replaying" // claimed: it may have been sent
	HoldDone      HoldState = "done"
	HoldFailed    HoldState = "failed"
	HoldRewritten HoldState = "rewritten"
)

// HoldStates lists the states.
var HoldStates = [...]HoldState{HoldPending, HoldApproved, HoldRejected, HoldReplaying, HoldDone, HoldFailed, HoldRewritten}

// HeldWrite is a held write without its content.
type HeldWrite struct {
	ID          string `json:"id"` // the decision's
	Backend     string `json:"backend"`
	Route       string `json:"route"`
	Method      string `json:"method"`
	EscapedPath string `json:"path"`
	Tenant      string `json:"tenant"`
	Principal   string `json:"principal"` // its author's id
	Trust       Trust  `json:"trust"`
	Session     string `json:"session,omitempty"`
	Scope       Scope  `json:"scope"`
	Kind        Kind   `json:"kind"`
	// Reasons and Findings are why; neither quotes content.
	Reasons  []Reason  `json:"reasons,omitempty"`
	Findings []Finding `json:"findings,omitempty"`
	Score    PerMille  `json:"score"`
	Policy   string    `json:"policy"` // version of the rules that ruled last
	// Today is their verdict, where it is another than to hold it; the reasons
	// are those for which it was held.
	Today string `json:"today,omitempty"`
	// ContentSHA256 is the hex hash of the body as received.
	ContentSHA256 string    `json:"content_sha256"`
	Created       time.Time `json:"created"`

	State    HoldState `json:"state"`
	Reviewer string    `json:"reviewer,omitempty"` // of the final decision
	Reviewed time.Time `json:"reviewed,omitzero"`
	Note     string    `json:"note,omitempty"`
	// Similarity names the group of similar holds of the tenant that this one
	// was put into. The store gives it.
	Similarity string `json:"similarity"`
	// Lease is until when a replay has it to itself. If it waits and has one, it is in a
	// restored ledger and may have been sent since the backup.
	Lease  time.Time  `json:"lease,omitzero"`
	Result HoldResult `json:"result,omitzero"`
}

// HoldResult is the result of sending an approved write upstream.
type HoldResult struct {
	Status   int      `json:"status"`             // the backend's HTTP status, 0 when it was not reached
	Memories []string `json:"memories,omitempty"` // ids that the backend gave
	Detail   string   `json:"detail,omitempty"`   // for a person; quotes no content
	// Again reports that the write was sent before and the backend does not have it. The
	// earlier attempt was charged.
	Again bool `json:"again,omitempty"`
	// Cleared reports that everything of its owner was deleted after it was held.
	Cleared bool `json:"cleared,omitempty"`
}

// HoldContent is the part of a hold that is encrypted at rest. A query and
// headers are in it because a write may carry its text there.
type HoldContent struct {
	Query  string `json:"query,omitempty"`
	Header Header `json:"header,omitempty"` // selected by the gate; never a credential
	Body   []byte `json:"body,omitempty"`
	// Reserved is how many memories were charged when the write was held.
	Reserved int64 `json:"reserved,omitempty"`
	// Objects are the ids of what the write changes, by the names that it has for
	// them: a block's label. An approval is for those.
	Objects map[string]string `json:"objects,omitempty"`
	// Author is the author, as known at the time of the write.
	Author *Principal `json:"author,omitempty"`
	// Before are the hashes of the texts that the write replaces or deletes, as they
	// were when it was held, by the memories' ids.
	Before map[string]string `json:"before,omitempty"`
	// Texts are the operation's items, in their order: Finding.Item and its
	// span point into them.
	Texts []HeldText `json:"texts,omitempty"`
	// Rewritten are the texts that replace some of them, by their pointers. Body is
	// the rewritten one if the write waits, and the original if it was sent.
	Rewritten []HeldText `json:"rewritten,omitempty"`
}

// HeldText is one item of a held write.
type HeldText struct {
	Pointer string `json:"pointer"`
	Text    string `json:"text"`
}

// HoldsFull is the error of a store of holds in which as many of one caller, or
// of one end user of it, wait as may. It is a refusal and no breakage.
type HoldsFull struct {
	Key     string // "holds/PRINCIPAL", "holds/PRINCIPAL/USER", "holds/anonymous", or "holds" of a tenant
	Limit   int
	Setting string // that the limit comes from
}

// Error makes HoldsFull an error.
func (h *HoldsFull) Error() string {
	return fmt.Sprintf("%s: %d writes wait for review", h.Key, h.Limit)
}

// ErrNoReviewer is the error of a store of holds without reviewers. It is a
// refusal, not breakage.
var ErrNoReviewer = errors.New("there is no reviewer for held writes")

// HoldFilter selects holds. Empty fields select all.
type HoldFilter struct {
	State              HoldState
	Open               bool    // pending, approved or replaying
	Tenant             *string // nil is every one, "" those without
	Backend, Principal string
	Session            string
	Similarity         string
	// NotPolicy excludes holds that this version of the rules ruled on last.
	NotPolicy     string
	Since, Before time.Time // Created in [Since, Before)
	// After is the Cursor of the page before.
	After string
	// Limit is the size of a page; 0 is 50, at most 500.
	Limit int
}

// HoldPage is a page of holds, oldest first.
type HoldPage struct {
	Holds []HeldWrite `json:"holds"`
	// Next is the cursor of the next page, "" on the last.
	Next string `json:"next,omitempty"`
}

// Review is a reviewer's decision on a held write or a memory.
type Review struct {
	Reviewer string
	Note     string
	// Need is how many distinct reviewers must agree; less than one is one.
	Need int
	// AuthorGone is why the author could no longer write, as the reviewer was
	// informed; "" if it still could.
	AuthorGone string
}

// Lapsed explains why an author could no longer write, by its authentication
// method.
func (p Principal) Lapsed() string {
	switch p.Method {
	case "key":
		return "the key of the author was removed since"
	case "oidc":
		return "a token of the author would not be accepted any more"
	case "spiffe":
		return "a certificate of the author would not be accepted any more"
	}
	return "the author presented nothing, and who does is not taken for it any more"
}

// TellAuthorGone adds to the reasons of a hold that the reviewer was informed why
// its author could no longer write.
func (h *HeldWrite) TellAuthorGone(why string) {
	h.Reasons = append(h.Reasons, Reason{Code: IdentityInvalid, Detail: why + "; its approver was notified"})
}

// ToldAuthorGone reports whether that was noted. A write by an invalid credential
// is refused and never held, so that no other reason of a hold has this code.
func (h *HeldWrite) ToldAuthorGone() bool {
	return slices.ContainsFunc(h.Reasons, func(r Reason) bool { return r.Code == IdentityInvalid })
}

// Tallied is the result of a review.
type Tallied struct {
	// Settled is set once enough reviewers agreed.
	Settled bool `json:"settled"`
	// Have of Need reviewers agreed.
	Have int `json:"have"`
	Need int `json:"need"`
}

// Replay is a claim to send one approved write upstream.
type Replay struct {
	Hold    HeldWrite
	Content HoldContent
	// Token proves the claim to Finish, Fail and Release.
	Token string
}

// Reevaluation is a new verdict on a pending hold.
type Reevaluation struct {
	// Verdict: Hold leaves it waiting with the new reasons. Deny rejects it if
	// Reject is set, Allow and Amend approve it if Release is; otherwise it remains
	// waiting with the verdict recorded.
	Verdict         Verdict
	Reject, Release bool
	Reasons         []Reason
	Findings        []Finding
	Score           PerMille
	// Policy is the version of the rules. Empty: there is no verdict, and the
	// hold stays as it is.
	Policy string
}

// RulesReviewer is the reviewer of holds that a change of the rules to a version
// settles. It is not a person: what it admits is not confirmed by one.
func RulesReviewer(version string) string { return rulesReviewer + version }

// ByRules reports whether the rules made the final decision on a hold.
func (h *HeldWrite) ByRules() bool { return strings.HasPrefix(h.Reviewer, rulesReviewer) }

const rulesReviewer = "rules:"

// NoticeKind is the subject of a notice.
type NoticeKind string

// The notices.
const (
	NoticeHold   NoticeKind = "hold.created"
	NoticeAged   NoticeKind = "hold.aged"
	NoticeRuled  NoticeKind = "hold.reevaluated"
	NoticeLocked NoticeKind = "session.locked"
	NoticeEnded  NoticeKind = "session.ended"
	// A stored memory was flagged or quarantined, or the current rules would do so
	// to one that a person has validated.
	NoticeFlagged     NoticeKind = "memory.flagged"
	NoticeQuarantined NoticeKind = "memory.quarantined"
	NoticeMemoryRuled NoticeKind = "memory.reevaluated"
)

// Notice is a message for external subscribers. It has no content.
type Notice struct {
	ID      string     `json:"id"`
	Kind    NoticeKind `json:"kind"`
	Tenant  string     `json:"tenant"`
	Subject string     `json:"subject"` // id of the hold, session or memory
	Created time.Time  `json:"created"`
	// Data is the JSON of the hold, the session or the memory's status.
	Data []byte `json:"-"`
	// Attempts is the number of failed deliveries.
	Attempts int `json:"-"`
}

// Outcome is the result of a request that memproxy sends on behalf of somebody: an
// approved write, or a rollback. The zero value is unknown: the request may have
// been processed, and only the backend can tell.
type Outcome uint8

// The outcomes.
const (
	OutcomeUnknown  Outcome = iota // the backend may have taken it
	OutcomeDone                    // the backend took it
	OutcomeRefused                 // memproxy refused it; nothing was sent
	OutcomeRejected                // the backend refused it
	OutcomeUnsent                  // nothing was sent; another attempt may succeed
	OutcomeDenied                  // the backend refused memproxy's credential, and so did nothing
)

// Sent is the result of a request that memproxy sends on behalf of somebody.
type Sent struct {
	Outcome Outcome
	Result  HoldResult // of OutcomeRefused its Detail is the reason
	Err     error      // why, of OutcomeUnsent and OutcomeUnknown
}

const unauthorized, requestTimeout = 401, 408

// Answered is the outcome of a request that the backend answered. A backend that
// breaks or takes too long may have written before it did.
func Answered(r HoldResult) Sent {
	switch {
	case r.Status >= 200 && r.Status < 300:
		return Sent{Outcome: OutcomeDone, Result: r}
	case r.Status == unauthorized:
		r.Detail = "the backend refuses memproxy's credential: see backends[].credential"
		return Sent{Outcome: OutcomeDenied, Result: r}
	case r.Status >= 300 && r.Status < 500 && r.Status != requestTimeout:
		return Sent{Outcome: OutcomeRejected, Result: r}
	}
	return Sent{Result: r}
}

// Unsent is the outcome of a request that did not leave.
func Unsent(err error) Sent { return Sent{Outcome: OutcomeUnsent, Err: err} }

// ErrAway says that there was no connection to a backend.
var ErrAway = errors.New("no connection to the backend")

// SentOrNot is the outcome of a request of which an error leaves open whether it
// was taken.
func SentOrNot(err error) Sent { return Sent{Err: err} }
