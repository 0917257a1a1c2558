package embedded

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// maxBody bounds a request.
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
	// Pages are what the tool fetch_webpage gives back, by the URL.
	Pages map[string]string
	n     int
}

// agent is an agent with its memory and what it waits for.
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

	script []step // what the model has yet to do
	held   []toolCall
}

// group are the agents that run after another.
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
	ID     string          `json:"id"`
	Name   string          `json:"name"`
	Type   string          `json:"tool_type"`
	Source string          `json:"source_code,omitempty"`
	Schema json.RawMessage `json:"json_schema"`
}

// newTool is a tool as the server tells of it: one of its own has no code there.
func newTool(id, name string, schema json.RawMessage) tool {
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
	b.talks, b.objects = conversations{b, map[string]*conversation{}}, objects{b, map[string]object{}}
	b.objects.routes()
	b.talks.routes()
	b.mux.HandleFunc("POST /v1/agents/{$}", b.create)
	b.mux.HandleFunc("GET /v1/agents/{$}", b.locked(b.listAgents))
	b.mux.HandleFunc("GET /v1/agents/{id}", b.locked(b.get))
	b.mux.HandleFunc("PATCH /v1/agents/{id}", b.takeBlocks)
	b.mux.HandleFunc("POST /v1/agents/{id}/messages", b.send)
	b.mux.HandleFunc("POST /v1/agents/{id}/messages/stream", b.send)
	b.mux.HandleFunc("POST /v1/agents/{id}/messages/async", b.async)
	b.mux.HandleFunc("POST /v1/agents/{id}/archival-memory", b.archive)
	b.mux.HandleFunc("GET /v1/agents/{id}/archival-memory", b.locked(b.passages))
	b.mux.HandleFunc("DELETE /v1/agents/{id}/archival-memory/{passage}", b.locked(b.dropPassage))
	b.mux.HandleFunc("PATCH /v1/agents/{id}/core-memory/blocks/{how}/{block}", b.locked(b.blocks.attach))
	b.mux.HandleFunc("GET /v1/agents/{id}/core-memory/blocks/{label}", b.blocks.labelled)
	b.mux.HandleFunc("PATCH /v1/agents/{id}/core-memory/blocks/{label}", b.blocks.labelled)
	b.mux.HandleFunc("GET /v1/blocks/{$}", b.locked(b.blocks.list))
	b.mux.HandleFunc("POST /v1/blocks/{$}", b.blocks.create)
	b.mux.HandleFunc("GET /v1/blocks/{block}", b.blocks.one)
	b.mux.HandleFunc("PATCH /v1/blocks/{block}", b.blocks.one)
	b.mux.HandleFunc("DELETE /v1/blocks/{block}", b.locked(b.blocks.drop))
	b.mux.HandleFunc("GET /v1/runs/{$}", b.locked(b.runs.list))
	b.mux.HandleFunc("POST /v1/agents/{id}/tools/{name}/run", b.runTool)
	b.mux.HandleFunc("POST /v1/agents/{id}/messages/cancel", b.runs.cancel)
	b.mux.HandleFunc("GET /v1/runs/{id}", b.runs.get)
	b.mux.HandleFunc("GET /v1/runs/{id}/messages", b.runs.messages)
	b.mux.HandleFunc("POST /v1/runs/{id}/stream", b.runs.stream)
	return b
}

// locked is a handler that has the server to itself.
func (b *Backend) locked(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		defer b.mu.Unlock()
		h(w, r)
	}
}

// ServeHTTP implements http.Handler.
func (b *Backend) ServeHTTP(w http.ResponseWriter, r *http.Request) { b.mux.ServeHTTP(w, r) }

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the caller may be gone
}

func refuse(w http.ResponseWriter, status int, detail string) {
	reply(w, status, map[string]string{"detail": detail})
}

// read takes a request's body, or answers that it cannot be read.
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

// id makes an id; the lock is held.
func (b *Backend) id(kind string) string {
	b.n++
	return fmt.Sprintf("%s-00000000-0000-4000-8000-%012d", kind, b.n)
}

// agent is the agent that a path names, or nil once that is answered; the lock
// is held.
func (b *Backend) agent(w http.ResponseWriter, r *http.Request) *agent {
	a := b.agents[r.PathValue("id")]
	if a == nil {
		refuse(w, http.StatusNotFound, "Agent not found")
	}
	return a
}

func (b *Backend) create(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Name   string   `json:"name"`
		Type   string   `json:"agent_type"`
		Blocks []*block `json:"memory_blocks"`
		Tools  []string `json:"tools"`
		Sleep  bool     `json:"enable_sleeptime"`
		Rules  []rule   `json:"tool_rules"`
	}
	if !read(w, r, &q) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	a := &agent{ID: b.id("agent"), Name: q.Name, Type: q.Type, Blocks: q.Blocks, Sleep: q.Sleep, Rules: q.Rules}
	if a.Type == "" {
		a.Type = pausing
	}
	for _, bl := range a.Blocks {
		bl.ID = b.id("block")
		b.blocks.all[bl.ID] = bl
	}
	if a.Sleep { // one more agent has the same blocks, and runs afterwards
		fellow := &agent{ID: b.id("agent"), Name: q.Name + "-sleeptime", Type: "sleeptime_agent", Blocks: append([]*block{}, a.Blocks...), Tools: []tool{}}
		b.agents[fellow.ID] = fellow
		a.Group = &group{ID: b.id("group"), Agents: []string{fellow.ID}}
	}
	for _, name := range append([]string{"conversation_search", "memory_replace", "memory_insert"}, q.Tools...) {
		schema, err := json.Marshal(map[string]any{"name": name, "description": "the tool " + name, "parameters": map[string]any{"type": "object"}})
		if err != nil {
			refuse(w, http.StatusInternalServerError, err.Error())
			return
		}
		a.Tools = append(a.Tools, newTool(b.id("tool"), name, schema))
	}
	b.agents[a.ID] = a
	reply(w, http.StatusOK, a)
}

func (b *Backend) get(w http.ResponseWriter, r *http.Request) {
	a := b.agent(w, r)
	if a == nil {
		return
	}
	reply(w, http.StatusOK, a)
}
