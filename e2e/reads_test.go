//go:build e2e

package e2e

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// walks is what an SDK saw.
type walks struct {
	Through, Kept []string
	Walks         []struct {
		IDs, Actors []string
		Counts      []int
		Pages       int
	}
	Searches, Passages [][]string
}

func walk(t *testing.T, script string, args ...string) walks {
	t.Helper()
	out, code := run(t, []string{"MEM0_TELEMETRY=false"}, script, args...)
	var w walks
	must.Do(t, json.Unmarshal([]byte(out), &w), "exit code", tail(out, 2000))
	must.Equal(t, code, 0, "exit code", tail(out, 2000))
	return w
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// Proves MFW-8, CARD-1: the unmodified Mem0 client walks pages of which most
// memories are withheld: it sees each of the others once and ends, its counts
// are what it sees, its searches are as long as it asks, and it is told whose
// word each memory is.
func TestMem0PagesThroughTheSDK(t *testing.T) {
	t.Parallel()
	eng := startEngine(t)
	car := serve(t, t.TempDir(), dropin(eng, "", ""))
	w := walk(t, filepath.Join("mem0", "sdk", "run.sh"), "pages", "--base", car.base, "--direct", eng.base, "--key", "m0-e2e", "--suffix", "reads")
	must.Len(t, w.Through, 8, w)
	for _, got := range w.Walks {
		expect.That(t, sameSet(got.IDs, w.Through) && slices.Equal(got.Actors, []string{"service:app"}), "saw %v of %v, in the words of %v", got.IDs, w.Through, got.Actors)
		expect.Equal(t, got.Counts[len(got.Counts)-1], len(w.Through), "counts", got.Counts)
	}
	expect.List(t, w.Walks[0].IDs, w.Walks[1].IDs, "the order depends on the page", w.Walks)
	expect.List(t, w.Walks[0].IDs, w.Walks[2].IDs, "the order depends on the page", w.Walks)
	expect.That(t, len(w.Searches[0]) == 3 && sameSet(w.Searches[1], w.Through), "searches found %v", w.Searches)
}

// Proves MFW-8, CARD-1: the unmodified Letta client walks lists with cursors in
// the same way, although whole pages of them are withheld.
func TestLettaPagesThroughTheSDK(t *testing.T) {
	t.Parallel()
	real := startLetta(t) // lists are walked to their ends
	car := serve(t, t.TempDir(), lettaDropin(real))
	w := walk(t, filepath.Join("letta", "sdk", "run.sh"), "pages", "--base", car.base, "--direct", real, "--suffix", "reads")
	must.That(t, len(w.Through) > 0 && len(w.Kept) == 3, "%v", w)
	for _, got := range w.Walks {
		expect.List(t, got.IDs, w.Through, "saw")
		expect.List(t, got.Actors, []string{"service:app"}, "saw")
	}
	for _, got := range w.Passages {
		expect.That(t, sameSet(got, w.Kept) && len(got) == len(w.Kept), "passages %v, want %v", got, w.Kept)
	}
}

// extremes are values of JSON at the edges of what parsers take, some of which
// memproxy refuses.
func extremes() []string {
	nested := func(n int) string { return strings.Repeat(`[`, n) + strings.Repeat(`]`, n) }
	objects := func(n int) string { return strings.Repeat(`{"a":`, n) + `1` + strings.Repeat(`}`, n) }
	out := []string{
		`9007199254740991`, `9007199254740993`, `-9007199254740993`, `9223372036854775807`, `-9223372036854775808`, `9223372036854775808`,
		`18446744073709551616`, `1e18`, `9.2e18`, `1e300`, `1e308`, `1e309`, `1e999`, `-1e999`, `1e-300`, `5e-324`, `1e-400`, `-0`, `-0.0`, `0e0`,
		`0.1000000000000000055511151231257827`, `0.` + strings.Repeat("3", 100), strings.Repeat("9", 400), strings.Repeat("9", 5000),
		`NaN`, `Infinity`, `""`, `{"":""}`, `[null,[],{}]`, `true`, `null`,
		`"\u0000"`, `"\u0001\u001f\u007f"`, `"\u0085\u2028\u2029\ufeff"`, `"\ud800"`, `"\udc00\ud800"`, `"\ud83d\ude00"`, "\"\x7f\"", `"\ufffe\uffff"`, `"\\u0000"`,
		`{"__proto__":{"x":1}}`, `{"constructor":1,"toString":2}`, `{"__class__":"x","__dict__":{}}`, `{"$ref":"#"}`, `{"` + strings.Repeat("k", 2000) + `":1}`,
		`{"a\u0000b":1}`, `{"a.b":1,"a":{"b":2}}`, `{"a":1,"a":2}`, `{"\u0061":1,"a":2}`, `"` + strings.Repeat("x", 20000) + `"`, `"` + strings.Repeat(`\u2028`, 500) + `"`,
	}
	for _, n := range []int{8, 16, 24, 28, 29, 30, 31, 32, 33, 64} {
		out = append(out, nested(n), objects(n))
	}
	return out
}

// readable holds that a scope can be read, with what was just written, through
// the proxy and without it.
func readable(t *testing.T, written, id string, reads ...string) {
	t.Helper()
	for _, url := range reads {
		key := ""
		if strings.HasPrefix(url, "direct ") {
			url, key = strings.TrimPrefix(url, "direct "), "m0sk_e2e"
		}
		a := call(t, http.MethodGet, url, key, "", sdk...)
		must.That(t, a.status == 200 && json.Valid([]byte(a.body)) && strings.Contains(a.body, id), "after %.80s was accepted: %s: %d %.300s", written, url, a.status, a.body)
	}
}

// accepted reports whether a write was let in. What was not is refused by
// memproxy: a server's own failure over a value is not left to it.
func accepted(t *testing.T, written string, a answer) bool {
	t.Helper()
	expect.That(t, a.status < 500 && (a.status < 300 || strings.Contains(a.body, "memproxy_")), "%.80s: %d %.300s", written, a.status, a.body)
	return a.status < 300
}

// Proves EDGE-13, CARD-2: whatever the real Mem0 engine is let write, its
// owner's memories can be listed, searched and got afterwards.
func TestWhatMem0AcceptsCanBeRead(t *testing.T) {
	t.Parallel()
	eng := startEngine(t)
	car := serve(t, t.TempDir(), claimed("mem0", eng.base))
	n := 0
	for _, value := range extremes() {
		a := call(t, http.MethodPost, car.base+"/memories", "", `{"user_id":"ann","infer":false,"metadata":{"n":`+value+`},"messages":[{"role":"user","content":"I like tea"}]}`)
		if !accepted(t, value, a) {
			continue
		}
		n++
		id := id(t, a.about(value))
		readable(t, value, id, car.base+"/memories?user_id=ann&top_k=1000", car.base+"/memories/"+id, "direct "+eng.base+"/memories?user_id=ann&top_k=1000")
	}
	expect.That(t, n >= 25, "only %d values were accepted", n)
	call(t, http.MethodPost, car.base+"/search", "", `{"query":"tea","user_id":"ann"}`).want(t, 200, "search")
}

// Proves EDGE-13, CARD-2: and so the real Letta server's blocks, agents and
// passages.
func TestWhatLettaAcceptsCanBeRead(t *testing.T) {
	t.Parallel()
	real := startLetta(t) // lists of everything
	car := serve(t, t.TempDir(), claimed("letta", real))
	agent := newLettaAgent(t, car.base, "extremes")
	n := 0
	for _, value := range extremes() {
		a := call(t, http.MethodPost, car.base+"/v1/blocks/", "", `{"label":"notes","value":"tea","metadata":{"n":`+value+`}}`, sdk...)
		if accepted(t, value, a) {
			n++
			made := id(t, a)
			readable(t, value, made, car.base+"/v1/blocks/?limit=500", car.base+"/v1/blocks/"+made, "direct "+real+"/v1/blocks/?limit=500")
		}
		a = call(t, http.MethodPatch, car.base+"/v1/agents/"+agent, "", `{"metadata":{"n":`+value+`}}`, sdk...)
		if accepted(t, value, a) {
			readable(t, value, agent, car.base+"/v1/agents/", car.base+"/v1/agents/"+agent, "direct "+real+"/v1/agents/")
		}
		if !strings.HasPrefix(value, `"`) {
			continue
		}
		a = call(t, http.MethodPost, car.base+"/v1/agents/"+agent+"/archival-memory", "", `{"text":`+value+`,"tags":[`+value+`]}`, sdk...)
		if accepted(t, value, a) {
			readable(t, value, "passage-", car.base+"/v1/agents/"+agent+"/archival-memory?limit=500", "direct "+real+"/v1/agents/"+agent+"/archival-memory?limit=500")
		}
	}
	expect.That(t, n >= 25, "only %d values were accepted", n)
}
