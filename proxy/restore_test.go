package proxy_test

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/frontend/frontendtest"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/gate/backend"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/proxy"
)

// caching is an adapter that deletes by one request, and records what it is told to
// remove from its cache.
type caching struct {
	backend.Adapter
	gone []string
}

func (c *caching) Read(memproxy.Route, memproxy.Request, memproxy.Reply) (*memproxy.Reading, error) {
	return &memproxy.Reading{}, nil
}

func (c *caching) Rewrite(_ memproxy.Route, _ memproxy.Request, reply memproxy.Reply, _ *memproxy.Reading) ([]byte, error) {
	return reply.Body, nil
}
func (c *caching) Evict(ids ...string) { c.gone = append(c.gone, ids...) }

func (c *caching) FindRequests(memproxy.MemoryKey) []memproxy.SideRequest { return nil }
func (c *caching) Restore(to memproxy.Version, _ memproxy.Memory, _ memproxy.Stamp) []memproxy.SideRequest {
	return c.Remove(to.MemoryKey)
}

func (c *caching) Remove(k memproxy.MemoryKey) (out []memproxy.SideRequest) {
	for _, id := range strings.Split(k.ID, "|") {
		out = append(out, memproxy.SideRequest{Request: memproxy.Request{Method: "DELETE", EscapedPath: "/memory/" + id}})
	}
	return out
}

// Proves SYN-5: a backend that refuses the credential of one dialect is sent a request
// in the other; a refusal does not count as a missing memory.
func TestOtherDialectsAreTried(t *testing.T) {
	t.Parallel()
	for answers, want := range map[[2]int]string{{401, 200}: "", {404, 200}: "", {404, 404}: "", {401, 404}: "the backend returned status 401", {404, 401}: "the backend returned status 401", {403, 200}: "the backend returned status 403"} {
		r := newRig(t, func(r *rig) {
			r.opt.Adapter = &caching{Adapter: r.opt.Adapter}
			r.answer = func(w http.ResponseWriter, q *http.Request) { w.WriteHeader(answers[q.URL.Path[len("/memory/")]-'0']) }
		})
		p := must.Get(proxy.New(r.opt))(t)
		got := ""
		if err := p.BackendClient().Remove(t.Context(), memproxy.MemoryKey{ID: "0|1"}); err != nil {
			got = err.Error()
		}
		expect.Equal(t, got, want, answers)
	}
}

// A memory that memproxy deletes because it expired is removed from the adapter's cache
// as well, unless the backend refused to delete it.
func TestRemovedMemoriesLeaveTheCache(t *testing.T) {
	t.Parallel()
	for status, want := range map[int][]string{http.StatusOK: {"m1"}, http.StatusNotFound: {"m1"}, http.StatusForbidden: nil} {
		cache := &caching{}
		r := newRig(t, func(r *rig) {
			cache.Adapter, r.opt.Adapter = r.opt.Adapter, cache
			r.answer = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
		})
		p := must.Get(proxy.New(r.opt))(t)
		err := p.BackendClient().Remove(t.Context(), memproxy.MemoryKey{Backend: "toy", Kind: memproxy.TargetMemory, ID: "m1"})
		expect.List(t, cache.gone, want, status, "removed")
		expect.Equal(t, err == nil, want != nil, status, "removed", err)
	}
}

// hanging is a transport whose requests end with their context.
type hanging struct{ http.RoundTripper }

func (hanging) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// withoutAnswers is a proxy whose side requests get no answer.
func withoutAnswers(t *testing.T, adapter backend.Adapter) (*proxy.Proxy, *frontendtest.Parts) {
	parts := &frontendtest.Parts{}
	rules := frontendtest.Rules(parts)
	return must.Get(proxy.New(proxy.Options{
		Backend: frontend.Backend{Backend: gate.Backend{Name: "toy", Adapter: adapter}, Upstream: &url.URL{Scheme: "http", Host: "toy"}, InFlight: frontend.NewInFlight(0, 0)},
		Gate:    frontendtest.NewGate(t, parts, &rules), SideTransport: hanging{},
	}))(t), parts
}

// A rollback that found no slot among memproxy's own requests was not sent: it can be
// repeated, and nobody has to find out what it did.
func TestRollbacksWithoutASlotAreUnsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := withoutAnswers(t, &caching{Adapter: frontendtest.Toy{}})
		to := memproxy.Version{MemoryKey: memproxy.MemoryKey{Backend: "toy", Kind: memproxy.TargetMemory, ID: "m1"}}
		outcomes := map[memproxy.Outcome]int{}
		var mu sync.Mutex
		var all sync.WaitGroup
		for range 200 {
			all.Go(func() {
				got := p.BackendClient().Restore(t.Context(), to, memproxy.Memory{}, "d1", "human:ann")
				mu.Lock()
				defer mu.Unlock()
				outcomes[got.Outcome]++
			})
		}
		all.Wait()
		expect.That(t, outcomes[memproxy.OutcomeUnsent] != 0 && outcomes[memproxy.OutcomeUnknown] != 0 && len(outcomes) == 2, "outcomes: %v", outcomes)
	})
}

// asking is running whose turns need side requests. Each turn is of another agent.
type asking struct{ running }

func (asking) Turn(memproxy.Route, memproxy.Request, []byte) (memproxy.Turn, error) {
	return &oneRequest{key: rand.Text(), asks: true}, nil
}

// A turn that found no slot for its side requests says that nothing was sent, so that its
// caller may repeat it.
func TestTurnsWithoutASlotAreUnsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, parts := withoutAnswers(t, asking{})
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				p.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/run", strings.NewReader("x")))
			})
		}
		all.Wait()
		details := map[string]int{}
		for _, ev := range parts.Recorded() {
			if ev.Type == memproxy.EventOutcome {
				details[ev.Reasons[0].Detail]++
			}
		}
		expect.Equal(t, details[memproxy.NotReached], 100, "outcomes", details)
	})
}

// running is pruning whose agents run: each turn is one request, and answers are
// unchanged.
type running struct {
	frontendtest.Pruning
	backend.AgentRunner
}

func (running) Turn(rt memproxy.Route, _ memproxy.Request, _ []byte) (memproxy.Turn, error) {
	if rt.Kind != memproxy.Run {
		return nil, nil
	}
	return &oneRequest{}, nil
}

func (running) Names(memproxy.Route, memproxy.Reply) ([]memproxy.Ref, error)   { return nil, nil }
func (running) Withhold(_ memproxy.Route, body []byte, _ bool) ([]byte, error) { return body, nil }

func (running) ChangesToolsOf(memproxy.Route) string                              { return "" }
func (running) Attaches(memproxy.Route, *memproxy.Operation) []string             { return nil }
func (running) ToolRun(memproxy.Route, memproxy.Request, []byte) memproxy.ToolRun { return nil }
func (running) Probe(memproxy.Route, memproxy.Request) (string, memproxy.Request, bool) {
	return "", memproxy.Request{}, false
}
func (running) Resume(memproxy.Route, memproxy.Request, []byte) (memproxy.Resumption, bool) {
	return memproxy.Resumption{}, false
}
func (running) RequestedRuns(memproxy.Route, memproxy.Request, []byte) ([]string, bool) {
	return nil, false
}

func (running) DiffRun(memproxy.Route, memproxy.Request, []byte) (memproxy.RunDiff, error) {
	return still{}, nil
}

type oneRequest struct {
	memproxy.Turn
	body []byte
	key  string
	asks bool // side requests without end
}

func (l *oneRequest) Key() string                               { return "turn" + l.key }
func (*oneRequest) Agent() string                               { return "agent" }
func (l *oneRequest) NextSideRequest() (memproxy.Request, bool) { return memproxy.Request{}, l.asks }
func (*oneRequest) TakeEdits() []memproxy.Edit                  { return nil }
func (*oneRequest) Next() []byte                                { return []byte("run") }
func (l *oneRequest) ReadAnswer(body []byte) error              { l.body = body; return nil }
func (*oneRequest) Event(event []byte) ([][]byte, error)        { return [][]byte{event}, nil }
func (*oneRequest) Paused() bool                                { return false }
func (*oneRequest) ApprovalCalls() []memproxy.ToolCall          { return nil }
func (*oneRequest) PendingCalls() []memproxy.ToolCall           { return nil }
func (l *oneRequest) Answer() []byte                            { return l.body }
func (*oneRequest) Runs() []string                              { return nil }
func (*oneRequest) Names() []string                             { return nil }
func (*oneRequest) Seq() (n int64, said bool)                   { return 0, false }
func (*oneRequest) Tail() [][]byte {
	return [][]byte{[]byte("data: canary tail\n\n"), []byte("data: end\n\n")}
}

// Proves EDGE-13: the answer of a run that memproxy pauses passes the same filters as
// any answer: in one piece, event by event including the last ones, and if the backend
// refuses to run, in any form.
func TestAnswersOfTurnsAreFiltered(t *testing.T) {
	for name, c := range map[string]struct {
		media, encoding, answer string
		status, said            int
		want                    string
	}{
		"in one piece":        {"application/json", "", "m1 ann\ncanary", 200, 200, "m1 ann\n"},
		"compressed":          {"application/json", "gzip", frontendtest.Zipped("m1 ann\ncanary"), 200, 200, "m1 ann\n"},
		"refused":             {"application/json", "", "no canary", 409, 409, "no "},
		"refused, compressed": {"application/json", "gzip", frontendtest.Zipped("no canary"), 409, 409, "no "},
		"refused, encoded":    {"application/json", "br", "canary", 409, 502, ""},
		"refused as a stream": {"text/event-stream", "", "data: canary\n\n", 409, 409, "data: \n\n"},
		"events":              {"text/event-stream", "", "data: a\n\ndata: canary\n\ndata: b\n\n", 200, 200, "data: a\n\ndata: b\n\ndata: end\n\n"},
		"events, compressed":  {"text/event-stream", "gzip", frontendtest.Zipped("data: a\n\ndata: canary\n\n"), 200, 200, "data: a\n\ndata: end\n\n"},
		"events, encoded":     {"text/event-stream", "br", "data: canary\n\n", 200, 502, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(r *rig) {
				r.opt.Adapter = running{}
				r.answer = func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", c.media)
					if c.encoding != "" {
						w.Header().Set("Content-Encoding", c.encoding)
					}
					w.Header().Set("Set-Cookie", "session=canary")
					w.Header().Set("X-Request-Id", "r")
					w.WriteHeader(c.status)
					fmt.Fprint(w, c.answer)
				}
			})
			resp, body := r.do(t, "POST", "/run", "x")
			expect.That(t, resp.StatusCode == c.said && (c.want == "" || body == c.want) && !strings.Contains(body, "canary"), "%d %q, want %d %q", resp.StatusCode, body, c.said, c.want)
			expect.That(t, resp.Header.Get("Set-Cookie") == "" && resp.Header.Get("Content-Encoding") == "" && (c.said >= 500 || resp.Header.Get("X-Request-Id") == "r"),
				"headers %v", resp.Header)
		})
	}
}

// compensating is running, but its runs cannot be gated, and change nothing.
type compensating struct{ running }

func (compensating) Turn(rt memproxy.Route, _ memproxy.Request, _ []byte) (memproxy.Turn, error) {
	if rt.Kind != memproxy.Run {
		return nil, nil
	}
	return nil, memproxy.ErrUngated
}

type still struct{}

func (still) StartSnapshot()                            {}
func (still) NextSideRequest() (memproxy.Request, bool) { return memproxy.Request{}, false }
func (still) ReadSideReply(memproxy.Reply) error        { return nil }
func (still) Agents() []string                          { return []string{"agent"} }
func (still) Background() bool                          { return false }
func (still) MarshalBaseline() ([]byte, error)          { return []byte("{}"), nil }
func (still) ActiveRunRequests() []memproxy.Request     { return nil }
func (still) HasActiveRun(memproxy.Reply) (bool, error) { return false, nil }
func (still) Changes() []memproxy.Change                { return nil }
func (still) Truncated() bool                           { return false }

// Proves EDGE-13: HEAD reveals no more than the filtered GET: its length is that of the
// visible part.
func TestHeadAnswersLikeTheFilteredGet(t *testing.T) {
	var lengths [2][2]string
	for i, others := range []string{"", "m2 bob\nm3 carol-with-a-long-name\n"} {
		r := newRig(t, func(r *rig) {
			r.answer = func(w http.ResponseWriter, q *http.Request) {
				body := "m1 ann\n" + others
				w.Header().Set("Etag", fmt.Sprintf(`"%d"`, len(body)))
				w.Header().Set("Content-Length", fmt.Sprint(len(body)))
				if q.Method != http.MethodHead {
					fmt.Fprint(w, body)
				}
			}
		})
		for j, method := range []string{"GET", "HEAD"} {
			resp, said := r.do(t, method, "/memory", "")
			expect.That(t, resp.StatusCode == 200 && (method != "HEAD" || said == ""), "%s: %d %q", method, resp.StatusCode, said)
			lengths[i][j] = resp.Header.Get("Content-Length")
			expect.That(t, others == "" || resp.Header.Get("Etag") == "", "%s: the tag of what was filtered came back", method)
		}
		// A HEAD of a passed route is forwarded as a HEAD, and has no body either.
		if resp, said := r.do(t, "HEAD", "/ping", ""); resp.StatusCode != 200 || said != "" {
			t.Errorf("on a pass route: %d %q", resp.StatusCode, said)
		}
	}
	expect.Equal(t, lengths[0], [2]string{"7", "7"}, "lengths", lengths)
	expect.Equal(t, lengths[1], lengths[0], "lengths", lengths)
}
