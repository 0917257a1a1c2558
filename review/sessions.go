package review

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/memproxy/memproxy"
)

// SessionSummary is a session's record with a description in plain words.
type SessionSummary struct {
	memproxy.Session
	Text string `json:"text"`
}

// UnlockRequest unlocks a session's writes.
type UnlockRequest struct {
	Tenant string `json:"tenant,omitempty"`
	Reason string `json:"reason"`
}

// session returns the session in the path, of the named tenant.
func (c *call) session(named string) (memproxy.Session, error) {
	tenant, err := c.tenant(named)
	if err != nil {
		return memproxy.Session{}, err
	}
	return c.api.opt.Sessions.Get(c.ctx(), tenant, c.req.PathValue("id"))
}

func listSessions(c *call) (memproxy.SessionPage, error) {
	q := c.req.URL.Query()
	tenant, err := c.tenant(q.Get("tenant"))
	if err != nil {
		return memproxy.SessionPage{}, err
	}
	f := memproxy.SessionFilter{Tenant: tenant, Principal: q.Get("principal"), After: q.Get("cursor"), Limit: pageSize(q)}
	if f.All, err = strconv.ParseBool(cmp.Or(q.Get("all"), "false")); err != nil {
		return memproxy.SessionPage{}, badRequest("all is true or false")
	}
	page, err := c.api.opt.Sessions.List(c.ctx(), f)
	if err == nil && len(page.Sessions) == 0 && f.After == "" {
		err = checkNames(c, f.Tenant, f.Principal, func(tenant *string, principal string) (bool, error) {
			any, err := c.api.opt.Sessions.List(c.ctx(), memproxy.SessionFilter{Tenant: tenant, Principal: principal, All: true, Limit: 1})
			return len(any.Sessions) > 0, err
		})
	}
	return page, err
}

func sessionSummary(c *call) (SessionSummary, error) {
	s, err := c.session(c.req.URL.Query().Get("tenant"))
	if err != nil {
		return SessionSummary{}, err
	}
	return SessionSummary{s, Describe(s)}, nil
}

func unlockSession(c *call, in UnlockRequest) (SessionSummary, error) {
	s, err := c.session(in.Tenant)
	if err != nil {
		return SessionSummary{}, err
	}
	if err := c.record(s.Tenant, "", "", s.ID); err != nil {
		return SessionSummary{}, err
	}
	if err := c.api.opt.Sessions.Unlock(c.ctx(), s.Tenant, s.ID, c.review(in.Reason)); err != nil {
		return SessionSummary{}, err
	}
	s, err = c.api.opt.Sessions.Get(c.ctx(), &s.Tenant, s.ID)
	return SessionSummary{s, Describe(s)}, err
}

// Describe explains in plain words what was refused in a session and why.
func Describe(s memproxy.Session) string {
	var why []string
	for _, r := range s.Reasons {
		why = append(why, fmt.Sprintf("%s%s (%d)", r.Code, when(r.Rule != "", " by rule %s", r.Rule), r.Count))
	}
	locked, counted := !s.Locked.IsZero(), fmt.Sprintf("%s held for review, %s refused.", writes(s.Held), writes(s.Rejections))
	if s.Kind != memproxy.SessionNamed { // held writes, and refusals that lock nobody, are listed with their session only
		counted = fmt.Sprintf("refusals that count: %d.", s.Rejections)
	}
	return fmt.Sprintf("%s, begun %s: %s", whose(s), formatTime(s.Begun), counted) +
		when(locked, " Its writes are locked since %s, until %s or until a reviewer unlocks it.", formatTime(s.Locked), formatTime(s.Until)) +
		when(!locked && !s.Unlocked.IsZero(), " It was locked, and unlocked by %s.", s.UnlockedBy) +
		when(len(why) > 0, " Why: %s.", strings.Join(why, ", "))
}

// whose describes the subject of a rejection record.
func whose(s memproxy.Session) string {
	user := when(s.User != "", " for the end user %s", s.User)
	switch s.Kind {
	case memproxy.SessionUser:
		return "All writes of " + s.Principal + cmp.Or(user, " without a named end user")
	case memproxy.SessionPrincipal:
		return "All writes of " + s.Principal
	}
	return "Session " + cmp.Or(s.Name, s.ID) + " of " + s.Principal + user
}

func writes(n int) string {
	if n == 1 {
		return "1 operation"
	}
	return fmt.Sprint(n, " operations")
}
