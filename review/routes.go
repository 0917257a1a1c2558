package review

import (
	"cmp"
	_ "embed" // openapi.json
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/memproxy/memproxy"
)

// route is one route of the API. The server, the documentation, the client and the
// commands are derived from it.
type route struct {
	method, path string
	op           string // operationId
	act          string // the action's name in the audit log; "" if it changes nothing
	about        string
	query        []param
	in           any  // zero value of the body; nil if it has none
	out          any  // zero value of the answer
	long         bool // the duration depends on the size of a store
	pages        *paging
	handle       func(*call) (any, error)
}

// param is a query parameter.
type param struct{ name, about string }

// paging describes how all pages of a route are read.
type paging struct {
	cursor string // parameter with the position after the previous page
	join   any    // func(all *Out, page Out) (next string)
}

const limitParam = "limit" // parameter for the size of a page

const maxPage = 500 // maximum size of a page

// paged makes a route answer in pages. join appends a page and returns the cursor of the
// next one; "" after the last.
func paged[Out any](rt route, cursor param, join func(all *Out, page Out) (next string)) route {
	rt.query = append(rt.query, cursor, param{limitParam, fmt.Sprintf("size of a page, from 1 to %d", maxPage)})
	rt.pages = &paging{cursor.name, join}
	return rt
}

// get returns a route that only reads.
func get[Out any](path, op, about string, query []param, do func(*call) (Out, error)) route {
	var out Out
	return route{
		method: http.MethodGet, path: path, op: op, about: about, query: query, out: out,
		handle: func(c *call) (any, error) { return do(c) },
	}
}

// of finds the object that a route's path names, if the reviewer may see it, and passes
// it to do.
func of[S, Out any](find func(*call) (S, error), do func(*call, S) (Out, error)) func(*call) (Out, error) {
	return func(c *call) (out Out, err error) {
		s, err := find(c)
		if err != nil {
			return out, err
		}
		return do(c, s)
	}
}

// post returns a route that performs an action, with a reason.
func post[In, Out any](path, op, act, about string, query []param, do func(*call, In) (Out, error)) route {
	var in In
	var out Out
	return route{
		method: http.MethodPost, path: path, op: op, act: act, about: about, query: query, in: in, out: out,
		handle: func(c *call) (any, error) {
			var in In
			if err := c.body(&in); err != nil {
				return nil, err
			}
			if strings.TrimSpace(c.reason) == "" {
				return nil, badRequest("a reason is required; it is recorded")
			}
			return do(c, in)
		},
	}
}

// body decodes a request's JSON, and its reason for the record. It accepts exactly the
// members of v, each once.
func (c *call) body(v any) error {
	media, _, err := mime.ParseMediaType(c.req.Header.Get("Content-Type"))
	if err != nil || media != "application/json" {
		return problem(http.StatusUnsupportedMediaType, "media_type", "the body is application/json")
	}
	text, err := io.ReadAll(http.MaxBytesReader(nil, c.req.Body, maxBody))
	var why Reason
	_ = json.Unmarshal(text, &why) // what cannot be read is refused below
	c.reason = why.Reason
	err = cmp.Or(err, json.Unmarshal(text, v, json.RejectUnknownMembers(true)))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return problem(http.StatusRequestEntityTooLarge, "too_large", "the body is too large")
	}
	if wrong, is := errors.AsType[*json.SemanticError](err); is && errors.Is(wrong.Err, json.ErrUnknownName) {
		return badRequest(fmt.Sprintf("unknown member %+.40q of the body", wrong.JSONPointer.LastToken()))
	}
	if err != nil {
		return badRequest("the body is not the documented JSON object")
	}
	return nil
}

// original lets a route return the original content on request. The access is recorded.
func (rt route) original() route {
	rt.act = "content"
	rt.query = append(rt.query,
		param{"content", `"full": the original, not sanitised; requires the role content and a confirmation`},
		param{"confirm", "the confirmation in the answer to the first such request"})
	return rt
}

// lasting marks a route whose duration depends on the size of a store.
func (rt route) lasting() route {
	rt.long = true
	return rt
}

// role returns the role that a route requires: to view, or to review.
func (rt route) role() Role {
	if rt.method == http.MethodGet {
		return RoleView
	}
	return RoleReview
}

func routes() []route {
	kind := param{"kind", `kind of the object; default "memory", or "object" for one without a text`}
	tenant := param{"tenant", "the tenant; optional for reviewers of one tenant"}
	next := param{"cursor", "the previous page's next"}
	const memory = "/v1/memories/{backend}/{id}"
	return []route{
		paged(get("/v1/holds", "listHolds", "Held writes, oldest first, a page at a time.", []param{
			{"state", "pending, approved, rejected, replaying, done, failed, rewritten, open (the first two and replaying) or all; default: all"}, tenant, {"backend", "the backend's name"},
			{"principal", "id of the author"}, {"session", "id of the session"}, {"similarity", "a group of similar holds"},
			{"since", "created at or after, RFC 3339 or an age (24h, 7d)"}, {"before", "created before, RFC 3339 or an age"},
		}, listHolds), next, func(all *memproxy.HoldPage, page memproxy.HoldPage) string {
			all.Holds, all.Next = append(all.Holds, page.Holds...), page.Next
			return page.Next
		}),
		get("/v1/holds/{id}", "showHold", "A held write with its texts, sanitised.", nil, of((*call).hold, showHold)).original(),
		get("/v1/holds/{id}/patterns/{pattern}", "showHoldPattern", "The content of one placeholder of a held write, by its reference (PATTERN_001); the original words on request only.",
			[]param{{"pointer", "JSON pointer of the text, if there are several"}}, of((*call).hold, holdPattern)).original(),
		post("/v1/holds/{id}/approve", "approveHold", "hold.approve", "Approve a held write. It is sent once, when enough reviewers have approved it.", nil, decide(approveHold)),
		post("/v1/holds/{id}/reject", "rejectHold", "hold.reject", "Reject a held write.", nil, decide(rejectHold)),
		post("/v1/holds/{id}/resolve", "resolveHold", "hold.resolve", "Settle a write whose outcome is unknown.", nil, decide(resolveHold)),
		post("/v1/holds/{id}/shred", "shredHold", "hold.shred", "Destroy a held write's content permanently.", nil, decide(shredHold)),
		post("/v1/holds/batch", "batchHolds", "hold.batch", "Approve or reject all waiting holds of a similarity group, if the group is as it was listed.", nil, batchHolds),
		paged(get("/v1/sessions", "listSessions", "Locked sessions with their owner, the reasons and the end of the lock; or all records of rejections.", []param{
			tenant, {"principal", "id of the caller"}, {"all", `"true": also those that are not locked`},
		}, listSessions), next, func(all *memproxy.SessionPage, page memproxy.SessionPage) string {
			all.Sessions, all.Next = append(all.Sessions, page.Sessions...), page.Next
			return page.Next
		}),
		get("/v1/sessions/{id}/summary", "sessionSummary", "What was refused in a session and why.", []param{tenant}, sessionSummary),
		post("/v1/sessions/{id}/unlock", "unlockSession", "session.unlock", "Unlock a session's writes.", nil, unlockSession),
		paged(get(memory+"/history", "memoryHistory", "A memory's versions, the newest first, without texts.", []param{kind}, of((*call).memory, memoryHistory)),
			param{"before", "versions below this number"}, func(all *HistoryAnswer, page HistoryAnswer) string {
				all.Versions, all.Before = append(all.Versions, page.Versions...), page.Before
				return page.next()
			}),
		get(memory+"/versions/{version}", "memoryVersion", "One version; its text on request only.", []param{kind}, of((*call).memory, memoryVersion)).original(),
		get(memory+"/patterns/{pattern}", "memoryPattern", "The content of one placeholder of a flagged memory, by its reference (PATTERN_001); the original words on request only.",
			[]param{kind}, of((*call).memory, memoryPattern)).original(),
		get(memory+"/trace", "memoryTrace", "Everything that is known about a memory: author, state, versions, corrections, dissent, the state of its chain.", []param{kind}, of(memoryOrStatus, memoryTrace)),
		post(memory+"/pin", "pinMemory", "memory.pin", "Pin a version (the newest if none is named), so that its text is kept and the memory does not expire, or unpin it.", []param{kind}, pinMemory),
		post(memory+"/rollback", "rollbackMemory", "memory.rollback", "Restore a version of a memory in the backend.", []param{kind}, rollbackMemory),
		post(memory+"/promote", "promoteMemory", "memory.promote", "Approve showing a memory that waits for review.", []param{kind}, promoteMemory),
		post("/v1/sweep", "sweep", "sweep", "Compare the backends' contents and the chains of versions with what went through memproxy. The duration depends on their size.", nil, sweep).lasting(),
		post("/v1/seal", "seal", "seal", "Take over memories that were in a backend before memproxy, for a tenant and with the lowest trust.", nil, seal).lasting(),
		post("/v1/chains/accept", "acceptChain", "accept", "Accept a tenant's broken chain of versions, and continue from its present end.", nil, accept).lasting(),
		get("/v1/jobs", "listJobs", "Background jobs. Requires a reviewer of all tenants.", nil, listJobs),
		post("/v1/jobs/{id}/run", "runJob", "job.run", "Run a job now, once. The duration depends on its work. Requires a reviewer of all tenants.", nil, runJob).lasting(),
		get("/v1/openapi.json", "openAPI", "This document.", nil, func(*call) (map[string]any, error) { return OpenAPI(), nil }),
	}
}

// openAPI is the API's description in OpenAPI 3.1. A test writes it from the routes and
// their types (make update).
//
//go:embed openapi.json
var openAPI []byte

// OpenAPI returns the API's description.
func OpenAPI() (described map[string]any) {
	_ = json.Unmarshal(openAPI, &described) // the file is as it was generated
	return described
}
