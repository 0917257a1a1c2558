package letta_test

import (
	"slices"
	"testing"

	"github.com/memproxy/memproxy"
)

// Proves TRL-6: the size of a document or an agent file is requested where the server
// reports it, and only there; an answer without a number is an error, not zero.
func TestCounts(t *testing.T) {
	a := adapter(t)
	for name, tt := range map[string]struct {
		path, file string
		ids, want  []string
	}{
		"a document":             {"/v1/folders/source-1/upload", `{}`, []string{"file-1"}, []string{"/v1/folders/source-1/files/file-1"}},
		"in older words":         {"/v1/sources/source-1/upload", `{}`, []string{"file-1"}, []string{"/v1/folders/source-1/files/file-1"}},
		"two agents of a file":   {"/v1/agents/import", `{"agents":[]}`, []string{"agent-1", "agent-2"}, []string{"/v1/agents/agent-1?include=agent.blocks", "/v1/agents/agent-2?include=agent.blocks"}},
		"a file with documents":  {"/v1/agents/import", `{"agents":[],"files":[{"content":"x"}]}`, []string{"agent-1"}, nil},
		"an answer without them": {"/v1/folders/source-1/upload", `{}`, []string{"job-1"}, nil},
	} {
		rt, req := route(t, "POST", tt.path)
		req.Header["Content-Type"] = []string{formType}
		op, err := a.Decode(rt, req, form("Content-Disposition: form-data; name=\"file\"; filename=\"a.json\"\r\nContent-Type: application/json\r\n\r\n"+tt.file))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, q := range a.Counts(rt, req, op, tt.ids) {
			path := q.EscapedPath
			if q.Query != "" {
				path += "?" + q.Query
			}
			got = append(got, path)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q is asked, want %q", name, got, tt.want)
		}
	}
	for _, tt := range []struct {
		status int
		body   string
		ids    []string
		more   int64
		over   bool
		fails  bool
	}{
		{200, `{"id":"file-1","processing_status":"parsing","total_chunks":null}`, nil, 0, false, false},
		{200, `{"id":"file-1","processing_status":"completed","total_chunks":7,"chunks_embedded":7}`, nil, 7, true, false},
		{200, `{"id":"file-1","processing_status":"error","total_chunks":7,"chunks_embedded":3}`, nil, 3, true, false},
		{200, `{"id":"file-1","processing_status":"error"}`, nil, 0, true, false},
		{200, `{"id":"file-1","processing_status":"completed"}`, nil, 0, true, true},
		{200, `{"id":"file-1","processing_status":"completed","total_chunks":-4}`, nil, -4, true, true},
		{200, `{"id":"agent-1","blocks":[{"id":"block-1"},{"id":"block-2"}]}`, []string{"block-1", "block-2"}, 0, true, false},
		{200, `{"id":"agent-1"}`, nil, 0, false, true},
		{200, `[]`, nil, 0, false, true},
		{200, `<html>`, nil, 0, false, true},
		{404, ``, nil, 0, true, false},
	} {
		ids, more, over, err := a.Counted(memproxy.Reply{Status: tt.status, Body: []byte(tt.body)})
		if !slices.Equal(ids, tt.ids) || more != tt.more || over != tt.over || (err != nil) != tt.fails {
			t.Errorf("%d %s: %q %d %v %v", tt.status, tt.body, ids, more, over, err)
		}
	}
}
