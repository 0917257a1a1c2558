//go:build e2e

package e2e

import (
	"cmp"
	"encoding/json"
	"io"
	"iter"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/letta"
	"github.com/memproxy/memproxy/adapters/mem0"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// claimed serves one tenant, and one who administers it.
func claimed(kind, upstream string) string {
	return sidecarConf("production", kind, upstream, lent[kind], `identity:
  default: {id: "service:admin", kind: service, trust: established, acts_as: ["*"], roles: [memproxy-admin, dev, qa, pm, architect]}
budgets:
  default: {writes_per_hour: 100000, writes_total: 1000000}
`)
}

// lent is the credential with which a real server is asked.
var lent = map[string]string{"mem0": `, credential: m0sk_e2e, credential_as: x-api-key`}

// counted is how much the sidecar left out as unclaimed.
func counted(t *testing.T, s *sidecar) int {
	t.Helper()
	n := 0
	for _, m := range regexp.MustCompile(`(?m)^memproxy_unclaimed_total\{[^}]*\} (\d+)$`).FindAllStringSubmatch(call(t, http.MethodGet, s.admin+"/metrics", "", "").body, -1) {
		k, _ := strconv.Atoi(m[1])
		n += k
	}
	return n
}

// members are where members stand in an answer, with - for every element.
func members(v any, at string, into map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			into[at+"/"+name] = true
			members(value, at+"/"+name, into)
		}
	case []any:
		for _, e := range v {
			members(e, at+"/-", into)
		}
	}
}

// lost are the members of an answer that another lacks.
func lost(direct, proxied string) []string {
	var d, p any
	if json.Unmarshal([]byte(direct), &d) != nil {
		return nil
	}
	_ = json.Unmarshal([]byte(proxied), &p) // an answer that is none lacks all
	want, got := map[string]bool{}, map[string]bool{}
	members(d, "", want)
	members(p, "", got)
	return slices.DeleteFunc(slices.Sorted(maps.Keys(want)), func(at string) bool { return got[at] })
}

// readAll asks for every route of a table that reads, directly and through the
// proxy, and holds the one answer against the other.
func readAll(t *testing.T, s *sidecar, direct string, table iter.Seq2[string, memproxy.Route], ids map[string]string, query func(path string) string) (read int) {
	for at, rt := range table {
		method, path, _ := strings.Cut(at, " ")
		if method != http.MethodGet || rt.Public || strings.Contains(path, "...") || strings.HasSuffix(path, "/stream") {
			continue
		}
		unknown := false
		path = regexp.MustCompile(`\{(\w+)\}`).ReplaceAllStringFunc(path, func(name string) string {
			id := ids[strings.Trim(name, "{}")]
			unknown = unknown || id == ""
			return id
		})
		if unknown {
			continue
		}
		path += query(path)
		want := call(t, http.MethodGet, direct+path, "m0sk_e2e", "", sdk...)
		if want.status != 200 {
			continue // not a route of this server, or nothing to see
		}
		before := counted(t, s)
		got := call(t, http.MethodGet, s.base+path, "", "", sdk...)
		if got.status != 200 {
			t.Errorf("%s %s: %d %s", rt.ID, path, got.status, tail(got.body, 300))
			continue
		}
		read++
		expect.Equal(t, counted(t, s), before, rt.ID, path, "members or headers of a real answer that no row claims")
		expect.Len(t, lost(want.body, got.body), 0, rt.ID, path, "lost")
	}
	return read
}

// Proves EDGE-13, CARD-1: the tables of answers are true: of what the real Letta
// server answers with, on every route that reads and for writes that make and
// change, nothing is left out for whoever may see it.
func TestAnswersOfLettaAreClaimed(t *testing.T) {
	t.Parallel()
	real := startLetta(t) // lists of everything
	car := serve(t, t.TempDir(), claimed("letta", real))
	do := func(method, path, body string) answer {
		t.Helper()
		a := call(t, method, car.base+path, "", body, sdk...)
		expect.That(t, a.status < 300, "%s %s: %d %s", method, path, a.status, tail(a.body, 300))
		return a
	}
	agent := newLettaAgent(t, car.base, "claimed")
	ids := map[string]string{"agent_id": agent, "label": "human", "block_label": "human"}
	ids["block_id"] = id(t, do("POST", "/v1/blocks/", `{"label":"notes","value":"tea"}`))
	do("PATCH", "/v1/agents/"+agent+"/core-memory/blocks/attach/"+ids["block_id"], "")
	do("PATCH", "/v1/blocks/"+ids["block_id"], `{"value":"green tea"}`)
	ids["memory_id"] = id(t, do("POST", "/v1/agents/"+agent+"/archival-memory", `{"text":"Ann likes tea"}`))
	ids["passage_id"] = ids["memory_id"]
	ids["archive_id"] = id(t, do("POST", "/v1/archives/", `{"name":"a","embedding":"openai/text-embedding-3-small"}`))
	ids["folder_id"] = id(t, do("POST", "/v1/folders/", `{"name":"f","embedding":"openai/text-embedding-3-small"}`))
	ids["source_id"], ids["folder_name"], ids["source_name"] = ids["folder_id"], "f", "f"
	ids["identity_id"] = id(t, do("POST", "/v1/identities/", `{"identifier_key":"k","name":"n","identity_type":"user"}`))
	ids["conversation_id"] = newConversation(t, car.base, agent)
	do("POST", "/v1/agents/"+agent+"/messages", `{"input":"SAY hello"}`)
	stream := do("POST", "/v1/agents/"+agent+"/messages", `{"input":"SAY hello","streaming":true,"stream_tokens":true}`)
	expect.That(t, strings.Contains(stream.body, "hello") && strings.Contains(stream.body, "[DONE]"), "the stream: %s", tail(stream.body, 500))
	first := func(path string) string { return id(t, call(t, "GET", real+path, "", "", sdk...)) }
	ids["message_id"], ids["run_id"], ids["tool_id"] = first("/v1/agents/"+agent+"/messages"), first("/v1/runs/"), first("/v1/tools/")
	ids["step_id"] = first("/v1/runs/" + ids["run_id"] + "/steps")
	expect.Equal(t, counted(t, car), 0, "members or headers of the answers of writes and runs that no row claims")
	routes := must.Get(letta.New(letta.Options{}))(t)
	read := readAll(t, car, real, routes.Routes(), ids, func(string) string { return "" })
	expect.That(t, read >= 50, "only %d routes were read", read)
	t.Logf("%d routes were read", read)
}

// Proves EDGE-13, CARD-1: and so of what the real Mem0 engine answers with.
func TestAnswersOfMem0AreClaimed(t *testing.T) {
	t.Parallel()
	eng := startEngine(t)
	car := serve(t, t.TempDir(), claimed("mem0", eng.base))
	m := id(t, call(t, "POST", car.base+"/memories", "", `{"user_id":"ann","infer":false,"metadata":{"k":1},"messages":[{"role":"user","content":"I like tea"}]}`))
	for _, do := range [][3]string{
		{"POST", "/search", `{"query":"tea","user_id":"ann"}`},
		{"PUT", "/memories/" + m, `{"text":"I like green tea"}`},
	} {
		call(t, do[0], car.base+do[1], "", do[2]).want(t, 200, do[0], do[1])
	}
	expect.Equal(t, counted(t, car), 0, "members or headers of the answers of writes that no row claims")
	routes := must.Get(mem0.New(mem0.Options{}))(t)
	read := readAll(t, car, eng.base, routes.Routes(), map[string]string{"memory_id": m, "id": m}, func(path string) string {
		if strings.Contains(path, m) {
			return ""
		}
		return "?user_id=ann"
	})
	expect.That(t, read >= 2, "only %d routes were read", read)
	t.Logf("%d routes were read", read)
}

// answer is a response read whole.
type answer struct {
	status int
	header http.Header
	body   string
	of     []any // what it is an answer to, for messages
}

// about names what the answer is about in the messages of later checks.
func (a answer) about(what ...any) answer {
	a.of = what
	return a
}

// want ends the test unless an answer has a status.
func (a answer) want(t testing.TB, status int, about ...any) answer {
	t.Helper()
	if len(about) > 0 {
		a.of = about
	}
	if a.status != status {
		must.Equal(t, a.status, status, append(slices.Clip(a.of), tail(a.body, 3000))...)
	}
	return a
}

// has fails the test unless the answer contains all texts.
func (a answer) has(t testing.TB, texts ...string) answer {
	t.Helper()
	expect.Text(t, a.body, append(slices.Clip(a.of), a.status)...).Has(texts...)
	return a
}

// lacks fails the test if the answer contains one of the texts.
func (a answer) lacks(t testing.TB, texts ...string) answer {
	t.Helper()
	expect.Text(t, a.body, append(slices.Clip(a.of), a.status)...).Lacks(texts...)
	return a
}

func call(t *testing.T, method, url, key, body string, header ...string) answer {
	t.Helper()
	return must.Get(tryCall(method, url, key, body, header...))(t)
}

func tryCall(method, url, key, body string, header ...string) (answer, error) {
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		req.Header.Set("X-API-Key", key)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return answer{status: resp.StatusCode, header: resp.Header, body: string(b)}, err
}

// member is the first string with one of the names in an object, in its messages or
// results, or in the first element of a list that has one.
func member(v any, names ...string) string {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if s := member(e, names...); s != "" {
				return s
			}
		}
	case map[string]any:
		for _, name := range names {
			if s, ok := v[name].(string); ok {
				return s
			}
		}
		return cmp.Or(member(v["messages"], names...), member(v["results"], names...))
	}
	return ""
}

// firstOf is a member of a body, "" if it has none.
func firstOf(body, name string) string {
	var v any
	_ = json.Unmarshal([]byte(body), &v) // what is no JSON has no members
	return member(v, name)
}

// id is the id of what a request made.
func id(t *testing.T, a answer) string {
	t.Helper()
	made := firstOf(a.body, "id")
	must.That(t, a.status/100 == 2 && made != "", "nothing was made: %v %d %s", a.of, a.status, tail(a.body, 1000))
	return made
}
