package contract

import (
	"fmt"
	"regexp"
)

// Mem0Owner is an owner with one object of each kind. n tells owners apart.
func Mem0Owner(name, tenant string, n int) *Owner {
	o := &Owner{Name: name, Tenant: tenant, Canary: "canary" + name, Objects: mem0Objects(name, n)}
	return o
}

func mem0Objects(name string, n int) map[string]string {
	id := func(k int) string { return fmt.Sprintf("%08d-%04d-4111-8111-111111111111", n, k) }
	return map[string]string{
		"memory": id(1), "event": id(2), "export": id(3), "job": id(4), "key": id(5), "number": fmt.Sprint(70000 + n), "webhook": "wh-" + id(6),
		"org": "org-" + id(7), "project": "proj-" + id(8),
		"user": "user-of-" + name, "agent": "agent-of-" + name, "app": "app-of-" + name, "run": "run-of-" + name, "word": "seed-" + name,
	}
}

// Mem0Unknown are ids and names of nobody.
func Mem0Unknown() map[string]string { return mem0Objects("nobody", 99) }

// Mem0 is the format of the hosted platform, the self-hosted server and of
// what is next to them.
func Mem0() *Format {
	body := func(routes, json string) Body { return Body{regexp.MustCompile(routes), json} }
	const add = `{"messages":[{"role":"user","content":"I like tea"}],"user_id":"{user}","infer":false}`
	return &Format{
		Params: map[string]string{"id": "memory", "entity_type": "=user", "entity_id": "user", "number": "number", "job": "job", "key": "key"},
		Rest: map[string]string{
			"mem0.orgs": "org", "mem0.webhooks": "webhook", "mem0.server.auth": "word", "openmemory.get": "memory", "openmemory.memories": "memory",
			"openmemory.apps": "app", "openmemory.config": "word", "openmemory.stats": "word", "openmemory.backup": "word", "mem0.mcp.session": "word",
		},
		Query: map[string]string{
			"user_id": "user", "agent_id": "agent", "app_id": "app", "run_id": "run",
			"memory_id": "memory?", "id": "memory?", "query": "word?", "an_id_of_tomorrow": "memory?", "owner_of_tomorrow_id": "user", "threadId": "run",
		},
		// An organisation and a project are the credential's, and no tenant's.
		// Mem0-User-Id is what the SDKs tell of themselves; it names nobody.
		Headers: map[string]string{"X-Memproxy-Session": "run", "X-Memory-Of-Tomorrow": "memory?"},
		Members: map[string]string{
			"user_id": "user", "agent_id": "agent", "app_id": "app", "run_id": "run", "memory_id": "memory?", "memory_ids": "memory?[]",
			"filters.user_id": "user", "filters.agent_id": "agent", "filters.run_id": "run", "memory_export_id": "export",
			"owner_of_tomorrow_id": "user", "threadIds": "run[]",
			"metadata.user_id": "user", "metadata.memory_id": "memory?",
			`{"filters":{"AND":[{"user_id":"{}"}]}}`:                           "user",
			`{"filters":{"OR":[{"user_id":"{}"},{"agent_id":"x"}]}}`:           "user",
			`{"filters":{"NOT":[{"user_id":"{}"}]}}`:                           "user",
			`{"filters":{"user_id":{"in":["{}"]}}}`:                            "user",
			`{"filters":{"user_id":{"ne":"{}"}}}`:                              "user?", // whose are left out
			`{"filters":{"AND":[{"OR":[{"user_id":{"contains":"{}"}}]}]}}`:     "user?",
			`{"memories":[{"memory_id":"{}","text":"I like tea"}]}`:            "memory",
			`{"messages":[{"role":"user","content":"tea","name":"{}"}]}`:       "user?", // a claim about who said it, within what is the caller's own
			`{"deduced_memories":["tea"],"user_id":"{}"}`:                      "user",
			`{"filters":{"metadata":{"user_id":"{}"}}}`:                        "user",
			`{"filters":{"AND":[{"user_id":"*"},{"agent_id":"{}"}]}}`:          "agent",
			`{"filters":{},"user_id":"{}"}`:                                    "user", // which a route may pass over
			`{"filters":{"OR":[{"AND":[{"user_id":"{}","run_id":"*"}]}]}}`:     "user",
			`{"schema":{"type":"object"},"filters":{"user_id":"{}"}}`:          "user",
			`{"entities":[{"type":"user","id":"{}"}]}`:                         "user?", // no member of these payloads
			`{"query":` + graphOnly + `,"filters":{"user_id":"{}"}}`:           "user",
			`{"source_id":"{}"}`:                                               "memory?",
			`{"metadata":{"source_id":"{}","linked_memories":["{}"]}}`:         "memory?",
			`{"linked_memories":["{}"]}`:                                       "memory?",
			`{"immutable":true,"user_id":"{}","expiration_date":"2030-01-01"}`: "user",
		},
		Queries: map[string]string{
			"mem0.v1.list": "user_id={user}", "mem0.v1.history.all": "user_id={user}", "mem0.v1.delete.all": "user_id={user}",
			"mem0.v1.entities.filters": "user_id={user}", "mem0.v2.profile.job.get": "user_id={user}", "mem0.server.list": "user_id={user}",
			"mem0.server.delete.all": "user_id={user}",
		},
		Bodies: []Body{
			body(`^DELETE mem0.v1.batch.delete`, `{"memories":[{"memory_id":"{memory}"}]}`),
			body(`^(GET|DELETE) `, ""),
			body(`mem0\.v1\.batch\.update`, `{"memories":[{"memory_id":"{memory}","text":"I like tea"}]}`),
			body(`(v3\.add|v1\.add|server\.add|openmemory\.add)$`, add),
			body(`rush\.add$`, `{"messages":[{"role":"user","content":"tea"}]}`),
			body(`(user|agent|app|run)\.create$`, `{"user_id":"{user}"}`),
			body(`search$`, `{"query":"tea","filters":{"user_id":"{user}"}}`),
			body(`(v3\.list|v2\.list|summary|export\.get)$`, `{"filters":{"user_id":"{user}"}}`),
			body(`export$`, `{"schema":{"type":"object"},"filters":{"user_id":"{user}"}}`),
			body(`\.update$`, `{"text":"I like tea"}`),
			body(`feedback$`, `{"memory_id":"{memory}","feedback":"POSITIVE"}`),
			body(`^(POST|PUT|PATCH) `, `{}`),
		},
	}
}
