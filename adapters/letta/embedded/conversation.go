package embedded

import (
	"net/http"
	"strings"
)

// conversations are the routes of conversations and messages. The conversations are stored
// objects.
type conversations struct{ b *Backend }

func (s *conversations) routes() {
	s.b.mux.HandleFunc("POST /v1/conversations/{talk}/messages", s.talk)
	s.b.mux.HandleFunc("GET /v1/conversations/{talk}/messages", s.b.locked(func(r *http.Request) any {
		agent, conv, ok := s.place(r.PathValue("talk"), r.URL.Query().Get("agent_id"))
		return s.listMessages(r, ok, func(l *answer) bool { return l.a.ID == agent && l.in == conv })
	}))
	s.b.mux.HandleFunc("GET /v1/agents/{id}/messages", s.b.locked(func(r *http.Request) any {
		agent, _, ok := s.place("default", r.PathValue("id"))
		return s.listMessages(r, ok, func(l *answer) bool { return l.a.ID == agent })
	}))
	s.b.mux.HandleFunc("GET /v1/messages/{$}", s.b.locked(func(r *http.Request) any {
		return s.listMessages(r, true, func(*answer) bool { return true })
	}))
	s.b.mux.HandleFunc("GET /v1/messages/{message}", s.b.locked(func(r *http.Request) any {
		for _, l := range s.b.runs.all {
			for _, m := range l.messages {
				if m.ID == r.PathValue("message") {
					return []message{m}
				}
			}
		}
		return notFound("Message")
	}))
}

// place returns the agent and the conversation that a conversation id identifies. "default"
// is used together with an agent id, and older clients send an agent's id. The lock is held.
func (s *conversations) place(name, agent string) (of, conv string, ok bool) {
	switch c := s.b.objects.all[name]; {
	case c != nil && strings.HasPrefix(name, "conv-"):
		agent, _ = c["agent_id"].(string)
		return agent, name, true
	case strings.HasPrefix(name, "agent-"):
		agent = name
	case name != "default":
		agent = ""
	}
	return agent, "", s.b.agents[agent] != nil
}

// talk sends a message to a conversation. It streams by default.
func (s *conversations) talk(w http.ResponseWriter, r *http.Request) {
	var q request
	if !read(w, r, &q) {
		return
	}
	s.b.mu.Lock()
	agent, conv, ok := s.place(r.PathValue("talk"), q.Agent)
	s.b.mu.Unlock()
	if !ok {
		refuse(w, http.StatusNotFound, "Conversation not found")
		return
	}
	s.b.run(w, &q, agent, conv, q.Streaming == nil || *q.Streaming)
}

// listMessages lists messages of runs, by default newest first.
func (s *conversations) listMessages(r *http.Request, ok bool, of func(*answer) bool) any {
	if !ok {
		return refusal{http.StatusNotFound, "not found"}
	}
	list := []message{}
	for _, l := range sorted(s.b.runs.all) {
		if of(l) {
			list = append(list, l.messages...)
		}
	}
	q := r.URL.Query()
	if q.Get("order") != "asc" {
		q.Set("order", "desc")
	}
	return page(list, q, func(m message) string { return m.ID })
}
