package embedded

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// conversation is a history of its own of an agent.
type conversation struct {
	ID       string   `json:"id"`
	Agent    string   `json:"agent_id"`
	Summary  string   `json:"summary"`
	Messages []string `json:"in_context_message_ids"`
	Isolated []string `json:"isolated_block_ids"`
	Last     *string  `json:"last_message_at"`
}

func (b *Backend) conversationRoutes() {
	b.mux.HandleFunc("POST /v1/conversations/{$}", b.newConversation)
	b.mux.HandleFunc("GET /v1/conversations/{$}", func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		defer b.mu.Unlock()
		id := func(c *conversation) string { return c.ID }
		list := slices.DeleteFunc(sorted(b.talks, id), func(c *conversation) bool {
			return r.URL.Query().Has("agent_id") && c.Agent != r.URL.Query().Get("agent_id")
		})
		reply(w, http.StatusOK, page(list, r.URL.Query(), id))
	})
	b.mux.HandleFunc("GET /v1/conversations/{talk}", func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch c := b.talks[r.PathValue("talk")]; {
		case c != nil:
			reply(w, http.StatusOK, c)
		case strings.HasPrefix(r.PathValue("talk"), "conv-"):
			refuse(w, http.StatusNotFound, "Conversation not found")
		default: // this route alone takes nothing else for a conversation
			refuse(w, http.StatusUnprocessableEntity, "String should match pattern '^conv-'")
		}
	})
	b.mux.HandleFunc("POST /v1/conversations/{talk}/messages", b.talk)
	b.mux.HandleFunc("GET /v1/conversations/{talk}/messages", func(w http.ResponseWriter, r *http.Request) {
		agent, conv, ok := b.place(r.PathValue("talk"), r.URL.Query().Get("agent_id"))
		b.said(w, r, ok, func(l *answer) bool { return l.a.ID == agent && l.in == conv })
	})
	b.mux.HandleFunc("GET /v1/agents/{id}/messages", func(w http.ResponseWriter, r *http.Request) {
		agent, _, ok := b.place("default", r.PathValue("id"))
		b.said(w, r, ok, func(l *answer) bool { return l.a.ID == agent })
	})
	b.mux.HandleFunc("GET /v1/messages/{$}", func(w http.ResponseWriter, r *http.Request) {
		b.said(w, r, true, func(*answer) bool { return true })
	})
	b.mux.HandleFunc("GET /v1/messages/{message}", func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, l := range b.runs {
			for _, m := range l.messages {
				if m.ID == r.PathValue("message") {
					reply(w, http.StatusOK, []message{m})
					return
				}
			}
		}
		refuse(w, http.StatusNotFound, "Message not found")
	})
}

func (b *Backend) newConversation(w http.ResponseWriter, r *http.Request) {
	c := &conversation{}
	if !read(w, r, c) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.Agent = r.URL.Query().Get("agent_id"); b.agents[c.Agent] == nil {
		refuse(w, http.StatusNotFound, "Agent not found")
		return
	}
	c.ID, c.Messages, c.Isolated = b.id("conv"), []string{}, []string{}
	b.talks[c.ID] = c
	reply(w, http.StatusOK, c)
}

// place is the agent and the conversation that a name in a conversation's
// place means: "default" goes with an agent, and older clients put an agent's
// id there.
func (b *Backend) place(name, agent string) (of, conv string, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch c := b.talks[name]; {
	case c != nil:
		return c.Agent, c.ID, true
	case strings.HasPrefix(name, "agent-"):
		agent = name
	case name != "default":
		agent = ""
	}
	return agent, "", b.agents[agent] != nil
}

// talk is what is said in a conversation. It streams unless it is told not to.
func (b *Backend) talk(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	q := struct {
		Agent     string `json:"agent_id"`
		Streaming *bool  `json:"streaming"`
	}{}
	if err == nil {
		err = json.Unmarshal(body, &q)
	}
	agent, conv, ok := b.place(r.PathValue("talk"), q.Agent)
	switch {
	case err != nil:
		refuse(w, http.StatusUnprocessableEntity, err.Error())
		return
	case !ok:
		refuse(w, http.StatusNotFound, "Conversation not found")
		return
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	r.SetPathValue("id", agent)
	b.sendIn(w, r, conv, q.Streaming == nil || *q.Streaming)
	if conv != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		now := time.Now().UTC().Format(time.RFC3339)
		b.talks[conv].Last = &now
	}
}

// said lists messages of runs, the newest first unless it is asked otherwise.
func (b *Backend) said(w http.ResponseWriter, r *http.Request, ok bool, of func(*answer) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !ok {
		refuse(w, http.StatusNotFound, "not found")
		return
	}
	list := []message{}
	for _, id := range slices.Sorted(maps.Keys(b.runs)) {
		if l := b.runs[id]; of(l) {
			list = append(list, l.messages...)
		}
	}
	q := r.URL.Query()
	if q.Get("order") != "asc" {
		q.Set("order", "desc")
	}
	reply(w, http.StatusOK, page(list, q, func(m message) string { return m.ID }))
}
