package letta_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/adaptertest"
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
	Member:  member,
	Request: request,
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

func request(d *adaptertest.Dice) (req memproxy.Request, body, answer string) {
	row := documented[d.Throw(256)%len(documented)]
	req = memproxy.Request{Method: methods(row)[0], EscapedPath: ids(row[2])}
	if d.Throw(3) == 2 {
		req.Query = d.Of("agent_id", "identity_id", "query", "x") + "=" + d.Of("agent-1", "a", "")
	}
	body = d.Object(0)
	if d.Throw(4) == 0 { // a creation, usually a valid one
		body = d.With(0, `"label":"human","value":"v"`)
	}
	return req, body, d.Of(d.Object(0), d.Member("results", 0), d.With(0, `"id":"agent-1","memory":`+d.Object(0)))
}

// Proves CARD-2: generated payloads are patched correctly.
func TestGenerated(t *testing.T) { adaptertest.Generated(t, adapter(t), format, own) }

func FuzzGenerated(f *testing.F) { adaptertest.FuzzGenerated(f, adapter(f), format, own) }
