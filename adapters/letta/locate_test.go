package letta_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

func route(t testing.TB, method, target string) (memproxy.Route, memproxy.Request) {
	t.Helper()
	return routed(t, adapter(t), method, target)
}

// Proves CARD-2, EDGE-3: every target is requested from its location, and a read of
// that location is not repeated.
func TestLocate(t *testing.T) {
	a := adapter(t)
	for _, tt := range []struct{ method, path, target, want string }{
		{"PATCH", "/v1/blocks/block-1", "block-1", "/v1/blocks/block-1"},
		{"PATCH", "/latest/blocks/block-1", "block-1", "/v1/blocks/block-1"},
		{"GET", "/latest/blocks/block-1/", "block-1", "/latest/blocks/block-1/"},
		{"PATCH", "/v1/agents/agent-1/core-memory/blocks/human", "agent-1/human", "/v1/agents/agent-1/core-memory/blocks/human"},
		{"PATCH", "/v1/_internal_agents/agent-1/core-memory/blocks/human", "agent-1/human", "/v1/agents/agent-1/core-memory/blocks/human"},
		{"PATCH", "/v1/agents/agent-1/core-memory/blocks/a%2Fb", "agent-1/a/b", "/v1/agents/agent-1/core-memory/blocks/a%2Fb"},
		{"GET", "/v1/agents/agent-1/core-memory/blocks/h%75man", "agent-1/human", "/v1/agents/agent-1/core-memory/blocks/h%75man"},
		{"DELETE", "/v1/agents/agent-1", "agent-1", "/v1/agents/agent-1?include=agent.blocks&include=agent.tools&include=agent.sources&include=agent.identities&include=agent.tags"},
		{"POST", "/v1/agents/agent-1/archival-memory", "agent-1", "/v1/agents/agent-1"},
		{"DELETE", "/v1/agents/agent-1/archival-memory/passage-1", "passage-1", "/v1/agents/agent-1/archival-memory?ascending=false&limit=10"},
		{"DELETE", "/v1/archives/archive-1/passages/passage-1", "passage-1", "/v1/archives/archive-1"},
		{"DELETE", "/v1/archives/archive-1", "archive-1", "/v1/archives/archive-1"},
		{"GET", "/v1/conversations/conv-1", "conv-1", "/v1/conversations/conv-1"},
		{"GET", "/v1/conversations/conv-1/messages", "conv-1", "/v1/conversations/conv-1"},
		{"DELETE", "/v1/folders/source-1/file-1", "file-1", "/v1/folders/source-1/files/file-1"},
		{"DELETE", "/v1/sources/source-1/file-1", "source-1", "/v1/folders/source-1"},
		{"PATCH", "/v1/agents/agent-1/files/file-1/open", "file-1", "/v1/agents/agent-1/files"},
		{"PATCH", "/v1/groups/group-1", "group-1", "/v1/groups/group-1"},
		{"PATCH", "/v1/identities/identity-1", "identity-1", "/v1/identities/identity-1"},
		{"GET", "/v1/runs/run-1/messages", "run-1", "/v1/runs/run-1"},
		{"GET", "/v1/runs/job-1/messages", "job-1", "/v1/runs/job-1"},
		{"GET", "/v1/jobs/job-1", "job-1", "/v1/jobs/job-1"},
		{"GET", "/v1/agents/agent-1/messages", "run-1", "/v1/runs/run-1"},
		{"GET", "/v1/agents/agent-1/archival-memory", "passage-1", ""}, // a cursor
		{"GET", "/v1/agents/agent-1/archival-memory", "file-1", ""},
		{"POST", "/v1/agents/", "tool-1", "/v1/tools/tool-1"},
		{"POST", "/v1/agents/", "provider-1", ""},
		{"GET", "/v1/steps/step-1/messages", "step-1", "/v1/steps/step-1"},
		{"PATCH", "/v1/agents/agent-1/messages/message-1", "message-1", "/v1/messages/message-1"},
	} {
		rt, req := route(t, tt.method, tt.path)
		req.Header = memproxy.Header{"User_id": {"user-1"}}
		q := a.Locate(rt, req, tt.target)
		got := q.EscapedPath
		if q.Query != "" {
			got += "?" + q.Query
		}
		expect.Equal(t, q.Method, "GET", tt.method, tt.path, tt.target, "is asked for with")
		expect.Equal(t, got, tt.want, tt.method, tt.path, tt.target, "is asked for with")
		if q.Header.Get("User_id") != "user-1" || q.Header.Get("X-Stainless-Package-Version") == "" {
			t.Errorf("%s: headers %v", tt.path, q.Header)
		}
		expect.Len(t, req.Header, 1, "the client's headers were changed")
	}
}

// Proves EDGE-3: objects that exist, that do not, and that cannot be determined.
func TestLocated(t *testing.T) {
	a := adapter(t)
	const block = `{"id":"block-1","label":"human","value":"v","limit":5,"metadata":{"k":1.0}}`
	for _, tt := range []struct {
		name, method, path, target string
		status                     int
		body                       string
		want                       memproxy.Memory
		fails                      bool
	}{
		{"a block", "PATCH", "/v1/blocks/block-1", "block-1", 200, block,
			memproxy.Memory{ID: "block-1", Text: "v", Field: "human", Limit: 5, Metadata: []byte(`{"k":1.0}`)}, false},
		{"a block by label", "PATCH", "/v1/agents/agent-1/core-memory/blocks/human", "agent-1/human", 200, block,
			memproxy.Memory{ID: "block-1", Text: "v", Field: "human", Limit: 5, Metadata: []byte(`{"k":1.0}`), Scope: memproxy.Scope{Agent: "agent-1"}}, false},
		{"another block", "PATCH", "/v1/blocks/block-2", "block-2", 200, block, memproxy.Memory{}, true},
		{"no block", "PATCH", "/v1/blocks/block-1", "block-1", 404, `{"detail":"Block not found"}`, memproxy.Memory{ID: "block-1", Missing: true}, false},
		{"no id", "PATCH", "/v1/blocks/block-1", "block-1", 422, `{"detail":"x"}`, memproxy.Memory{ID: "block-1", Missing: true}, false},
		{"an error", "PATCH", "/v1/blocks/block-1", "block-1", 500, `{"detail":"x"}`, memproxy.Memory{}, true},
		{"a file that is nowhere breaks the server", "GET", "/v1/folders/source-1/files/file-1", "file-1", 500, `{"detail":"An unknown error occurred"}`, memproxy.Memory{ID: "file-1"}, false},
		{"a file of another folder", "GET", "/v1/folders/source-1/files/file-1", "file-1", 404, `{"detail":"x"}`, memproxy.Memory{ID: "file-1", Missing: true}, false},
		{"a server that is down", "GET", "/v1/folders/source-1/files/file-1", "file-1", 503, `{"detail":"x"}`, memproxy.Memory{}, true},
		{"no JSON", "PATCH", "/v1/blocks/block-1", "block-1", 200, `<html>`, memproxy.Memory{}, true},
		{"a list", "PATCH", "/v1/blocks/block-1", "block-1", 200, `[]`, memproxy.Memory{}, true},
		{"a passage among the newest", "DELETE", "/v1/agents/agent-1/archival-memory/passage-1", "passage-1", 200, `[{"id":"passage-2"},{"id":"passage-1","text":"t"}]`,
			memproxy.Memory{ID: "passage-1", Text: "t", Scope: memproxy.Scope{Agent: "agent-1"}}, false},
		{"a passage further back is nobody's", "DELETE", "/v1/agents/agent-1/archival-memory/passage-1", "passage-1", 200, `[{"id":"passage-2"}]`, memproxy.Memory{ID: "passage-1"}, false},
		{"a passage of an archive is nobody's", "DELETE", "/v1/archives/archive-1/passages/passage-1", "passage-1", 200, `{"id":"archive-1"}`, memproxy.Memory{ID: "passage-1"}, false},
		{"a conversation says whose it is", "GET", "/v1/conversations/conv-1/messages", "conv-1", 200, `{"id":"conv-1","agent_id":"agent-1","summary":"s"}`,
			memproxy.Memory{ID: "conv-1", Text: "s", Scope: memproxy.Scope{Agent: "agent-1", Run: "conv-1"}}, false},
		{"an identity is a user", "PATCH", "/v1/identities/identity-1", "identity-1", 200, `{"id":"identity-1","identifier_key":"alice"}`,
			memproxy.Memory{ID: "identity-1", Scope: memproxy.Scope{User: "identity-1"}}, false},
		{"an agent is an agent", "PATCH", "/v1/agents/agent-1", "agent-1", 200, `{"id":"agent-1","name":"a"}`,
			memproxy.Memory{ID: "agent-1", Scope: memproxy.Scope{Agent: "agent-1"}}, false},
		{"a message comes in a list", "PATCH", "/v1/agents/agent-1/messages/message-1", "message-1", 200, `[{"id":"message-1","content":"c"}]`, memproxy.Memory{ID: "message-1", Text: "c"}, false},
		{"a file of an agent", "PATCH", "/v1/agents/agent-1/files/file-1/open", "file-1", 200, `{"files":[{"id":"x","file_id":"file-1"}]}`,
			memproxy.Memory{ID: "file-1", Scope: memproxy.Scope{Agent: "agent-1"}}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rt, _ := route(t, tt.method, tt.path)
			m, err := a.ReadLocated(rt, tt.target, memproxy.Reply{Status: tt.status, Body: []byte(tt.body)})
			if (err != nil) != tt.fails {
				t.Fatal(err)
			}
			expect.Equal(t, string(m.Metadata), string(tt.want.Metadata), "metadata")
			m.Metadata, tt.want.Metadata = nil, nil
			if !same(m, tt.want) {
				t.Errorf("got %+v, want %+v", m, tt.want)
			}
		})
	}
}

func same(a, b memproxy.Memory) bool {
	return a.ID == b.ID && a.Text == b.Text && a.Field == b.Field && a.Limit == b.Limit && a.Scope == b.Scope && a.Missing == b.Missing && a.Kind == b.Kind
}

// Proves CARD-2, SYN-1: the current block is requested where the change would lose a
// part of it or its limit applies, and only there.
func TestMerges(t *testing.T) {
	a := adapter(t)
	for _, tt := range []struct {
		method, path, body string
		want               bool
	}{
		{"PATCH", "/v1/blocks/block-1", `{"value":"v"}`, true},
		{"PATCH", "/v1/blocks/block-1", `{"metadata":{}}`, true},
		{"PATCH", "/v1/blocks/block-1", `{"tags":["a"]}`, true}, // its label is the field
		{"PATCH", "/v1/agents/agent-1/core-memory/blocks/human", `{"value":null,"metadata":null}`, false},
		{"PATCH", "/v1/agents/agent-1/core-memory/blocks/human", `{"tags":["a"]}`, false},
		{"PATCH", "/v1/agents/agent-1/core-memory/blocks/human", `{"metadata":{}}`, true},
		{"PATCH", "/v1/agents/agent-1/core-memory/blocks/human", `{"label":"notes"}`, true}, // its text moves to the new label
		{"PATCH", "/v1/agents/agent-1/core-memory/blocks/human", `{"value":"v"}`, true},
		{"PATCH", "/v1/agents/agent-1", `{"metadata":{}}`, true},
		{"PATCH", "/v1/agents/agent-1", `{"name":"a"}`, false},
		{"PATCH", "/v1/archives/archive-1", `{"name":"a"}`, false},
		{"POST", "/v1/blocks/", `{"label":"human","value":"v"}`, false},
	} {
		rt, req := route(t, tt.method, tt.path)
		op := must.Get(a.Decode(rt, req, []byte(tt.body)))(t)
		expect.Equal(t, a.Merges(rt, op), tt.want, tt.path, tt.body)
	}
}

// Proves SYN-1: a value longer than the block's current limit is refused; one of that
// length is not, nor is a change that sets a limit.
func TestLimitUpstream(t *testing.T) {
	a := adapter(t)
	rt, req := route(t, "PATCH", "/v1/blocks/block-1")
	for body, refused := range map[string]bool{
		`{"value":"123456"}`:           true,
		`{"value":"12345"}`:            false,
		`{"value":"äöü€ß"}`:            false,
		`{"value":"123456","limit":6}`: false,
		`{"description":"123456"}`:     false,
	} {
		op, err := a.Decode(rt, req, []byte(body))
		must.Do(t, err)
		op.Stamp = &memproxy.Stamp{ID: "d-1"}
		op.Current = map[string]memproxy.Memory{"block-1": {ID: "block-1", Limit: 5}}
		_, _, err = a.Encode(rt, req, []byte(body), op)
		var bad *memproxy.Flaw
		if errors.As(err, &bad) != refused || refused && (bad.Code != memproxy.FieldSize || bad.Status != 422 || strings.Contains(bad.Detail, "123456")) {
			t.Errorf("%s: %v", body, err)
		}
	}
}
