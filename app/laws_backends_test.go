package app_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	lettaback "github.com/memproxy/memproxy/adapters/letta/embedded"
	"github.com/memproxy/memproxy/adapters/mem0/embedded"
	"github.com/memproxy/memproxy/internal/must"
)

// In front of Letta users are agents, each with a block and an archive.
var lettaLaws = &lawKind{
	name:    "letta",
	callers: slices.DeleteFunc(slices.Clone(lawCallers), func(p lawCaller) bool { return p.users != nil }),
	back:    func(*testing.T) http.Handler { return lettaback.New() },
	prepare: func(w *lawWorld) {
		w.dice, w.agents = rand.New(rand.NewPCG(0, 3)), map[string]string{}
		for _, key := range []string{"human", "boss"} {
			p := w.caller(key)
			for _, name := range lawUsers[p.tenant] {
				word, text := w.says(p, name, kindHarmless)
				before := w.kind.stored(w)
				a := w.ask(p, "POST", "/v1/agents/", fmt.Sprintf(`{"name":%q,"agent_type":"letta_v1_agent","tools":["memory_rethink","archival_memory_insert"],"memory_blocks":[{"label":"human","value":%q}]}`, name, text))
				w.agents[name] = a.id(w.t)
				w.obey(before, permit{by: p, words: []string{word}, user: name, answer: a})
			}
		}
	},
	writes: func(method, path string) bool {
		return method == "PATCH" || method == "POST" && !strings.HasSuffix(path, "/search")
	},
	stored: storedInLetta, adds: addLetta, reads: readLetta,
	steps: []lawStepKind{
		{"add", 6, (*lawWorld).add},
		{"have the agent write", 6, (*lawWorld).turn},
		{"change a block", 4, (*lawWorld).changeBlock},
		{"delete", 2, (*lawWorld).deletePassage},
		{"send the last write again", 2, (*lawWorld).retry},
		{"settle a held write", 5, (*lawWorld).settleHold},
		{"run a job", 4, (*lawWorld).runJob},
		{"let time pass", 2, (*lawWorld).passTime},
		{"restart", 2, (*lawWorld).restart},
		{"provoke a lock", 1, (*lawWorld).provokeLock},
		{"fault in a write", 3, (*lawWorld).failWrite},
		{"crash in a write", 2, (*lawWorld).crash},
		{"read", 4, (*lawWorld).read},
	},
	changes: []func(*lawWorld){(*lawWorld).add, (*lawWorld).turn, (*lawWorld).changeBlock, (*lawWorld).deletePassage},
}

func storedInLetta(w *lawWorld) map[string]storedMemory {
	out := map[string]storedMemory{}
	get := func(path string, to any) {
		rec := httptest.NewRecorder()
		w.back.ServeHTTP(rec, httptest.NewRequest("GET", path, nil))
		must.Do(w.t, json.Unmarshal(rec.Body.Bytes(), to))
	}
	for name, id := range w.agents {
		var passages []struct{ ID, Text string }
		get("/v1/agents/"+id+"/archival-memory?limit=1000", &passages)
		for _, p := range passages {
			out[p.ID] = storedMemory{user: name, text: p.Text, confidence: 1}
		}
		var agent struct {
			Blocks []struct{ ID, Value string }
		}
		get("/v1/agents/"+id, &agent)
		for _, b := range agent.Blocks {
			out[b.ID] = storedMemory{user: name, text: b.Value, confidence: 1, block: true}
		}
	}
	return out
}

func addLetta(w *lawWorld, p *lawCaller, agent string, kind textKind) got {
	word, text := w.says(p, agent, kind)
	return w.writes(p, "POST", "/v1/agents/"+w.agents[agent]+"/archival-memory", fmt.Sprintf(`{"text":%q}`, text), permit{words: []string{word}, user: agent})
}

// blockOf is the block of an agent.
func (w *lawWorld) blockOf(agent string) string {
	for id, m := range w.memories {
		if m.user == agent && m.block {
			return id
		}
	}
	return ""
}

// turn has an agent write to its own memory.
func (w *lawWorld) turn() {
	p, agent := w.someone()
	word, text := w.says(p, agent, w.someKind())
	may := permit{words: []string{word}, user: agent}
	call := fmt.Sprintf(`archival_memory_insert {"content":%q}`, text)
	if w.dice.IntN(2) == 0 {
		may.targets = []string{w.blockOf(agent)}
		call = fmt.Sprintf(`memory_rethink {"label":"human","new_memory":%q}`, text)
	}
	a := w.writes(p, "POST", "/v1/agents/"+w.agents[agent]+"/messages", fmt.Sprintf(`{"input":%q}`, "CALL "+call+"\nTHEN\nSAY done"), may)
	switch {
	case a.status >= 500:
		w.waiting[word] = waitingTurn{p, agent}
	case a.status == 200:
		maps.DeleteFunc(w.waiting, func(_ string, t waitingTurn) bool { return t.agent == agent })
	}
}

func (w *lawWorld) changeBlock() {
	p, agent := w.someone()
	word, text := w.says(p, agent, w.someKind())
	id := w.blockOf(agent)
	path := oneOf(w, "/v1/blocks/"+id, "/v1/agents/"+w.agents[agent]+"/core-memory/blocks/human")
	w.writes(p, "PATCH", path, fmt.Sprintf(`{"value":%q}`, text), permit{words: []string{word}, targets: []string{id}, user: agent})
}

func (w *lawWorld) deletePassage() {
	p, _ := w.someone()
	if m := w.some(); m != nil && !m.block {
		w.writes(p, "DELETE", "/v1/agents/"+w.agents[m.user]+"/archival-memory/"+m.id, "", permit{targets: []string{m.id}, user: m.user})
	}
}

func readLetta(w *lawWorld, p *lawCaller, agent string) {
	w.note("%s reads %s", p.id, agent)
	of := "/v1/agents/" + w.agents[agent]
	w.ask(p, "GET", of+"/archival-memory?limit=1000", "") // binds what the backend made later
	may, must := w.visible(p, agent)
	passages := map[string]bool{}
	for word, shown := range must {
		passages[word] = shown && slices.ContainsFunc(w.ids, func(id string) bool {
			m := w.memories[id]
			return m.word == word && !m.block
		})
	}
	w.shows(p, may, passages, w.ask(p, "GET", of+"/archival-memory?limit=1000", ""))
	w.ask(p, "GET", of, "") // names the calls that wait, too
	w.shows(p, may, nil, w.ask(p, "GET", of+"/core-memory/blocks/human", ""))
	all, _ := w.visible(p, "")
	w.ask(p, "GET", "/v1/agents/", "")
	w.shows(p, all, nil, w.ask(p, "GET", "/v1/blocks/", ""))
	w.ask(p, "GET", of+"/messages", "")
	if m := w.some(); m != nil && m.block {
		a := w.ask(p, "GET", "/v1/blocks/"+m.id, "")
		w.shows(p, all, nil, a)
		if m.tenant != p.tenant && a.status != 404 && w.away == 0 {
			w.breaks("%s reads %s of %s: %d %s", p.id, m.id, m.tenant, a.status, a.body)
		}
	}
}

// lawKind is what differs between the worlds of the two backends.
type lawKind struct {
	name    string
	callers []lawCaller
	back    func(*testing.T) http.Handler
	prepare func(*lawWorld)                                                 // each user's name is used by its tenant first
	writes  func(method, path string) bool                                  // of POST and PATCH
	stored  func(*lawWorld) map[string]storedMemory                         // all that the backend has, by id
	adds    func(w *lawWorld, p *lawCaller, user string, kind textKind) got // an addition
	reads   func(w *lawWorld, p *lawCaller, user string)                    // everything that a caller can ask for
	steps   []lawStepKind
	changes []func(*lawWorld) // that are played with faults
}

var mem0Laws = &lawKind{
	name: "mem0", callers: lawCallers,
	back: func(t *testing.T) http.Handler { return must.Get(embedded.New(embedded.Options{}))(t) },
	prepare: func(w *lawWorld) {
		w.dice = rand.New(rand.NewPCG(0, 3))
		for _, key := range []string{"human", "boss"} {
			p := w.caller(key)
			for _, user := range lawUsers[p.tenant] {
				addMem0(w, p, user, kindHarmless)
			}
		}
	},
	writes: func(method, path string) bool {
		return method == "POST" && (path == "/memories" || path == "/v1/memories/" || strings.HasSuffix(path, "/add/") || strings.Contains(path, "feedback"))
	},
	stored: storedInMem0, adds: addMem0, reads: readMem0, steps: mem0Steps,
	changes: []func(*lawWorld){(*lawWorld).add, (*lawWorld).update, (*lawWorld).changeMetadata, (*lawWorld).delete, (*lawWorld).clear},
}

func storedInMem0(w *lawWorld) map[string]storedMemory {
	out := map[string]storedMemory{}
	for _, users := range lawUsers {
		for _, user := range users {
			rec := httptest.NewRecorder()
			w.back.ServeHTTP(rec, httptest.NewRequest("GET", "/memories?user_id="+user+"&limit=1000", nil))
			var list struct {
				Results []struct {
					ID, Memory string
					Metadata   struct {
						Actor       string  `json:"memproxy_actor"`
						Confidence  float64 `json:"memproxy_confidence"`
						Attestation string  `json:"memproxy_attestation"`
					}
				}
			}
			must.Do(w.t, json.Unmarshal(rec.Body.Bytes(), &list))
			for _, m := range list.Results {
				out[m.ID] = storedMemory{user, m.Memory, m.Metadata.Actor, m.Metadata.Confidence, m.Metadata.Attestation, false}
			}
		}
	}
	return out
}

func addMem0(w *lawWorld, p *lawCaller, user string, kind textKind) got {
	word, text := w.says(p, user, kind)
	metadata, source := w.someMetadata()
	body := fmt.Sprintf(`{"user_id":%q,"infer":%v,"messages":[{"role":"user","content":%q}],%s}`, user, w.dice.IntN(5) == 0, text, metadata)
	return w.writes(p, "POST", oneOf(w, "/memories", "/v1/memories/", "/v3/memories/add/"), body, permit{words: []string{word}, source: source, user: user})
}

func readMem0(w *lawWorld, p *lawCaller, user string) {
	w.note("%s reads %s", p.id, user)
	list := "/memories?user_id=" + user + "&limit=200"
	w.ask(p, "GET", list, "") // binds what the backend made later
	may, must := w.visible(p, user)
	if p.users != nil && !slices.Contains(p.users, user) {
		must = nil
	}
	w.shows(p, may, must, w.ask(p, "GET", list, ""))
	w.shows(p, may, must, w.ask(p, "GET", "/v1/memories/?user_id="+user, ""))
	w.shows(p, may, nil, w.ask(p, "POST", "/search", fmt.Sprintf(`{"query":"bees","user_id":%q,"limit":200}`, user)))
	w.shows(p, may, nil, w.ask(p, "POST", "/v2/memories/", fmt.Sprintf(`{"filters":{"user_id":%q}}`, user)))
	w.shows(p, may, nil, w.ask(p, "POST", "/v3/memories/search/", fmt.Sprintf(`{"query":"bees","filters":{"user_id":%q},"top_k":100}`, user)))
	all, _ := w.visible(p, "")
	w.shows(p, all, nil, w.ask(p, "GET", "/v1/memories/", ""))
	w.ask(p, "GET", oneOf(w, "/v1/entities/", "/entities", "/v1/memories/events/", "/v1/events/"), "")
	w.shows(p, all, nil, w.ask(p, "POST", "/v3/memories/search/", `{"query":"bees","filters":{"user_id":"*"},"top_k":100}`))
	w.shows(p, all, nil, w.ask(p, "POST", "/v1/summary/", fmt.Sprintf(`{"filters":{"user_id":%q}}`, user)))
	if m := w.some(); m != nil {
		a := w.ask(p, "GET", "/memories/"+m.id, "")
		w.shows(p, all, nil, a)
		if (m.tenant != p.tenant || m.gone) && a.status != 404 && strings.TrimSpace(a.body) != "null" && w.away == 0 {
			w.breaks("%s reads %s of %s, deleted: %v: %d %s", p.id, m.id, m.tenant, m.gone, a.status, a.body)
		}
		words := map[string]bool{}
		for _, word := range m.words {
			words[word] = all[m.word] || m.goneUnseen // a deletion without an answer is found later
		}
		w.shows(p, words, nil, w.ask(p, "GET", "/v1/memories/"+m.id+"/history/", ""))
	}
	for _, id := range w.holdIDs {
		if a := w.ask(p, "GET", "/v1/event/"+id+"/", ""); a.status == 200 && w.holds[id].by.tenant != p.tenant {
			w.breaks("%s reads the receipt of %s: %s", p.id, w.holds[id].by.id, a.body)
		}
	}
}
