package mem0_test

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/adaptertest"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/mem0"
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

var words = strings.Fields(`messages content role text metadata user_id filters memories memory_id type url image_url infer
	confidence importance field category source created_at timestamp memproxy_id MemProxy_x run_id session_id agent_id AND OR NOT
	$and name deduced_memories custom_instructions prompt data query fields entity_id entity_type memory_export_id brand_new
	results id memory event event_id count next relations payload items data`)

func (d *dice) value(depth int) string {
	sides := 10
	if depth > 4 {
		sides = 6
	}
	switch d.throw(sides) {
	case 0:
		return d.of(`"x"`, `"*"`, `"alice"`, `"text"`, `"image_url"`, `"a \"b\" \u00e9 \\"`, `"data:x"`, `"user"`, `"https://h/p?q"`, `""`, `".."`)
	case 1:
		return d.of("0", "0.95", "1", "1e3", "-1.50", "12345678901234567890")
	case 2:
		return d.of("true", "false")
	case 3:
		return "null"
	case 4:
		return `"m` + strconv.Itoa(d.throw(3)) + `"`
	case 5:
		return d.of("{}", "[ ]", `{"type":"text","text":"t"}`, `{"role":"user","content":"c"}`, `{"memory_id":"m1","text":"t"}`, `{"id":"m1","memory":"t"}`)
	case 6, 7:
		return d.object(depth)
	}
	parts := make([]string, d.throw(4))
	for i := range parts {
		parts[i] = d.value(depth + 1)
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

// member gives a name mostly what it should have, so that decoding gets far.
func (d *dice) member(name string, depth int) string {
	if d.throw(4) == 3 {
		return d.value(depth)
	}
	list := func(one func() string) string {
		parts := make([]string, d.throw(4))
		for i := range parts {
			parts[i] = one()
		}
		return "[" + strings.Join(parts, ",") + "]"
	}
	switch name {
	case "messages":
		return list(func() string { return `{"role":"user","content":` + d.member("content", depth+1) + `}` })
	case "memories":
		return list(func() string {
			return `{"memory_id":"m` + strconv.Itoa(d.throw(3)) + `","text":"t","metadata":` + d.object(depth) + `}`
		})
	case "results", "items":
		return list(func() string {
			return `{"id":"m` + strconv.Itoa(d.throw(3)) + `","memory":"t","metadata":` + d.object(depth) + `}`
		})
	case "metadata", "filters", "payload":
		return d.object(depth)
	case "infer":
		return d.of("true", "false", "null")
	case "confidence", "importance":
		return d.of("0.5", "1", "0.950", `"high"`)
	case "deduced_memories", "fields":
		return list(func() string { return `"` + d.of("id", "memory", "one") + `"` })
	}
	return d.of(`"a"`, `"b"`, `"text"`)
}

// laws holds a made-up request and a made-up answer to the contract.
func laws(t *testing.T, a *mem0.Adapter, data []byte) {
	d := &dice{bytes: data}
	row := documented[d.throw(len(documented))]
	req := memproxy.Request{Method: row.method, EscapedPath: row.path, Base: adaptertest.Base}
	if d.throw(3) == 2 {
		req.Query = d.of("user_id", "run_id", "metadata[user_id]", "fields", "x") + "=" + d.of("a", "*", "id,memory", "")
	}
	rt, ok := a.Route(req)
	if !ok || rt.Pass {
		return
	}
	body := []byte(d.object(0))
	adaptertest.Determined(t, a, rt, req, body)
	adaptertest.Patches(t, a, rt, req, body)
	op, err := a.Decode(rt, req, body)
	if err == nil {
		if op.Kind == memproxy.Learn || op.Kind == memproxy.Correct {
			doc, err := jsondoc.Parse(body, 0)
			if err != nil {
				t.Fatal(err)
			}
			seen(t, op, doc.Root, "")
		}
		answer := d.of(d.object(0), d.member("results", 0))
		adaptertest.Thins(t, a, rt, req, memproxy.Reply{Status: 200, Body: []byte(answer)})
	}
	if t.Failed() {
		t.Fatalf("%s %s?%s\n%s", req.Method, req.EscapedPath, req.Query, body)
	}
}

// Proves CARD-2: what nobody thought of is patched as carefully.
func TestGenerated(t *testing.T) {
	a := adapter(t)
	source := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, 400)
	for range 5000 {
		for i := range data {
			data[i] = byte(source.Uint32())
		}
		laws(t, a, data)
	}
}

func FuzzGenerated(f *testing.F) {
	for i := range byte(100) {
		f.Add([]byte(strings.Repeat(string(rune(i))+"abcdefghij", 20)))
	}
	a := adapter(f)
	f.Fuzz(func(t *testing.T, data []byte) { laws(t, a, data) })
}
