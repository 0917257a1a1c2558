package embedded

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// maxBody bounds a request body, in bytes.
const maxBody = 1 << 20

// Backend is the server. It is safe for concurrent use.
type Backend struct {
	mux     *http.ServeMux
	mu      sync.Mutex
	agents  map[string]*agent
	runs    runs
	blocks  blocks
	talks   conversations
	objects objects
	// Pages are the results of the tool fetch_webpage, by URL.
	Pages map[string]string
	n     int
}

// agent is an agent with its memory and its pause.
type agent struct {
	ID      string   `json:"id"`
	Name    string   `json:"name"`
	Type    string   `json:"agent_type"`
	Blocks  []*block `json:"blocks"`
	Tools   []tool   `json:"tools"`
	Pending *message `json:"pending_approval"`
	Sleep   bool     `json:"enable_sleeptime"`
	Group   *group   `json:"managed_group"`
	Rules   []rule   `json:"tool_rules"`

	Description string   `json:"description"`
	System      string   `json:"system"`
	Tags        []string `json:"tags"`

	passages []passage

	script []step // the model's remaining steps
	held   []toolCall
}

// group lists the agents that run after another one.
type group struct {
	ID     string   `json:"id"`
	Agents []string `json:"agent_ids"`
}

type rule struct {
	Type string `json:"type"`
	Tool string `json:"tool_name"`
}

type block struct {
	ID          string `json:"id"`
	Label       string `json:"label"`
	Value       string `json:"value"`
	Description string `json:"description"`

	Metadata json.RawMessage `json:"metadata,omitempty"`
}

type tool struct {
	ID     string         `json:"id"`
	Name   string         `json:"name"`
	Type   string         `json:"tool_type"`
	Source string         `json:"source_code,omitempty"`
	Schema map[string]any `json:"json_schema"`
}

// newTool returns a built-in tool as the server reports it, without source code.
func newTool(id, name string, schema map[string]any) tool {
	t := tool{ID: id, Name: name, Schema: schema}
	switch {
	case strings.HasPrefix(name, "memory"), strings.HasPrefix(name, "rethink"):
		t.Type = "letta_sleeptime_core"
	case strings.HasPrefix(name, "core_memory"), strings.HasPrefix(name, "archival_memory"), name == "conversation_search", name == "send_message":
		t.Type = "letta_core"
	case strings.HasPrefix(name, "send_message_to"):
		t.Type = "letta_multi_agent_core"
	case name == "run_code", name == "web_search":
		t.Type = "letta_builtin"
	default:
		t.Type, t.Source = "custom", "def "+name+"():\n    pass\n"
	}
	return t
}

// New returns an empty server.
func New() *Backend {
	b := &Backend{
		mux: http.NewServeMux(), agents: map[string]*agent{},
	}
	b.runs, b.blocks = runs{b, map[string]*answer{}}, blocks{b, map[string]*block{}}
	b.talks, b.objects = conversations{b}, objects{b, map[string]object{}}
	b.objects.routes()
	b.talks.routes()
	b.mux.HandleFunc("POST /v1/agents/{$}", reading(b, b.create))
	b.mux.HandleFunc("GET /v1/agents/{$}", b.locked(func(r *http.Request) any {
		return page(sorted(b.agents), r.URL.Query(), func(a *agent) string { return a.ID })
	}))
	b.mux.HandleFunc("GET /v1/agents/{id}", b.locked(b.ofAgent(func(a *agent, _ *http.Request) any { return a })))
	b.mux.HandleFunc("PATCH /v1/agents/{id}", reading(b, b.change))
	b.mux.HandleFunc("POST /v1/agents/{id}/messages", b.send)
	b.mux.HandleFunc("POST /v1/agents/{id}/messages/stream", b.send)
	b.mux.HandleFunc("POST /v1/agents/{id}/messages/async", reading(b, b.async))
	b.mux.HandleFunc("POST /v1/agents/{id}/archival-memory", reading(b, b.archive))
	b.mux.HandleFunc("GET /v1/agents/{id}/archival-memory", b.locked(b.ofAgent(passages)))
	b.mux.HandleFunc("DELETE /v1/agents/{id}/archival-memory/{passage}", b.locked(b.dropPassage))
	b.mux.HandleFunc("PATCH /v1/agents/{id}/core-memory/blocks/{how}/{block}", b.locked(b.blocks.attach))
	b.mux.HandleFunc("GET /v1/agents/{id}/core-memory/blocks/{label}", b.locked(b.blocks.one))
	b.mux.HandleFunc("PATCH /v1/agents/{id}/core-memory/blocks/{label}", reading(b, b.blocks.change))
	b.mux.HandleFunc("GET /v1/blocks/{$}", b.locked(func(r *http.Request) any {
		return page(sorted(b.blocks.all), r.URL.Query(), func(bl *block) string { return bl.ID })
	}))
	b.mux.HandleFunc("POST /v1/blocks/{$}", reading(b, b.blocks.create))
	b.mux.HandleFunc("GET /v1/blocks/{block}", b.locked(b.blocks.one))
	b.mux.HandleFunc("PATCH /v1/blocks/{block}", reading(b, b.blocks.change))
	b.mux.HandleFunc("DELETE /v1/blocks/{block}", b.locked(b.blocks.drop))
	b.mux.HandleFunc("GET /v1/runs/{$}", b.locked(b.runs.list))
	b.mux.HandleFunc("POST /v1/agents/{id}/tools/{name}/run", reading(b, b.runTool))
	b.mux.HandleFunc("POST /v1/agents/{id}/messages/cancel", reading(b, b.runs.cancel))
	b.mux.HandleFunc("GET /v1/runs/{id}", b.locked(b.runs.of(func(l *answer) any { return l.record() })))
	b.mux.HandleFunc("GET /v1/runs/{id}/messages", b.locked(b.runs.of(func(l *answer) any { return l.messages })))
	return b
}

// locked returns a handler that calls do with the lock held and answers with its result, a
// refusal or a value.
func (b *Backend) locked(do func(r *http.Request) any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		defer b.mu.Unlock()
		answerWith(w, do(r))
	}
}

// reading is like locked, for a route with a body.
func reading[Q any](b *Backend, do func(r *http.Request, q *Q) any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q := new(Q)
		if read(w, r, q) {
			b.locked(func(r *http.Request) any { return do(r, q) })(w, r)
		}
	}
}

// refusal is an error status with its detail.
type refusal struct {
	status int
	detail string
}

func notFound(what string) refusal { return refusal{http.StatusNotFound, what + " not found"} }

func answerWith(w http.ResponseWriter, v any) {
	if no, refused := v.(refusal); refused {
		refuse(w, no.status, no.detail)
		return
	}
	reply(w, http.StatusOK, v)
}

// ServeHTTP implements http.Handler.
func (b *Backend) ServeHTTP(w http.ResponseWriter, r *http.Request) { b.mux.ServeHTTP(w, r) }

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client may have disconnected
}

func refuse(w http.ResponseWriter, status int, detail string) {
	reply(w, status, map[string]string{"detail": detail})
}

// read parses a request's body, or answers with an error.
func read(w http.ResponseWriter, r *http.Request, into any) bool {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil {
		err = json.Unmarshal(body, into)
	}
	if err != nil {
		refuse(w, http.StatusUnprocessableEntity, err.Error())
	}
	return err == nil
}

// id returns a new id; the lock is held.
func (b *Backend) id(kind string) string {
	b.n++
	return fmt.Sprintf("%s-00000000-0000-4000-8000-%012d", kind, b.n)
}

// ofAgent returns a handler that gets the agent in the path; the lock is held.
func (b *Backend) ofAgent(do func(a *agent, r *http.Request) any) func(*http.Request) any {
	return func(r *http.Request) any {
		if a := b.agents[r.PathValue("id")]; a != nil {
			return do(a, r)
		}
		return notFound("Agent")
	}
}

type agentRequest struct {
	Name   string   `json:"name"`
	Type   string   `json:"agent_type"`
	Blocks []*block `json:"memory_blocks"`
	Tools  []string `json:"tools"`
	Sleep  bool     `json:"enable_sleeptime"`
	Rules  []rule   `json:"tool_rules"`
}

func (b *Backend) create(_ *http.Request, q *agentRequest) any {
	a := &agent{ID: b.id("agent"), Name: q.Name, Type: cmp.Or(q.Type, pausing), Blocks: q.Blocks, Sleep: q.Sleep, Rules: q.Rules}
	for _, bl := range a.Blocks {
		bl.ID = b.id("block")
		b.blocks.all[bl.ID] = bl
	}
	if a.Sleep { // a sleeptime agent with the same blocks runs after each turn
		fellow := &agent{ID: b.id("agent"), Name: q.Name + "-sleeptime", Type: "sleeptime_agent", Blocks: append([]*block{}, a.Blocks...), Tools: []tool{}}
		b.agents[fellow.ID] = fellow
		a.Group = &group{ID: b.id("group"), Agents: []string{fellow.ID}}
	}
	for _, name := range append([]string{"conversation_search", "memory_replace", "memory_insert"}, q.Tools...) {
		schema := map[string]any{"name": name, "description": "the tool " + name, "parameters": map[string]any{"type": "object"}}
		a.Tools = append(a.Tools, newTool(b.id("tool"), name, schema))
	}
	b.agents[a.ID] = a
	return a
}
