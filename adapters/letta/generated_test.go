package letta_test

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/adaptertest"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/letta"
)

// dice makes documents out of bytes: the format's own words in places where
// they belong and where they do not. When the bytes are used up, it throws
// zeros.
type dice struct {
	bytes []byte
	n     int
}

func (d *dice) throw(sides int) int {
	if d.n >= len(d.bytes) {
		return 0
	}
	d.n++
	return int(d.bytes[d.n-1]) % sides
}

func (d *dice) of(words ...string) string { return words[d.throw(len(words))] }

var words = strings.Fields(`label value description limit metadata tags read_only text created_at messages input role content
	memory_blocks block_ids blocks passages requests initial_message_sequence memory_variables system override_system tool_rules
	client_tools callback_url args query summary sender_id approvals tool_returns agent_id agent_ids identity_ids archive_id
	source_code model user name id passage message memory agents files results count file_blocks isolated_block_ids confidence
	importance source memproxy_id MemProxy_x brand_new type url image properties manager_config instructions tools new_string path
	request_messages response_dict message_ids secrets`)

func (d *dice) id(kind string) string { return `"` + kind + "-" + strconv.Itoa(d.throw(3)) + `"` }

func (d *dice) value(depth int) string {
	sides := 10
	if depth > 4 {
		sides = 6
	}
	switch d.throw(sides) {
	case 0:
		return d.of(`"x"`, `"human"`, `"text"`, `"image"`, `"a \"b\" \u00e9 \\"`, `"data:x"`, `"user"`, `"https://h/p?q"`, `""`, `".."`)
	case 1:
		return d.of("0", "0.95", "1", "1e3", "-1.50", "12345678901234567890")
	case 2:
		return d.of("true", "false")
	case 3:
		return "null"
	case 4:
		return d.id(d.of("block", "agent", "passage", "identity", "archive"))
	case 5:
		return d.of("{}", "[ ]", `{"type":"text","text":"t"}`, `{"role":"user","content":"c"}`, `{"label":"human","value":"v"}`, `{"type":"image","source":{"type":"url","url":"https://h/i"}}`)
	case 6, 7:
		return d.object(depth)
	}
	return d.list(func() string { return d.value(depth + 1) })
}

func (d *dice) list(one func() string) string {
	parts := make([]string, d.throw(4))
	for i := range parts {
		parts[i] = one()
	}
	return "[" + strings.Join(parts, d.of(",", " , ")) + "]"
}

func (d *dice) object(depth int) string {
	var parts []string
	seen := map[string]bool{}
	for range d.throw(6) {
		k := words[d.throw(len(words))]
		if !seen[k] {
			parts = append(parts, `"`+k+`"`+d.of(":", " : ")+d.member(k, depth+1))
		}
		seen[k] = true
	}
	return d.of("{", "{ ") + strings.Join(parts, d.of(",", ", ")) + d.of("}", "\n}")
}

// with is an object that has what its place needs.
func (d *dice) with(depth int, needed string) string {
	o := strings.TrimLeft(d.object(depth)[1:], " \n")
	if o == "}" {
		return "{" + needed + "}"
	}
	return "{" + needed + "," + o // a key that stands twice is refused, as it should be
}

// member gives a name mostly what it should have, so that decoding gets far.
func (d *dice) member(name string, depth int) string {
	if d.throw(5) == 4 {
		return d.value(depth)
	}
	switch name {
	case "memory_blocks", "blocks", "file_blocks":
		return d.list(func() string { return d.with(depth, `"id":`+d.id("block")+`,"label":"human","value":"v"`) })
	case "messages", "initial_message_sequence", "request_messages", "agents", "files", "results":
		return d.list(func() string { return d.with(depth, `"id":`+d.id("agent")+`,"role":"user","content":"c"`) })
	case "passages":
		return d.list(func() string { return d.with(depth, `"text":"t"`) })
	case "requests":
		return d.list(func() string { return d.with(depth, `"agent_id":`+d.id("agent")) })
	case "metadata", "memory_variables", "args", "manager_config", "memory", "passage":
		return d.object(depth)
	case "block_ids", "isolated_block_ids":
		return d.list(func() string { return d.id("block") })
	case "agent_ids":
		return d.list(func() string { return d.id("agent") })
	case "archive_id":
		return d.id("archive")
	case "id":
		return d.id(d.of("block", "agent", "passage"))
	case "confidence", "importance":
		return d.of("0.5", "1", "0.950", `"high"`)
	case "limit", "count":
		return d.of("5", "100000")
	}
	return d.of(`"a"`, `"b"`, `"text"`)
}

// laws holds a made-up request and a made-up answer to the contract.
func laws(t *testing.T, a *letta.Adapter, rows [][3]string, data []byte) {
	d := &dice{bytes: data}
	row := rows[d.throw(256)%len(rows)]
	req := memproxy.Request{Method: methods(row)[0], EscapedPath: ids(row[2]), Base: adaptertest.Base}
	if d.throw(3) == 2 {
		req.Query = d.of("agent_id", "identity_id", "query", "x") + "=" + d.of("agent-1", "a", "")
	}
	rt, ok := a.Route(req)
	if !ok || rt.Pass {
		return
	}
	body := []byte(d.object(0))
	if d.throw(4) == 0 { // a creation, most often as it should be
		body = []byte(d.with(0, `"label":"human","value":"v"`))
	}
	adaptertest.Determined(t, a, rt, req, body)
	adaptertest.Patches(t, a, rt, req, body)
	op, err := a.Decode(rt, req, body)
	if err == nil {
		if rt.Kind.Writes() {
			doc, err := jsondoc.Parse(body, 0)
			if err != nil {
				t.Fatal(err)
			}
			if rt.Kind != memproxy.Attach && rt.Kind != memproxy.Forget { // their bodies mean nothing
				seen(t, op, doc.Root, "")
			}
		}
		answer := d.of(d.object(0), d.member("results", 0), d.with(0, `"id":"agent-1","memory":`+d.object(0)))
		adaptertest.Thins(t, a, rt, req, memproxy.Reply{Status: 200, Body: []byte(answer)})
	}
	if t.Failed() {
		t.Fatalf("%s %s?%s\n%s", req.Method, req.EscapedPath, req.Query, body)
	}
}

// Proves CARD-2: what nobody thought of is patched as carefully.
func TestGenerated(t *testing.T) {
	a, rows := adapter(t), documented(t)
	source := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, 400)
	for range 5000 {
		for i := range data {
			data[i] = byte(source.Uint32())
		}
		laws(t, a, rows, data)
	}
}

func FuzzGenerated(f *testing.F) {
	for i := range byte(100) {
		f.Add([]byte(strings.Repeat(string(rune(i))+"abcdefghij", 20)))
	}
	a, rows := adapter(f), documented(f)
	f.Fuzz(func(t *testing.T, data []byte) { laws(t, a, rows, data) })
}
