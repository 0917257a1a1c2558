package mem0

import (
	"sync"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/routetable"
)

// shape is the layout of a route's payload and answer.
type shape uint8

const (
	opaque  shape = iota // not decoded: the gate refuses, or the route is Pass
	addBody              // messages, identities, metadata
	search               // query and filters
	list                 // filters in the body
	query                // identities in the query only
	byID                 // one memory in the path
	update               // text and metadata of one memory
	batch                // memories[]
	event                // one receipt in the path
	entity               // one entity in the path
	config               // free-form settings, whose strings may steer the backend's model
)

// dialect is the server whose conventions a route follows.
type dialect uint8

const (
	hosted dialect = iota // trailing slash, update replaces metadata, {"error"}
	server                // no trailing slash, update merges metadata, {"detail"}
	openmem
)

// row is one line of the route table. In a path, {name} matches one segment. A trailing
// slash must match.
type row struct {
	method, path, id string
	kind             memproxy.Kind
	flags            flag
	shape            shape
	dialect          dialect
}

// changes reports whether a route changes the text or the metadata of memories.
func (r *row) changes() bool {
	return r.kind == memproxy.Correct && (r.shape == update || r.shape == batch) && r.id != "mem0.v1.feedback"
}

type flag uint8

const (
	bulk flag = 1 << iota
	steering
	derived
	pass   // neither reads nor writes memory
	public // pass, without identity and without record
	shared // of memories that everybody reads and writes: only administrators use them
)

// table has every route of the formats. Literal segments take precedence over
// parameters, in any order.
var table = [...]row{
	// Hosted platform: memories.
	{"POST", "/v3/memories/add/", "mem0.v3.add", memproxy.Learn, 0, addBody, hosted},
	{"POST", "/v1/memories/", "mem0.v1.add", memproxy.Learn, 0, addBody, hosted},
	{"POST", "/v3/memories/search/", "mem0.v3.search", memproxy.Recall, 0, search, hosted},
	{"POST", "/v2/memories/search/", "mem0.v2.search", memproxy.Recall, 0, search, hosted},
	{"POST", "/v1/memories/search/", "mem0.v1.search", memproxy.Recall, 0, search, hosted},
	{"POST", "/v3/memories/", "mem0.v3.list", memproxy.Recall, 0, list, hosted},
	{"POST", "/v2/memories/", "mem0.v2.list", memproxy.Recall, 0, list, hosted},
	{"GET", "/v1/memories/", "mem0.v1.list", memproxy.Recall, 0, query, hosted},
	{"GET", "/v1/memories/events/", "mem0.v1.history.all", memproxy.Recall, 0, query, hosted},
	{"GET", "/v1/memories/{id}/", "mem0.v1.get", memproxy.Recall, 0, byID, hosted},
	{"PUT", "/v1/memories/{id}/", "mem0.v1.update", memproxy.Correct, 0, update, hosted},
	{"DELETE", "/v1/memories/{id}/", "mem0.v1.delete", memproxy.Forget, 0, byID, hosted},
	{"DELETE", "/v1/memories/", "mem0.v1.delete.all", memproxy.Forget, bulk, query, hosted},
	{"GET", "/v1/memories/{id}/history/", "mem0.v1.history", memproxy.Recall, 0, byID, hosted},
	{"GET", "/v1/memories/{entity_type}/{entity_id}/", "mem0.v1.entity.memories", memproxy.Recall, 0, entity, hosted},
	{"PUT", "/v1/batch/", "mem0.v1.batch.update", memproxy.Correct, 0, batch, hosted},
	{"DELETE", "/v1/batch/", "mem0.v1.batch.delete", memproxy.Forget, 0, batch, hosted},
	{"GET", "/v1/event/{id}/", "mem0.v1.event", memproxy.Recall, 0, event, hosted},
	{"GET", "/v1/events/", "mem0.v1.events", memproxy.Recall, 0, query, hosted},
	// Hosted platform: content derived from memories.
	{"POST", "/v1/exports/", "mem0.v1.export", memproxy.Recall, derived | steering, list, hosted},
	{"POST", "/v1/exports/get/", "mem0.v1.export.get", memproxy.Recall, derived, list, hosted},
	{"POST", "/v1/summary/", "mem0.v1.summary", memproxy.Recall, derived, list, hosted},
	{"GET", "/v2/entities/user/{entity_id}/profile/", "mem0.v2.profile", memproxy.Recall, derived, entity, hosted},
	{"POST", "/v2/profiles/jobs/", "mem0.v2.profile.job", memproxy.Admin, steering, config, hosted},
	{"GET", "/v2/profiles/jobs/{job}/", "mem0.v2.profile.job.get", memproxy.Recall, derived, query, hosted}, // a job's answer may contain a profile
	{"GET", "/v2/profiles/settings/", "mem0.v2.profile.settings", memproxy.Admin, 0, query, hosted},
	{"POST", "/v2/profiles/settings/", "mem0.v2.profile.settings.set", memproxy.Admin, steering, config, hosted},
	// Hosted platform: entities.
	{"GET", "/v1/entities/", "mem0.v1.entities", memproxy.Recall, 0, query, hosted},
	{"GET", "/v1/entities/filters/", "mem0.v1.entities.filters", memproxy.Recall, derived, query, hosted},
	{"GET", "/v2/entities/{entity_type}/{entity_id}/", "mem0.v2.entity", memproxy.Recall, 0, entity, hosted},
	{"DELETE", "/v2/entities/{entity_type}/{entity_id}/", "mem0.v2.entity.delete", memproxy.Forget, bulk, entity, hosted},
	{"DELETE", "/v1/entities/{entity_type}/{number}/", "mem0.v1.entity.delete", memproxy.Forget, bulk, query, hosted},
	{"POST", "/v1/users/", "mem0.v1.user.create", memproxy.Learn, 0, addBody, hosted},
	{"POST", "/v1/agents/", "mem0.v1.agent.create", memproxy.Learn, 0, addBody, hosted},
	{"POST", "/v1/apps/", "mem0.v1.app.create", memproxy.Learn, 0, addBody, hosted},
	{"POST", "/v1/runs/", "mem0.v1.run.create", memproxy.Learn, 0, addBody, hosted},
	// Hosted platform: everything else.
	{"GET", "/v1/ping/", "mem0.ping", memproxy.Other, pass | public, query, hosted},
	{"POST", "/v1/feedback/", "mem0.v1.feedback", memproxy.Correct, 0, update, hosted},
	{"GET", "/v1/stats/", "mem0.v1.stats", memproxy.Other, pass | derived, query, hosted},
	{"POST", "/v1/agent-rush/memories/", "mem0.rush.add", memproxy.Learn, shared, addBody, hosted},
	{"POST", "/v1/agent-rush/memories/search/", "mem0.rush.search", memproxy.Recall, shared, search, hosted},
	{"POST", "/api/v1/auth/email_code/", "mem0.auth.code", memproxy.Admin, 0, config, hosted},
	{"POST", "/api/v1/auth/email_code/verify/", "mem0.auth.verify", memproxy.Admin, 0, config, hosted},
	{"POST", "/api/v1/auth/agent_mode/", "mem0.auth.agent", memproxy.Admin, 0, config, hosted},
	{"POST", "/api/v1/auth/agent_mode/caller/", "mem0.auth.agent.caller", memproxy.Admin, 0, config, hosted},
	{"*", "/api/v1/orgs/organizations/{rest...}", "mem0.orgs", memproxy.Admin, steering, config, hosted},
	{"*", "/api/v1/webhooks/{rest...}", "mem0.webhooks", memproxy.Admin, 0, config, hosted},

	// Self-hosted server.
	{"POST", "/memories", "mem0.server.add", memproxy.Learn, 0, addBody, server},
	{"GET", "/memories", "mem0.server.list", memproxy.Recall, 0, query, server},
	{"GET", "/memories/{id}", "mem0.server.get", memproxy.Recall, 0, byID, server},
	{"PUT", "/memories/{id}", "mem0.server.update", memproxy.Correct, 0, update, server},
	{"DELETE", "/memories/{id}", "mem0.server.delete", memproxy.Forget, 0, byID, server},
	{"DELETE", "/memories", "mem0.server.delete.all", memproxy.Forget, bulk, query, server},
	{"GET", "/memories/{id}/history", "mem0.server.history", memproxy.Recall, 0, byID, server},
	{"POST", "/search", "mem0.server.search", memproxy.Recall, 0, search, server},
	{"POST", "/configure", "mem0.server.configure", memproxy.Admin, steering, config, server},
	{"GET", "/configure", "mem0.server.configuration", memproxy.Admin, 0, query, server},
	{"GET", "/configure/providers", "mem0.server.providers", memproxy.Admin, 0, query, server},
	{"POST", "/generate-instructions", "mem0.server.instructions", memproxy.Admin, 0, config, server},
	{"POST", "/reset", "mem0.server.reset", memproxy.Admin, bulk, config, server},
	{"GET", "/entities", "mem0.server.entities", memproxy.Recall, 0, query, server},
	{"DELETE", "/entities/{entity_type}/{entity_id}", "mem0.server.entity.delete", memproxy.Forget, bulk, entity, server},
	{"GET", "/requests", "mem0.server.requests", memproxy.Admin, 0, query, server},
	{"*", "/auth/{rest...}", "mem0.server.auth", memproxy.Admin, 0, config, server},
	{"*", "/api-keys", "mem0.server.keys", memproxy.Admin, 0, config, server},
	{"*", "/api-keys/{key}", "mem0.server.key", memproxy.Admin, 0, config, server},
	{"GET", "/", "mem0.server.root", memproxy.Other, pass | public, query, server},
	{"GET", "/docs", "mem0.server.docs", memproxy.Other, pass | public, query, server},
	{"GET", "/redoc", "mem0.server.redoc", memproxy.Other, pass | public, query, server},
	{"GET", "/openapi.json", "mem0.server.openapi", memproxy.Other, pass | public, query, server},

	// OpenMemory and MCP: classified so that the refusal can name them.
	{"POST", "/api/v1/memories/", "openmemory.add", memproxy.Learn, 0, opaque, openmem},
	{"GET", "/api/v1/memories/", "openmemory.list", memproxy.Recall, 0, opaque, openmem},
	{"GET", "/api/v1/memories/{rest...}", "openmemory.get", memproxy.Recall, 0, opaque, openmem},
	{"*", "/api/v1/memories/{rest...}", "openmemory.memories", memproxy.Correct, 0, opaque, openmem},
	{"DELETE", "/api/v1/memories/", "openmemory.delete", memproxy.Forget, bulk, opaque, openmem},
	{"*", "/api/v1/apps/{rest...}", "openmemory.apps", memproxy.Admin, 0, opaque, openmem},
	{"*", "/api/v1/config/{rest...}", "openmemory.config", memproxy.Admin, 0, opaque, openmem},
	{"*", "/api/v1/stats/{rest...}", "openmemory.stats", memproxy.Other, 0, opaque, openmem},
	{"*", "/api/v1/backup/{rest...}", "openmemory.backup", memproxy.Learn, bulk, opaque, openmem},
	{"*", "/mcp", "mem0.mcp", memproxy.Run, 0, opaque, openmem},
	{"*", "/mcp/{rest...}", "mem0.mcp.session", memproxy.Run, 0, opaque, openmem},
}

// indexed is the index of the table. Mem0's servers distinguish paths by their trailing
// slash.
var indexed = sync.OnceValue(func() *routes {
	return routetable.New(table[:], func(r *row) (string, string, memproxy.Route) {
		rt := memproxy.Route{
			ID: r.id, Kind: r.kind,
			Bulk: r.flags&bulk != 0, Steering: r.flags&steering != 0, Derived: r.flags&derived != 0, Pass: r.flags&pass != 0, Public: r.flags&public != 0,
		}
		if r.shape == search || r.shape == list {
			rt.Params = map[string]string{} // Decode stores the projection here, for Rewrite
		}
		return r.method, r.path, rt
	}, routetable.Options{LastSlash: true})
})

// routes finds the route of a request, and the row of a route.
type routes = routetable.Table[row]
