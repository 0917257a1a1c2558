package review

import (
	"net/http"
	"strings"

	"github.com/memproxy/memproxy"
)

// route is one route of the API, from which serving, documentation, client and
// commands are derived.
type route struct {
	method, path string
	op           string // operationId
	act          string // its name in the audit log, "" if it changes nothing
	about        string
	query        []param
	in           any  // zero value of the body, nil: none
	out          any  // zero value of the answer
	lasts        bool // its duration depends on the size of a store
	pages        *paging
	handle       func(*call) (any, error)
}

// param is a query parameter.
type param struct{ name, about string }

// paging describes how a route's pages are read to the end.
type paging struct {
	cursor string // parameter for the position after the previous page
	join   any    // func(all *Out, page Out) (next string)
}

// limitParam is the parameter for the size of a page.
const limitParam = "limit"

// paged makes a route answer in pages. Join appends a page and returns the cursor
// of the next one, "" at the end.
func paged[Out any](rt route, cursor param, join func(all *Out, page Out) (next string)) route {
	rt.query = append(rt.query, cursor, param{limitParam, "size of a page, at most 500"})
	rt.pages = &paging{cursor.name, join}
	return rt
}

// reasoned is a body with a reason, which every action has.
type reasoned interface{ why() string }

// get returns a route that reads.
func get[Out any](path, op, about string, query []param, do func(*call) (Out, error)) route {
	var out Out
	return route{
		method: http.MethodGet, path: path, op: op, about: about, query: query, out: out,
		handle: func(c *call) (any, error) { return do(c) },
	}
}

// post returns a route that acts, with a reason.
func post[In reasoned, Out any](path, op, act, about string, query []param, do func(*call, In) (Out, error)) route {
	var in In
	var out Out
	return route{
		method: http.MethodPost, path: path, op: op, act: act, about: about, query: query, in: in, out: out,
		handle: func(c *call) (any, error) {
			var in In
			if err := c.body(&in); err != nil {
				return nil, err
			}
			if c.reason = in.why(); strings.TrimSpace(c.reason) == "" {
				return nil, badRequest("a reason is required; it is recorded")
			}
			return do(c, in)
		},
	}
}

// original lets a route return the original content on request, which is recorded.
func (rt route) original() route {
	rt.act = "content"
	rt.query = append(rt.query,
		param{"content", `"full": as it is, not sanitised; takes the role content and a confirmation`},
		param{"confirm", "the confirmation that the first such request was answered with"})
	return rt
}

// lasting marks a route whose duration depends on the size of a store.
func (rt route) lasting() route {
	rt.lasts = true
	return rt
}

// role is the role that a route requires: to view, or to review.
func (rt route) role() Role {
	if rt.method == http.MethodGet {
		return RoleView
	}
	return RoleReview
}

func routes() []route {
	kind := param{"kind", `what the id names; "memory" when left out`}
	tenant := param{"tenant", "the tenant; may be left out by who has one only"}
	next := param{"cursor", "next of the page before"}
	const memory = "/v1/memories/{backend}/{id}"
	return []route{
		paged(get("/v1/holds", "listHolds", "Held writes, oldest first, a page at a time.", []param{
			{"state", "pending, approved, rejected, replaying, done or failed"}, tenant, {"backend", "the backend's name"},
			{"principal", "id of the author"}, {"session", "id of the session"}, {"similarity", "a group of similar holds"},
			{"since", "created at or after, RFC 3339 or an age (24h, 7d)"}, {"before", "created before, RFC 3339 or an age"},
		}, listHolds), next, func(all *memproxy.HoldPage, page memproxy.HoldPage) string {
			all.Holds, all.Next = append(all.Holds, page.Holds...), page.Next
			return page.Next
		}),
		get("/v1/holds/{id}", "showHold", "A held write with its texts, sanitised.", nil, showHold).original(),
		get("/v1/holds/{id}/patterns/{pattern}", "showHoldPattern", "What one placeholder of a held write stands for, by its reference (PATTERN_001); its words on request only.",
			[]param{{"pointer", "which of several texts: its pointer"}}, holdPattern).original(),
		post("/v1/holds/{id}/approve", "approveHold", "hold.approve", "Agree to a held write. Once enough reviewers did it is sent, once.", nil, approveHold),
		post("/v1/holds/{id}/reject", "rejectHold", "hold.reject", "Give a held write up.", nil, rejectHold),
		post("/v1/holds/{id}/resolve", "resolveHold", "hold.resolve", "Say what became of a write of which it is not known whether it was sent.", nil, resolveHold),
		post("/v1/holds/{id}/shred", "shredHold", "hold.shred", "Destroy a held write's content, for good.", nil, shredHold),
		post("/v1/holds/batch", "batchHolds", "hold.batch", "Approve or reject all waiting holds of a similarity group, as they were listed.", nil, batchHolds),
		paged(get("/v1/sessions", "listSessions", "What is locked, whose it is, why and until when; or all records of rejections.", []param{
			tenant, {"principal", "id of the caller"}, {"all", `"true": what is not locked, too`},
		}, listSessions), next, func(all *memproxy.SessionPage, page memproxy.SessionPage) string {
			all.Sessions, all.Next = append(all.Sessions, page.Sessions...), page.Next
			return page.Next
		}),
		get("/v1/sessions/{id}/summary", "sessionSummary", "What was refused in a session and why.", []param{tenant}, sessionSummary),
		post("/v1/sessions/{id}/unlock", "unlockSession", "session.unlock", "Let a locked session write again.", nil, unlockSession),
		paged(get(memory+"/history", "memoryHistory", "A memory's versions, the newest first, without texts.", []param{kind}, memoryHistory),
			param{"before", "versions below this number"}, func(all *HistoryAnswer, page HistoryAnswer) string {
				all.Versions, all.Before = append(all.Versions, page.Versions...), page.Before
				return page.next()
			}),
		get(memory+"/versions/{version}", "memoryVersion", "One version; its text on request only.", []param{kind}, memoryVersion).original(),
		get(memory+"/patterns/{pattern}", "memoryPattern", "What one placeholder of a flagged memory stands for, by its reference (PATTERN_001); its words on request only.",
			[]param{kind}, memoryPattern).original(),
		get(memory+"/trace", "memoryTrace", "Everything that is known of a memory: author, state, versions, corrections, dissent, the state of its chain.", []param{kind}, memoryTrace),
		post(memory+"/pin", "pinMemory", "memory.pin", "Pin a version, or the memory itself, or unpin it.", []param{kind}, pinMemory),
		post(memory+"/rollback", "rollbackMemory", "memory.rollback", "Make a memory in the backend exactly what a version of it was.", []param{kind}, rollbackMemory),
		post(memory+"/promote", "promoteMemory", "memory.promote", "Agree to show a memory that waits for review.", []param{kind}, promoteMemory),
		post("/v1/sweep", "sweep", "sweep", "Compare what backends hold, and the chains of versions, with what went through memproxy. Lasts as long as they are large.", nil, sweep).lasting(),
		post("/v1/seal", "seal", "seal", "Take over what a backend held before memproxy, as a tenant's and with the lowest trust.", nil, seal).lasting(),
		post("/v1/chains/accept", "acceptChain", "accept", "Take a tenant's broken chain of versions as it is, and go on from its present end.", nil, accept).lasting(),
		get("/v1/jobs", "listJobs", "What goes on in the background. Takes a reviewer of all tenants.", nil, listJobs),
		post("/v1/jobs/{id}/run", "runJob", "job.run", "Do it now, once. Lasts as long as it has to do. Takes a reviewer of all tenants.", nil, runJob).lasting(),
		get("/v1/openapi.json", "openAPI", "This document.", nil, func(*call) (map[string]any, error) { return OpenAPI(), nil }),
	}
}
