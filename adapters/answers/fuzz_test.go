package answers_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/answers"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/internal/must"
)

const fuzzTable = `
kind A
	id s
	text s
	list [A|s]
	map {[s]}
	any *
	kind =a
	says text
	code name|[name]
kind B
	kind =b
	* s
answer x [A]
answer y [[A|B]]
answer z [*]
event x A|B
phrase Agent {name} not found
phrase {name} of {n} is none of {names}
`

// FuzzPrune compares the check of an element with pruning: of an accepted one no member is
// removed, and a pruned body needs no further pruning.
//
// Proves EDGE-13.
func FuzzPrune(f *testing.F) {
	for _, seed := range []string{
		`{"id":"a","text":"\u0041\n","list":["s",{"id":1.5e3}],"map":{"k":["v"]},"any":{"x":[true,false,null]}}`,
		`[{"kind":"a"},{"kind":"b","q":"r"},{"kind":"c"},3]`, `{"id":"a","id":"b"}`, `{"id":01}`, `{"evil":1,"id":-0.0}`,
		`{"id":"\ud83d\ude00","any":"\ud83d"}`, `{"kind":null}`, ` [ ] `, `{"i\u0064":1}`, `{"map":{"a":1,"b":["c",{}]}}`, `{"any":{"a":{"b":1},"a":2}}`,
		`{"says":"Agent a not found","code":"not_found"}`, `{"says":"Agent is evil","code":"an evil code"}`, `{"says":"a of 3 is none of 'a', 'b' or \"c\""}`,
		`{"says":"[{'type': 'missing', 'loc': ('body', 'a b'), 'msg': 'Field required', 'input': {}}, {'loc': ('body', 0), 'msg': \"Field required\", "}`,
	} {
		f.Add([]byte(seed))
	}
	t := must.Get(answers.Parse(fuzzTable))(f)
	f.Fuzz(func(tt *testing.T, body []byte) {
		for route, escaped := range map[string]string{"x": `{"\u0069d":"q"}`, "y": `[{"\u0069d":"q"}]`, "z": `{"\u0069d":"q"}`} {
			list := slices.Concat([]byte("["), body, []byte(","+escaped+"]"))
			if doc, err := jsondoc.Parse(body, 0); err == nil && t.ClaimsElement(route, "", doc.Root) {
				if p, err := t.Prune(memproxy.Route{ID: route}, memproxy.Reply{Status: 200, Body: list}); err != nil || p.Unclaimed > 0 || !bytes.Equal(p.Body, list) {
					tt.Fatalf("%s: %q passes, and %d members are not claimed (%v)", route, body, p.Unclaimed, err)
				}
			}
			for _, whole := range [][]byte{body, list} {
				p, err := t.Prune(memproxy.Route{ID: route}, memproxy.Reply{Status: 200, Body: whole})
				if err != nil {
					continue
				}
				again, err := t.Prune(memproxy.Route{ID: route}, memproxy.Reply{Status: 200, Body: p.Body})
				if err != nil || again.Unclaimed > 0 || !bytes.Equal(again.Body, p.Body) {
					tt.Fatalf("%s: %q becomes %q, and that %q (%v)", route, whole, p.Body, again.Body, err)
				}
			}
		}
	})
}

// FuzzEvent checks that a pruned event is pruned to itself.
//
// Proves EDGE-13.
func FuzzEvent(f *testing.F) {
	for _, seed := range []string{"data: {\"kind\":\"a\"}\n\n", ": x\n\n", "data: [DONE]\n\n", "event: e\rdata: {\"evil\":1}\r\n\r\n", "data:{\ndata:}\n\n"} {
		f.Add([]byte(seed))
	}
	t := must.Get(answers.Parse(fuzzTable))(f)
	f.Fuzz(func(tt *testing.T, event []byte) {
		p := t.PruneEvent(memproxy.Route{ID: "x"}, event)
		if again := t.PruneEvent(memproxy.Route{ID: "x"}, p.Body); again.Unclaimed > 0 || !bytes.Equal(again.Body, p.Body) {
			tt.Fatalf("%q becomes %q, and that %q", event, p.Body, again.Body)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	element := `{"id":"0123456789abcdef","text":"the user likes tea in the afternoon, and coffee before noon","any":{"memproxy_id":"x","n":1},"list":["a","b"]},`
	body := []byte("[" + string(bytes.Repeat([]byte(element), 50)) + "{}]")
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		must.Get(jsondoc.Parse(body, 0))(b)
	}
}

func BenchmarkClaimed(b *testing.B) {
	t := must.Get(answers.Parse(fuzzTable))(b)
	element := `{"id":"0123456789abcdef","text":"the user likes tea in the afternoon, and coffee before noon","any":{"memproxy_id":"x","n":1},"list":["a","b"]},`
	body := []byte("[" + string(bytes.Repeat([]byte(element), 50)) + "{}]")
	b.SetBytes(int64(len(body)))
	doc := must.Get(jsondoc.Parse(body, 0))(b)
	for b.Loop() {
		if !t.ClaimsElement("y", "", doc.Root) {
			b.Fatal("no")
		}
	}
}
