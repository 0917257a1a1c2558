package app

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/memproxy/memproxy/adapters/letta/embedded"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// interrupted is a backend in the same process. Before it serves the next request with
// these words in its path, something else happens.
type interrupted struct {
	http.Handler
	method, at string
	meanwhile  func()
}

func (s *interrupted) RoundTrip(q *http.Request) (*http.Response, error) {
	if f := s.meanwhile; f != nil && q.Method == s.method && strings.Contains(q.URL.Path, s.at) {
		s.meanwhile = nil
		f()
	}
	if q.Body == nil {
		q.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, q)
	return w.Result(), nil
}

// Proves EDGE-5, EDGE-3, EDGE-1: a block that takes another's place in an agent between the
// ruling on a change of it by its label and the change is not changed by it.
func TestBlocksThatTakeAnothersPlaceAreNotChanged(t *testing.T) {
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGHUP) // the runtime's signal goroutine starts outside of the bubbles
	defer signal.Stop(heard)
	type call struct{ method, path, body string }
	for name, write := range map[string]call{
		"by its label":    {"PATCH", "/v1/agents/AGENT/core-memory/blocks/human", `{"value":"Ann likes coffee"}`},
		"by a tool's run": {"POST", "/v1/agents/AGENT/tools/memory_rethink/run", `{"args":{"label":"human","new_memory":"Ann likes coffee"}}`},
	} {
		for how, swap := range map[string][]call{
			"detached and attached":    {{"PATCH", "/v1/agents/AGENT/core-memory/blocks/detach/OWN", ""}, {"PATCH", "/v1/agents/AGENT/core-memory/blocks/attach/THEIRS", ""}},
			"in a change of the agent": {{"PATCH", "/v1/agents/AGENT", `{"block_ids":["THEIRS"]}`}},
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					letta := embedded.New()
					back := &interrupted{Handler: letta}
					dir := ring.Dir(t)
					text := strings.NewReplacer(append(replacements(), "DIR/policies", "", "DIR", dir, "LETTA", "http://backend.invalid", "KEY", sha(devToken))...).Replace(withPeople(lettaConf))
					cfg := must.Get(config.Parse("memproxy.yaml", []byte(text), os.Getenv))(t)
					r := &rig{t: t, dir: dir, log: &lockedBuffer{}}
					r.car = must.Get(New(context.Background(), unwatched(cfg), Options{Log: r.log, Getenv: allowing(cfg), Version: "test", Transport: back, Patience: 10}))(t)
					defer r.stop()
					do := func(c call, who string) got {
						q := httptest.NewRequestWithContext(context.Background(), c.method, c.path, strings.NewReader(c.body))
						for h := as(who); len(h) > 0; h = h[2:] {
							q.Header.Set(h[0], h[1])
						}
						q.Header.Set("Content-Type", "application/json")
						w := httptest.NewRecorder()
						r.car.Handler("mem0").ServeHTTP(w, q)
						return got{w.Code, w.Header(), w.Body.String()}
					}
					made := func(who, path, body string) string {
						var it struct{ ID string }
						must.Do(t, json.Unmarshal([]byte(do(call{"POST", path, body}, who).want(t, 200).body), &it))
						return it.ID
					}
					agent := made("", "/v1/agents/", someAgent)
					theirs := made("human", "/v1/blocks/", `{"label":"human","value":"Ann likes green tea"}`)
					var own struct{ ID string }
					must.Do(t, json.Unmarshal([]byte(do(call{"GET", "/v1/agents/" + agent + "/core-memory/blocks/human", ""}, "").want(t, 200).body), &own))
					in := strings.NewReplacer("AGENT", agent, "OWN", own.ID, "THEIRS", theirs)
					at := func(c call) call { return call{c.method, in.Replace(c.path), in.Replace(c.body)} }
					back.method, back.at, back.meanwhile = write.method, at(write).path, func() {
						for _, c := range swap {
							do(at(c), "").want(t, 503)
						}
					}
					do(at(write), "").want(t, 200)
					do(call{"GET", "/v1/blocks/" + theirs, ""}, "human").want(t, 200).has(t, "green tea")
					for _, c := range swap { // afterwards they are made
						do(at(c), "").want(t, 200)
					}
					do(at(write), "").lacks(t, `"success"`)
					do(call{"GET", "/v1/blocks/" + theirs, ""}, "human").want(t, 200).has(t, "green tea")
				})
			})
		}
	}
}
