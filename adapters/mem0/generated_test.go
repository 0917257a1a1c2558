package mem0_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/adaptertest"
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
	Request: request,
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

func request(d *adaptertest.Dice) (req memproxy.Request, body, answer string) {
	row := documented[d.Throw(len(documented))]
	req = memproxy.Request{Method: row.method, EscapedPath: row.path}
	if d.Throw(3) == 2 {
		req.Query = d.Of("user_id", "run_id", "metadata[user_id]", "fields", "x") + "=" + d.Of("a", "*", "id,memory", "")
	}
	return req, d.Object(0), d.Of(d.Object(0), d.Member("results", 0))
}

// Proves CARD-2: generated payloads are patched correctly.
func TestGenerated(t *testing.T) { adaptertest.Generated(t, adapter(t), format, own) }

func FuzzGenerated(f *testing.F) { adaptertest.FuzzGenerated(f, adapter(f), format, own) }
