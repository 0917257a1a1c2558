package letta_test

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/letta"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

const uuid = "-0f0e0d0c-0b0a-4908-8706-050403020100"

var hole = regexp.MustCompile(`\{[^}]*\}`)

// nameless are the path parameters that name no object with an owner, and why.
var nameless = map[string]string{
	"connection":        "a device of the caller's cloud account",
	"deployment_id":     "a name that the templates' owner chose",
	"endpoint":          "the rest of another provider's path",
	"env_var_id":        "a setting of the installation: administration",
	"folder_name":       "a name; the answer is an id, which is filtered",
	"label":             "a name within the agent of the path",
	"mcp_server_id":     "a setting of the installation",
	"mcp_server_name":   "a setting of the installation",
	"mcp_tool_name":     "a setting of the installation: administration",
	"part":              "a view of the agent of the path",
	"path":              "packs, which are refused",
	"provider_id":       "a setting of the installation: administration",
	"rest":              "the rest of a cloud route's path",
	"sandbox_config_id": "a setting of the installation: administration",
	"schedule":          "a part of the agent of the path",
	"source_name":       "a name; the answer is an id, which is filtered",
	"template_version":  "a name of the caller's cloud project",
	"tool_name":         "a name within the agent, or the server, of the path",
	"transaction_id":    "a value that is noted with the step of the path",
}

// namesObject reports whether a path parameter names an object by its id.
func namesObject(param string) bool { return letta.KindOf(kindFor(param)+"-1") != "" }

// Proves EDGE-13: every path parameter of the table is classified, and one that names an
// object is read as an id, in any form.
func TestEveryParameterIsKnown(t *testing.T) {
	a, used, read := adapter(t), map[string]bool{}, map[string]bool{}
	for at := range a.Routes() {
		method, path, _ := strings.Cut(at, " ")
		rt, req := routed(t, a, strings.Replace(method, "*", "POST", 1), ids(path))
		op, err := a.Decode(rt, req, []byte(body(rt.ID, `"x":1`)))
		for name, id := range rt.Params {
			if err == nil && slices.ContainsFunc(op.Refs, func(r memproxy.Ref) bool {
				return r.ID == id && r.Kind == memproxy.TargetMemory && r.Pointer == "path:"+name
			}) {
				read[name] = true
			} else if err == nil && !rt.Pass && namesObject(name) {
				t.Errorf("%s: {%s} is not read as an id: %+v", at, name, op.Refs)
			}
		}
		for _, p := range hole.FindAllString(at, -1) {
			name := strings.TrimSuffix(strings.Trim(p, "{}"), "...")
			used[name] = true
			if names := namesObject(name); names == (nameless[name] != "") {
				t.Errorf("%s: {%s} names an object (%v), or there is a reason why it names none: %q", at, name, names, nameless[name])
			}
		}
	}
	for name := range nameless {
		if !used[name] {
			t.Errorf("no path has {%s}", name)
		}
		if read[name] {
			t.Errorf("{%s} is read as an id", name)
		}
	}
}

// kindFor returns the prefix of ids for a parameter that names an object.
func kindFor(param string) string {
	name := strings.TrimSuffix(param, "_id")
	return cmp.Or(map[string]string{"memory": "passage", "folder": "source", "conversation": "conv", "batch": "job"}[name], name)
}

// filled returns a row's path with an id for each object that it names.
func filled(path string) (out string, named []string) {
	n := 0
	out = hole.ReplaceAllStringFunc(path, func(p string) string {
		name := strings.Trim(p, "{}")
		n++
		id := fmt.Sprintf("%s-0f0e0d0c-0b0a-4908-8706-%012d", kindFor(strings.TrimSuffix(name, "...")), n)
		switch {
		case strings.HasSuffix(name, "..."):
			id = "a/agent" + id[strings.IndexByte(id, '-'):] + "/b"
			named = append(named, id[2:len(id)-2])
		case namesObject(name):
			named = append(named, id)
		default:
			id = "block" + uuid // a label that looks like an id is looked up as one
			named = append(named, id)
		}
		return id
	})
	return out, named
}

// body returns a minimal request of a row's shape, with added members.
func body(id string, members string) string {
	switch {
	case strings.Contains(id, "batch") && strings.Contains(id, "template"):
		return `{"blocks":[{"label":"human","value":"v"}],` + members + `}`
	case id == "letta.create_batch":
		return `{"requests":[],` + members + `}`
	case strings.Contains(id, "passages_in_archive"):
		return `{"passages":[],` + members + `}`
	case id == "letta.create_chat_completion":
		return `{"model":"agent-1",` + members + `}`
	}
	return `{"label":"human","value":"v",` + members + `}`
}

// Proves EDGE-3, EDGE-13: on every route an id is a reference wherever it is: in the
// path, in a query or a header of any name, and in any member of the body that is not
// text, at any depth.
func TestEveryReferenceIsFound(t *testing.T) {
	a := adapter(t)
	places := 0
	for at, row := range a.Routes() {
		if row.Pass {
			continue
		}
		method, path, _ := strings.Cut(at, " ")
		if method == "*" {
			method = "POST"
		}
		spelled, want := filled(path)
		req := memproxy.Request{
			Method: method, EscapedPath: spelled,
			Query: "anything=run" + uuid + "&several=step" + uuid + ",tool" + uuid + "&list[]=unheard_of" + uuid,
			Header: memproxy.Header{
				"User_id": {"user" + uuid}, "X-Letta-Agent-Id": {"agent" + uuid}, "X-Anything": {"archive" + uuid},
			},
		}
		want = append(want, "run"+uuid, "step"+uuid, "tool"+uuid, "unheard_of"+uuid, "user"+uuid, "agent"+uuid, "archive"+uuid)
		rt, ok := a.Route(req)
		if !ok || rt.ID != row.ID {
			t.Errorf("%s: %s is %s", at, spelled, rt.ID)
			continue
		}
		var payload []byte
		r := *a.Row(rt.ID)
		switch {
		case hasJSON(&r):
			payload = []byte(body(rt.ID, `"brand_new":"group`+uuid+`","deep":{"er":[{"x":"conv`+uuid+`"}]},"file`+uuid+`":1,"ids":["passage`+uuid+`","mcp_server`+uuid+`"],"content":"see message`+uuid+`","summary":"message`+uuid+`"`))
			want = append(want, "group"+uuid, "conv"+uuid, "file"+uuid, "passage"+uuid, "mcp_server"+uuid)
		case hasForm(&r):
			req.Header["Content-Type"] = []string{formType}
			payload = form("Content-Disposition: form-data; name=\"x\"\r\n\r\n{\"y\":[\"group"+uuid+"\"]}", "Content-Disposition: form-data; name=\"z\"\r\n\r\nconv"+uuid,
				"Content-Disposition: form-data; name=\"file\"; filename=\"f.txt\"\r\n\r\nsee message"+uuid)
			want = append(want, "group"+uuid, "conv"+uuid)
		}
		op, err := a.Decode(rt, req, payload)
		var bad *memproxy.Flaw
		if errors.As(err, &bad) && bad.Code == memproxy.RouteUnknown {
			continue // refused with any value
		}
		if err != nil {
			t.Errorf("%s: %v\n%s", at, err, payload)
			continue
		}
		var got []string
		for _, r := range op.Refs {
			if r.Pointer == "" {
				t.Errorf("%s: %s stands nowhere", at, r.ID)
			}
			got = append(got, r.ID)
		}
		for _, id := range want {
			places++
			if !slices.Contains(got, id) {
				t.Errorf("%s: %s is not reported; %q", at, id, got)
			}
		}
		if slices.Contains(got, "message"+uuid) {
			t.Errorf("%s: text is taken for a reference", at)
		}
		for _, id := range op.Targets {
			if letta.KindOf(id) != letta.TargetLabel && !slices.Contains(got, id) {
				t.Errorf("%s: the target %s is no reference", at, id)
			}
		}
	}
	if places < 1000 {
		t.Errorf("only %d references in the whole table", places)
	}
}

// Proves EDGE-3: short ids and names of people are references where a route expects
// them, under the ledger's names of owners.
func TestNamesAreReferences(t *testing.T) {
	a := adapter(t)
	for _, tt := range []struct{ method, path, query, body, want string }{
		{"GET", "/v1/agents/", "identity_id=identity-1", "", "memory identity-1"},
		{"POST", "/v1/chat/completions", "", `{"model":"agent-1","messages":[]}`, "memory agent-1"},
		{"POST", "/v1/chat/completions", "", `{"model":"agent-1","user":"ann","messages":[]}`, "entity user:ann"},
		{"POST", "/v1/conversations/default/messages", "", `{"agent_id":"agent-1","messages":[]}`, "memory agent-1"},
		{"POST", "/v1/conversations/agent-1/messages", "", `{"messages":[]}`, "memory agent-1"},
		{"POST", "/v1/agents/", "", `{"block_ids":["block-1"]}`, "memory block-1"},
		{"GET", "/v1/runs/", "agent_ids=agent-1&agent_ids=agent-2", "", "memory agent-2"},
	} {
		op := decode(t, a, tt.method, tt.path+"?"+tt.query, tt.body)
		if !slices.ContainsFunc(op.Refs, func(r memproxy.Ref) bool { return string(r.Kind)+" "+r.ID == tt.want }) {
			t.Errorf("%s %s?%s %s: no reference %s in %v", tt.method, tt.path, tt.query, tt.body, tt.want, op.Refs)
		}
	}
}

// Proves EDGE-3: an object that a request acts on is a reference as such, also if a header or
// a position in a list has its id too.
func TestAHeaderHidesNoReference(t *testing.T) {
	a, id := adapter(t), "tool"+uuid
	for _, tt := range []struct{ method, path, body, header, want string }{
		{"POST", "/v1/agents/", `{"tool_ids":["` + id + `"]}`, id, "/tool_ids/0"},
		{"GET", "/v1/runs/?after=" + id + "&run_id=" + id, "", "", "query:run_id"},
		{"GET", "/v1/runs/?after=" + id, "", id, "header:x-trace"},
	} {
		rt, req := route(t, tt.method, tt.path)
		if tt.header != "" {
			req.Header = memproxy.Header{"X-Trace": {tt.header}}
		}
		op, err := a.Decode(rt, req, []byte(tt.body))
		if err != nil || len(op.Refs) != 1 || op.Refs[0].Pointer != tt.want {
			t.Errorf("%s %s: %+v, %v; want one reference at %s", tt.method, tt.path, op, err, tt.want)
		}
	}
}

// Proves EDGE-3: the ids of objects inside an agent file are no references, since the
// server assigns new ids; the ids that those objects name are.
func TestFilesCallTheirOwn(t *testing.T) {
	op := decode(t, adapter(t), "POST", "/v1/agents/import", `{"agents":[{"id":"agent`+uuid+`","folder_ids":["source`+uuid+`"],"files_agents":[{"id":"file_agent`+uuid+`","file_id":"file-0"}]}]}`)
	must.Len(t, op.Refs, 1)
	expect.Equal(t, op.Refs[0].ID, "source"+uuid)
}

// Proves EDGE-3: the number of references in a request is bounded, far above what
// clients send.
func TestReferencesAreBounded(t *testing.T) {
	a := adapter(t)
	ask := func(n int) error {
		ids := make([]string, n)
		for i := range ids {
			ids[i] = fmt.Sprintf(`"agent-0f0e0d0c-0b0a-4908-8706-%012d"`, i)
		}
		rt, req := route(t, "POST", "/v1/agents/agent-1/tools/mine/run")
		_, err := a.Decode(rt, req, []byte(`{"args":{"x":[`+strings.Join(ids, ",")+`]}}`))
		return err
	}
	expect.OK(t, ask(500), "500 references")
	var bad *memproxy.Flaw
	if err := ask(5000); !errors.As(err, &bad) || bad.Status != 422 {
		t.Errorf("5000 references: %v", err)
	}
}

// Proves EDGE-13: a label in place of an agent's id is an unknown name and is not
// looked up in the server.
func TestLabelsAreNoAgents(t *testing.T) {
	a := adapter(t)
	for id, kind := range map[string]memproxy.TargetKind{
		"agent-1":        memproxy.TargetMemory,
		"agent-1/":       memproxy.TargetEntity,
		"agent-1/human":  memproxy.TargetEntity,
		"agent-1/../x/y": memproxy.TargetEntity,
	} {
		op := decode(t, a, "GET", "/v1/runs/?agent_id="+url.QueryEscape(id), "")
		must.Len(t, op.Refs, 1, id)
		expect.Equal(t, op.Refs[0].Kind, kind, id)
	}
}
