package mem0_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/adaptertest"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/mem0"
	"github.com/memproxy/memproxy/internal/must"
)

var format = &adaptertest.Format{
	Words: strings.Fields(`messages content role text metadata user_id filters memories memory_id type url image_url infer
	confidence importance field category source created_at timestamp memproxy_id MemProxy_x run_id session_id agent_id AND OR NOT
	$and name deduced_memories custom_instructions prompt data query fields entity_id entity_type memory_export_id brand_new
	results id memory event event_id count next relations payload items data`),
	Strings: []string{`"*"`, `"alice"`, `"image_url"`},
	Objects: []string{`{"memory_id":"m1","text":"t"}`, `{"id":"m1","memory":"t"}`},
	ID:      func(d *adaptertest.Dice) string { return `"m` + strconv.Itoa(d.Throw(3)) + `"` },
	Member:  member,
}

func member(d *adaptertest.Dice, name string, depth int) string {
	switch name {
	case "messages":
		return d.List(func() string { return `{"role":"user","content":` + d.Member("content", depth+1) + `}` })
	case "memories":
		return d.List(func() string {
			return `{"memory_id":"m` + strconv.Itoa(d.Throw(3)) + `","text":"t","metadata":` + d.Object(depth) + `}`
		})
	case "results", "items":
		return d.List(func() string {
			return `{"id":"m` + strconv.Itoa(d.Throw(3)) + `","memory":"t","metadata":` + d.Object(depth) + `}`
		})
	case "metadata", "filters", "payload":
		return d.Object(depth)
	case "infer":
		return d.Of("true", "false", "null")
	case "deduced_memories", "fields":
		return d.List(func() string { return `"` + d.Of("id", "memory", "one") + `"` })
	}
	return ""
}

// laws holds a made-up request and a made-up answer to the contract.
func laws(t *testing.T, a *mem0.Adapter, data []byte) {
	d := adaptertest.NewDice(format, data)
	row := documented[d.Throw(len(documented))]
	req := memproxy.Request{Method: row.method, EscapedPath: row.path, Base: adaptertest.Base}
	if d.Throw(3) == 2 {
		req.Query = d.Of("user_id", "run_id", "metadata[user_id]", "fields", "x") + "=" + d.Of("a", "*", "id,memory", "")
	}
	rt, ok := a.Route(req)
	if !ok || rt.Pass {
		return
	}
	body := []byte(d.Object(0))
	adaptertest.Determined(t, a, rt, req, body)
	adaptertest.Patches(t, a, rt, req, body)
	op, err := a.Decode(rt, req, body)
	if err == nil {
		if op.Kind == memproxy.Learn || op.Kind == memproxy.Correct {
			doc := must.Get(jsondoc.Parse(body, 0))(t)
			adaptertest.Seen(t, op, doc.Root, "", own(op))
		}
		answer := d.Of(d.Object(0), d.Member("results", 0))
		adaptertest.Thins(t, a, rt, req, memproxy.Reply{Status: 200, Body: []byte(answer)})
	}
	if t.Failed() {
		t.Fatalf("%s %s?%s\n%s", req.Method, req.EscapedPath, req.Query, body)
	}
}

// Proves CARD-2: what nobody thought of is patched as carefully.
func TestGenerated(t *testing.T) {
	a := adapter(t)
	adaptertest.Generated(func(data []byte) { laws(t, a, data) })
}

func FuzzGenerated(f *testing.F) {
	adaptertest.SeedDice(f)
	a := adapter(f)
	f.Fuzz(func(t *testing.T, data []byte) { laws(t, a, data) })
}
