package review

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/cli"
)

// Reason is the body of an action without further members.
type Reason struct {
	Reason string `json:"reason"`
}

// ApproveRequest approves a held write.
type ApproveRequest struct {
	Reason string `json:"reason"`
	// AuthorInvalid approves the write although its author may no longer write.
	AuthorInvalid bool `json:"author_gone,omitempty"`
}

// Settled is the answer to an approval or a rejection.
type Settled struct {
	Hold memproxy.HeldWrite `json:"hold"`
	memproxy.VoteResult
}

// BatchRequest settles the holds of one similarity group.
type BatchRequest struct {
	Action     string    `json:"action"` // "approve" or "reject"
	Tenant     string    `json:"tenant,omitempty"`
	Similarity string    `json:"similarity"`
	Before     time.Time `json:"before"` // when the group was listed
	Expect     int       `json:"expect"` // number of holds in the group when it was listed
	Reason     string    `json:"reason"`
}

// BatchAnswer is the result of a batch.
type BatchAnswer = memproxy.ReviewedGroup

// ResolveRequest settles a write whose outcome is unknown.
type ResolveRequest struct {
	Outcome memproxy.HoldState `json:"outcome"` // done, failed, or approved, which sends the write
	Reason  string             `json:"reason"`
}

// tenant returns the tenant of a request: the named one, or the reviewer's only one. It
// returns nil, which is all tenants, to reviewers of all tenants.
func (c *call) tenant(named string) (*string, error) {
	switch {
	case named != "" && !c.allowed(named):
		return nil, problem(http.StatusNotFound, "unknown", "not a tenant that you review")
	case named != "":
		return &named, nil
	case c.who.Tenants.All:
		return nil, nil
	case len(c.who.Tenants.Values) == 1:
		return &c.who.Tenants.Values[0], nil
	}
	return nil, badRequest("name a tenant")
}

// time parses a time, or an age relative to now.
func (c *call) time(q url.Values, name string) (time.Time, error) {
	text := q.Get(name)
	if text == "" {
		return time.Time{}, nil
	}
	t, ok := cli.ParseMoment(text, c.api.opt.Clock())
	if !ok {
		return t, badRequest(name + " must be a time in RFC 3339 format or an age such as 24h or 7d")
	}
	return t, nil
}

// pageSize returns the size of a page, which readable has checked; 0 is the default.
func pageSize(q url.Values) int {
	n, _ := strconv.Atoi(q.Get(limitParam)) // absent: 0
	return n
}

// Values of the filter that select holds in more than one state.
const (
	anyState  = "all"
	openState = "open" // not settled yet
)

func isGroup(s string) bool {
	return len(s) == 16 && strings.Trim(s, "0123456789abcdef") == ""
}

func listHolds(c *call) (memproxy.HoldPage, error) {
	q := c.req.URL.Query()
	f := memproxy.HoldFilter{
		State: memproxy.HoldState(q.Get("state")), Backend: q.Get("backend"), Principal: q.Get("principal"),
		Session: q.Get("session"), Similarity: q.Get("similarity"), After: q.Get("cursor"), Limit: pageSize(q),
	}
	if f.Open = f.State == openState; f.Open || f.State == anyState {
		f.State = ""
	}
	if f.State != "" && !slices.Contains(memproxy.HoldStates[:], f.State) {
		return memproxy.HoldPage{}, badRequest(fmt.Sprintf("invalid state %q: want one of %s, %s, %s", f.State, openState, anyState, strings.Join(strings.Fields(strings.Trim(fmt.Sprint(memproxy.HoldStates), "[]")), ", ")))
	}
	if f.Similarity != "" && !isGroup(f.Similarity) {
		return memproxy.HoldPage{}, badRequest(fmt.Sprintf("invalid similarity %.40q: want a group of held writes, 16 hex digits, as in the column GROUP of memproxy holds list", f.Similarity))
	}
	if err := checkBackend(c, f.Backend); err != nil {
		return memproxy.HoldPage{}, err
	}
	var errs [3]error
	f.Tenant, errs[0] = c.tenant(q.Get("tenant"))
	f.Since, errs[1] = c.time(q, "since")
	f.Before, errs[2] = c.time(q, "before")
	if err := errors.Join(errs[:]...); err != nil {
		return memproxy.HoldPage{}, err
	}
	page, err := c.api.opt.Holds.List(c.ctx(), f)
	if err == nil && len(page.Holds) == 0 && f.After == "" {
		err = checkNames(c, f.Tenant, f.Principal, func(tenant *string, principal string) (bool, error) {
			any, err := c.api.opt.Holds.List(c.ctx(), memproxy.HoldFilter{Tenant: tenant, Principal: principal, Limit: 1})
			return len(any.Holds) > 0, err
		})
	}
	return page, err
}

// hold returns the hold in the path, if it belongs to one of the reviewer's tenants.
func (c *call) hold() (memproxy.HeldWrite, error) {
	h, err := c.api.opt.Holds.Get(c.ctx(), c.req.PathValue("id"))
	if err == nil && !c.allowed(h.Tenant) {
		err = notFound()
	}
	h.Votes = slices.DeleteFunc(h.Votes, func(id string) bool { return !c.api.eligible(id, h.Tenant) })
	return h, err
}

func showHold(c *call, h memproxy.HeldWrite) (HoldView, error) {
	view := HoldView{HeldWrite: h}
	_, content, err := c.api.opt.Holds.Content(c.ctx(), h.ID)
	if view.Gone = errors.Is(err, memproxy.ErrGone); err != nil && !view.Gone {
		return HoldView{}, err
	}
	view.AuthorInvalid = c.api.Runner.authorInvalid(content)
	full, err := c.wantsFull("hold/"+h.ID, func() error { return c.record(h.Tenant, h.Backend, h.ID, h.ID) })
	switch {
	case err != nil:
		return HoldView{}, err
	case view.Gone:
	case full:
		view.Content = &ContentView{
			Warning: warning, Query: content.Query, Header: content.Header, Body: string(content.Body), Texts: content.Texts,
		}
	default:
		view.Texts = sanitised(h, content)
	}
	return view, nil
}

// wantsFull reports whether the request asks for original content and may have it: the
// reviewer needs the role and a confirmation, and the access must be recorded.
func (c *call) wantsFull(subject string, record func() error) (bool, error) {
	switch c.req.URL.Query().Get("content") {
	case "":
		return false, nil
	case "full":
	default:
		return false, badRequest("content must be full or absent")
	}
	if !c.has(RoleContent) {
		return false, problem(403, "role", "this requires the role "+string(RoleContent))
	}
	if err := c.confirm(subject); err != nil {
		return false, err
	}
	return true, record()
}

// oneReviewer is the tally of an action for which one reviewer suffices.
var oneReviewer = memproxy.VoteResult{Settled: true, Have: 1, Need: 1}

// decide returns the handler of a reviewer's decision on the hold in the path, which
// answers with the hold's new state. The decision is recorded before it takes effect.
// Authors may not decide on their own holds. do returns the tally, and whether the write
// is to be sent now.
func decide[In any](do func(*call, *memproxy.HeldWrite, In) (memproxy.VoteResult, bool, error)) func(*call, In) (Settled, error) {
	return func(c *call, in In) (Settled, error) {
		h, err := c.hold()
		if err == nil {
			err = cmp.Or(c.record(h.Tenant, h.Backend, h.ID, h.ID), c.who.refuseOwn(h.Principal))
		}
		if err != nil {
			return Settled{}, err
		}
		tally, send, err := do(c, &h, in)
		switch {
		case err != nil:
			return Settled{}, err
		case send:
			return c.send(h.ID, tally)
		}
		h, err = c.hold()
		return Settled{h, tally}, err
	}
}

func approveHold(c *call, h *memproxy.HeldWrite, in ApproveRequest) (tally memproxy.VoteResult, send bool, err error) {
	review := c.review(in.Reason)
	if review.AuthorInvalid, err = c.authorInvalid(h.ID); err != nil {
		return tally, false, err
	}
	if review.AuthorInvalid != "" && !in.AuthorInvalid {
		return tally, false, problemAuthorInvalid(review.AuthorInvalid)
	}
	tally, err = c.api.opt.Holds.Approve(c.ctx(), h.ID, review)
	return tally, tally.Settled, err
}

func rejectHold(c *call, h *memproxy.HeldWrite, in Reason) (memproxy.VoteResult, bool, error) {
	return oneReviewer, false, c.api.opt.Holds.Reject(c.ctx(), h.ID, c.review(in.Reason))
}

func shredHold(c *call, h *memproxy.HeldWrite, in Reason) (memproxy.VoteResult, bool, error) {
	return oneReviewer, false, c.api.opt.Holds.Shred(c.ctx(), h.ID, c.review(in.Reason))
}

func resolveHold(c *call, h *memproxy.HeldWrite, in ResolveRequest) (memproxy.VoteResult, bool, error) {
	to, err := c.api.opt.Holds.Resolve(c.ctx(), h.ID, in.Outcome, memproxy.HoldResult{Detail: "resolved by " + c.who.ID})
	return oneReviewer, to == memproxy.HoldApproved, err
}

func (c *call) send(id string, tally memproxy.VoteResult) (Settled, error) {
	h, err := c.api.Runner.Replay(c.ctx(), id)
	if err == nil && h.State == memproxy.HoldRejected { // rejected by another reviewer before it was sent
		return Settled{}, fmt.Errorf("%w: the hold is rejected", memproxy.ErrState)
	}
	if err != nil || h.State == memproxy.HoldApproved {
		c.api.Runner.Wake() // the runner retries until the write is sent
	}
	return Settled{h, tally}, err
}

// problemAuthorInvalid tells a reviewer that the author of a write is no longer known.
func problemAuthorInvalid(why string) Problem {
	return problem(http.StatusConflict, "author_gone", why+"; approve with author_gone (--author-gone) to send it anyway")
}

// authorInvalid returns why the author of a hold may no longer write, or "" if it may. If
// the hold does not exist, the approval itself reports that.
func (c *call) authorInvalid(id string) (why string, err error) {
	_, content, err := c.api.opt.Holds.Content(c.ctx(), id)
	switch {
	case errors.Is(err, memproxy.ErrGone):
		return "", nil
	case err != nil:
		return "", err
	}
	return c.api.Runner.authorInvalid(content), nil
}

func batchHolds(c *call, in BatchRequest) (BatchAnswer, error) {
	if in.Action != "approve" && in.Action != "reject" {
		return BatchAnswer{}, badRequest("action must be approve or reject")
	}
	c.act = "batch." + in.Action
	if in.Similarity == "" || in.Before.IsZero() || in.Expect < 1 || in.Expect > 500 {
		return BatchAnswer{}, badRequest("a batch needs a similarity, a time and how many are expected (at most 500; an earlier time leaves out newer ones)")
	}
	tenant, err := c.tenant(in.Tenant)
	if err != nil {
		return BatchAnswer{}, err
	}
	whose := in.Tenant
	if tenant != nil {
		whose = *tenant
	}
	if err := c.record(whose, "", "", in.Similarity); err != nil {
		return BatchAnswer{}, err
	}
	if in.Action == "approve" {
		if err := c.checkAuthors(tenant, in); err != nil {
			return BatchAnswer{}, err
		}
	}
	done, err := c.api.opt.Holds.ReviewGroup(c.ctx(), tenant, in.Similarity, in.Before, in.Expect, in.Action == "approve", c.review(in.Reason))
	if err == nil {
		c.api.Runner.Wake() // the request does not wait for the sending of possibly hundreds of holds
	}
	return done, err
}

// checkAuthors refuses the approval of a group that contains a write whose author may no
// longer write: such a hold must be approved individually.
func (c *call) checkAuthors(tenant *string, in BatchRequest) error {
	page, err := c.api.opt.Holds.List(c.ctx(), memproxy.HoldFilter{
		State: memproxy.HoldPending, Tenant: tenant, Similarity: in.Similarity, Before: in.Before, Limit: 500,
	})
	for i := range page.Holds {
		gone, err := c.authorInvalid(page.Holds[i].ID)
		if err != nil {
			return err
		}
		if gone != "" {
			return problemAuthorInvalid(gone)
		}
	}
	return err
}
