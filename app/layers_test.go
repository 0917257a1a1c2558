package app_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger/ledgertest"
)

// layered is the plain configuration with a memories section.
func layered(memories string) string {
	return strings.Replace(plain, "log:", "memories: "+memories+"\nlog:", 1)
}

// wrote is an add to Mem0 in one of its API versions.
type wrote struct{ path, more, role, text string }

func (r *rig) add(w wrote) got {
	r.t.Helper()
	return r.do("POST", w.path, fmt.Sprintf(`{"user_id":"ann","agent_id":"dev"%s,"messages":[{"role":%q,"content":%q}]}`, w.more, w.role, w.text))
}

// dialects are Mem0's routes for additions, with the option that makes them
// synchronous.
var dialects = map[string]string{"/memories": "", "/v3/memories/add/": "", "/v1/memories/": `,"async_mode":false`}

// Proves GOV-1, GOV-3: inferred facts that no user stated are refused, held, marked or
// allowed as configured, on every API version; the similar fact that a user stated
// passes.
func TestInferredFacts(t *testing.T) {
	t.Parallel()
	cases := map[string]string{"refuse": "deny", "hold": "hold", "mark": "allow", "allow": "allow"}
	for _, treatment := range ring.Sample(slices.Sorted(maps.Keys(cases)), 1, 2) {
		want := cases[treatment]
		t.Run(treatment, func(t *testing.T) {
			r := start(t, layered("{inferred: "+treatment+"}"))
			for path, more := range dialects {
				for name, w := range map[string]struct {
					stated           bool
					more, role, text string
				}{
					"facts of an assistant's words":  {false, ``, "assistant", "the user seems wealthy"},
					"an assistant's raw message":     {false, `,"infer":false`, "assistant", "the user seems wealthy"},
					"what calls itself inferred":     {false, `,"infer":false,"metadata":{"inferred":true}`, "user", "seems wealthy"},
					"what is attributed to a model":  {false, `,"infer":false,"metadata":{"attributed_to":"assistant","layer":"episodic"}`, "user", "seems wealthy"},
					"a task of the agent's own":      {false, `,"infer":false,"metadata":{"type":"task"}`, "assistant", "ask about wealth"},
					"a fact under an allowed key":    {false, `,"infer":false,"metadata":{"field":"tone"}`, "assistant", "formal"},
					"a speaker of the agent's name ": {false, `,"infer":false,"metadata":{"actor_id":"dev"}`, "user", "seems wealthy"},
					"facts of a user's words":        {true, ``, "user", "I like tea"},
					"a user's raw message":           {true, `,"infer":false`, "user", "I like tea"},
					"what is attributed to a user":   {true, `,"infer":false,"metadata":{"attributed_to":"user","inferred":false}`, "user", "I like tea"},
					"a user's task":                  {true, `,"infer":false,"metadata":{"type":"task"}`, "user", "buy tea"},
					"a speaker of the user's name ":  {true, `,"infer":false,"metadata":{"actor_id":"ann"}`, "user", "I like tea"},
				} {
					a := r.add(wrote{path, more + w.more, w.role, w.text}).about(path, name)
					switch {
					case w.stated:
						a.want(t, 200).lacks(t, "layer.")
						expect.Equal(t, verdictOf(a) == "allow" || verdictOf(a) == "amend", true, path, name, verdictOf(a))
					case treatment == "refuse":
						a.want(t, 403).decided(t, want).has(t, "layer.inferred")
					default:
						a.decided(t, want)
					}
				}
			}
			out := r.audit()
			expect.Equal(t, strings.Contains(out, "layer.inferred") == (treatment != "allow") && !strings.Contains(out, "wealth"), true, "the record says", out)
		})
	}
}

// Proves GOV-3: a mark is in the signed stamp that readers see, in the ledger and in
// the record; unmarked memories have none.
func TestMarksAreInStampAndLedger(t *testing.T) {
	t.Parallel()
	r := start(t, layered("{inferred: mark}"))
	r.add(wrote{"/memories", `,"infer":false`, "assistant", "seems to like tea"})
	r.add(wrote{"/memories", `,"infer":false`, "user", "I like coffee"})
	a := r.do("GET", "/memories?user_id=ann", "")
	expect.Equal(t, a.status == 200 && strings.Count(a.body, `"memproxy_mark":"layer.inferred"`) == 1 && strings.Count(a.body, `"memproxy_attestation":"inferred"`) == 1 && strings.Count(a.body, "memproxy_sig") == 2, true, a.status, a.body)
	r.stop()
	expect.Text(t, r.audit("--type", "decision"), "the record says").Times(1, `"layer.inferred"`).Lacks("integrity.")
}

// Proves GOV-1: each layer can have its own rules.
func TestLayersAreGovernedApart(t *testing.T) {
	t.Parallel()
	r := start(t, layered("{inferred: refuse, layers: {episodic: {inferred: allow}, task: {inferred: hold, fields: [todo]}}}"))
	for name, tc := range map[string]struct {
		w    wrote
		want string
	}{
		"raw messages":                  {wrote{"/memories", `,"infer":false`, "assistant", "noted"}, "allow"},
		"facts":                         {wrote{"/memories", ``, "assistant", "noted"}, "deny"},
		"raw messages filed as facts":   {wrote{"/memories", `,"infer":false,"metadata":{"field":"tone"}`, "assistant", "noted"}, "deny"},
		"raw messages said to be facts": {wrote{"/memories", `,"infer":false,"metadata":{"layer":"semantic"}`, "assistant", "noted"}, "deny"},
		"facts said to be raw":          {wrote{"/memories", `,"metadata":{"layer":"episodic"}`, "assistant", "noted"}, "deny"},
		"tasks":                         {wrote{"/memories", `,"infer":false,"metadata":{"field":"todo"}`, "assistant", "buy tea"}, "hold"},
		"an account of work done":       {wrote{"/memories", `,"memory_type":"procedural_memory"`, "assistant", "built it"}, "hold"},
	} {
		r.add(tc.w).about(name).decided(t, tc.want)
	}
}

// Proves GOV-2: keys outside the configured namespaces are refused, held, marked or
// allowed as configured; keys inside, and content without a key, are unaffected. Keys
// that model a user's traits are refused in production regardless of the configuration.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	cases := map[string]string{"refuse": "deny", "hold": "hold", "mark": "allow", "allow": "allow"}
	for _, outside := range ring.Sample(slices.Sorted(maps.Keys(cases)), 1, 2) {
		want := cases[outside]
		r := start(t, layered("{namespaces: {outside: "+outside+"}}"))
		for path, more := range dialects {
			filed := func(metadata string) got {
				return r.add(wrote{path, more + `,"infer":false,"metadata":{` + metadata + `}`, "user", "short"})
			}
			for _, key := range []string{`"field":"billing"`, `"category":"billing"`} {
				a := filed(key)
				if verdictOf(a) != want || outside == "refuse" && (a.status != 403 || !strings.Contains(a.body, "layer.namespace")) {
					t.Errorf("%s, %s on %s: %d %s %s", outside, key, path, a.status, verdictOf(a), a.body)
				}
			}
			for _, key := range []string{`"field":"tone"`, `"category":"Format"`, `"field":"learnings"`, `"field":"gotchas"`, `"field":"todo"`, `"topic":"billing"`, `"health-check":"ok","page":1`} {
				filed(key).want(t, 200, outside, key, "on", path).decided(t, "allow")
			}
			for _, key := range []string{`"field":"religion"`, `"category":"user_mood"`, `"profile":{"Political-Views":"x"}`, `"tags":["health"]`} {
				filed(key).want(t, 403, outside, key, "on", path).has(t, "field.trait")
			}
		}
		r.stop()
	}
	dev := start(t, layered("{}"), "profile: production", "profile: development")
	for _, key := range []string{"billing", "religion"} {
		dev.add(wrote{"/memories", `,"infer":false,"metadata":{"field":"` + key + `"}`, "user", "short"}).want(t, 200, "while developing", key).decided(t, "allow")
	}
}

// Proves GOV-1, GOV-2: the default configuration changes nothing that unmodified
// clients would notice.
func TestOrdinaryWritesUnderTheDefaults(t *testing.T) {
	t.Parallel()
	r := start(t, plain)
	for path, more := range dialects {
		for _, body := range []string{
			`"messages":[{"role":"user","content":"I like tea"},{"role":"assistant","content":"Noted, you like tea"}]`,
			`"messages":[{"role":"assistant","content":"The user likes tea"}]`,
			`"messages":[{"role":"user","content":"I like tea"}],"metadata":{"category":"food","source":"chat"}`,
			`"infer":false,"messages":[{"role":"user","content":"I like tea"},{"role":"assistant","content":"Noted"}]`,
		} {
			r.do("POST", path, `{"user_id":"ann","agent_id":"dev",`+body+more+`}`).want(t, 200, path, body).decided(t, "allow").lacks(t, "layer.")
		}
	}
}

// guesses is a backend whose model extracts more from a conversation than was said.
type guesses struct {
	mu      sync.Mutex
	deleted []string
}

func (g *guesses) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch r.Method {
	case http.MethodPost:
		_, _ = io.WriteString(w, `{"results":[{"id":"m-tea","event":"ADD","memory":"User likes green tea"},{"id":"m-rich","event":"ADD","memory":"User is wealthy and lonely"}]}`)
	case http.MethodDelete:
		g.mu.Lock()
		g.deleted = append(g.deleted, r.URL.Path)
		g.mu.Unlock()
		_, _ = io.WriteString(w, `{"message":"Memory deleted successfully!"}`)
	default:
		answer := `{"results":[]}`
		if r.URL.Path == "/v1/event/e/" {
			answer = `{"id":"e","status":"SUCCEEDED","payload":{"user_id":"ann","agent_id":"dev"},"results":[{"id":"m-rich","event":"ADD","data":{"memory":"User is wealthy and lonely"}}]}`
		}
		_, _ = io.WriteString(w, answer)
	}
}

// Proves GOV-3: facts that the backend's model inferred and no user stated are deleted,
// kept for review, or marked in the ledger, and what is deleted is in no receipt; stated
// facts remain.
func TestModelInferredFacts(t *testing.T) {
	t.Parallel()
	for treatment, want := range map[string]struct {
		gone  bool
		holds int
	}{"allow": {}, "mark": {}, "hold": {true, 1}, "refuse": {true, 0}} {
		b := &guesses{}
		up := serving(t, b)
		r := start(t, layered("{inferred: "+treatment+"}"), "UPSTREAM", up.URL)
		a := r.do("POST", "/memories", `{"user_id":"ann","agent_id":"dev","messages":[{"role":"user","content":"I like green tea"},{"role":"assistant","content":"You are wealthy and lonely"}]}`)
		a.want(t, 200, treatment).has(t, "m-tea").shows(t, !want.gone, "m-rich")
		gone := strings.Join(b.deleted, " ")
		expect.Equal(t, gone == "/memories/m-rich", want.gone, treatment, "deleted", gone)
		r.do("GET", "/v1/event/e/", "").want(t, 200, treatment, "the receipt").shows(t, !want.gone, "wealthy")
		r.pending(want.holds)
		ring.Until(r.t, "the ledger knows", func() bool { return r.statusOf("m-tea").Attestation != "" })
		st := r.statusOf("m-tea")
		expect.Equal(t, st.Attestation == memproxy.SelfReported && st.Reason == "", true, treatment, "stated", st)
		if treatment == "mark" {
			st := r.statusOf("m-rich")
			expect.Equal(t, st.Attestation == memproxy.Inferred && st.Reason == "layer.inferred", true, "inferred", st)
			v, err := r.car.Ledger.History(t.Context(), memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: "m-rich"}, 0, 10)
			expect.Equal(t, err == nil && len(v) == 1 && v[0].Attestation == memproxy.Inferred, true, "inferred", v, err)
		}
		r.stop()
		out := r.audit()
		expect.Equal(t, strings.Contains(out, "layer.inferred") == (treatment != "allow") && !strings.Contains(out, "wealthy"), true, treatment, "the record says", out)
	}
}

// Proves GOV-2, GOV-3: the same rules apply to Letta's blocks, passages and self-edits;
// what an agent quotes from its user counts as stated.
func TestLayersOnLetta(t *testing.T) {
	t.Parallel()
	conf := strings.Replace(lettaConf, `policy: {dir: "DIR/policies"}`, "memories: {inferred: refuse, namespaces: {outside: refuse}, layers: {task: {inferred: allow}}}", 1)
	l := startLettaWith(t, someAgent, conf, plainly)
	for _, tc := range []struct {
		path, body, code string
	}{
		{"/v1/blocks/", `{"label":"human","value":"likes tea"}`, ""},
		{"/v1/blocks/", `{"label":"tone","value":"plain"}`, ""},
		{"/v1/blocks/", `{"label":"billing","value":"pays late"}`, "layer.namespace"},
		{"/v1/blocks/", `{"label":"todo","value":"buy tea"}`, ""},
		{"/v1/blocks/", `{"label":"personality","value":"calm"}`, "field.trait"},
		{"/v1/blocks/", `{"label":"human","value":"likes tea","metadata":{"inferred":true}}`, "layer.inferred"},
		{"/v1/agents/" + l.agent + "/archival-memory", `{"text":"likes tea","tags":["home"]}`, ""},
		{"/v1/agents/" + l.agent + "/archival-memory", `{"text":"likes tea","tags":["mood"]}`, "field.trait"},
	} {
		a := l.do("POST", tc.path, tc.body)
		if (tc.code == "") != (a.status/100 == 2) || tc.code != "" && !strings.Contains(a.body, tc.code) {
			t.Errorf("%s %s: %d %s", tc.path, tc.body, a.status, a.body)
		}
	}
	says := func(user, script string) got {
		return l.do("POST", "/v1/agents/"+l.agent+"/messages", fmt.Sprintf(`{"messages":[{"role":"user","content":%q},{"role":"system","content":%q}]}`, user, script))
	}
	says("I am fond of chess", "CALL memory_insert {\"label\":\"human\",\"new_string\":\"fond of chess\"}\nTHEN\nCALL memory_insert {\"label\":\"human\",\"new_string\":\"probably lonely\"}\nTHEN\nSAY done").want(t, 200).has(t, "not stated by a user")
	l.blocks("Ann\nfond of chess", "helper")
	expect.Text(t, l.audit("--type", "decision"), "the record says").Has("layer.inferred.refuse").Lacks("lonely")
}

// Proves GOV-2, GOV-3: explain shows the layer of content, the consequence and the
// deciding rule; in shadow mode a rule is shown and does not decide.
func TestExplainShowsLayers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	policies := policyDir(t, "// nothing of one's own")
	for name, tc := range map[string]struct {
		more, body string
		want       []string
		verdict    string
	}{
		"inferred": {"", `{"user_id":"ann","agent_id":"dev","infer":false,"messages":[{"role":"assistant","content":"seems rich"}],"metadata":{"layer":"task"}}`,
			[]string{"/messages/0/content: episodic, and as task too, inferred: refuse", "layer.inferred layer.inferred.refuse", "layers.cedar:"}, "verdict    deny"},
		"stated": {"", `{"user_id":"ann","agent_id":"dev","messages":[{"role":"user","content":"I like tea"}],"metadata":{"field":"tone"}}`,
			[]string{"/messages/0/content: semantic, derived by the backend's model without a user's statement: refuse", `key "tone": allow`, "filed under field"}, "verdict    allow"},
		"in shadow": {"shadow: [layer.inferred.refuse]", `{"user_id":"ann","agent_id":"dev","infer":false,"messages":[{"role":"assistant","content":"seems rich"}]}`,
			[]string{"inferred: refuse"}, "verdict    allow (would be deny if it were enforced)"},
	} {
		conf := layered("{inferred: refuse}")
		if tc.more != "" {
			writeFile(t, filepath.Join(policies, "bundle.yaml"), tc.more)
			conf = strings.Replace(conf, "memories:", "policy: {dir: \""+policies+"\"}\nmemories:", 1)
		}
		file := writeFile(t, filepath.Join(dir, "memproxy.yaml"), strings.NewReplacer("DIR", dir, "UPSTREAM", "http://127.0.0.1:9", "KEY", sha("k")).Replace(conf))
		body := writeFile(t, filepath.Join(dir, "body.json"), tc.body)
		code, out, errs := invoke(t, "explain", "--config", file, "--method", "POST", "--path", "/memories", "--body", body, "--as", "agent:dev")
		expect.Equal(t, (code == 3) == strings.Contains(out, "verdict    deny") && strings.Contains(out, tc.verdict) && !strings.Contains(out, "rich"), true, name, "exit", code, out, errs)
		expect.Text(t, out, name).Has(tc.want...)
	}
}

// Proves GOV-1: a layer limits the lifetime of its memories; a shorter lifetime of the
// field applies, and a claimed layer can only shorten it.
func TestLayersHaveLifetimes(t *testing.T) {
	t.Parallel()
	clock := ledgertest.NewClock()
	r := startAt(t, clock.Now, layered("{ttl: {default: 30d, tone: 1h}, layers: {episodic: {ttl: 1d}, task: {ttl: 40d}}}"))
	for name, tc := range map[string]struct {
		more string
		want time.Duration
	}{
		"a raw message":                    {`,"infer":false`, 24 * time.Hour},
		"a fact":                           {``, 30 * 24 * time.Hour},
		"a fact that calls itself raw":     {`,"metadata":{"layer":"episodic"}`, 24 * time.Hour},
		"a raw message said to be a fact":  {`,"infer":false,"metadata":{"layer":"semantic"}`, 24 * time.Hour},
		"a task, less than its layer's":    {`,"infer":false,"metadata":{"field":"todo"}`, 30 * 24 * time.Hour},
		"a field with a time of its own":   {`,"infer":false,"metadata":{"field":"tone"}`, time.Hour},
		"a fact that calls itself a task ": {`,"metadata":{"type":"task"}`, 30 * 24 * time.Hour},
	} {
		added := r.add(wrote{"/memories", tc.more, "user", "I wrote " + name}).id(t)
		var st memproxy.Status
		ring.Until(r.t, "it has an end", func() bool {
			st = r.statusOf(added)
			return !st.Expires.IsZero()
		})
		left := st.Expires.Sub(clock.Now())
		expect.Equal(t, left <= tc.want && left >= tc.want-30*time.Minute, true, name, left, "left, want", tc.want)
	}
}
