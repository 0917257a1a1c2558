package letta_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/adaptertest"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/letta"
	"github.com/memproxy/memproxy/internal/must"
)

var format = &adaptertest.Format{
	Words: strings.Fields(`label value description limit metadata tags read_only text created_at messages input role content
	memory_blocks block_ids blocks passages requests initial_message_sequence memory_variables system override_system tool_rules
	client_tools callback_url args query summary sender_id approvals tool_returns agent_id agent_ids identity_ids archive_id
	source_code model user name id passage message memory agents files results count file_blocks isolated_block_ids confidence
	importance source memproxy_id MemProxy_x brand_new type url image properties manager_config instructions tools new_string path
	request_messages response_dict message_ids secrets`),
	Strings: []string{`"human"`, `"image"`},
	Objects: []string{`{"label":"human","value":"v"}`, `{"type":"image","source":{"type":"url","url":"https://h/i"}}`},
	ID: func(d *adaptertest.Dice) string {
		return id(d, d.Of("block", "agent", "passage", "identity", "archive"))
	},
	Member: member,
}

func id(d *adaptertest.Dice, kind string) string {
	return `"` + kind + "-" + strconv.Itoa(d.Throw(3)) + `"`
}

func member(d *adaptertest.Dice, name string, depth int) string {
	switch name {
	case "memory_blocks", "blocks", "file_blocks":
		return d.List(func() string { return d.With(depth, `"id":`+id(d, "block")+`,"label":"human","value":"v"`) })
	case "messages", "initial_message_sequence", "request_messages", "agents", "files", "results":
		return d.List(func() string { return d.With(depth, `"id":`+id(d, "agent")+`,"role":"user","content":"c"`) })
	case "passages":
		return d.List(func() string { return d.With(depth, `"text":"t"`) })
	case "requests":
		return d.List(func() string { return d.With(depth, `"agent_id":`+id(d, "agent")) })
	case "metadata", "memory_variables", "args", "manager_config", "memory", "passage":
		return d.Object(depth)
	case "block_ids", "isolated_block_ids":
		return d.List(func() string { return id(d, "block") })
	case "agent_ids":
		return d.List(func() string { return id(d, "agent") })
	case "archive_id":
		return id(d, "archive")
	case "id":
		return id(d, d.Of("block", "agent", "passage"))
	case "limit", "count":
		return d.Of("5", "100000")
	}
	return ""
}

// laws holds a made-up request and a made-up answer to the contract.
func laws(t *testing.T, a *letta.Adapter, rows [][3]string, data []byte) {
	d := adaptertest.NewDice(format, data)
	row := rows[d.Throw(256)%len(rows)]
	req := memproxy.Request{Method: methods(row)[0], EscapedPath: ids(row[2]), Base: adaptertest.Base}
	if d.Throw(3) == 2 {
		req.Query = d.Of("agent_id", "identity_id", "query", "x") + "=" + d.Of("agent-1", "a", "")
	}
	rt, ok := a.Route(req)
	if !ok || rt.Pass {
		return
	}
	body := []byte(d.Object(0))
	if d.Throw(4) == 0 { // a creation, most often as it should be
		body = []byte(d.With(0, `"label":"human","value":"v"`))
	}
	adaptertest.Determined(t, a, rt, req, body)
	adaptertest.Patches(t, a, rt, req, body)
	op, err := a.Decode(rt, req, body)
	if err == nil {
		if rt.Kind.Writes() {
			doc := must.Get(jsondoc.Parse(body, 0))(t)
			if rt.Kind != memproxy.Attach && rt.Kind != memproxy.Forget { // their bodies mean nothing
				adaptertest.Seen(t, op, doc.Root, "", own(op))
			}
		}
		answer := d.Of(d.Object(0), d.Member("results", 0), d.With(0, `"id":"agent-1","memory":`+d.Object(0)))
		adaptertest.Thins(t, a, rt, req, memproxy.Reply{Status: 200, Body: []byte(answer)})
	}
	if t.Failed() {
		t.Fatalf("%s %s?%s\n%s", req.Method, req.EscapedPath, req.Query, body)
	}
}

// Proves CARD-2: what nobody thought of is patched as carefully.
func TestGenerated(t *testing.T) {
	a, rows := adapter(t), documented(t)
	adaptertest.Generated(func(data []byte) { laws(t, a, rows, data) })
}

func FuzzGenerated(f *testing.F) {
	adaptertest.SeedDice(f)
	a, rows := adapter(f), documented(f)
	f.Fuzz(func(t *testing.T, data []byte) { laws(t, a, rows, data) })
}
