package letta_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves TRL-6: the size of a document is requested where the server
// reports it, and only there; an answer without a number is an error, not zero.
func TestCounts(t *testing.T) {
	a := adapter(t)
	for name, tt := range map[string]struct {
		path, file string
		ids, want  []string
	}{
		"a document":             {"/v1/folders/source-1/upload", `{}`, []string{"file-1"}, []string{"/v1/folders/source-1/files/file-1"}},
		"in older words":         {"/v1/sources/source-1/upload", `{}`, []string{"file-1"}, []string{"/v1/folders/source-1/files/file-1"}},
		"an agent file":          {"/v1/agents/import", `{"agents":[]}`, []string{"agent-1"}, nil},
		"an answer without them": {"/v1/folders/source-1/upload", `{}`, []string{"job-1"}, nil},
	} {
		rt, req := route(t, "POST", tt.path)
		req.Header["Content-Type"] = []string{formType}
		_, err := a.Decode(rt, req, form("Content-Disposition: form-data; name=\"file\"; filename=\"a.json\"\r\nContent-Type: application/json\r\n\r\n"+tt.file))
		must.Do(t, err, name)
		var got []string
		for _, q := range a.Counts(rt, req, tt.ids) {
			path := q.EscapedPath
			if q.Query != "" {
				path += "?" + q.Query
			}
			got = append(got, path)
		}
		expect.List(t, got, tt.want, name)
	}
	for _, tt := range []struct {
		status int
		body   string
		more   int64
		over   bool
		fails  bool
	}{
		{200, `{"id":"file-1","processing_status":"parsing","total_chunks":null}`, 0, false, false},
		{200, `{"id":"file-1","processing_status":"completed","total_chunks":7,"chunks_embedded":7}`, 7, true, false},
		{200, `{"id":"file-1","processing_status":"error","total_chunks":7,"chunks_embedded":3}`, 3, true, false},
		{200, `{"id":"file-1","processing_status":"error"}`, 0, true, false},
		{200, `{"id":"file-1","processing_status":"completed"}`, 0, true, true},
		{200, `{"id":"file-1","processing_status":"completed","total_chunks":-4}`, -4, true, true},
		{200, `[]`, 0, false, true},
		{200, `<html>`, 0, false, true},
		{404, ``, 0, true, false},
	} {
		more, over, err := a.ReadCount(memproxy.Reply{Status: tt.status, Body: []byte(tt.body)})
		if more != tt.more || over != tt.over || (err != nil) != tt.fails {
			t.Errorf("%d %s: %d %v %v", tt.status, tt.body, more, over, err)
		}
	}
}

// Proves TRL-1, EDGE-3: an import is answered with ids of agents, so the agents are
// requested, and what is in them is the import's: blocks with their agent, folders and
// groups.
func TestImportedAgentsAreReadWhole(t *testing.T) {
	a := adapter(t)
	rd := &memproxy.Reading{Memories: []memproxy.Memory{{ID: "agent-1"}, {ID: "agent-2"}}}
	for file, all := range map[string]bool{`{"agents":[]}`: true, `{"agents":[],"files":[{"content":"x"}]}`: false} {
		rt, req := route(t, "POST", "/v1/agents/import")
		req.Header["Content-Type"] = []string{formType}
		op := must.Get(a.Decode(rt, req, form("Content-Disposition: form-data; name=\"file\"; filename=\"a.json\"\r\nContent-Type: application/json\r\n\r\n"+file)))(t)
		asks, got := a.ObjectRequests(rt, req, op, rd)
		if len(asks) != 2 || asks[1].EscapedPath != "/v1/agents/agent-2" || !strings.Contains(asks[1].Query, "agent.blocks") || !strings.Contains(asks[1].Query, "agent.sources") || got != all {
			t.Errorf("%s: %+v %v", file, asks, got)
		}
	}
	whole, err := a.ReadObject(memproxy.Reply{Status: 200, Body: []byte(`{"id":"agent-1","blocks":[{"id":"block-1","label":"human","value":"Ann"}],"sources":[{"id":"source-1"}],"managed_group":{"id":"group-1","agent_ids":["agent-3"]}}`)})
	if err != nil || len(whole.Memories) != 1 || whole.Memories[0].ID != "block-1" || whole.Memories[0].Scope.Agent != "agent-1" || !slices.Equal(whole.Created, []memproxy.CreatedObject{{ID: "group-1", Agent: "agent-3"}, {ID: "agent-3"}, {ID: "source-1", Agent: "agent-1"}}) {
		t.Errorf("%+v %v", whole, err)
	}
	for _, reply := range []memproxy.Reply{{Status: 404}, {Status: 200, Body: []byte(`[]`)}, {Status: 200, Body: []byte(`{"id":"agent-1"}`)}, {Status: 200, Body: []byte(`<`)}} {
		expect.Error(t, expect.Err(a.ReadObject(reply)), reply.Status, reply.Body, "is an agent")
	}
}
