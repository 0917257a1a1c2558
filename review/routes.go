package review

import "github.com/memproxy/memproxy"

// route is one row of the API: what is served and what is documented.
type route struct {
	method, path string
	op           string // operationId
	act          string // what it is in the audit log, "" for what changes nothing
	role         Role
	about        string
	query        []param
	in           any // zero value of the body, nil: none
	out          any // zero value of the answer
	handle       func(*call) (any, error)
}

// param is a query parameter.
type param struct{ name, about string }

func routes() []route {
	content := param{"content", `"full": as it is, not sanitised; takes the role content and a confirmation`}
	confirm := param{"confirm", "the confirmation that the first such request was answered with"}
	kind := param{"kind", `what the id names; "memory" when left out`}
	tenant := param{"tenant", "the tenant; may be left out by who has one only"}
	const memory = "/v1/memories/{backend}/{id}"
	return []route{
		{"GET", "/v1/holds", "listHolds", "", RoleView, "Held writes, oldest first, a page at a time.", []param{
			{"state", "pending, approved, rejected, replaying, done or failed"}, tenant, {"backend", "the backend's name"},
			{"principal", "id of the author"}, {"session", "id of the session"}, {"similarity", "a group of similar holds"},
			{"since", "created at or after, RFC 3339 or an age (24h, 7d)"}, {"before", "created before, RFC 3339 or an age"},
			{"cursor", "next of the page before"}, {"limit", "size of a page, at most 500"},
		}, nil, memproxy.HoldPage{}, listHolds},
		{"GET", "/v1/holds/{id}", "showHold", "content", RoleView, "A held write with its texts, sanitised.", []param{content, confirm}, nil, HoldView{}, showHold},
		{"GET", "/v1/holds/{id}/patterns/{pattern}", "showHoldPattern", "content", RoleView, "What one placeholder of a held write stands for, by its reference (PATTERN_001); its words on request only.",
			[]param{{"pointer", "which of several texts: its pointer"}, content, confirm}, nil, PatternView{}, holdPattern},
		{"POST", "/v1/holds/{id}/approve", "approveHold", "hold.approve", RoleReview, "Agree to a held write. Once enough reviewers did it is sent, once.", nil, ApproveRequest{}, Settled{}, approveHold},
		{"POST", "/v1/holds/{id}/reject", "rejectHold", "hold.reject", RoleReview, "Give a held write up.", nil, Reason{}, Settled{}, rejectHold},
		{"POST", "/v1/holds/{id}/resolve", "resolveHold", "hold.resolve", RoleReview, "Say what became of a write of which it is not known whether it was sent.", nil, ResolveRequest{}, Settled{}, resolveHold},
		{"POST", "/v1/holds/{id}/shred", "shredHold", "hold.shred", RoleReview, "Destroy a held write's content, for good.", nil, Reason{}, Settled{}, shredHold},
		{"POST", "/v1/holds/batch", "batchHolds", "hold.batch", RoleReview, "Approve or reject all waiting holds of a similarity group, as they were listed.", nil, BatchRequest{}, BatchAnswer{}, batchHolds},
		{"GET", "/v1/sessions", "listSessions", "", RoleView, "What is locked, whose it is, why and until when; or all records of rejections.", []param{
			tenant, {"principal", "id of the caller"}, {"all", `"true": what is not locked, too`},
			{"cursor", "next of the page before"}, {"limit", "size of a page, at most 500"},
		}, nil, memproxy.SessionPage{}, listSessions},
		{"GET", "/v1/sessions/{id}/summary", "sessionSummary", "", RoleView, "What was refused in a session and why.", []param{tenant}, nil, SessionSummary{}, sessionSummary},
		{"POST", "/v1/sessions/{id}/unlock", "unlockSession", "session.unlock", RoleReview, "Let a locked session write again.", nil, UnlockRequest{}, SessionSummary{}, unlockSession},
		{"GET", memory + "/history", "memoryHistory", "", RoleView, "A memory's versions, the newest first, without texts.",
			[]param{kind, {"before", "versions below this number"}, {"limit", "size of a page, at most 500"}}, nil, HistoryAnswer{}, memoryHistory},
		{"GET", memory + "/versions/{version}", "memoryVersion", "content", RoleView, "One version; its text on request only.", []param{kind, content, confirm}, nil, VersionView{}, memoryVersion},
		{"GET", memory + "/patterns/{pattern}", "memoryPattern", "content", RoleView, "What one placeholder of a flagged memory stands for, by its reference (PATTERN_001); its words on request only.",
			[]param{kind, content, confirm}, nil, PatternView{}, memoryPattern},
		{"GET", memory + "/trace", "memoryTrace", "", RoleView, "Everything that is known of a memory: author, state, versions, corrections, dissent, the state of its chain.", []param{kind}, nil, TraceAnswer{}, memoryTrace},
		{"POST", memory + "/pin", "pinMemory", "memory.pin", RoleReview, "Pin a version, or the memory itself, or unpin it.", []param{kind}, PinRequest{}, PinRequest{}, pinMemory},
		{"POST", memory + "/rollback", "rollbackMemory", "memory.rollback", RoleReview, "Make a memory in the backend exactly what a version of it was.", []param{kind}, RollbackRequest{}, RollbackAnswer{}, rollbackMemory},
		{"POST", memory + "/promote", "promoteMemory", "memory.promote", RoleReview, "Agree to show a memory that waits for review.", []param{kind}, Reason{}, memproxy.Tallied{}, promoteMemory},
		{"POST", "/v1/sweep", "sweep", "sweep", RoleReview, "Compare what backends hold, and the chains of versions, with what went through memproxy. Lasts as long as they are large.", nil, SweepRequest{}, SweepReport{}, sweep},
		{"POST", "/v1/seal", "seal", "seal", RoleReview, "Take over what a backend held before memproxy, as a tenant's and with the lowest trust.", nil, SealRequest{}, SealReport{}, seal},
		{"POST", "/v1/chains/accept", "acceptChain", "accept", RoleReview, "Take a tenant's broken chain of versions as it is, and go on from its present end.", nil, AcceptRequest{}, AcceptReport{}, accept},
		{"GET", "/v1/jobs", "listJobs", "", RoleView, "What goes on in the background. Takes a reviewer of all tenants.", nil, nil, JobPage{}, listJobs},
		{"POST", "/v1/jobs/{id}/run", "runJob", "job.run", RoleReview, "Do it now, once. Lasts as long as it has to do. Takes a reviewer of all tenants.", nil, Reason{}, JobRun{}, runJob},
		{"GET", "/v1/openapi.json", "openAPI", "", RoleView, "This document.", nil, nil, map[string]any{}, func(*call) (any, error) { return OpenAPI(), nil }},
	}
}
