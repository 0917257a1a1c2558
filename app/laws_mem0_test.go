package app

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/adapters/mem0/embedded"
	"github.com/memproxy/memproxy/internal/must"
)

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
