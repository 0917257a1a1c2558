package contract_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/letta"
	"github.com/memproxy/memproxy/adapters/mem0"
	"github.com/memproxy/memproxy/frontend/frontendtest"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/gate/backend"
	"github.com/memproxy/memproxy/gate/gatetest"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// chronicler is a ledger that keeps the last operation's versions.
type chronicler struct {
	gatetest.NoLedger
	last memproxy.Entry
}

func (c *chronicler) Commit(_ context.Context, e memproxy.Entry) error {
	c.last = e
	return nil
}

// stands is a backend that has one object, whatever is asked for: it is the one
// that the path names.
type stands struct {
	backend.Fetcher // nil: nothing is sent with a body
	attached        bool
}

func (s *stands) Fetch(_ context.Context, q memproxy.Request) (memproxy.Reply, error) {
	id := ""
	for part := range strings.SplitSeq(q.EscapedPath, "/") {
		if strings.HasSuffix(part, "0001") {
			id = part
		}
	}
	if strings.HasSuffix(q.EscapedPath, "/core-memory/blocks/human") {
		id = block
	}
	body := object(id, "old")
	if s.attached {
		for _, list := range []string{"blocks", "tools", "sources"} {
			body = strings.Replace(body, `"`+list+`":[]`, `"`+list+`":[{"id":"`+strings.TrimSuffix(list, "s")+`-00000000-0000-4000-8000-000000000001"}]`, 1)
		}
		body = strings.Replace(body, `"identity_ids":[]`, `"identity_ids":["identity-00000000-0000-4000-8000-000000000001"]`, 1)
		body = strings.Replace(body, `"shared_block_ids":[]`, `"shared_block_ids":["`+block+`"]`, 1)
	}
	switch {
	case strings.HasSuffix(q.EscapedPath, "/files"):
		body = `{"files":[{"id":"file-00000000-0000-4000-8000-000000000001"}]}`
	case strings.HasSuffix(q.EscapedPath, "/archival-memory"):
		body = "[" + object("passage-00000000-0000-4000-8000-000000000001", "old") + "]"
	}
	return memproxy.Reply{Status: 200, Body: []byte(body)}, nil
}

const block = "block-00000000-0000-4000-8000-000000000001"

// object has every member that some object has.
func object(id, word string) string {
	var out strings.Builder
	for _, name := range []string{"name", "description", "system", "summary", "label", "value", "text", "content", "memory", "feedback", "instructions", "custom_instructions", "server_name", "region", "source_code", "message_type", "privileged"} {
		fmt.Fprintf(&out, `,%q:"the %s %s"`, name, word, name)
	}
	return fmt.Sprintf(`{"id":%q,"tags":[%q],"categories":[%q],"metadata":{"k":%q},"properties":[{"key":"k","value":%q,"type":"string"}],"config":{"x":%q},"identity_ids":[],"shared_block_ids":[],"tool_rules":[],"blocks":[],"tools":[],"sources":[]%s}`,
		id, word, word, word, word, word, out.String())
}

// filled fills the parameters of a pattern.
func filled(pattern string) string {
	var out []string
	for part := range strings.SplitSeq(pattern, "/") {
		name, is := strings.CutPrefix(part, "{")
		name = strings.TrimSuffix(strings.TrimSuffix(name, "}"), "...")
		switch kind := strings.TrimSuffix(name, "_id"); {
		case !is:
			out = append(out, part)
		case name == "label":
			out = append(out, "human")
		case name == "id":
			out = append(out, "00000000-0000-4000-8000-000000000001")
		case name == "entity_type":
			out = append(out, "user")
		default:
			switch kind {
			case "conversation":
				kind = "conv"
			case "folder":
				kind = "source"
			case "memory":
				kind = "passage"
			}
			out = append(out, kind+"-00000000-0000-4000-8000-000000000001")
		}
	}
	return strings.Join(out, "/")
}

// Routes that change objects, and of which no version can be expected here.
var versionless = map[string]string{
	"letta.modify_message":               "the text of a message is a version of the message, as a memory's is",
	"letta.modify_group_message":         "the text of a message is a version of the message, as a memory's is",
	"letta.update_step_transaction_id":   "a number that the caller gives a step, which no reader is shown",
	"letta.git":                          "refused: it cannot be read",
	"letta.mcp_refresh_mcp_server_tools": "it changes nothing that the request says",
	"letta.refresh_provider_models":      "it changes nothing that the request says",
	"letta.cancel_job":                   "it ends work and changes no object",
}

// Proves SYN-5, CARD-2: every route of both backends that changes an object, by
// whatever it changes it, leaves a version of the object with what stood there
// before: from the tables of routes, so that a new row cannot miss it.
func TestEveryChangeIsAVersion(t *testing.T) {
	m := must.Get(mem0.New(mem0.Options{}))(t)
	l := must.Get(letta.New(letta.Options{}))(t)
	ledger, rules := &chronicler{}, frontendtest.Rules(&plain{})
	rules.OneTenant = true
	g := frontendtest.NewGate(t, &plain{}, &rules, func(o *gate.Options) { o.Ledger = ledger })
	checked := 0
	for adapter, table := range map[backend.Adapter]func(func(string, memproxy.Route) bool){m: m.Routes(), l: l.Routes()} {
		for at, rt := range table {
			method, pattern, _ := strings.Cut(at, " ")
			if method == "*" {
				method = "PATCH"
			}
			changes := rt.Kind == memproxy.Correct || rt.Kind == memproxy.Attach || rt.Kind == memproxy.Admin && (method == "PATCH" || method == "PUT")
			if !changes || rt.Pass || versionless[rt.ID] != "" || strings.HasPrefix(rt.ID, "openmemory.") {
				continue
			}
			path := filled(pattern)
			req := memproxy.Request{Method: method, EscapedPath: path, Query: "", Header: memproxy.Header{"Content-Type": {"application/json"}}}
			body := object("", "new")
			body = `{` + strings.TrimPrefix(body, `{"id":"",`)
			switch {
			case strings.HasSuffix(pattern, "/properties"):
				body = `[{"key":"k","value":"new","type":"string"}]`
			case strings.Contains(pattern, "tools/approval"):
				body = `{"requires_approval":true}`
			case rt.Kind == memproxy.Attach, strings.Contains(pattern, "/attach/"), strings.Contains(pattern, "/detach/"):
				body = ""
			case rt.ID == "mem0.v1.batch.update":
				body = `{"memories":[{"memory_id":"00000000-0000-4000-8000-000000000001","metadata":{"k":"new"}}]}`
			case strings.HasPrefix(rt.ID, "mem0.") && rt.Kind == memproxy.Correct:
				body = `{"metadata":{"k":"new"},"categories":["new"]}`
			}
			if rt.ID == "mem0.v1.feedback" {
				body = `{"memory_id":"00000000-0000-4000-8000-000000000001","feedback":"new"}`
			}
			row, known := adapter.Route(req)
			if !known || row.ID != rt.ID {
				t.Errorf("%s: %s is %s", at, path, row.ID)
				continue
			}
			ledger.last = memproxy.Entry{}
			s := &stands{attached: strings.Contains(pattern, "/detach/")}
			a := g.Admit(t.Context(), &gate.Call{Backend: gate.Backend{Name: "x", Adapter: adapter, Fetch: s}, Route: row, Known: true, Request: req, Body: []byte(body)})
			if a.Reply != nil {
				t.Errorf("%s: refused: %+v", at, a.Decision.Reasons)
				continue
			}
			answer := object("thing-0001", "new")
			g.Return(t.Context(), a, memproxy.Reply{Status: 200, Body: []byte(answer)})
			var made []memproxy.Version
			for _, v := range ledger.last.Versions {
				if v.Kind == memproxy.TargetObject {
					made = append(made, v)
				}
			}
			upsert := !strings.Contains(pattern, "{") && !strings.HasPrefix(rt.ID, "mem0.") // what it is, only the answer tells
			switch {
			case len(made) != 1:
				t.Errorf("%s: %d versions of the object: %+v", at, len(made), ledger.last)
			case !upsert && !verbOnly(pattern) && (made[0].Before == "" || !strings.Contains(made[0].Text, "new")):
				t.Errorf("%s: no before, or nothing new, in %+v", at, made[0])
			default:
				checked++
			}
		}
	}
	expect.Equal(t, checked >= 45, true, checked, "routes were checked")
}

// verbOnly: the path says all, and the list that it changes need not be shown by
// the object.
func verbOnly(pattern string) bool {
	for _, verb := range []string{"/attach/", "/detach/", "/open", "/close", "/approval/", "/repositories/"} {
		if strings.Contains(pattern, verb) {
			return true
		}
	}
	return false
}
