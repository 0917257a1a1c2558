package letta_test

import (
	"bytes"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/adaptertest"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/internal/must"
	"golang.org/x/tools/txtar"
)

// recorded calls each with the exchanges with a real server that the end-to-end tests
// recorded, in sections "NAME: request" and "NAME: response".
func recorded(t testing.TB, each func(name string, req memproxy.Request, body []byte, reply memproxy.Reply)) {
	t.Helper()
	files, err := filepath.Glob("../../e2e/letta/recordings/*.txtar")
	if err != nil || len(files) == 0 {
		t.Skip("no recordings", err)
	}
	for _, file := range files {
		ar := must.Get(txtar.ParseFile(file))(t)
		for i, s := range ar.Files {
			name, ok := strings.CutSuffix(s.Name, ": request")
			if !ok {
				continue
			}
			req := memproxy.Request{Header: memproxy.Header{"Content-Type": {"application/json"}}, Base: adaptertest.Base}
			line, body, _ := bytes.Cut(s.Data, []byte("\n"))
			method, target, ok := strings.Cut(string(line), " ")
			if !ok || !strings.HasPrefix(target, "/") {
				continue
			}
			for {
				head, rest, _ := bytes.Cut(body, []byte("\n"))
				if bytes.HasPrefix(head, []byte("(")) { // a remark
					body = rest
					continue
				}
				field, value, ok := strings.Cut(string(head), ":")
				if !ok || strings.ContainsAny(field, "\"{[ ") {
					break
				}
				req.Header.Set(field, strings.TrimSpace(value))
				body = rest
			}
			req.Method = method
			req.EscapedPath, req.Query, _ = strings.Cut(target, "?")
			var reply memproxy.Reply
			if i+1 < len(ar.Files) && ar.Files[i+1].Name == name+": response" {
				first, rest, _ := bytes.Cut(ar.Files[i+1].Data, []byte("\n"))
				status, typ, _ := strings.Cut(string(first), " ")
				reply.Status, _ = strconv.Atoi(status)
				reply.Header = memproxy.Header{"Content-Type": {typ}}
				reply.Body = rest
			}
			each(filepath.Base(file)+" "+name, req, bytes.TrimSpace(body), reply)
		}
	}
}

// Proves CARD-2: recorded requests and answers of a real server are read and patched,
// and every object with an id in an answer is found.
func TestRecorded(t *testing.T) {
	a := adapter(t)
	recorded(t, func(name string, req memproxy.Request, body []byte, reply memproxy.Reply) {
		rt, ok := a.Route(req)
		if !ok {
			// The server takes these spellings; no client needs them.
			if !strings.Contains(req.EscapedPath, "%") && !strings.Contains(req.EscapedPath, "//") {
				t.Errorf("%s: %s %s is no route", name, req.Method, req.EscapedPath)
			}
			return
		}
		if rt.Pass {
			return
		}
		if _, err := a.Decode(rt, req, body); err != nil {
			if reply.Status < 400 {
				t.Errorf("%s: %s %s: %v", name, req.Method, req.EscapedPath, err)
			}
			return
		}
		adaptertest.Laws(t, a, req, body, reply, nil)
		if reply.Status < 200 || reply.Status > 299 {
			return
		}
		rd, err := a.Read(rt, req, reply)
		if err != nil {
			t.Errorf("%s: %s %s: %v", name, req.Method, req.EscapedPath, err)
			return
		}
		if rt.Kind != memproxy.Recall || rt.Derived {
			return
		}
		doc := must.Get(jsondoc.Parse(reply.Body, 0))(t)
		if doc.Root.Kind == jsondoc.Array && len(rd.Memories) != len(doc.Root.Elems) {
			t.Errorf("%s: %d of %d elements are found", name, len(rd.Memories), len(doc.Root.Elems))
		}
		for _, m := range rd.Memories {
			if m.ID == "" {
				t.Errorf("%s: an element of %s has no id", name, req.EscapedPath)
			}
		}
	})
}
